import pytest

from laconic.deploy.transports.envelopes.keys import Blob, Content, KeyRing, make_key
from laconic.deploy.transports.envelopes.sealing import cover_of, seal

NAMES = ("bank", "shop", "insurer", "stranger")


@pytest.fixture(scope="session")
def keys():
    return {name: make_key(name) for name in NAMES}


@pytest.fixture(scope="session")
def rings(keys):
    """Everybody knows the bank, the shop and the insurer; nobody knows the stranger."""
    known = {name: keys[name].public for name in NAMES[:3]}
    return {name: KeyRing(keys[name], known) for name in NAMES}


BLOBS = (b"numbers of the training rows" * 30, b"numbers of the test rows")


def content_of(blobs=BLOBS, **changes):
    heard = tuple(
        Blob(
            script="method",
            phase="fit" if number == 0 else "final",
            round=1,
            step="learn_and_send",
            question=f"{number:032x}",
            words="a few numbers for each row",
            form="float32 10x3",
            size=len(blob),
        )
        for number, blob in enumerate(blobs)
    )
    return Content(**{"rows": 10, "epsilon": "none", "ledger": (), "blobs": heard} | changes)


@pytest.fixture
def sealed(tmp_path, keys):
    """Seal an envelope from the shop to the bank, or as told."""

    def make(name="shop.envelope", sender="shop", to="bank", blobs=BLOBS, cover=None, content=None, **about):
        content = content or content_of(blobs)
        heard = {"kind": "answer", "plan": "p" * 32, "alignment": "a" * 32, "days": 30} | about
        written = cover or cover_of(content, keys[sender], keys[to].public, **heard)
        path = tmp_path / name
        seal(path, written, content, [[blob] for blob in blobs], keys[sender], keys[to].public)
        return path

    return make

"""Mutated envelopes: what an outsider can do to the bytes, and what an insider can put inside and sign."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from laconic.deploy import KeyRing, SecretKey, make_key
from laconic.deploy.transports.envelopes.keys import Blob, Content, write_content, write_cover
from laconic.deploy.transports.envelopes.sealing import cover_of, encrypt, file_key, seal, signed_text
from laconic.values import Rng


@dataclass(frozen=True)
class Corpus:
    """Real envelopes to begin from.

    Attributes:
        reader: who tries to open the mutants.
        keys: of those the reader trusts, and of one it does not.
        wholes: envelopes by several senders, to several readers.
    """

    reader: KeyRing
    keys: dict[str, SecretKey]
    wholes: tuple[bytes, ...]
    contents: tuple[tuple[Content, tuple[bytes, ...]], ...]

    @staticmethod
    def make(folder: Path) -> "Corpus":
        """Seal a few envelopes."""
        keys = {name: make_key(name) for name in ("bank", "shop", "insurer", "stranger")}
        trusted = {name: key.public for name, key in keys.items() if name != "stranger"}
        contents = tuple(_content(blobs) for blobs in ((b"rows" * 50,), (b"", b"x" * 2000), (b"\1" * 300_000,)))
        wholes = []
        for sender, to in (("shop", "bank"), ("insurer", "bank"), ("stranger", "bank"), ("shop", "insurer")):
            for content, blobs in contents[:2] if sender != "shop" else contents:
                wholes.append(_seal(folder / "one", content, blobs, keys[sender], keys[to]))
        return Corpus(KeyRing(keys["bank"], trusted), keys, tuple(wholes), contents)


def mutants(corpus: Corpus, rng: Rng, count: int) -> Iterator[bytes]:
    """So many envelopes changed by somebody without the sender's key; none equals one that was sealed."""
    genuine = set(corpus.wholes)
    made = 0
    while made < count:
        one = corpus.wholes[int(rng.integers(len(corpus.wholes)))]
        for _ in range(int(rng.integers(1, 4))):
            one = _CHANGES[int(rng.integers(len(_CHANGES)))](one, corpus, rng)
        if one not in genuine:
            made += 1
            yield one


def insiders(corpus: Corpus, rng: Rng, count: int) -> Iterator[bytes]:
    """So many envelopes whose sender is trusted, but put mutated bytes inside before it encrypted and signed."""
    shop, bank = corpus.keys["shop"], corpus.keys["bank"].public
    for _ in range(count):
        content, blobs = corpus.contents[int(rng.integers(2))]
        plain = b"".join(write_content(content, [[blob] for blob in blobs]))
        for _ in range(int(rng.integers(1, 4))):
            plain = _BLIND[int(rng.integers(len(_BLIND)))](plain, corpus, rng)
        cover = write_cover(cover_of(content, shop, bank, kind="answer", plan="0" * 32, alignment="none", days=1))
        once = corpus.keys["stranger"]
        head = cover + once.public.sealing
        key = file_key(once.sealing.exchange(bank.sealing_key()), once.public.sealing, bank.sealing, cover)
        pieces = [head]
        encrypt(key, [plain], pieces.append)
        yield _sign(b"".join(pieces), shop)


def _flip(one: bytes, _: Corpus, rng: Rng) -> bytes:
    changed = bytearray(one)
    for at in rng.integers(max(len(changed), 1), size=int(rng.integers(1, 4))):
        if changed:
            changed[int(at)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _cut(one: bytes, _: Corpus, rng: Rng) -> bytes:
    return one[: int(rng.integers(len(one) + 1))]


def _drop(one: bytes, _: Corpus, rng: Rng) -> bytes:
    start, end = sorted(int(at) for at in rng.integers(len(one) + 1, size=2))
    return one[:start] + one[end:]


def _add(one: bytes, _: Corpus, rng: Rng) -> bytes:
    at = int(rng.integers(len(one) + 1))
    return one[:at] + rng.bytes(int(rng.integers(1, 40))) + one[at:]


def _repeat(one: bytes, _: Corpus, rng: Rng) -> bytes:
    start, end = sorted(int(at) for at in rng.integers(len(one) + 1, size=2))
    return one[:end] + one[start:end][:100_000] + one[end:]


def _zero(one: bytes, _: Corpus, rng: Rng) -> bytes:
    at = int(rng.integers(len(one) + 1))
    return one[:at] + bytes(min(32, len(one) - at)) + one[at + 32 :]


def _splice(one: bytes, corpus: Corpus, rng: Rng) -> bytes:
    """The cover of one with the inside of another, or any head with any tail."""
    other = corpus.wholes[int(rng.integers(len(corpus.wholes)))]
    if rng.random() < 0.5:
        return one[: one.find(b"\n\n") + 2] + other[other.find(b"\n\n") + 2 :]
    return one[: int(rng.integers(len(one) + 1))] + other[int(rng.integers(len(other) + 1)) :]


def _sign_again(one: bytes, corpus: Corpus, rng: Rng) -> bytes:
    """Take the signature off and put on that of somebody else who is trusted, or of a stranger."""
    return _sign(one[:-64], corpus.keys[("insurer", "stranger", "bank")[int(rng.integers(3))]])


def _rewrite(one: bytes, _: Corpus, rng: Rng) -> bytes:
    """Change a fact on the cover for another that could stand there."""
    lines = one[: one.find(b"\n\n")].split(b"\n")
    values = (b"0", b"bank", b"insurer", b"2030-01-01T00:00:00Z", b"answer", b"question", b"0.1.0", b"9" * 30, b"")
    at = int(rng.integers(len(lines)))
    lines[at] = lines[at].partition(b": ")[0] + b": " + values[int(rng.integers(len(values)))]
    return b"\n".join(lines) + one[one.find(b"\n\n") :]


_BLIND: tuple[Callable[[bytes, Corpus, Rng], bytes], ...] = (_flip, _cut, _drop, _add, _repeat, _zero)
_CHANGES = (*_BLIND, _splice, _sign_again, _rewrite)


def _content(blobs: tuple[bytes, ...]) -> tuple[Content, tuple[bytes, ...]]:
    told = tuple(
        Blob(script="method", phase="fit", round=number + 1, step="send", question="0" * 32, words=None,
             form="bytes", size=len(blob))
        for number, blob in enumerate(blobs)
    )  # fmt: skip
    return Content(rows=10, epsilon="none", ledger=(), blobs=told), blobs


def _seal(path: Path, content: Content, blobs: tuple[bytes, ...], own: SecretKey, to: SecretKey) -> bytes:
    cover = cover_of(content, own, to.public, kind="answer", plan="0" * 32, alignment="none", days=1)
    seal(path, cover, content, [[blob] for blob in blobs], own, to.public)
    return path.read_bytes()


def _sign(written: bytes, key: SecretKey) -> bytes:
    return written + key.signing.sign(signed_text(blake2b(written, digest_size=64).digest()))

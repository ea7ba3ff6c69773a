"""Every reason for which an envelope is not accepted has an error of its own."""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import msgspec
import pytest

from benchmarks.envelopes import InMemory
from laconic.deploy.transports.envelopes.keys import (
    MOST_COVER,
    Blob,
    CoverMismatch,
    EnvelopeRefused,
    Expired,
    NotAnEnvelope,
    OtherAlignment,
    OtherPlan,
    OtherVersion,
    Tampered,
    Truncated,
    UnknownKey,
    WronglyAddressed,
    write_cover,
)
from laconic.deploy.transports.envelopes.sealing import Expected, check, cover_of, read_cover, seal, signed_text
from tests.deploy.transports.envelopes.conftest import BLOBS, content_of

EXPECTED = Expected("answer", "p" * 32, "a" * 32)


def opened(path, ring, expected=EXPECTED, now=None):
    with check(path, ring, expected, now).open(ring.own) as inside:
        return inside.content, [b"".join(pieces) for _, pieces in inside.blobs()]


def test_what_was_sealed_is_opened(sealed, rings):
    content, blobs = opened(sealed(), rings["bank"])
    assert tuple(blobs) == BLOBS
    assert content == content_of()


def test_every_changed_byte_is_noticed(sealed, rings):
    whole = sealed().read_bytes()
    for at in range(len(whole)):
        changed = InMemory(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(EnvelopeRefused):
            opened(changed, rings["bank"])


@pytest.mark.parametrize("place", ["cover", "one-time key", "piece", "signature"])
def test_a_tampered_envelope_is_refused(sealed, rings, place):
    path = sealed()
    whole = bytearray(path.read_bytes())
    end = whole.index(b"\n\n") + 2
    at = {"cover": whole.index(b"rows: 1") + 6, "one-time key": end, "piece": end + 60, "signature": len(whole) - 5}
    whole[at[place]] ^= 2
    path.write_bytes(bytes(whole))
    with pytest.raises(Tampered, match="shop signed it"):
        opened(path, rings["bank"])


def test_bytes_after_the_end_are_tampering(sealed, rings):
    path = sealed()
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(Tampered):
        opened(path, rings["bank"])


def test_an_envelope_cut_off_anywhere_is_truncated(sealed, rings):
    whole = sealed().read_bytes()
    for length in range(1, len(whole)):
        with pytest.raises(Truncated, match="cut off"):
            opened(InMemory(whole[:length]), rings["bank"])


def test_an_envelope_for_somebody_else_is_refused(sealed, rings):
    with pytest.raises(WronglyAddressed, match="is for bank, but you are insurer"):
        opened(sealed(), rings["insurer"])


def test_an_envelope_signed_with_an_unknown_key_is_refused(sealed, rings):
    with pytest.raises(UnknownKey, match="from stranger"):
        opened(sealed(sender="stranger"), rings["bank"])


def test_a_known_party_cannot_write_in_another_ones_name(sealed, keys, rings):
    content = content_of()
    about = {"kind": "answer", "plan": "p" * 32, "alignment": "a" * 32, "days": 1}
    honest = cover_of(content, keys["insurer"], keys["bank"].public, **about)
    claimed = msgspec.structs.replace(honest, sender="shop")
    with pytest.raises(UnknownKey):
        opened(sealed(sender="insurer", cover=claimed), rings["bank"])
    claimed = msgspec.structs.replace(honest, sender="shop", sender_key=keys["shop"].public.fingerprint)
    with pytest.raises(Tampered):
        opened(sealed(sender="insurer", cover=claimed), rings["bank"])


def test_an_answer_cannot_be_passed_off_as_ones_own(sealed, keys, rings):
    """The insurer takes the shop's ciphertext, puts its own cover around it and signs."""
    whole = sealed().read_bytes()
    end = whole.index(b"\n\n") + 2
    about = {"kind": "answer", "plan": "p" * 32, "alignment": "a" * 32, "days": 1}
    cover = cover_of(content_of(), keys["insurer"], keys["bank"].public, **about)
    path = sealed(name="stolen", sender="insurer", cover=cover)
    forged = write_cover(cover) + whole[end:-64]
    path.write_bytes(forged + _signature(keys["insurer"], forged))
    with pytest.raises(Tampered, match="changed after it was sealed"):
        opened(path, rings["bank"])


def test_an_expired_envelope_is_refused(sealed, rings):
    later = datetime.now(UTC) + timedelta(days=31)
    with pytest.raises(Expired, match="ask shop to seal it again"):
        opened(sealed(days=30), rings["bank"], now=later)


def test_an_envelope_for_another_plan_is_refused(sealed, rings):
    with pytest.raises(OtherPlan, match="compare the two plan files"):
        opened(sealed(plan="q" * 32), rings["bank"])


def test_an_envelope_for_another_alignment_is_refused(sealed, rings):
    with pytest.raises(OtherAlignment, match="match the rows again"):
        opened(sealed(alignment="b" * 32), rings["bank"])


def test_an_envelope_of_another_format_is_refused(sealed, rings):
    path = sealed()
    path.write_bytes(path.read_bytes().replace(b"envelope 1\n", b"envelope 2\n", 1))
    with pytest.raises(OtherVersion, match="format '2'"):
        opened(path, rings["bank"])


def test_an_envelope_of_another_version_of_laconic_is_refused(sealed, keys, rings):
    about = {"kind": "answer", "plan": "p" * 32, "alignment": "a" * 32, "days": 1}
    cover = cover_of(content_of(), keys["shop"], keys["bank"].public, **about)
    with pytest.raises(OtherVersion, match=r"Laconic 0\.0\.9"):
        opened(sealed(cover=msgspec.structs.replace(cover, laconic="0.0.9")), rings["bank"])


@pytest.mark.parametrize(
    "lie", [{"rows": 9}, {"bytes": 1}, {"epsilon": "0.1 at delta 1e-05"}, {"steps": ("fit 1 nothing",)}]
)
def test_a_cover_that_does_not_match_its_content_is_refused(sealed, keys, rings, lie):
    about = {"kind": "answer", "plan": "p" * 32, "alignment": "a" * 32, "days": 1}
    cover = cover_of(content_of(), keys["shop"], keys["bank"].public, **about)
    with pytest.raises(CoverMismatch, match=f"says {next(iter(lie))}"):
        opened(sealed(cover=msgspec.structs.replace(cover, **lie)), rings["bank"])


@pytest.mark.parametrize("blobs", [(*BLOBS, b"smuggled"), BLOBS[:1]])
def test_more_or_less_inside_than_the_cover_says_is_refused(sealed, rings, blobs):
    with pytest.raises(CoverMismatch, match=r"more than its cover|less than its cover"):
        opened(sealed(blobs=blobs, content=content_of(BLOBS)), rings["bank"])


def test_a_question_is_not_taken_for_an_answer(sealed, rings):
    with pytest.raises(NotAnEnvelope, match="holds questions, not answers"):
        opened(sealed(kind="question"), rings["bank"])


def test_only_the_one_who_may_send_it_is_heard(sealed, rings):
    with pytest.raises(UnknownKey, match="only insurer may"):
        opened(sealed(), rings["bank"], Expected("answer", sender="insurer"))


@pytest.mark.parametrize(
    "written", [b"PK\3\4", b"Laconic envelope 1\n" + b"x" * (MOST_COVER + 1), b"customer,age\n1,2\n"]
)
def test_another_file_is_no_envelope(tmp_path, rings, written):
    path = tmp_path / "file"
    path.write_bytes(written)
    with pytest.raises(NotAnEnvelope, match="is no envelope"):
        check(path, rings["bank"], EXPECTED)


def test_a_file_that_is_not_there_is_named(tmp_path, rings):
    with pytest.raises(NotAnEnvelope, match="there is no file"):
        check(tmp_path / "gone", rings["bank"], EXPECTED)


def test_a_hostile_list_inside_costs_an_error_and_not_memory(sealed, rings):
    many = Blob(script="method", phase="fit", round=1, step="s", question="0", words=None, form="nothing", size=10**15)
    with pytest.raises(CoverMismatch, match="less than its cover"):
        opened(sealed(blobs=(b"x",), content=msgspec.structs.replace(content_of(), blobs=(many,))), rings["bank"])


def test_anyone_can_read_the_cover_and_nobody_the_content(sealed):
    path = sealed()
    whole = path.read_bytes()
    assert whole.startswith(b"Laconic envelope 1\nfrom: shop\n")
    assert b"step: fit 1 learn_and_send, 840 bytes, float32 10x3: a few numbers for each row\n" in whole
    assert BLOBS[1] not in whole
    assert read_cover(path).bytes == sum(map(len, BLOBS))


def test_nothing_half_written_stays(tmp_path, keys):
    def breaks():
        yield b"x"
        raise KeyboardInterrupt

    about = {"kind": "answer", "plan": "p", "alignment": "a", "days": 1}
    cover = cover_of(content_of(), keys["shop"], keys["bank"].public, **about)
    with pytest.raises(KeyboardInterrupt):
        seal(tmp_path / "x", cover, content_of(), [breaks()], keys["shop"], keys["bank"].public)
    assert list(tmp_path.iterdir()) == []


def _signature(key, written):
    return key.signing.sign(signed_text(blake2b(written, digest_size=64).digest()))

from hashlib import blake2b

import numpy as np
import pytest

from laconic.core.ledger import Entry, Ledger, Noise, Noised, digest_of, unwrap

NOISE = Noise(mechanism="gaussian", scale=3.0, sensitivity=2.0, unit="one row", caveat="little")
ENTRY = Entry(phase="fit", step="send", words="numbers", form="float32 2", times=1, bytes=10, noise=None)


def test_a_multiplier_is_the_scale_in_units_of_the_sensitivity():
    assert NOISE.multiplier == 1.5
    assert Noise(mechanism="gaussian", scale=3.0, sensitivity=None, unit="", caveat="").multiplier is None


def test_a_part_without_noise_is_not_hidden_by_one_with_noise():
    plain, noises = unwrap({"safe": Noised(np.ones(2), NOISE), "bare": np.ones(2), "public": 7})
    assert set(noises) == {NOISE, None}
    assert plain["public"] == 7


@pytest.mark.parametrize("public", ["word", 3, None, True])
def test_words_and_whole_numbers_bear_no_noise(public):
    assert unwrap(public) == (public, ())


def test_parts_become_entries_and_bytes_count_once():
    ledger = Ledger()
    ledger.write_parts(ENTRY, (NOISE, None))
    ledger.write_parts(ENTRY, (NOISE, None))
    assert [(entry.noise, entry.times, entry.bytes) for entry in ledger.entries] == [(NOISE, 2, 20), (None, 2, 0)]


def test_a_release_of_public_words_alone_is_still_written():
    ledger = Ledger()
    ledger.write_parts(ENTRY, ())
    assert [entry.noise for entry in ledger.entries] == [None]


def test_the_digest_of_a_release_is_of_the_very_bytes_and_tells_their_order():
    def ledger(*blobs):
        made = Ledger()
        for blob in blobs:
            said = {"phase": "fit", "step": "send", "words": "numbers", "form": "", "times": 1, "bytes": len(blob)}
            made.write(Entry(**said, noise=None, digest=digest_of(blob)))
        return made.entries[0].digest

    assert ledger(b"one") == blake2b(b"one", digest_size=16).hexdigest()
    assert ledger(b"one", b"two") == digest_of((digest_of(b"one") + digest_of(b"two")).encode())
    assert ledger(b"one", b"two") != ledger(b"two", b"one")

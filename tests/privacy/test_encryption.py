import numpy as np
import pytest

from laconic.privacy.encryption import Bfv, Encrypted, Sealed, rows_in_one

pytest.importorskip("tenseal")


@pytest.fixture(scope="module")
def keys():
    owner = Bfv()
    yield {"public": owner.public, "secret": owner.secret}
    owner.close()


def test_sums_of_encrypted_numbers_are_exact(keys):
    rng, length = np.random.default_rng(0), 64
    numbers = rng.integers(-(2**40), 2**40, 300)
    places = (rng.integers(0, 100, (300, 2)) + np.array([0, 100])).ravel()
    rows = np.repeat(np.arange(300), 2)
    holder, party = Bfv(secret=keys["secret"]), Bfv(public=keys["public"])
    found = party.add_up(holder.encrypt(numbers, length), rows, places, 205, length)
    expected = np.zeros(205, np.int64)
    np.add.at(expected, places, numbers[rows])
    assert holder.decrypt(found, 205, length).tolist() == expected.tolist()


def test_nothing_but_the_sums_can_be_read(keys):
    """The same rows added twice give the same sums, and every other coefficient anew by chance."""
    holder, party = Bfv(secret=keys["secret"]), Bfv(public=keys["public"])
    sent = holder.encrypt(np.arange(1, 65), 64)
    one, two = (party.add_up(sent, np.arange(64), np.zeros(64, int), 1, 64) for _ in range(2))
    assert holder.decrypt(one, 1, 64).tolist() == [64 * 65 // 2]
    others = [holder.decrypt(blobs, 8192, 1) for blobs in (one, two)]
    differ = others[0] != others[1]
    assert differ.sum() == 8192 - 128


def test_a_ciphertext_cannot_be_read_with_the_public_key(keys):
    sent = Bfv(secret=keys["secret"]).encrypt(np.arange(64), 64)
    stranger = Bfv()
    read = stranger.decrypt(sent, 64, 128)
    assert read.tolist() != np.arange(64).tolist()


@pytest.mark.parametrize("packed", [True, False])
def test_gradients_come_back_as_they_were_rounded(keys, packed):
    rng = np.random.default_rng(1)
    first, second = rng.uniform(-1, 1, (1, 200)), rng.uniform(0, 0.25, (1, 200))
    slopes = np.stack([first, second], axis=-1).astype(np.float32)
    sealed = Sealed(Encrypted(packed=packed), keys["secret"], slopes, sums=10)
    assert len(sealed.numbers) == (1 if packed else 2)
    assert sealed.slopes == pytest.approx(slopes, abs=2.0**-19)
    party, bins = Bfv(public=keys["public"]), rng.integers(0, 10, 200)
    found = [party.add_up(part, np.arange(200), bins, 10, sealed.length) for part in sealed.numbers]
    expected = np.stack([np.bincount(bins, sealed.slopes[0, :, one].astype(float), 10) for one in (0, 1)], axis=-1)
    assert sealed.read(found, None, (1, 10))[0].tolist() == expected.tolist()
    sealed.close()


def test_hessians_of_one_are_not_encrypted_but_counted(keys):
    slopes = np.stack([np.linspace(-900, 900, 50), np.ones(50)], axis=-1)[None].astype(np.float32)
    sealed = Sealed(Encrypted(), keys["secret"], slopes, sums=10)
    assert sealed.counts_rows
    assert len(sealed.numbers) == 1
    assert sealed.slopes == pytest.approx(slopes, rel=1e-5, abs=1e-3)
    sealed.close()


def test_more_sums_are_put_into_one_ciphertext_where_sums_are_many():
    assert rows_in_one(rows=30_000, sums=100_000) < rows_in_one(rows=30_000, sums=1_000)
    assert rows_in_one(rows=100_000, sums=1) == 4096

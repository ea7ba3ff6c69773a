"""What every way of matching ends with: a party's rows, those that all share first and in the same order, newly cut."""

from hashlib import blake2b

import numpy as np

from laconic.core.align import is_aligned, note_alignment
from laconic.core.errors import DataError
from laconic.core.party import Party
from laconic.core.values import Array
from laconic.data.splits import split


def keys_of(party: Party) -> Array:
    """The ids of a party's rows as text, in the order of the rows."""
    if party.data.ids is None:
        raise DataError(f"{party.name} has no id column, so its rows cannot be matched")
    return party.data.keys


def keep_shared(
    party: Party, shared: Array, seed: int, *, test: float, valid: float, some: Array | None = None
) -> None:
    """Put the shared rows first, in the order of their ids as text, and cut all rows.

    "shared" are the rows that all parties have, parted into "train", "valid" and "test". "own" are all others; where it
    is known, "some" are those of them that some other party has too, and "alone" those that nobody else has.

    Args:
        party: whose table is replaced.
        shared: positions of the rows that every party has, in any order.
        seed: for parting the shared rows; the same at every party.
        test: share of the shared rows held out.
        valid: share of the rest for stopping early.
        some: positions of the rows that some other party has, but not every one; None if that is not known.
    """
    asked = blake2b(f"{seed} {test} {valid} {some is None}".encode() + shared.tobytes(), digest_size=16).hexdigest()
    if is_aligned(party, asked):
        return  # Told again, after a crash: the rows are in place, and positions of before would be wrong now.
    keys = keys_of(party)
    first = shared[np.argsort(keys[shared], kind="stable")]
    others = np.ones(party.data.rows, dtype=bool)
    others[first] = False
    rest = np.flatnonzero(others)
    cuts = split(len(first), np.random.default_rng(seed), test=test, valid=valid)
    cuts |= {"shared": np.arange(len(first)), "own": len(first) + np.arange(len(rest))}
    if some is not None:
        known = np.isin(rest, some)
        cuts |= {"some": cuts["own"][known], "alone": cuts["own"][~known]}
    party.data = party.data.take(np.concatenate([first, rest]), cuts)
    note_alignment(party, asked)

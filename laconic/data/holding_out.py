"""Which rows of parties with other rows are held out: at random, or a person's together at all parties."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from laconic.core.errors import DataError
from laconic.core.values import Array
from laconic.data.ids import plain_text

if TYPE_CHECKING:
    from pandas import DataFrame

_WHOLE = 1 << 64


def hold_out(
    frames: Mapping[str, "DataFrame"],
    id: str | None,  # noqa: A002
    *,
    test: float,
    valid: float,
    seed: int,
) -> dict[str, dict[str, Array]]:
    """Each party's rows as cuts "train", "valid" and "test", positions in rising order.

    Without ids, a share of each party's rows is drawn. With ids, who is held out follows from the id and the seed
    alone: nobody is learnt from at one party and scored on at another, although no party knows of the other's people.
    The shares are then kept on the average only.

    Args:
        frames: by party.
        id: the column that says who a row is about; None if there is none.
        test: share of the rows to score on.
        valid: share of the others to choose settings by.
        seed: all depends on it.

    Raises:
        DataError: rows have no id, or a party has none left to learn from.
    """
    if not (0 < test < 1 and 0 <= valid < 1):
        raise ValueError(f"test is a share above 0 and below 1, valid one from 0 and below 1, not {test} and {valid}")
    found = {}
    chances = np.random.default_rng(seed).spawn(len(frames))
    for (party, frame), rng in zip(frames.items(), chances, strict=True):
        place = rng.permutation(len(frame)) / len(frame) if id is None else _places(ids_of(party, frame, id), seed)
        # As many rows as their share, rounded: a place is that of the middle of its row.
        middle = place + (0.5 / len(frame) if id is None else 0.0)
        tested, validated = middle < test, (middle >= test) & (middle < test + (1 - test) * valid)
        found[party] = {
            "train": np.flatnonzero(~tested & ~validated),
            "valid": np.flatnonzero(validated),
            "test": np.flatnonzero(tested),
        }
        if not len(found[party]["train"]):
            raise DataError(
                f"party {party!r}: all of its {len(frame)} rows are held out to score on, so that none is left to "
                "learn from; give it more rows, or leave it out"
            )
    if not any(len(cuts["test"]) for cuts in found.values()):
        raise DataError(
            f"at test={test} no row of any party is held out to score on; raise it (data.test), or add rows"
        )
    return found


def count_at_several(frames: Mapping[str, "DataFrame"], id: str) -> int:  # noqa: A002
    """How many people, by their ids, are at more than one party."""
    people = [set(ids_of(party, frame, id)) for party, frame in frames.items()]
    seen: set[str] = set()
    again: set[str] = set()
    for some in people:
        again |= some & seen
        seen |= some
    return len(again)


def ids_of(party: str, frame: "DataFrame", id: str) -> list[str]:  # noqa: A002
    """A party's ids as text, without white space around it.

    Raises:
        DataError: a row has none.
    """
    texts: list[str] = plain_text(frame[id]).tolist()
    if "" in texts:
        raise DataError(
            f"party {party!r}, id {id!r}: {texts.count('')} of {len(texts)} rows have no id, the first is row "
            f"{texts.index('') + 1}; fill them in or leave those rows out"
        )
    return texts


def _places(ids: list[str], seed: int) -> Array:
    """A number from 0 to 1 for each id, the same wherever that id is."""
    digests = (blake2b(f"{seed}\0{one}".encode(), digest_size=8).digest() for one in ids)
    return np.array([int.from_bytes(one) / _WHOLE for one in digests])

"""What a party has told of each row, by the row itself: known again in whatever cut, group, look or saved model it is.

A row goes by its id. Without ids it goes by its place, in this very table: rows of another table cannot be known again,
and each of them may be someone of whom all was told before.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from laconic.core.ledger import EVERY_ROW, Entry, Noise
from laconic.core.party import Party
from laconic.tables.table import Table, comparable
from laconic.values import Array, Weights

TOLD: Final = "told"
"""Where a party's memory has it: plain arrays, so that it outlives restarts, and models saved and loaded."""

RowReleases: TypeAlias = dict[str, Any]
"""`row`: whom each entry is about. `times`: how often each was told of, or an entry for each time if there is none.
`table`: what rows without ids are places in. `before`: how often a row may have been told of in tables before that.
"""

_CUTS: Final = ("train", "valid", "test", "own", "public")
_NOBODY: Final = np.empty(0, np.uint64)


def recall(party: Party) -> RowReleases:
    """What the party has told of its rows, to be added to; told anew if none of them can be known again."""
    table = "" if party.data.ids is not None else party.data.fingerprint
    told: RowReleases = party.memory.setdefault(TOLD, {"table": table, "before": 0, "row": _NOBODY})
    if told["table"] != table:
        before = told["before"] + _most(told)
        party.memory[TOLD] = told = {"table": table, "before": before, "row": _NOBODY}
    return told


def releases_of_rows(party: Party) -> int:
    """How often anything was told of a row, all in all: more than before if anything new was."""
    told: RowReleases = party.memory.get(TOLD, {})
    return int(told["times"].sum()) if "times" in told else len(told.get("row", ()))


def spent(party: Party) -> tuple[int, int]:
    """What changes with every answer that costs anyone anything: tellings of rows, and noise released."""
    noised = [entry for entry in party.ledger.entries if entry.noise is not None]
    return releases_of_rows(party), sum(1 if entry.noise and entry.noise.once else entry.times for entry in noised)


def take_over(party: Party, asked: Party) -> None:
    """Let a party know what was told in its name."""
    if TOLD in asked.memory:
        party.memory[TOLD] = asked.memory[TOLD]


def count_release(party: Party, at: Array) -> int:
    """Count that these rows are told of once more; how often that is, for the one told of most often."""
    told, rows = recall(party), row_marks(party.data, at)
    known, times = told["row"], told.get("times", np.empty(0, np.int64))
    new = rows[places_in(known, rows) < 0]
    known, times = np.concatenate([known, new]), np.concatenate([times, np.zeros(len(new), np.int64)])
    found = places_in(known, rows)
    times[found] += 1
    told |= {"row": known, "times": times}
    return int(told["before"] + times[found].max(initial=0))


def by_people(noise: Noise, party: Party, rows: str) -> Noise:
    """Fresh noise on the rows of a cut, as it counts.

    A run's own cuts are of different people. Groups asked for after training are not: there it counts how often someone
    is asked for, in whatever groups.
    """
    if rows in _CUTS:
        return replace(noise, people=rows)
    times = count_release(party, party.data.cut(rows))
    return replace(noise, people=EVERY_ROW, once=True, unit=f"{noise.unit}, asked for after training, time {times}")


def times_drawn(told: RowReleases, rows: Array) -> int:
    """How many entries there are of the one of these rows that has most."""
    known, times = np.unique(told["row"], return_counts=True)
    found = places_in(known, rows)
    return int(told["before"] + times[found[found >= 0]].max(initial=0))


def row_marks(table: Table, at: Array) -> Array:
    """A number for each of these rows that no other row has."""
    return _marks(key.encode() for key in table.keys[at].tolist())


def cell_marks(table: Table, at: Array) -> Array:
    """A number for each of these rows that no other row has, nor the same row with other cells."""
    cells = zip(table.keys[at].tolist(), comparable(table.raw[at]), strict=True)
    return _marks(key.encode() + b"\0" + row.tobytes() for key, row in cells)


def places_in(known: Array, wanted: Array) -> Array:
    """Where each mark is among those known; -1 where it is not."""
    if not len(known):
        return np.full(len(wanted), -1)
    order = np.argsort(known, kind="stable")
    found = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[found] == wanted, found, -1)


def _most(told: RowReleases) -> int:
    times = told["times"] if "times" in told else np.unique(told["row"], return_counts=True)[1]
    return int(times.max(initial=0))


def _marks(names: Iterable[bytes]) -> Array:
    return np.frombuffer(b"".join(blake2b(one, digest_size=8).digest() for one in names), dtype=np.uint64)


def write_model(party: Party, step: str, words: str, weights: Weights, noises: tuple[Noise, ...] | None) -> None:
    """Write in the ledger that a model was learnt under these noises; one learnt without noise may not be published."""
    numbers = sum(values.size for values in weights.values())
    for noise in noises or ():
        party.ledger.write(
            Entry(
                phase=party.phase,
                step=step,
                words=words,
                form=f"{numbers} weights",
                times=1,
                bytes=0,
                noise=noise,
                to="whoever is given the model",
            )
        )

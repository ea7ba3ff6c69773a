"""Counts the releases made about each row. Rows are identified by id, so counts survive new cuts, queries and models.

Rows without ids are identified by their position in the same table. They cannot be re-identified in another table, so
each is charged the highest count on record.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace

from laconic.core.ledger import EVERY_ROW, Entry, Noise, Noised
from laconic.core.party import Party
from laconic.tables.table import PAIRED, Table, comparable
from laconic.values import Array, Weights

T = TypeVar("T")

RELEASES: Final = "told"
"""The key in a party's memory. Its value is plain arrays, which survive restarts and saved models; the word is part
of those formats."""

RowReleases: TypeAlias = dict[str, Any]
"""`row`: the row of each entry. `times`: how often it was released; without it, there is one entry per release.
`table`: the table in which rows without ids have their positions. `before`: the highest count in earlier tables.
"""

_CUTS: Final = ("train", "valid", "test", "own", PAIRED, "public")
_NOBODY: Final = np.empty(0, np.uint64)


def recall(party: Party) -> RowReleases:
    """The counts of the party's rows, to be added to; started anew where rows cannot be re-identified."""
    table = "" if party.data.ids is not None else party.data.fingerprint
    counts: RowReleases = party.memory.setdefault(RELEASES, {"table": table, "before": 0, "row": _NOBODY})
    if counts["table"] != table:
        times = counts["times"] if "times" in counts else np.unique(counts["row"], return_counts=True)[1]
        before = counts["before"] + int(times.max(initial=0))
        party.memory[RELEASES] = counts = {"table": table, "before": before, "row": _NOBODY}
    return counts


def releases_of_rows(party: Party) -> int:
    """How many releases of rows there were in all; it grows with each."""
    counts: RowReleases = party.memory.get(RELEASES, {})
    return int(counts["times"].sum()) if "times" in counts else len(counts.get("row", ()))


def spent(party: Party) -> tuple[int, int]:
    """What changes with every answer that costs privacy: the number of row releases, and of noisy releases."""
    noised = [entry for entry in party.ledger.entries if entry.noise is not None]
    return releases_of_rows(party), sum(1 if entry.noise and entry.noise.once else entry.times for entry in noised)


def take_over(party: Party, asked: Party) -> None:
    """Give a party the counts of releases made in its name."""
    if RELEASES in asked.memory:
        party.memory[RELEASES] = asked.memory[RELEASES]


def count_release(party: Party, at: Array) -> int:
    """Count one more release of these rows; returns the highest count among them."""
    counts, rows = recall(party), row_marks(party.data, at)
    known, times = counts["row"], counts.get("times", np.empty(0, np.int64))
    new = rows[places_in(known, rows) < 0]
    known, times = np.concatenate([known, new]), np.concatenate([times, np.zeros(len(new), np.int64)])
    found = places_in(known, rows)
    times[found] += 1
    counts |= {"row": known, "times": times}
    return int(counts["before"] + times[found].max(initial=0))


def by_people(noise: Noise, party: Party, rows: str) -> Noise:
    """Fresh noise on the rows of a cut, as it is priced.

    Different cuts of a run hold different people. Groups asked for after training may overlap: there the price follows
    from how often a person was asked for, in whatever groups.
    """
    if rows in _CUTS:
        return replace(noise, people=rows)
    times = count_release(party, party.data.cut(rows))
    return replace(noise, people=EVERY_ROW, once=True, unit=f"{noise.unit}, asked for after training, time {times}")


def times_drawn(counts: RowReleases, rows: Array) -> int:
    """The highest number of entries that any of these rows has."""
    known, times = np.unique(counts["row"], return_counts=True)
    found = places_in(known, rows)
    return int(counts["before"] + times[found[found >= 0]].max(initial=0))


def row_marks(table: Table, at: Array) -> Array:
    """A number per row that no other row has."""
    return _marks(key.encode() for key in table.keys[at].tolist())


def cell_marks(table: Table, at: Array) -> Array:
    """A number per row that no other row has, nor the same row with other cells."""
    cells = zip(table.keys[at].tolist(), comparable(table.raw[at]), strict=True)
    return _marks(key.encode() + b"\0" + row.tobytes() for key, row in cells)


def places_in(known: Array, wanted: Array) -> Array:
    """The position of each mark among those known; -1 where it is not."""
    if not len(known):
        return np.full(len(wanted), -1)
    order = np.argsort(known, kind="stable")
    found = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[found] == wanted, found, -1)


def _marks(names: Iterable[bytes]) -> Array:
    return np.frombuffer(b"".join(blake2b(one, digest_size=8).digest() for one in names), dtype=np.uint64)


def write_model(party: Party, step: str, words: str, weights: Weights, noises: tuple[Noise, ...] | None) -> None:
    """Write in the ledger that a model was learnt under these noises; one learnt without noise may not be published."""
    form = f"{sum(values.size for values in weights.values())} weights"
    for noise in noises or ():
        write_noise(party, step, words, form, noise, to="whoever is given the model")


def write_noise(party: Party, step: str, words: str, form: str, noise: Noise, to: str | None = None) -> None:
    """Write in the ledger that something was made under this noise, which need not have crossed."""
    party.ledger.write(
        Entry(phase=party.phase, step=step, words=words, form=form, times=1, bytes=0, noise=noise, to=to)
    )


def as_released(party: Party, step: str, model: T) -> T | Noised[T]:
    """A model with the noise under which the party's ledger says that this step made it; as it is if there is none."""
    noise = next((one.noise for one in party.ledger.entries if one.step == step and one.noise is not None), None)
    return model if noise is None else Noised(model, noise)

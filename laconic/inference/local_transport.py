"""Reaching the parties of a saved model whose folders are at hand: for trials, and for parties on one machine."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import UNSET

from laconic.core.peers import Carrier
from laconic.core.step import Script
from laconic.core.wire import Blob
from laconic.data.labels import read_labels
from laconic.data.readers.federate import read_file
from laconic.data.readers.frames import as_frame, with_text_names
from laconic.data.readers.ids import plain_text, read_ids
from laconic.data.readers.source_table import build_table, own_frame, read_own
from laconic.data.schema import OwnData
from laconic.deploy.result import Result
from laconic.deploy.transports import Runtime, open_runtime
from laconic.errors import DataError
from laconic.inference.bundle import About, Card, Part, PartInUse, load_part
from laconic.inference.bundle_files import HEAD, model_folders, no_model
from laconic.plan.runtime import AnyRuntime, InProcess
from laconic.tables.columns import Recipe
from laconic.tables.table import Table
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame

    from laconic.data.readers.federate import Source

_ROW_NUMBER = "\0"  # no column is called so: rows without ids are counted from 1


def parts_of(folder: Path) -> dict[str, Part]:
    """Every party's part in a folder that holds several; the part itself if it is one party's own."""
    folders = [folder] if (folder / HEAD).is_file() else model_folders(folder)
    if not folders:
        raise no_model(folder)
    return {part.about.party: part for part in (load_part(one) for one in folders)}


@contextmanager
def reach_parts(
    hub: Part,
    parts: Mapping[str, Part],
    tables: Mapping[str, Table],
    runtime: AnyRuntime | Runtime = InProcess(),  # noqa: B008 (frozen)
) -> Iterator[Carrier]:
    """Reach all parties but the hub that have a part and rows; the others are absent.

    Every part reached counts as used, the hub's too: the next use draws other randomness. What a party released, and
    what it then remembers, is written to its part before the hub has the answer. No party's rules are asked: whoever
    has all folders and all rows at hand has nobody to be protected from.
    """
    asked = [name for name in hub.about.peers if name in parts]
    others = [name for name in parts if name not in asked and name != hub.about.party]
    # Counted at once: a use that is broken off has drawn its randomness too.
    uses = {name: parts[name].use(tables[name]) for name in (*asked, *others) if name in tables}
    keeping = _Keeping(uses, live=isinstance(runtime, InProcess))
    try:
        with open_runtime(tuple(one.party for one in uses.values()), runtime) as carrier:
            yield keeping.around(carrier)
    finally:
        keeping.write_rest()
    hub.note_use()


class _Keeping:
    """A carrier that writes down what answers change at their parties before it hands them over."""

    def __init__(self, uses: Mapping[str, PartInUse], *, live: bool) -> None:
        self._uses, self._live = uses, live
        # What another process wrote since a part was loaded has to be known before the party is copied elsewhere.
        with self._answering(uses):
            pass

    def around(self, within: Carrier) -> "_Keeping":
        self._within, self.names, self.ledgers = within, within.names, within.ledgers
        return self

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        failed: BaseException | None = None
        replies: list[tuple[str, Blob]] = []
        with self._answering(blobs):
            try:
                replies = list(self._within.carry(script, blobs, deadline))
            except BaseException as problem:
                if self._live:
                    raise
                failed = problem
        if failed is not None:
            raise failed
        yield from replies

    def write_rest(self) -> None:
        """Write down what parties elsewhere brought back when they were left."""
        if not self._live:
            with self._answering(self._uses):
                pass

    def _answering(self, names: Iterable[str]) -> AbstractContextManager[None]:
        return _together([self._uses[name].state.answering(self._uses[name].party, live=self._live) for name in names])


@contextmanager
def _together(blocks: Iterable[AbstractContextManager[None]]) -> Iterator[None]:
    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(block)
        yield


def read_rows(about: About, frame: "DataFrame", notes: list[str] | None = None) -> Table:
    """A party's new rows as a table; the columns are those it was trained on, in whatever order, others are ignored.

    What was decided when reading, and should be looked at, is added to `notes`.
    """
    frame = with_text_names(frame)
    wanted = [*([about.id] if about.id else []), *(column.name for column in about.columns)]
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise DataError(
            f"party {about.party!r}: the model was trained on the column {missing[0]!r}, which is not among "
            f"{', '.join(frame.columns[:20])}; add it, with empty cells if it is not known any more"
        )
    if len(frame) == 0:
        raise DataError(f"party {about.party!r} has no rows to predict, only column names; give it rows")
    key = about.id or _ROW_NUMBER
    rows = frame if about.id else frame.assign(**{key: np.arange(1, len(frame) + 1)})
    recipe = about.recipe or Recipe(columns=about.columns)
    own = build_table(about.party, OwnData(source=about.party, key=key), rows, (), task=about.task, recipe=recipe)
    if notes is not None:
        notes.extend(own.notes)
    return own.table


def read_new(about: About, source: "Source", notes: list[str] | None = None) -> Table:
    """A party's new rows from a table or a file, read as the model or the party's own file says."""
    if not isinstance(source, str | Path):
        return read_rows(about, frame_of(about, source), notes)
    if about.data is None or about.recipe is None:
        try:
            return read_rows(about, frame_of(about, source), notes)
        except DataError as problem:
            raise DataError(f"{source}: {problem}") from problem
    data = msgspec.structs.replace(about.data, source=str(source))
    own = read_own(about.party, data, recipe=about.recipe, task=about.task)
    if notes is not None:
        notes.extend(own.notes)
    return own.table


def read_new_labels(about: About, source: "Source", table: Table) -> Array | None:
    """The labels of new rows, as the model codes them, in the order of their table; None without a label column.

    Of rows with the same id the first counts, as in the table.
    """
    frame = with_text_names(frame_of(about, source))
    if about.task is None or about.task.label not in frame.columns:
        return None
    if about.data is not None and isinstance(source, str | Path):
        ids = read_ids(frame, about.data.keys, about.data.ids, about.party).tolist()
    else:
        ids = plain_text(frame[about.id]).tolist() if about.id else [str(row + 1) for row in range(len(frame))]
    places = {one: row for row, one in reversed(list(enumerate(ids)))}
    kept = frame.iloc[[places[one] for one in table.keys.tolist()]]
    event = None if about.task.event is UNSET or about.task.event not in kept.columns else kept[about.task.event]
    return read_labels(kept[about.task.label], about.task, about.party, event=event)[0]


def frame_of(about: About, source: "Source") -> "DataFrame":
    """All columns of a party's new rows, as they stand in its table or file."""
    if not isinstance(source, str | Path):
        return as_frame(source, about.party)
    if about.data is None:
        return read_file(about.party, Path(source), about.id, [column.name for column in about.columns])
    return own_frame(about.party, msgspec.structs.replace(about.data, source=str(source)))


@dataclass(frozen=True)
class SavedParts:
    """The parts of a model in a folder, or one party's own part."""

    folder: Path

    @property
    def result(self) -> Result | None:
        """The record of the run, which a folder does not hold."""
        return None

    def parts(self) -> dict[str, Part]:
        """Every party's part that is there, as it is now."""
        return parts_of(self.folder)

    def reach(
        self, hub: Part, parts: Mapping[str, Part], tables: Mapping[str, Table]
    ) -> AbstractContextManager[Carrier]:
        """Reach the parties that have a part and rows."""
        return reach_parts(hub, parts, tables)

    def save(self, folder: Path, *, keep: bool, replace_old: bool) -> Card:
        """Refuse: two copies of a part would put the same noise on other rows, which shows their difference."""
        raise DataError(f"the model is saved already, in {self.folder}; move that folder, as it should not be copied")

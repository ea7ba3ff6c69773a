"""One way in for everybody's tables: a federation, vertical or horizontal as the tables themselves say.

Tables are frames, or one file per party, with other columns or with other rows: CSV (compressed or not) or Parquet.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from laconic.data.federation import HELD_OUT, Federation
from laconic.data.readers.frames import Kinds, from_frames
from laconic.data.readers.horizontal_frames import PUBLIC, rows_from_frames
from laconic.data.readers.source_table import own_frame
from laconic.data.schema import OwnData, SaidKind
from laconic.errors import DataError
from laconic.tables.task import Task

if TYPE_CHECKING:
    from pandas import DataFrame

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from laconic.data.readers.cells import plain_name
from laconic.data.readers.frames import AnyTable, as_frame

if TYPE_CHECKING:
    from pandas import DataFrame


_NO_KEY = "\0"  # no column is called so: all cells of the file are read in the same way


def from_files(
    paths: Mapping[str, Path | str] | Iterable[Path | str],
    *,
    id: str,  # noqa: A002 the word every reader of a table looks for
    label: str,
    event: str | None = None,
    kinds: Kinds | None = None,
    task: Task | None = None,
    name: str = "files",
    split_by: str | None = None,
    group: str | None = None,
    memory: str | None = None,
) -> Federation:
    """Read one file per party; the party with the label column is the hub.

    Ids in CSV files are read as text, so that leading zeros stay. The rest is as in `from_frames`.

    Args:
        paths: by party, or just paths: a party is then called what its file is called, up to the first dot.
        id, label, event, kinds, task, name, split_by, group: as for `from_frames`.
        memory: as for `from_frames`, of Parquet files.
    """
    named = by_party(paths)
    frames = {party: read_file(party, path, id, _labels(label, event), memory) for party, path in named.items()}
    with naming(named):
        federation = from_frames(
            frames,
            id=id,
            label=label,
            event=event,
            kinds=kinds,
            task=task,
            name=name,
            split_by=split_by,
            group=group,
        )
    federation.facts["files"] = {party: path.name for party, path in named.items()}
    return federation


def rows_from_files(
    paths: Mapping[str, Path | str] | Iterable[Path | str],
    *,
    label: str,
    event: str | None = None,
    id: str | None = None,  # noqa: A002 the word every reader of a table looks for
    public: Path | str | None = None,
    kinds: Kinds | None = None,
    task: Task | None = None,
    test: float = HELD_OUT,
    valid: float = 0.0,
    seed: int = 0,
    name: str = "files",
    split_by: str | None = None,
    group: str | None = None,
) -> Federation:
    """Read one file per party, all with the same columns, each with labels for its own rows.

    Args:
        paths: by party, or just paths: a party is then called what its file is called, up to the first dot.
        label: the label column, which every file must have.
        public: a file of rows that everybody may see; None if there are none.
        event, id, kinds, task, test, valid, seed, name, split_by, group: as for `rows_from_frames`.
    """
    named = by_party(paths)
    frames = {party: read_file(party, path, id, _labels(label, event)) for party, path in named.items()}
    first = next(iter(frames.values()), None)
    shown = None if public is None else read_file(PUBLIC, Path(public), id, () if first is None else first.columns)
    with naming(named, "" if public is None else f", public rows are {public}"):
        federation = rows_from_frames(
            frames,
            label=label,
            event=event,
            id=id,
            public=shown,
            kinds=kinds,
            task=task,
            test=test,
            valid=valid,
            seed=seed,
            name=name,
            split_by=split_by,
            group=group,
        )
    federation.facts["files"] = {party: path.name for party, path in named.items()}
    return federation


def read_file(
    party: str, path: Path, id_name: str | None, expected: Iterable[str] = (), memory: str | None = None
) -> "DataFrame":
    """All rows of one CSV or Parquet file; cells of CSV stay as written.

    Texts that stand for a missing cell become one, but not among ids, if there is an id column.

    Args:
        id_name: the id column; None if there is none.
        expected: other columns that it should have, which help to detect the delimiter.
        memory: about how much the process may use; None keeps all in memory.
    """
    key = id_name or _NO_KEY
    columns: dict[str, SaidKind] = {name: "categorical" for name in expected if name != key}
    return own_frame(party, OwnData(source=str(path), key=key, columns=columns, memory=memory))


@contextmanager
def naming(paths: Mapping[str, Path], more: str = "") -> Iterator[None]:
    """Add to an error which file each party's rows are from."""
    try:
        yield
    except DataError as problem:
        if not paths and not more:
            raise
        places = ", ".join(f"{party} is {path}" for party, path in paths.items())
        raise DataError(f"{problem} ({places}{more})") from problem


def by_party(paths: Mapping[str, Path | str] | Iterable[Path | str]) -> dict[str, Path]:
    """Files by party, which is called what its file is called, up to the first dot, unless it is named."""
    if isinstance(paths, Mapping):
        return {party: Path(path) for party, path in paths.items()}
    named: dict[str, Path] = {}
    for path in map(Path, paths):
        party = path.name.split(".")[0]
        if party in named:
            raise DataError(f"{named[party]} and {path} would both be party {party!r}; rename one file or name parties")
        named[party] = path
    return named


Kind: TypeAlias = Literal["vertical", "horizontal"]
Source: TypeAlias = "AnyTable | Path | str"
"""A table, or the path of a CSV or Parquet file."""


def federation(
    tables: Mapping[str, Source],
    *,
    label: str,
    event: str | None = None,
    id: str | None = None,  # noqa: A002 the word every reader of a table looks for
    kind: Kind | None = None,
    public: "Source | None" = None,
    kinds: Kinds | None = None,
    task: Task | None = None,
    test: float = HELD_OUT,
    valid: float | None = None,
    seed: int = 0,
    name: str | None = None,
    split_by: str | None = None,
    group: str | None = None,
    memory: str | None = None,
) -> Federation:
    """The parties of a federation, each with its own table.

    If one party has the label, parties hold other columns of the same people, matched by `id`: a vertical federation,
    whose hub is that party. If all have the same columns and the label, they hold other people: a horizontal one.

    Args:
        tables: by party, in the order parties will be named: pandas, Polars or Arrow tables, or paths of CSV or Parquet
            files.
        label: the column to predict.
        event: where the label is the time to an event, the column that says whether it came (1, true, yes), or had not
            by that time (0, false, no); both are at the same parties.
        id: the column that says who a row is about. A vertical federation needs it.
        kind: None to tell it from the tables.
        public: horizontal: rows of the same columns that everybody may see.
        kinds: what a column is (`numeric`, `categorical`, `date`), by its name, where that should not be inferred.
        task: what the label is; None to infer it.
        test: share of the rows kept for the final score.
        valid: share of the others to stop early by, and to choose settings by; None for 0.1, horizontal 0.
        seed: horizontal: which rows are held out depends on it. In a vertical federation that depends on the seed of
            `fit`.
        split_by: a column of dates or numbers: the last rows by it are scored on. At the label holder; horizontal, at
            every party.
        group: a column whose rows of one value are all learnt from or all scored on; at the same parties.
        name: of the data, for reports; None for the names of the files, or `tables`.
        memory: vertical: about how much a party's process may use, such as `4 GB`; columns of numbers then lie on disk.
            For Parquet files, Arrow and lazy tables.

    Example:
        >>> from pandas import DataFrame
        >>> bank = DataFrame({"customer": range(40), "income": range(40), "churned": [0, 1] * 20})
        >>> shop = DataFrame({"customer": range(40), "visits": [3, 5, 4, 8] * 10})
        >>> federation({"bank": bank, "shop": shop}, id="customer", label="churned")
        <Federation tables, vertical: bank 40 rows, shop 40 rows; bank predicts churned>
    """
    paths = {party: Path(one) for party, one in _items(tables) if isinstance(one, str | Path)}
    frames = {party: _frame(party, one, id, label, event, memory) for party, one in _items(tables)}
    name = name or ", ".join(path.name for path in paths.values()) or "tables"
    with naming(paths, "" if public is None or not paths else f", public rows are {public}"):
        if (kind or kind_of(frames, plain_name(label), id)) == "vertical":
            if id is None:
                _refuse_no_id(label)
            made = from_frames(
                frames,
                id=id or "",
                label=label,
                event=event,
                kinds=kinds,
                task=task,
                name=name,
                split_by=split_by,
                group=group,
            )
            made = replace(made, test=test, valid=0.1 if valid is None else valid)
        else:
            if memory is not None:
                raise DataError("memory is for parties with other columns of the same people; leave it out")
            shown = None if public is None else _frame(PUBLIC, public, id, label, event)
            shares = {"test": test, "valid": valid or 0.0}
            made = rows_from_frames(
                frames,
                label=label,
                event=event,
                id=id,
                public=shown,
                kinds=kinds,
                task=task,
                seed=seed,
                name=name,
                split_by=split_by,
                group=group,
                **shares,
            )
    if paths:
        made.facts["files"] = {party: path.name for party, path in paths.items()}
    return made


def _labels(label: str, event: str | None) -> list[str]:
    return [label] if event is None else [label, event]


def kind_of(frames: Mapping[str, "DataFrame"], label: str, id_name: str | None) -> Kind:
    """Whether parties hold other columns of the same people, or other people with the same columns."""
    columns = {party: {plain_name(name) for name in frame.columns} for party, frame in frames.items()}
    holders = [party for party, names in columns.items() if label in names]
    if len(holders) < len(frames) or not frames:
        return "vertical"
    first, *others = columns
    if not others:
        return "horizontal" if id_name is None else "vertical"
    different = next((party for party in others if columns[party] != columns[first]), None)
    if different is not None:
        odd = sorted(columns[first] ^ columns[different])
        raise DataError(
            f"all parties have the label {label!r}, as with other people, but not the same columns: {first} and "
            f"{different} differ in {', '.join(odd[:5])}. Give all the same columns, or, if they hold other columns of "
            "the same people, drop the label at all but one party"
        )
    return "horizontal"


def _items(tables: Mapping[str, Source]) -> list[tuple[str, Source]]:
    if not isinstance(tables, Mapping):
        raise TypeError(
            f'tables must be by party, such as {{"bank": bank, "shop": shop}}, not a {type(tables).__name__}: nobody '
            "could be named"
        )
    return list(tables.items())


def _frame(
    party: str, table: Source, id_name: str | None, label: str, event: str | None, memory: str | None = None
) -> "DataFrame":
    if isinstance(table, str | Path):
        return read_file(party, Path(table), id_name, _labels(label, event), memory)
    return as_frame(table, party, memory)


def _refuse_no_id(label: str) -> None:
    raise DataError(
        f"which rows are about the same people? Not all parties have the label {label!r}, so they hold other "
        'columns of the same people: give id="the column that says who a row is about"'
    )

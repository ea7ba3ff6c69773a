"""A federation from one file a party, with other columns or with other rows: CSV (compressed or not) or Parquet."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from laconic.data.federation import Federation
from laconic.data.readers.batches import column_names, delimiter_of_source, read_batches
from laconic.data.readers.columns import DELIMITER
from laconic.data.readers.frames import Kinds, from_frames
from laconic.data.readers.horizontal_frames import PUBLIC, rows_from_frames
from laconic.data.schema import OwnData
from laconic.errors import DataError
from laconic.tables.task import Task

if TYPE_CHECKING:
    from pandas import DataFrame


_NO_KEY = "\0"  # no column is called so: all cells of the file are read alike


def from_files(
    paths: Mapping[str, Path | str] | Iterable[Path | str],
    *,
    id: str,  # noqa: A002 the word every reader of a table looks for
    label: str,
    kinds: Kinds | None = None,
    task: Task | None = None,
    name: str = "files",
) -> Federation:
    """Read one file a party; the party with the label column is the hub.

    Ids in CSV files are read as text, so that leading zeros stay. The rest is as in `from_frames`.

    Args:
        paths: by party, or just paths: a party is then called what its file is called, up to the first dot.
        id: the id column, which every file must have.
        label: the label column, which exactly one file must have.
        kinds: by column name.
        task: what the label is; None to infer it.
        name: of the data, for reports.

    Raises:
        DataError: a file cannot be used; says which, which column, and what to do.
    """
    named = {party: Path(path) for party, path in _by_party(paths).items()}
    frames = {party: read_file(party, path, id, [label]) for party, path in named.items()}
    try:
        federation = from_frames(frames, id=id, label=label, kinds=kinds, task=task, name=name)
    except DataError as problem:
        places = ", ".join(f"{party} is {path}" for party, path in named.items())
        raise DataError(f"{problem} ({places})") from problem
    federation.facts["files"] = {party: path.name for party, path in named.items()}
    return federation


def rows_from_files(
    paths: Mapping[str, Path | str] | Iterable[Path | str],
    *,
    label: str,
    id: str | None = None,  # noqa: A002 the word every reader of a table looks for
    public: Path | str | None = None,
    kinds: Kinds | None = None,
    task: Task | None = None,
    test: float = 0.2,
    valid: float = 0.0,
    seed: int = 0,
    name: str = "files",
) -> Federation:
    """Read one file a party, all with the same columns, each with labels for its own rows.

    Args:
        paths: by party, or just paths: a party is then called what its file is called, up to the first dot.
        label: the label column, which every file must have.
        public: a file of rows that everybody may see; None if there are none.
        id, kinds, task, test, valid, seed, name: as for `rows_from_frames`.

    Raises:
        DataError: a file cannot be used; says which, which column, and what to do.
    """
    named = {party: Path(path) for party, path in _by_party(paths).items()}
    frames = {party: read_file(party, path, id, [label]) for party, path in named.items()}
    first = next(iter(frames.values()), None)
    shown = None if public is None else read_file(PUBLIC, Path(public), id, () if first is None else first.columns)
    try:
        federation = rows_from_frames(
            frames,
            label=label,
            id=id,
            public=shown,
            kinds=kinds,
            task=task,
            test=test,
            valid=valid,
            seed=seed,
            name=name,
        )
    except DataError as problem:
        places = ", ".join(f"{party} is {path}" for party, path in named.items())
        shown_at = "" if public is None else f", public rows are {public}"
        raise DataError(f"{problem} ({places}{shown_at})") from problem
    federation.facts["files"] = {party: path.name for party, path in named.items()}
    return federation


def read_file(party: str, path: Path, id_name: str | None, expected: Iterable[str] = ()) -> "DataFrame":
    """All rows of one CSV or Parquet file, chosen by the ending of its name; cells of CSV stay as written.

    Texts that stand for a missing cell become one, but not among ids, if there is an id column.

    Args:
        party: whose file it is.
        path: where it is.
        id_name: the id column; None if there is none.
        expected: other columns that it should have, which help to tell what is between columns.

    Raises:
        DataError: the file is missing, empty, not what its name says, or has two columns of one name.
    """
    import pandas

    key = id_name or _NO_KEY
    data = OwnData(source=str(path), key=key, columns={name: "categorical" for name in expected if name != key})
    names = column_names(party, data)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"party {party!r}: two columns of {path} are called {twice[0]!r}; rename one")
    frames = list(read_batches(party, data))
    found = pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame(columns=names)
    found.attrs[DELIMITER] = delimiter_of_source(party, data)
    return found


def _by_party(paths: Mapping[str, Path | str] | Iterable[Path | str]) -> dict[str, Path | str]:
    if isinstance(paths, Mapping):
        return dict(paths)
    named: dict[str, Path | str] = {}
    for path in paths:
        party = Path(path).name.split(".")[0]
        if party in named:
            raise DataError(f"{named[party]} and {path} would both be party {party!r}; rename one file or name parties")
        named[party] = path
    return named

"""A federation from one file per party, with other columns or with other rows: CSV (compressed or not) or Parquet."""

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
) -> Federation:
    """Read one file per party; the party with the label column is the hub.

    Ids in CSV files are read as text, so that leading zeros stay. The rest is as in `from_frames`.

    Args:
        paths: by party, or just paths: a party is then called what its file is called, up to the first dot.
        id, label, event, kinds, task, name, split_by, group: as for `from_frames`.
    """
    named = by_party(paths)
    frames = {party: read_file(party, path, id, _labels(label, event)) for party, path in named.items()}
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


def read_file(party: str, path: Path, id_name: str | None, expected: Iterable[str] = ()) -> "DataFrame":
    """All rows of one CSV or Parquet file; cells of CSV stay as written.

    Texts that stand for a missing cell become one, but not among ids, if there is an id column.

    Args:
        id_name: the id column; None if there is none.
        expected: other columns that it should have, which help to detect the delimiter.
    """
    key = id_name or _NO_KEY
    columns: dict[str, SaidKind] = {name: "categorical" for name in expected if name != key}
    return own_frame(party, OwnData(source=str(path), key=key, columns=columns))


def _labels(label: str, event: str | None) -> list[str]:
    return [label] if event is None else [label, event]


@contextmanager
def naming(paths: Mapping[str, Path], more: str = "") -> Iterator[None]:
    """Add to an error which file each party's rows are from."""
    try:
        yield
    except DataError as problem:
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

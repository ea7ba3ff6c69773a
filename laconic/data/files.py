"""A federation from one file a party: CSV (compressed or not) or Parquet."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from laconic.core.errors import DataError
from laconic.core.task import Task
from laconic.data.batches import column_names, read_batches
from laconic.data.federation import Federation
from laconic.data.frames import Kinds, from_frames
from laconic.data.own_data import OwnData

if TYPE_CHECKING:
    from pandas import DataFrame


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
    frames = {party: read_file(party, path, id) for party, path in named.items()}
    try:
        federation = from_frames(frames, id=id, label=label, kinds=kinds, task=task, name=name)
    except DataError as problem:
        places = ", ".join(f"{party} is {path}" for party, path in named.items())
        raise DataError(f"{problem} ({places})") from problem
    federation.facts["files"] = {party: path.name for party, path in named.items()}
    return federation


def read_file(party: str, path: Path, id_name: str) -> "DataFrame":
    """All rows of one CSV or Parquet file, chosen by the ending of its name; cells of CSV stay as written.

    Raises:
        DataError: the file is missing, empty, not what its name says, or has two columns of one name.
    """
    import pandas

    data = OwnData(source=str(path), key=id_name)
    names = column_names(party, data)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"party {party!r}: two columns of {path} are called {twice[0]!r}; rename one")
    frames = list(read_batches(party, data))
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame(columns=names)


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

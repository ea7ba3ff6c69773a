"""A party's rows a batch at a time, whatever its source: CSV, Parquet, a folder of Parquet, a database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from laconic.core.errors import DataError
from laconic.data.own_data import OwnData
from laconic.data.sql import sql_batches, sql_columns

if TYPE_CHECKING:
    from pandas import DataFrame, Series

BATCH = 100_000
"""Rows read at a time."""

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""Cells of a CSV file that count as missing, except among ids, where only an empty cell does."""

_BLOCK = 1 << 23  # bytes of a CSV file read at a time

_HEADING = 1 << 16  # bytes in which the line of column names is looked for

PARQUET = (".parquet", ".pq")


def column_names(party: str, data: OwnData) -> list[str]:
    """The columns of a party's source, without reading its rows.

    Raises:
        DataError: the source is not there or cannot be read; names party and file.
    """
    if data.in_database:
        return sql_columns(party, data)
    path = _checked(party, Path(data.source))
    if _is_parquet(path):
        with _reading(party, path):
            return [str(name) for name in _parquet(path).schema.names]
    _refuse_other_separator(party, path)
    with _reading(party, path), _opened(path) as stream:
        return [name.strip() for name in _csv_names(stream)]


def read_batches(
    party: str, data: OwnData, columns: Sequence[str] | None = None, rows: int = BATCH
) -> Iterator["DataFrame"]:
    """The rows of a party's source as frames of at most so many rows, in the order of the source.

    Cells of CSV files stay text, so that all batches are alike and ids keep their zeros.

    Args:
        party: for errors.
        data: names the source.
        columns: which columns are wanted; None for all.
        rows: the most in one frame.

    Raises:
        DataError: the source is not there or cannot be read; names party and file.
    """
    if data.in_database:
        yield from sql_batches(party, data, columns, rows)
        return
    path = _checked(party, Path(data.source))
    if not _is_parquet(path):
        _refuse_other_separator(party, path)
    with _reading(party, path):
        yield from (_from_parquet if _is_parquet(path) else _from_csv)(path, data, columns, rows)


def _from_parquet(path: Path, _: OwnData, columns: Sequence[str] | None, rows: int) -> Iterator["DataFrame"]:
    for batch in _parquet(path).to_batches(columns=None if columns is None else list(columns), batch_size=rows):
        if batch.num_rows:
            yield batch.to_pandas()


def _from_csv(path: Path, data: OwnData, columns: Sequence[str] | None, rows: int) -> Iterator["DataFrame"]:
    import pyarrow
    from pyarrow import csv

    with _opened(path) as stream:
        given = _csv_names(stream)
    names = {name: name.strip() for name in given if columns is None or name.strip() in columns}
    # All cells as text: kinds told from the first rows would refuse what comes later. Other columns are never built.
    types = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False, include_columns=list(names)
    )
    with _opened(path) as stream:
        for batch in csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=_BLOCK),
            parse_options=_quoted_lines(),
            convert_options=types,
        ):
            for start in range(0, batch.num_rows, rows):
                frame = batch.slice(start, rows).to_pandas().set_axis([*names.values()], axis=1)
                cells = [name for name in frame.columns if name not in data.keys]
                yield frame.assign(**{name: frame[name].mask(_is_missing(frame[name])) for name in cells})


def _refuse_other_separator(party: str, path: Path) -> None:
    """Refuse a file whose columns are not parted by commas: all of it would be taken for one column."""
    with _reading(party, path), _opened(path) as stream:
        first = stream.read(_HEADING).partition(b"\n")[0]
    other = next((mark for mark in (b";", b"\t", b"|") if mark in first), None)
    if other is not None and b"," not in first:
        raise DataError(
            f"party {party!r}: the columns of {path} seem to be separated by {other.decode()!r}; export it again with "
            "commas between columns, and points in numbers"
        )


def _is_missing(cells: "Series") -> "Series":
    return cells.str.strip().isin(MISSING)


def _csv_names(stream: IO[bytes]) -> list[str]:
    from pyarrow import csv

    return [str(name) for name in csv.open_csv(stream, parse_options=_quoted_lines()).schema.names]


def _quoted_lines() -> Any:
    from pyarrow import csv

    return csv.ParseOptions(newlines_in_values=True)


def _checked(party: str, path: Path) -> Path:
    if not path.exists():
        raise DataError(f"party {party!r}: there is no file {path}; check data.source")
    if path.is_dir() and not any(part.suffix in PARQUET for part in path.rglob("*")):
        raise DataError(f"party {party!r}: the folder {path} has no Parquet files; check data.source")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(
            f"party {party!r}: the file {path} is empty; it needs a line of column names and at least two rows"
        )
    return path


def _is_parquet(path: Path) -> bool:
    return path.is_dir() or path.suffix in PARQUET


def _parquet(path: Path) -> Any:
    import pyarrow.dataset

    files = sorted(str(part) for part in path.rglob("*") if part.suffix in PARQUET) if path.is_dir() else str(path)
    return pyarrow.dataset.dataset(files, format="parquet")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A file as plain bytes, unpacked if the ending of its name says that it is packed."""
    import pyarrow

    packed = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
    if path.suffix == ".xz":
        import lzma

        with lzma.open(path) as stream:
            yield stream
    elif path.suffix in packed:
        with pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), packed[path.suffix]) as stream:
            yield stream
    else:
        with path.open("rb") as stream:
            yield stream


@contextmanager
def _reading(party: str, path: Path) -> Iterator[None]:
    """Whatever a reader says of a broken file, said with party and file."""
    import lzma

    try:
        yield
    except DataError:
        raise
    except (ValueError, OSError, EOFError, lzma.LZMAError) as problem:
        if "UTF8" in str(problem):
            raise DataError(
                f"party {party!r}: the file {path} is not UTF-8 text ({problem}); save it again with encoding UTF-8"
            ) from problem
        kind = "Parquet" if _is_parquet(path) else "CSV"
        raise DataError(
            f"party {party!r}: the file {path} cannot be read as {kind}: {str(problem).strip()}; export it again"
        ) from problem

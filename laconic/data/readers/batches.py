"""A party's rows in batches, whatever its source: CSV, Parquet, a folder of Parquet files, a database.

A database is given by any SQLAlchemy URL with a table or a query.
"""

import csv
import difflib
import io
import lzma
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from laconic.data.readers.cells import plain_name
from laconic.data.readers.columns import DELIMITER
from laconic.data.schema import OwnData
from laconic.errors import DataError, MissingExtra
from laconic.tables.on_disk import empty_on_disk, no_room, refuse_too_little
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame
    from sqlalchemy import Connection


BATCH = 100_000
"""Rows read at a time."""

DUCKDB = "duckdb:///"
"""How the URL of a DuckDB file begins; without a file, the query names the files to read."""

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""Cells of a CSV file that count as missing, except among ids, where only an empty cell does."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_PARQUET = (".parquet", ".pq")
_SAMPLE = 1 << 18  # bytes at the beginning of a file by which its form is detected
_BLOCK = 1 << 22  # bytes of a CSV file read at a time; no row may be longer


class CsvForm(NamedTuple):
    """How a CSV file is written.

    Attributes:
        encoding: for the reader. delimiter: between columns.
        skip: lines before that of the names.
        names: one for each column of the rows; empty for a column without a name and without cells.
    """

    encoding: str
    delimiter: str
    skip: int
    names: tuple[str, ...]


def column_names(party: str, data: OwnData) -> list[str]:
    """The columns of a party's source, without reading its rows."""
    if data.in_database:
        return sql_columns(party, data)
    path = _checked(party, Path(data.source))
    with _reading(party, path):
        if _is_parquet(path):
            return [plain_name(name) for name in _parquet(path).schema.names]
        return [name for name in _csv_form(party, path, data).names if name]


def read_batches(
    party: str, data: OwnData, columns: Sequence[str] | None = None, rows: int = BATCH
) -> Iterator["DataFrame"]:
    """The rows of a party's source as frames of at most so many rows, in its order, with some columns or all.

    Cells of CSV files stay text, so that all batches have the same types and ids keep their zeros.
    """
    if data.in_database:
        yield from sql_batches(party, data, columns, rows)
        return
    path = _checked(party, Path(data.source))
    with _reading(party, path):
        yield from (_from_parquet if _is_parquet(path) else _from_csv)(party, path, data, columns, rows)


def read_whole(party: str, data: OwnData, columns: Sequence[str]) -> "DataFrame":
    """All rows of a source, with some columns; those of numbers lie on disk if the party limits its memory."""
    import pandas

    if data.source.startswith(DUCKDB):
        with _duckdb(party, data, columns) as reader:
            return frame_of(party, reader.schema, reader, data.memory)
    path = Path(data.source)
    if data.in_database or not _is_parquet(_checked(party, path)):
        if data.memory is not None:
            raise DataError(
                f"party {party!r}: data.memory holds for sources that know what their columns are, and not for "
                f"{'a database' if data.in_database else path}: write the rows to a Parquet file, or leave memory out"
            )
        parts = list(read_batches(party, data, columns))
        return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame(columns=list(columns))
    with _reading(party, path):
        before, source = _state(path), _parquet(path)
        given = {name: plain_name(name) for name in source.schema.names}
        names = [name for name, plain in given.items() if plain in columns]
        batches = source.to_batches(columns=names, **({} if data.memory is None else FEW_AHEAD))
        schema = pyarrow.schema([source.schema.field(name) for name in names])
        frame = frame_of(party, schema, batches, data.memory).rename(columns=given)
        if _state(path) != before:
            raise DataError(f"party {party!r}: {path} changed while it was read; read it again when it is complete")
    return frame


FEW_AHEAD = {"batch_size": BATCH, "batch_readahead": 1, "fragment_readahead": 1}
"""Arrow reads sixteen batches ahead unless told otherwise, more than what a party with little memory holds."""


def _state(path: Path) -> list[tuple[str, int, int]]:
    """What changes when a file, or one of a folder, is written to."""
    files = _parquet_files(path) if path.is_dir() else [str(path)]
    return [(name, found.st_size, found.st_mtime_ns) for name in files for found in [Path(name).stat()]]


def frame_of(
    party: str, schema: pyarrow.Schema, batches: Iterable[pyarrow.RecordBatch], memory: str | None, **asked: bool
) -> "DataFrame":
    """A frame of all rows that a source gives in batches.

    Args:
        schema: of the batches.
        memory: what the party wants to use at most; columns of numbers then lie on disk, and no batch stays.
        asked: how Arrow's columns become pandas'.
    """
    import pandas

    batches = _numbered(party, batches)
    if memory is None:
        table = pyarrow.Table.from_batches(batches, schema)
        exact = {
            name: _with_gaps(table.column(name).fill_null(0).to_numpy(), table.column(name).is_null().to_numpy())
            for name in schema.names
            if schema.names.count(name) == 1 and _is_wide(table.column(name))
        }
        frame: DataFrame = table.to_pandas(split_blocks=True, self_destruct=True, **asked)
        return frame.assign(**exact) if exact else frame
    types = pyarrow.types
    with ExitStack() as until:
        numbers = {
            one.name: _ColumnOnDisk(one.type, until.enter_context(tempfile.TemporaryFile(prefix="laconic-")))
            for one in schema
            if types.is_floating(one.type) or types.is_integer(one.type)
        }
        others = [name for name in schema.names if name not in numbers]
        kept: list[pyarrow.RecordBatch] = []
        rows = 0
        for batch in batches:
            for name, column in numbers.items():
                column.add(batch.column(name), rows)
            rows += batch.num_rows
            refuse_too_little(memory, rows, party)
            kept.append(batch.select(others))
        found = {name: column.cells() for name, column in numbers.items()}
    rest = pyarrow.Table.from_batches(kept, pyarrow.schema([schema.field(name) for name in others]))
    found |= dict(rest.to_pandas(self_destruct=True, **asked).items())
    return pandas.DataFrame(found, columns=schema.names, copy=False)


def _numbered(party: str, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The same batches; an error of whatever library brings them says at which it came."""
    number = rows = 0
    try:
        for number, batch in enumerate(batches, start=1):  # noqa: B007 (for the error)
            yield batch
            rows += batch.num_rows
    except DataError:
        raise
    except MemoryError as problem:
        raise DataError(
            f"party {party!r}: there is no memory for batch {number + 1}, after {rows:,} rows: {problem}; let the "
            "process have more, or say data.memory so that columns lie on disk"
        ) from problem
    except Exception as problem:
        raise ValueError(f"batch {number + 1}, after {rows:,} rows: {str(problem).strip()}") from problem


_EXACT = 2**53
"""Whole numbers beyond this are not all floats, which pandas takes for a column with gaps."""


def _is_wide(column: pyarrow.ChunkedArray) -> bool:
    """Whether whole numbers with gaps would be rounded as floats: two ids would become one."""
    if not pyarrow.types.is_integer(column.type) or column.type.bit_width < 64 or not column.null_count:
        return False
    least, most = pc.min_max(column).values()
    return bool(least.is_valid) and bool(max(-least.as_py(), most.as_py()) > _EXACT)


def _with_gaps(cells: Array, gone: Array) -> Any:
    """Whole numbers, some of them missing, as pandas keeps them without rounding."""
    import pandas

    return pandas.arrays.IntegerArray(np.array(cells), np.array(gone))


class _ColumnOnDisk:
    """A column of numbers in a file, as its batches come."""

    def __init__(self, kind: pyarrow.DataType, file: IO[bytes]) -> None:
        self._kind, self._file = np.dtype(kind.to_pandas_dtype()), file
        self._gaps: list[Array] = []

    def add(self, cells: pyarrow.Array, before: int) -> None:
        """Write a batch, before which so many rows came."""
        if cells.null_count and self._kind.kind != "f":
            self._gaps.append(before + np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False)))
            cells = cells.fill_null(0)
        try:
            self._file.write(np.ascontiguousarray(cells.to_numpy(zero_copy_only=False)).data)
        except OSError as problem:
            raise no_room(problem, self._file.tell()) from problem

    def cells(self) -> Any:
        """The column; whole numbers with gaps become others, as pandas makes them, unless that would round them."""
        self._file.flush()
        if not self._file.tell():
            return np.empty(0, self._kind)
        found = np.asarray(np.memmap(self._file, self._kind, "r"))
        if not self._gaps:
            return found
        gaps = np.concatenate(self._gaps)
        if max(-int(found.min()), int(found.max())) > _EXACT:
            gone = np.zeros(len(found), dtype=bool)
            gone[gaps] = True
            return _with_gaps(found, gone)
        filled = empty_on_disk(found.shape, np.float64)
        filled[:] = found
        filled[gaps] = np.nan
        return filled


def _from_parquet(
    _party: str, path: Path, _data: OwnData, columns: Sequence[str] | None, rows: int
) -> Iterator["DataFrame"]:
    source = _parquet(path)
    given = {name: plain_name(name) for name in source.schema.names}
    names = [name for name, plain in given.items() if columns is None or plain in columns]
    for batch in source.to_batches(columns=names, batch_size=rows):
        if batch.num_rows:
            yield batch.to_pandas().rename(columns=given)


def _from_csv(party: str, path: Path, data: OwnData, columns: Sequence[str] | None, rows: int) -> Iterator["DataFrame"]:
    form = _csv_form(party, path, data)
    # Columns are known by their places, as two may have one name; others than those wanted are never built.
    wanted = {str(at): name for at, name in enumerate(form.names) if not name or columns is None or name in columns}
    with _opened(path) as stream:
        for batch in arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(
                block_size=_BLOCK,
                encoding=form.encoding,
                skip_rows=form.skip,
                column_names=[str(at) for at in range(len(form.names))],
                skip_rows_after_names=1,
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
            # All cells as text: types inferred from the first rows would refuse what comes later.
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pyarrow.string()),
                strings_can_be_null=False,
                include_columns=list(wanted),
            ),
        ):
            for start in range(0, batch.num_rows, rows):
                frame = _frame(party, path, batch.slice(start, rows), wanted, data)
                frame.attrs[DELIMITER] = form.delimiter
                yield frame


def _frame(party: str, path: Path, batch: Any, wanted: Mapping[str, str], data: OwnData) -> "DataFrame":
    cells = []
    for place, name in wanted.items():
        column = batch.column(place)
        if not name:
            if pc.any(pc.not_equal(pc.utf8_trim_whitespace(column), "")).as_py():
                raise DataError(
                    f"party {party!r}: column {int(place) + 1} of {path} has cells but no name; name it in the first "
                    "line, or delete it"
                )
        elif name in data.keys:
            cells.append(column)
        else:
            gone = pc.is_in(pc.utf8_trim_whitespace(column), value_set=pyarrow.array(MISSING))
            cells.append(pc.if_else(gone, pyarrow.scalar(None, column.type), column))
    names = [name for name in wanted.values() if name]
    frame: DataFrame = pyarrow.table(cells, names=[str(at) for at in range(len(names))]).to_pandas()
    return frame.set_axis(names, axis=1)


def _csv_form(party: str, path: Path, data: OwnData) -> CsvForm:
    """Detect how a file is written from its beginning, except for what the party says."""
    where = f"party {party!r}: the file {path}"
    _refuse_excel(where, path)
    with _opened(path) as stream:
        head = stream.read(_SAMPLE)
    encoding = data.encoding or _encoding(where, head)
    text = head.decode(encoding, errors="replace").lstrip("\ufeff")
    marked = re.match(r"sep=(.)\r?\n", text)
    said = data.delimiter or (marked.group(1) if marked else None)
    text = text[marked.end() :] if marked else text
    ways = {mark: _rows(text, mark, whole=len(head) < _SAMPLE) for mark in ([said] if said else _DELIMITERS)}
    expected: set[str | None] = {*data.keys, *data.columns, *data.labels}
    delimiter = said or _choose(where, ways, expected)
    if not ways[delimiter]:
        raise DataError(
            f"{where} cannot be read as CSV: it has no column names; export it with names in its first line"
        )
    names = _names(ways[delimiter])
    return CsvForm("utf8" if encoding == "utf-8-sig" else encoding, delimiter, 1 if marked else 0, names)


def _refuse_excel(where: str, path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(_SAMPLE)
    old, new = head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), head.startswith(b"PK\x03\x04")
    if old or (new and (b"xl/" in head or b"[Content_Types].xml" in head or path.suffix in (".xlsx", ".xlsm", ".csv"))):
        raise DataError(
            f"{where} is an Excel file, not text; save it in Excel as 'CSV UTF-8 (comma delimited)' and name that file"
        )


def _encoding(where: str, head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\x00" in head:
        raise DataError(
            f"{where} is not UTF-8 text: it has zero bytes, so it is UTF-16 without a byte order mark, or no text at "
            "all; save it again as CSV with encoding UTF-8"
        )
    return "utf-8-sig"


def _rows(text: str, delimiter: str, *, whole: bool) -> list[list[str]]:
    """The rows of the beginning, except empty lines, and except the last if it may be cut off."""
    limit = csv.field_size_limit(1 << 30)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    finally:
        csv.field_size_limit(limit)
    kept = rows if whole or len(rows) < 2 else rows[:-1]
    return [row for row in kept if row]


def _choose(where: str, ways: dict[str, list[list[str]]], expected: set[str | None]) -> str:
    """The delimiter by which all rows have as many cells as there are names, best with the columns expected."""
    found = {mark: rows for mark, rows in ways.items() if rows and len(rows[0]) > 1}
    single = [mark for mark, rows in ways.items() if all(len(row) == 1 for row in rows)]
    if not found:
        # One column; commas in its cells are decimal ones only if a digit is on both sides of each.
        lines = [row[0] for row in ways[single[0]]] if single else []
        decimal = all(re.fullmatch(r"[^,]*\d,\d[^,]*|[^,]*", line) for line in lines)
        return single[0] if single and decimal else ","
    if single and all(len(rows) > 1 and {len(row) for row in rows[1:]} == {1} for rows in found.values()):
        return single[0]  # One column, whose name has a sign that is in no other line.
    even = {mark: rows for mark, rows in found.items() if _is_even(rows)} or found
    there = {mark: len(expected.intersection(_names(rows))) for mark, rows in even.items()}
    keyed = {mark: rows for mark, rows in even.items() if there[mark] == max(there.values())}
    if "," in keyed and len(keyed) > 1 and not _is_even(keyed[","]):
        return ","  # No way fits; a comma is what the name of the file promises.
    most = max(len(rows[0]) for rows in keyed.values())
    best = [mark for mark, rows in keyed.items() if len(rows[0]) == most]
    if len(best) > 1:
        raise DataError(
            f"{where}: its columns may be separated by {_DELIMITERS[best[0]]} or by {_DELIMITERS[best[1]]}; quote the "
            "cells that have these signs, or say data.delimiter in a party file"
        )
    return best[0]


def _is_even(rows: list[list[str]]) -> bool:
    return {len(row) for row in rows[1:]} <= {len(rows[0])} or _shift(rows) != 0


def _shift(rows: list[list[str]]) -> int:
    """1 if all rows end in a delimiter that the names do not, -1 if the names do and no row, 0 otherwise."""
    names, widths = len(rows[0]), {len(row) for row in rows[1:]}
    if widths == {names + 1} and not any(row[-1].strip() for row in rows[1:]):
        return 1
    return -1 if widths == {names - 1} and not rows[0][-1].strip() and names > 1 else 0


def _names(rows: list[list[str]]) -> tuple[str, ...]:
    names, shift = [plain_name(name) for name in rows[0]], _shift(rows)
    names = [*names, ""] if shift > 0 else names[:-1] if shift < 0 else names
    # A column without a name that has cells, such as the row numbers that pandas writes, is called by its place.
    return tuple(name or (f"column {at + 1}" if _has_cells(rows, at) else "") for at, name in enumerate(names))


def _has_cells(rows: list[list[str]], at: int) -> bool:
    return any(len(row) > at and row[at].strip() for row in rows[1:])


def _checked(party: str, path: Path) -> Path:
    if not path.exists():
        raise DataError(f"party {party!r}: there is no file {path}; {_remedy_for_absent(path)}")
    if path.is_dir() and not _parquet_files(path):
        raise DataError(f"party {party!r}: the folder {path} holds no Parquet files; name a CSV or Parquet file")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(
            f"party {party!r}: the file {path} is empty; it needs a line of column names and at least two rows"
        )
    return path


def _remedy_for_absent(path: Path) -> str:
    if not path.parent.is_dir():
        return f"nor is there a folder {path.parent}: check the path"
    close = difflib.get_close_matches(path.name, [one.name for one in path.parent.iterdir()], n=1)
    return (
        f"do you mean {path.parent / close[0]}?" if close else "check its name and folder (data.source in a party file)"
    )


def _is_parquet(path: Path) -> bool:
    """By the ending of its name or, as for a Parquet file that is called .csv, by its first bytes."""
    return path.is_dir() or path.suffix in _PARQUET or _starts(path, b"PAR1")


def _parquet_files(folder: Path) -> list[str]:
    return sorted(str(part) for part in folder.rglob("*") if part.suffix in _PARQUET)


def _parquet(path: Path) -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(_parquet_files(path) if path.is_dir() else str(path), format="parquet")


def _starts(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A file as plain bytes; decompressed by the ending of its name, and gzip also by its first bytes."""
    if path.suffix == ".xz":  # Arrow does not know it.
        with lzma.open(path) as stream:
            yield stream
        return
    # Not a file of Python's: Arrow reads ahead on a thread of its own, which Python would abort when it ends.
    with pyarrow.input_stream(str(path), compression="gzip" if _starts(path, b"\x1f\x8b") else "detect") as stream:
        yield stream


@contextmanager
def _reading(party: str, path: Path) -> Iterator[None]:
    """Repeat with party and file whatever a reader says about a broken file."""
    where = f"party {party!r}: the file {path}"
    try:
        yield
    except DataError:
        raise
    except (ValueError, OSError, EOFError, lzma.LZMAError) as problem:
        if "UTF8" in str(problem):
            raise DataError(_first_bad_line(where, path)) from problem
        kind = "Parquet" if _is_parquet(path) else "CSV"
        raise DataError(f"{where} cannot be read as {kind}: {str(problem).strip()}; export it again") from problem


def _first_bad_line(where: str, path: Path) -> str:
    with _opened(path) as stream:
        lines = stream.read().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as problem:
            shown = line[max(problem.start - 10, 0) : problem.end + 10].decode("cp1252", errors="replace").strip()
            return (
                f"{where} is not UTF-8 text: line {number} has the byte 0x{line[problem.start]:02x}, perhaps in "
                f"{shown!r}; save it again with encoding UTF-8, or say data.encoding = 'cp1252' in a party file"
            )
    return f"{where} is not UTF-8 text; save it again with encoding UTF-8"


@contextmanager
def _duckdb(party: str, data: OwnData, columns: Sequence[str] | None) -> Iterator[pyarrow.RecordBatchReader]:
    """The rows of a DuckDB file, or of a query over any files that it reads, in batches."""
    try:
        import duckdb
    except ImportError as problem:
        raise MissingExtra("DuckDB", "duckdb") from problem
    path = expand_url(party, data.source).removeprefix(DUCKDB)
    if path and not Path(path).is_file():
        raise DataError(f"party {party!r}: there is no database file {path}; check data.source")
    select = f"({data.query})" if data.query else ".".join(_quoted(part) for part in str(data.table).split("."))
    names = "*" if columns is None else ", ".join(map(_quoted, columns))
    try:
        with duckdb.connect(path or ":memory:", read_only=bool(path)) as connection:
            rows = connection.sql(f"select {names} from {select}")  # noqa: S608 (their own)
            yield pyarrow.RecordBatchReader.from_stream(rows)
    except duckdb.Error as problem:
        raise DataError(
            f"party {party!r}: DuckDB refused {data.source!r}: {str(problem).strip().splitlines()[0]}; correct "
            "data.table or data.query"
        ) from problem


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sql_columns(party: str, data: OwnData) -> list[str]:
    """The names of the columns that the table or query has."""
    if data.source.startswith(DUCKDB):
        with _duckdb(party, data, None) as reader:
            return [plain_name(name) for name in reader.schema.names]
    with _connected(party, data) as connection:
        return list(map(str, connection.execute(_select(party, connection, data, None)).keys()))


def sql_batches(party: str, data: OwnData, columns: Sequence[str] | None, rows: int) -> Iterator["DataFrame"]:
    """The rows, with some columns or all, as frames of at most so many rows, fetched as they are needed."""
    import pandas

    if data.source.startswith(DUCKDB):
        with _duckdb(party, data, columns) as reader:
            yield from (batch.to_pandas() for batch in reader)
        return
    with _connected(party, data) as connection:
        streaming = connection.execution_options(stream_results=True, max_row_buffer=rows)
        select = _select(party, connection, data, columns)
        # Decimals stay as they are: floats would round long ids.
        for frame in pandas.read_sql_query(select, streaming, chunksize=rows, coerce_float=False):
            yield frame if columns is None else frame[list(columns)]


def expand_url(party: str, url: str) -> str:
    """The URL with each ${NAME} taken from the environment, so that no password need be in a file."""

    def value(found: "re.Match[str]") -> str:
        name = found[1]
        if name not in os.environ:
            raise DataError(
                f"party {party!r}: data.source names ${{{name}}}, which the environment does not have; "
                f"set it first: export {name}=..."
            )
        return os.environ[name]

    return re.sub(r"\$\{(\w+)\}", value, url)


@contextmanager
def _connected(party: str, data: OwnData) -> "Iterator[Connection]":
    try:
        import sqlalchemy
    except ImportError as problem:
        raise MissingExtra("SQLAlchemy", "sql") from problem
    url = expand_url(party, data.source)
    shown = re.sub(r"://([^:/@]*):[^@]*@", r"://\1:***@", data.source)
    try:
        parsed = sqlalchemy.make_url(url)
        if parsed.get_backend_name() == "postgresql" and "+" not in parsed.drivername:
            parsed = parsed.set(drivername="postgresql+psycopg")  # The driver that the extra brings.
        file = parsed.database if parsed.get_backend_name() == "sqlite" else None
        if file and file != ":memory:" and not Path(file).is_file():  # Opening it would make an empty one.
            raise DataError(f"party {party!r}: there is no database file {file}; check data.source")
        engine = sqlalchemy.create_engine(parsed)
    except (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.NoSuchModuleError) as problem:
        raise DataError(
            f"party {party!r}: data.source {shown!r} is not the URL of a database ({problem}); "
            "write it as sqlite:///file.db or postgresql://user:${PASSWORD}@host/database"
        ) from problem
    except ModuleNotFoundError as problem:
        raise DataError(
            f"party {party!r}: the driver {problem.name} for {shown!r} is not installed; "
            f"run: pip install {problem.name}"
        ) from problem
    try:
        with engine.connect() as connection:
            yield connection
    except sqlalchemy.exc.OperationalError as problem:
        raise DataError(
            f"party {party!r}: cannot read from {shown!r}: {_first_line(problem)}; check host, name, user and password"
        ) from problem
    except sqlalchemy.exc.DBAPIError as problem:
        raise DataError(
            f"party {party!r}: {shown!r} refused the query: {_first_line(problem)}; correct data.query"
        ) from problem
    finally:
        engine.dispose()


def _select(party: str, connection: "Connection", data: OwnData, columns: Sequence[str] | None) -> Any:
    import sqlalchemy

    if data.query is not None:
        return sqlalchemy.text(data.query)
    schema, _, name = (data.table or "").rpartition(".")
    inspector = sqlalchemy.inspect(connection)
    known = [*inspector.get_table_names(schema=schema or None), *inspector.get_view_names(schema=schema or None)]
    if name not in known:
        raise DataError(
            f"party {party!r}: the database has no table {data.table!r}; it has {', '.join(sorted(known)) or 'none'}; "
            "correct data.table"
        )
    table = sqlalchemy.Table(name, sqlalchemy.MetaData(), schema=schema or None, autoload_with=connection)
    wanted = table.columns.values() if columns is None else [table.columns[one] for one in columns]
    return sqlalchemy.select(*wanted)


def _first_line(problem: Exception) -> str:
    return str(getattr(problem, "orig", problem)).strip().splitlines()[0]

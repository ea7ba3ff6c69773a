"""Rows from a database, by any SQLAlchemy URL with a table or a query, a batch at a time."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laconic.data.schema import OwnData
from laconic.errors import DataError, MissingExtra

if TYPE_CHECKING:
    from pandas import DataFrame
    from sqlalchemy import Connection


def sql_columns(party: str, data: OwnData) -> list[str]:
    """The names of the columns that the table or query has."""
    with _connected(party, data) as connection:
        return list(map(str, connection.execute(_select(party, connection, data, None)).keys()))


def sql_batches(party: str, data: OwnData, columns: Sequence[str] | None, rows: int) -> Iterator["DataFrame"]:
    """The rows, with some columns or all, as frames of at most so many rows, fetched as they are needed."""
    import pandas

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

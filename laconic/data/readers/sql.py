"""Rows from a database, by any SQLAlchemy URL with a table or a query, a batch at a time."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from laconic.data.schema import OwnData
from laconic.errors import DataError, MissingExtra

if TYPE_CHECKING:
    from pandas import DataFrame
    from sqlalchemy import Connection


def sql_columns(party: str, data: OwnData) -> list[str]:
    """The names of the columns that the table or query has."""
    with _connected(party, data) as connection:
        return list(connection.execute(_select(party, connection, data, None)).keys())


def sql_batches(party: str, data: OwnData, columns: Sequence[str] | None, rows: int) -> Iterator["DataFrame"]:
    """The rows as frames of at most so many rows, fetched as they are needed; an empty result gives one empty frame.

    Args:
        party: for errors.
        data: names the database, and the table or query.
        columns: which columns to fetch; None for all.
        rows: the most in one frame.
    """
    import pandas

    with _connected(party, data) as connection:
        streaming = connection.execution_options(stream_results=True, max_row_buffer=rows)
        cursor = streaming.execute(_select(party, connection, data, columns))
        names = list(cursor.keys())
        first = True
        while (block := cursor.fetchmany(rows)) or first:
            first = False
            frame = pandas.DataFrame([tuple(row) for row in block], columns=pandas.Index(names))
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
        _refuse_absent_sqlite(party, parsed)
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


def _refuse_absent_sqlite(party: str, url: Any) -> None:
    """Opening an SQLite file that is not there would make an empty one."""
    from pathlib import Path

    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        path = Path(url.database)
        if not path.is_file():
            raise DataError(f"party {party!r}: there is no database file {path}; check data.source")


def _first_line(problem: Exception) -> str:
    return str(getattr(problem, "orig", problem)).strip().splitlines()[0]

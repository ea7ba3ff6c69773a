"""Rows from a real PostgreSQL server, started here from Debian's packages."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from laconic.data.readers.source_table import read_own
from laconic.data.schema import OwnData
from laconic.errors import DataError
from tests.needs import POSTGRES, postgres

pytestmark = postgres
ROWS = pd.DataFrame(
    {
        "branch": ["north", "north", "south"] * 40,
        "customer": range(120),
        "income": [1.5, None, 3.0] * 40,
        "joined": pd.to_datetime(["2013-01-31", "2014-02-01", None] * 40),
        "active": [True, False, None] * 40,
        "churned": ["yes", "no", "yes"] * 40,
    }
)


def as_postgres(*words):
    """PostgreSQL refuses to run as root."""
    start = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*start, *map(str, words)], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def server():
    """The URL of a server with the table `bank.people`, its password left to the environment."""
    import sqlalchemy

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="laconic-pg-"))
    (folder / "password").write_text("swordfish")
    if os.geteuid() == 0:
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres")
    data, tools = folder / "data", POSTGRES[0]
    settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    try:
        secret = ("--auth=scram-sha-256", f"--pwfile={folder / 'password'}")
        as_postgres(tools / "initdb", "-D", data, "-U", "laconic", "-E", "UTF8", *secret)
        as_postgres(tools / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", settings, "start")
        url = f"postgresql://laconic:swordfish@127.0.0.1:{port}/postgres"
        engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("create schema bank"))
            ROWS.to_sql("people", connection, schema="bank", index=False)
        engine.dispose()
        yield url.replace("swordfish", "${LACONIC_TEST_PG}")
    finally:
        if (data / "postmaster.pid").exists():
            as_postgres(tools / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("LACONIC_TEST_PG", "swordfish")


def described(url, **settings):
    return OwnData(**{"source": url, "key": ("branch", "customer"), "label": "churned"} | settings)


@pytest.mark.parametrize(
    "how", [{"table": "bank.people"}, {"query": "select * from bank.people where income is null or true"}]
)
def test_rows_come_from_a_table_or_a_query(server, how):
    own = read_own("bank", described(server, **how))
    assert own.rows == 120
    assert own.table.keys[:2].tolist() == ["north|0", "north|1"]
    assert [(column.name, column.kind) for column in own.table.columns] == [
        ("income", "numeric"),
        ("joined", "numeric"),
        ("active", "categorical"),
    ]
    assert own.table.raw[0].tolist() == [1.5, 15736, 1]
    assert own.table.task.classes == ("no", "yes")


def test_a_wrong_password_is_refused_and_not_shown(server, monkeypatch):
    monkeypatch.setenv("LACONIC_TEST_PG", "marlin")
    with pytest.raises(DataError, match="password authentication failed") as caught:
        read_own("bank", described(server, table="bank.people"))
    assert "marlin" not in str(caught.value)
    assert "party 'bank'" in str(caught.value)


def test_a_table_that_is_not_there_is_named_with_those_that_are(server):
    with pytest.raises(DataError, match=r"no table 'bank\.persons'; it has people; correct data\.table"):
        read_own("bank", described(server, table="bank.persons"))


def test_a_query_that_the_server_refuses_is_said(server):
    with pytest.raises(DataError, match=r"refused the query: .*nowhere.*correct data\.query"):
        read_own("bank", described(server, query="select * from nowhere"))

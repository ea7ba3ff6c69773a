"""Tables larger than a party wants to hold: columns on disk, lazy sources, and what is said when there is no room."""

import os
import resource
import subprocess
import sys
from threading import Event, Thread

import numpy as np
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
from pyarrow import parquet

from laconic import FedOnce, federation, fit
from laconic.data import OwnData, read_own
from laconic.errors import DataError
from laconic.learn import Boosted
from laconic.tables.columns import Column
from laconic.tables.on_disk import bytes_of, empty_on_disk, is_on_disk, refuse_too_little
from laconic.tables.table import Table, digest, rank_error

ROWS = 70_000  # more than are prepared at a time


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two parties; whole numbers with gaps, words and dates beside numbers."""
    where, rng = tmp_path_factory.mktemp("parties"), np.random.default_rng(0)
    x = rng.normal(size=(3, ROWS))
    gaps = pa.array(rng.integers(0, 9, ROWS), mask=rng.random(ROWS) < 0.1)
    town, joined = rng.choice(["Ulm", "Bonn"], ROWS), rng.integers(0, 9000, ROWS).astype("datetime64[D]")
    bank = {"id": np.arange(ROWS), "income": x[0], "children": gaps, "town": town, "joined": joined}
    parquet.write_table(pa.table(bank | {"label": (x[1] > 0).astype(int)}), where / "bank.parquet")
    order = rng.permutation(ROWS)
    shop = {"id": order, "visits": x[1][order], "spent": x[2][order].astype(np.float32)}
    parquet.write_table(pa.table(shop), where / "shop.parquet", row_group_size=9_000)
    return where


def as_dataset(path):
    return pyarrow.dataset.dataset(path)


@pytest.mark.parametrize("source", [str, as_dataset, polars.scan_parquet])
def test_a_table_on_disk_holds_what_one_in_memory_holds(folder, source):
    paths = {name: folder / f"{name}.parquet" for name in ("bank", "shop")}
    usual = federation(paths, id="id", label="label").tables
    found = federation(
        {name: source(path) for name, path in paths.items()}, id="id", label="label", memory="2 GB"
    ).tables
    for name in paths:
        assert is_on_disk(found[name].raw)
        assert not is_on_disk(usual[name].raw)
        assert digest(found[name]) == digest(usual[name])
        assert np.array_equal(found[name].raw, usual[name].raw, equal_nan=True)


def test_a_duckdb_file_and_query_are_read_in_batches(folder, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="needs DuckDB: pip install 'laconic-fl[duckdb]'")
    path = folder / "bank.parquet"
    with duckdb.connect(str(tmp_path / "bank.duckdb")) as connection:
        connection.execute(f"create table people as select * from '{path}'")  # noqa: S608 (our file)
    usual = read_own("bank", OwnData(source=str(path), key="id", label="label")).table
    said = {"key": "id", "label": "label", "memory": "2 GB"}
    file = OwnData(source=f"duckdb:///{tmp_path / 'bank.duckdb'}", table="people", **said)
    query = OwnData(source="duckdb:///", query=f"select * from '{path}'", **said)  # noqa: S608 (our file)
    for data in (file, query):
        found = read_own("bank", data).table
        assert is_on_disk(found.raw)
        assert np.array_equal(found.raw, usual.raw, equal_nan=True)
    with pytest.raises(DataError, match="party 'bank': DuckDB refused"):
        read_own("bank", OwnData(source="duckdb:///", query="select * from nothing", **said))
    with pytest.raises(DataError, match="party 'bank': there is no database file"):
        read_own("bank", OwnData(source="duckdb:///gone.duckdb", table="people", **said))


def test_a_run_on_disk_gives_the_same_score(folder):
    paths = {name: folder / f"{name}.parquet" for name in ("bank", "shop")}
    method = FedOnce(head=Boosted(trees=5))
    one, other = (fit(method, federation(paths, id="id", label="label", memory=memory)) for memory in (None, "2 GB"))
    assert one.result.metrics == other.result.metrics


def test_rows_put_through_a_function_by_parts_are_those_put_through_at_once(folder):
    tables = federation(
        {"bank": folder / "bank.parquet", "shop": folder / "shop.parquet"}, id="id", label="label"
    ).tables
    for one in tables.values():
        order = np.random.default_rng(0).permutation(ROWS)
        by_parts = one.with_cut("train", order).mapped("train", lambda x: x * 2)
        assert np.array_equal(by_parts, one.with_cut("train", order).part("train")[0] * 2)


def test_the_ranks_of_a_sample_are_as_near_as_is_said(folder):
    rng = np.random.default_rng(1)
    table = Table(rng.random((60_000, 1)), [Column("a")], party="bank").with_cut("train", np.arange(60_000))
    some = table.sample("train", 2_000, rng)
    assert len(some) == 2_000
    ordered = np.sort(table.part("train")[0][:, 0])
    ranks = np.searchsorted(ordered, np.sort(some[:, 0])) / len(ordered)
    assert np.abs(ranks - np.arange(2_000) / 2_000).max() < rank_error(2_000) == pytest.approx(0.0602, abs=1e-4)


@pytest.mark.parametrize("memory", [None, "1 GB"])
def test_long_ids_stay_apart_where_a_row_has_none(tmp_path, memory):
    ids = pa.array([2**53 + 1, 2**53, None, 5], pa.int64())
    parquet.write_table(pa.table({"id": ids, "a": [1.0, 2.0, 3.0, 4.0]}), tmp_path / "bank.parquet")
    own = read_own("bank", OwnData(source=str(tmp_path / "bank.parquet"), key="id", memory=memory))
    assert own.table.keys.tolist() == [str(2**53 + 1), str(2**53), "5"]
    assert own.left_out == {"no id": 1}


@pytest.mark.parametrize("text", ["4", "4 GiB", "lots", "0.5 GB", "-4 GB"])
def test_a_memory_that_means_nothing_is_refused(text):
    with pytest.raises(ValueError, match="memory must be"):
        OwnData(source="bank.parquet", key="id", memory=text)


def test_memory_too_small_for_the_rows_says_how_much_is_needed():
    assert bytes_of("1.5 GB") == 1_500_000_000
    with pytest.raises(
        DataError, match=r"party 'bank': memory = '1 GB' is too little .* say memory = '2.1 GB' or more"
    ):
        refuse_too_little("1 GB", 10_000_000, "bank")


def test_memory_for_text_that_has_to_be_read_whole_is_refused(tmp_path):
    (tmp_path / "bank.csv").write_text("id,a\n1,2\n")
    with pytest.raises(DataError, match=r"party 'bank': data.memory holds for .* write the rows to a Parquet file"):
        read_own("bank", OwnData(source=str(tmp_path / "bank.csv"), key="id", memory="2 GB"))


def test_a_full_disk_is_an_error_that_says_where_room_is_wanted(folder):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        with pytest.raises(DataError, match=r"cells cannot be put on disk: .* TMPDIR"):
            empty_on_disk((100_000, 2), np.float64)
        with pytest.raises(DataError, match=r"cells cannot be put on disk: .* TMPDIR"):
            read_own("bank", OwnData(source=str(folder / "bank.parquet"), key="id", memory="2 GB"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_source_that_breaks_off_names_party_and_batch():
    schema = pa.schema([("id", pa.int64()), ("a", pa.float64())])

    def rows():
        yield pa.record_batch([[1, 2], [0.5, 1.5]], schema=schema)
        raise OSError("worker died")

    for memory in (None, "2 GB"):
        reader = pa.RecordBatchReader.from_batches(schema, rows())
        with pytest.raises(DataError, match=r"party 'bank': .*batch 2, after 2 rows: .*worker died"):
            federation(
                {"bank": reader, "shop": pa.table({"id": [1, 2], "label": [0, 1]})},
                id="id",
                label="label",
                memory=memory,
            )


def test_a_file_that_changes_while_it_is_read_is_refused(folder, tmp_path):
    path = tmp_path / "bank.parquet"
    path.write_bytes((folder / "bank.parquet").read_bytes())
    done = Event()

    def touch():
        while not done.wait(0.0005):
            os.utime(path)

    writer = Thread(target=touch)
    writer.start()
    try:
        with pytest.raises(DataError, match=r"party 'bank': .*bank.parquet changed while it was read"):
            read_own("bank", OwnData(source=str(path), key="id"))
    finally:
        done.set()
        writer.join()


_UNDER_A_LIMIT = """
import re, resource, sys
from pathlib import Path
from laconic.data.readers.source_table import read_own
from laconic.data.schema import OwnData
read_own("warm", OwnData(source=sys.argv[2], key="id"))
now = int(re.search(r"VmData:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (now + 150_000_000,) * 2)
read_own("bank", OwnData(source=sys.argv[1], key="id", memory=sys.argv[3] if len(sys.argv) > 3 else None)).table.recipe
print("read")
"""


@pytest.mark.slow
def test_the_operating_systems_limit_is_kept(folder, tmp_path):
    """A table of 240 MB within 150 MB more than the libraries take; in memory it does not fit."""
    columns = np.random.default_rng(0).normal(size=(60, 500_000))
    wide = tmp_path / "wide.parquet"
    parquet.write_table(pa.table({"id": np.arange(500_000)} | {f"c{n}": one for n, one in enumerate(columns)}), wide)
    command = [sys.executable, "-c", _UNDER_A_LIMIT, str(wide), str(folder / "shop.parquet")]
    held = subprocess.run([*command, "1 GB"], capture_output=True, text=True, check=False)
    assert held.stdout == "read\n", held.stderr[-1000:]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0

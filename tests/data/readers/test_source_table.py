"""A party's table from its own source: CSV, Parquet, a folder, a database; ids, kinds, duplicates, batches."""

import bz2
import gzip
import lzma
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from laconic.data.readers import batches
from laconic.data.readers.source_table import own_batches, own_columns, read_own
from laconic.data.schema import IdRules, OwnData
from laconic.errors import DataError

ROWS = pd.DataFrame(
    {
        "customer": ["007", "08", "9", "10"],
        "income": [10.5, 20.0, None, 40.0],
        "town": ["Ulm", None, "Bonn", "Ulm"],
        "joined": ["2013-01-31", "2014-02-01", "", "2015-03-01"],
        "churned": ["yes", "no", "yes", "no"],
    }
)


def csv(folder, frame=ROWS, name="bank.csv"):
    path = folder / name
    frame.to_csv(path, index=False)
    return str(path)


def described(source, **settings):
    return OwnData(**{"source": source, "key": "customer", "label": "churned"} | settings)


def check_rows(own):
    table = own.table
    assert table.keys.tolist() == ["007", "08", "9", "10"]
    assert [(column.name, column.kind) for column in table.columns] == [
        ("income", "numeric"),
        ("town", "categorical"),
        ("joined", "numeric"),
    ]
    assert table.columns[1].levels == ("Bonn", "Ulm")
    np.testing.assert_array_equal(table.raw[:, 0], [10.5, 20, np.nan, 40])
    np.testing.assert_array_equal(table.raw[:, 1], [1, np.nan, 0, 1])
    np.testing.assert_array_equal(table.raw[:, 2], [15736, 16102, np.nan, 16495])
    assert table.task.classes == ("no", "yes")
    assert table.y.tolist() == [1, 0, 1, 0]
    assert own.rows == 4


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_csv_file_gives_the_same_table_in_batches_of_any_size(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(batches.read_batches, "__defaults__", (None, batch))
    check_rows(read_own("bank", described(csv(tmp_path), columns=KINDS)))


KINDS = {"income": "numeric", "town": "categorical", "joined": "date"}


PACKED = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda blob: pa.compress(blob, "zstd", asbytes=True),
}


@pytest.mark.parametrize("ending", PACKED)
def test_compressed_csv_is_read(tmp_path, ending):
    (tmp_path / f"bank.csv{ending}").write_bytes(PACKED[ending](ROWS.to_csv(index=False).encode()))
    check_rows(read_own("bank", described(str(tmp_path / f"bank.csv{ending}"))))


def test_a_parquet_file_and_a_folder_of_them_are_read(tmp_path):
    ROWS.to_parquet(tmp_path / "bank.parquet")
    check_rows(read_own("bank", described(str(tmp_path / "bank.parquet"))))
    (tmp_path / "parts").mkdir()
    ROWS[:3].to_parquet(tmp_path / "parts" / "0.parquet")
    ROWS[3:].to_parquet(tmp_path / "parts" / "1.parquet")
    check_rows(read_own("bank", described(str(tmp_path / "parts"))))


def sqlite(folder):
    with sqlite3.connect(folder / "bank.db") as connection:
        ROWS.to_sql("people", connection, index=False)
    return f"sqlite:///{folder}/bank.db"


def test_a_table_and_a_query_of_sqlite_are_read(tmp_path):
    url = sqlite(tmp_path)
    check_rows(read_own("bank", described(url, table="people")))
    own = read_own("bank", described(url, query="select * from people where customer <> '9' and income > 1"))
    assert own.table.keys.tolist() == ["007", "08", "10"]


def test_only_columns_that_are_named_are_used(tmp_path):
    own = read_own("bank", described(csv(tmp_path), columns={"income": "numeric"}))
    assert [column.name for column in own.table.columns] == ["income"]


def test_kinds_are_told_from_the_cells(tmp_path):
    assert own_columns("bank", described(csv(tmp_path))) == KINDS


def test_a_key_of_several_columns_is_one_id(tmp_path):
    frame = pd.DataFrame({"a": ["x|y", "x", ""], "b": ["z", "y|z", "q"], "n": [1, 2, 3]})
    own = read_own("bank", OwnData(source=csv(tmp_path, frame), key=("a", "b"), on_empty="drop"))
    assert own.table.keys.tolist() == ["x\\|y|z", "x|y\\|z"]
    assert own.left_out == {"no id": 1}


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (IdRules(), ["A 1", "a1", "007", "7 0"]),
        (IdRules(case="lower", spaces="drop"), ["a1", "a1", "007", "70"]),
        (IdRules(zeros="drop"), ["A 1", "a1", "7", "7 0"]),
    ],
)
def test_ids_are_written_as_the_rules_say(tmp_path, rules, found):
    frame = pd.DataFrame({"id": [" A 1 ", "a1", "007", "7 0"], "n": [1, 2, 3, 4]})
    own = read_own("bank", OwnData(source=csv(tmp_path, frame), key="id", ids=rules, on_duplicate="first"))
    assert own.table.keys.tolist() == list(dict.fromkeys(found))


@pytest.mark.parametrize(
    ("cells", "rule"),
    [
        (["2013-01-31", "2013-02-01T14:00", "2013-02-01 15:30"], "iso"),
        (["31.01.2013", "01/02/2013 14:00", "1.2.2013 15:30"], "day_first"),
        (["01/31/2013", "02/01/2013 14:00", "2/1/2013 15:30"], "month_first"),
        (["2013-01-31T00:00Z", "2013-02-01T09:00-05:00", "2013-02-01T15:30Z"], "iso"),
    ],
)
def test_dates_in_keys_are_written_alike_however_they_came(tmp_path, cells, rule):
    frame = pd.DataFrame({"day": cells, "n": [1, 2, 3]})
    own = read_own("bank", OwnData(source=csv(tmp_path, frame), key="day", ids=IdRules(dates={"day": rule})))
    assert own.table.keys.tolist() == ["2013-01-31", "2013-02-01T14:00", "2013-02-01T15:30"]
    moments = pd.DataFrame({"day": pd.to_datetime(own.table.keys, format="ISO8601"), "n": [1, 2, 3]})
    moments.to_parquet(tmp_path / "days.parquet")
    again = read_own("shop", OwnData(source=str(tmp_path / "days.parquet"), key="day"))
    assert again.table.keys.tolist() == own.table.keys.tolist()


def test_whole_numbers_are_ids_without_a_point(tmp_path):
    pd.DataFrame({"id": [1.0, 2.0, None], "n": [1, 2, 3]}).to_parquet(tmp_path / "a.parquet")
    own = read_own("bank", OwnData(source=str(tmp_path / "a.parquet"), key="id", on_empty="drop"))
    assert own.table.keys.tolist() == ["1", "2"]


TWICE = pd.DataFrame(
    {
        "customer": ["b", "a", "b", "b", "c"],
        "income": [1, 10, 2, None, 5],
        "town": ["Ulm", "Bonn", "Ulm", "Bonn", None],
        "churned": [1, 0, 1, 1, 0],
    }
)


def test_the_first_of_several_rows_is_kept_if_so_set(tmp_path):
    own = read_own("bank", described(csv(tmp_path, TWICE), on_duplicate="first"))
    assert own.table.keys.tolist() == ["b", "a", "c"]
    assert own.table.raw[:, 0].tolist() == [1, 10, 5]
    assert own.left_out == {"same id as an earlier row": 2}


def test_several_rows_are_made_one_if_so_set(tmp_path):
    own = read_own("bank", described(csv(tmp_path, TWICE), on_duplicate="aggregate"))
    assert own.table.keys.tolist() == ["b", "a", "c"]
    assert own.table.raw[:, 0].tolist() == [1.5, 10, 5]
    np.testing.assert_array_equal(own.table.raw[:, 1], [1, 0, np.nan])
    assert own.table.y.tolist() == [1, 0, 0]


def test_labels_that_disagree_are_not_made_one(tmp_path):
    frame = TWICE.assign(churned=[1, 0, 0, 1, 0])
    with pytest.raises(DataError, match="rows of the id 'b' have different labels"):
        read_own("bank", described(csv(tmp_path, frame), on_duplicate="aggregate"))


def test_new_rows_are_coded_by_the_levels_of_the_model(tmp_path):
    recipe = read_own("bank", described(csv(tmp_path))).table.recipe
    new = ROWS.drop(columns="churned").assign(town=["Ulm", "Mars", "Bonn", ""])
    own = read_own("bank", described(csv(tmp_path, new)), recipe=recipe)
    np.testing.assert_array_equal(own.table.raw[:, 1], [1, 2, 0, np.nan])
    assert own.table.x.shape == (4, len(recipe.parts))
    assert own.table.y is None


def test_a_password_comes_from_the_environment_and_is_not_shown(tmp_path, monkeypatch):
    source = "postgresql://me:${LACONIC_TEST_PASSWORD}@127.0.0.1:1/none"
    with pytest.raises(DataError, match="export LACONIC_TEST_PASSWORD"):
        read_own("bank", described(source, table="x"))
    monkeypatch.setenv("LACONIC_TEST_PASSWORD", "swordfish")
    with pytest.raises(DataError, match="party 'bank': cannot read from") as caught:
        read_own("bank", described(source, table="x"))
    assert "swordfish" not in str(caught.value)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_new_rows_in_batches_are_prepared_as_all_at_once(tmp_path, monkeypatch, batch):
    data = described(csv(tmp_path))
    recipe = read_own("bank", data).table.recipe
    whole = read_own("bank", data, recipe=recipe).table
    monkeypatch.setattr(batches.read_batches, "__defaults__", (None, batch))
    parts = list(own_batches("bank", data, recipe))
    assert max(part.rows for part in parts) <= batch
    assert [key for part in parts for key in part.keys.tolist()] == whole.keys.tolist()
    np.testing.assert_array_equal(np.concatenate([part.x for part in parts]), whole.x)


def test_an_id_in_two_batches_is_refused_or_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(batches.read_batches, "__defaults__", (None, 2))
    recipe = read_own("bank", described(csv(tmp_path, TWICE), on_duplicate="first")).table.recipe
    with pytest.raises(DataError, match=r"the id b occurs more than once in .*bank\.csv; keep one row"):
        list(own_batches("bank", described(csv(tmp_path, TWICE[:3])), recipe))
    with pytest.raises(DataError, match="cannot be made one"):
        list(own_batches("bank", described(csv(tmp_path, TWICE), on_duplicate="aggregate"), recipe))
    parts = own_batches("bank", described(csv(tmp_path, TWICE), on_duplicate="first"), recipe)
    assert [part.keys.tolist() for part in parts] == [["b", "a"], ["c"]]


def test_two_ways_to_write_a_letter_are_one(tmp_path):
    frame = pd.DataFrame({"id": ["Mu\u0308ller", "Meier"], "n": [1, 2]})
    own = read_own("bank", OwnData(source=csv(tmp_path, frame), key="id"))
    assert own.table.keys.tolist() == ["M\u00fcller", "Meier"]


def test_a_frame_at_hand_is_read_by_the_same_rules():
    own = read_own("bank", described("a frame"), frame=ROWS)
    check_rows(own)
    joined = TWICE.assign(branch=["x", "y", "x", "z", "x"])
    data = described("a frame", key=("branch", "customer"), on_duplicate="aggregate", ids=IdRules(case="lower"))
    assert read_own("bank", data, frame=joined).table.keys.tolist() == ["x|b", "y|a", "z|b", "x|c"]
    with pytest.raises(DataError, match="no key column 'customer' in a frame"):
        read_own("bank", described("a frame"), frame=ROWS.drop(columns="customer"))

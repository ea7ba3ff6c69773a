"""A federation from files: CSV, compressed CSV and Parquet."""

import gzip

import numpy as np
import pandas as pd
import pytest

from laconic.data.readers.federate import from_files, read_file
from laconic.errors import DataError

BANK = "person,income,paid\n007,10,1\n08,20,0\n9,30,1\n"
SHOP = "person,town\n9,Ulm\n007,Bonn\n08,\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bank.csv").write_text(BANK)
    (tmp_path / "shop.csv").write_text(SHOP)
    return tmp_path


def read(folder, *names):
    return from_files([folder / name for name in names], id="person", label="paid")


def test_parties_are_called_what_their_files_are_called(folder):
    made = read(folder, "bank.csv", "shop.csv")
    assert made.names == ("bank", "shop")
    assert made.hub == "bank"
    assert made.facts["files"] == {"bank": "bank.csv", "shop": "shop.csv"}


def test_ids_from_csv_keep_leading_zeros(folder):
    assert read(folder, "bank.csv", "shop.csv").tables["bank"].keys.tolist() == ["007", "08", "9"]


def test_ids_from_csv_are_never_taken_for_missing_because_of_their_letters(folder):
    (folder / "shop.csv").write_text("person,town\nNA,Ulm\nnull,Bonn\n")
    assert read(folder, "bank.csv", "shop.csv").tables["shop"].keys.tolist() == ["NA", "null"]


def test_compressed_csv_and_parquet_are_read_alike(folder):
    with gzip.open(folder / "bank.csv.gz", "wt") as file:
        file.write(BANK)
    pd.read_csv(folder / "shop.csv", dtype={"person": str}).to_parquet(folder / "shop.parquet")
    made, plain = read(folder, "bank.csv.gz", "shop.parquet"), read(folder, "bank.csv", "shop.csv")
    for party in plain.names:
        assert made.tables[party].keys.tolist() == plain.tables[party].keys.tolist()
        assert (made.tables[party].x == plain.tables[party].x).all()


def test_parties_can_be_named(folder):
    made = from_files({"a": folder / "bank.csv", "b": str(folder / "shop.csv")}, id="person", label="paid")
    assert made.names == ("a", "b")


def test_two_files_of_one_name_are_refused(folder):
    with pytest.raises(DataError, match="would both be party 'bank'"):
        read(folder, "bank.csv", "bank.parquet")


def test_a_missing_file_is_named(folder):
    with pytest.raises(DataError, match=r"no file .*nobody\.csv"):
        read(folder, "bank.csv", "nobody.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is empty"), ("\n\n", "cannot be read as CSV"), ("person,town\n", "'shop' has no rows")],
)
def test_an_empty_file_is_named(folder, text, words):
    (folder / "shop.csv").write_text(text)
    with pytest.raises(DataError, match=words) as caught:
        read(folder, "bank.csv", "shop.csv")
    assert "shop.csv" in str(caught.value)


def test_a_file_that_is_not_parquet_is_named(folder):
    (folder / "shop.parquet").write_text("hello")
    with pytest.raises(DataError, match=r"shop\.parquet cannot be read as Parquet"):
        read(folder, "bank.csv", "shop.parquet")


def test_a_bad_cell_names_file_party_column_and_row(folder):
    (folder / "shop.csv").write_text("person,visits\n9,1\n007,2\n08,x\n")
    with pytest.raises(DataError, match=r"'shop', column 'visits': found 'x' in row 3.*shop is .*shop\.csv"):
        from_files([folder / "bank.csv", folder / "shop.csv"], id="person", label="paid", kinds={"visits": "numeric"})


def test_a_row_without_an_id_is_left_out_with_a_note(folder):
    (folder / "shop.csv").write_text("person,visits\n9,1\n,2\n08,3\n")
    made = read(folder, "bank.csv", "shop.csv")
    assert made.tables["shop"].keys.tolist() == ["9", "08"]
    assert made.facts["notes"] == ["shop, id 'person': 1 of 3 rows have no id, the first is row 2, and are left out"]


def test_classes_written_with_and_without_a_point_are_the_same(folder):
    (folder / "bank.csv").write_text("person,income,paid\n007,10,1.0\n08,20,0\n9,30,1\n")
    assert read(folder, "bank.csv", "shop.csv").task.classes == ("0", "1")


def test_two_columns_of_one_name_are_refused_as_the_doctor_does(folder):
    (folder / "shop.csv").write_text("person,spent, spent\n1,2,3\n2,3,4\n")
    with pytest.raises(DataError, match=r"two columns of .*shop\.csv are called 'spent'; rename one"):
        read_file("shop", folder / "shop.csv", "person")


def test_dates_in_text_are_days_and_one_that_is_not_there_is_missing(tmp_path):
    bank, shop = tmp_path / "bank.csv", tmp_path / "shop.csv"
    bank.write_text("id,y\na,0\nb,1\n")
    shop.write_text("id,since\na,1970-01-02\nb,1970-01-31\n")
    federation = from_files([bank, shop], id="id", label="y")
    assert federation.tables["shop"].columns[0].kind == "numeric"
    assert federation.tables["shop"].raw.ravel().tolist() == [1, 30]
    shop.write_text("id,since\na,2020-02-28\nb,2020-02-30\n")
    found = from_files([bank, shop], id="id", label="y")
    assert np.array_equal(found.tables["shop"].raw.ravel(), [18320, np.nan], equal_nan=True)
    assert found.facts["notes"] == [
        "shop, column 'since': 1 of 2 cells are no dates, such as '2020-02-30' in row 2, and count as missing"
    ]

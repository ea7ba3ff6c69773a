"""Broken input: each kind gives an error that names party, file, column and remedy."""

import gzip
import sqlite3

import pandas as pd
import pytest

from laconic import from_party_files
from laconic.data.readers.source_table import read_own
from laconic.deploy import read_party
from laconic.errors import DataError, PlanError

SOUND = "customer,income,joined,churned\na,1,2013-01-31,yes\nb,2,2014-01-31,no\nc,3,,yes\n"
FILE = "customers.csv"
PACKED = gzip.compress(SOUND.encode())


def broken(folder, content=SOUND, file=FILE, settings="", after=""):
    """Write a source and a party file, and read them."""
    if content is not None:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    path = folder / "bank.toml"
    text = f'name = "bank"\n[data]\nsource = "{file}"\nkey = "customer"\nlabel = "churned"\n{settings}\n{after}'
    path.write_text(text)
    party = read_party(path)
    return read_own(party.name, party.own_data)


def test_the_sound_file_is_read(tmp_path):
    assert broken(tmp_path).table.rows == 3


def swapped(before, after):
    return {"content": SOUND.replace(before, after)}


TYPED = '[data.columns]\nincome = "numeric"\njoined = "date"\n'
KINDS = {
    "no file": ({"content": None}, "there is no file", "data.source in a party file"),
    "empty file": ({"content": b""}, "is empty", "needs a line of column names"),
    "only names": ({"content": SOUND.splitlines()[0] + "\n"}, "no rows", "give it rows"),
    "not Parquet": ({"content": b"hello", "file": "customers.parquet"}, "read as Parquet", "export it again"),
    "cut off": (
        {"content": gzip.compress(SOUND.encode())[:40], "file": "customers.csv.gz"},
        "as CSV",
        "export it again",
    ),
    "not UTF-8": ({"content": SOUND.replace("yes", "ja\xf6").encode("latin-1")}, "not UTF-8", "encoding UTF-8"),
    "long row": (swapped("a,1", "a,1,9"), "Expected 4 columns, got 5", "export it again"),
    "short row": (swapped("b,2,2014-01-31,no", "b,2"), "Expected 4 columns, got 2", "export it again"),
    "no key column": (swapped("customer", "client"), "no key column 'customer'", "rename the column"),
    "no label column": (swapped("churned", "left"), "no label column 'churned'", "rename the column"),
    "no such column": ({"after": '[data.columns]\nage = "numeric"\n'}, "column 'age'", "correct the party file"),
    "same name twice": (swapped("joined", "income"), "two columns of", "rename one"),
    "id missing": (
        swapped("b,2", ",2") | {"settings": 'on_empty = "error"'},
        "id 'customer': 1 of 3 rows have no id, the first is row 2",
        "data.on_empty",
    ),
    "id twice": (
        swapped("b,2", "a,2") | {"settings": 'on_duplicate = "error"'},
        "id 'customer': 1 ids occur more than once, such as a",
        "data.on_duplicate",
    ),
    "text among numbers": (
        swapped("b,2", "b,two") | {"after": TYPED},
        "column 'income': found 'two' in row 2",
        "correct the cell",
    ),
    "infinite": (swapped("b,2", "b,inf") | {"after": TYPED}, "column 'income': found inf in row 2", "replace infinity"),
    "no date": (swapped("2014-01-31", "soon") | {"after": TYPED}, "'joined': found 'soon' in row 2", "write dates as"),
    "label missing": (swapped("2014-01-31,no", "2014-01-31,"), "'churned': 1 of 3 labels are missing", "fill them in"),
    "label never varies": (swapped(",no", ",yes"), "'churned': found only class 'yes'", "choose another label"),
    "prepares a stranger": ({"settings": 'prepare.age = "woe"'}, "column 'age', which is not used", "name one of"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_broken_input_is_refused_with_party_file_column_and_remedy(tmp_path, kind):
    settings, found, remedy = KINDS[kind]
    with pytest.raises(DataError) as caught:
        broken(tmp_path, **settings)
    words = str(caught.value)
    assert "party 'bank'" in words
    assert settings.get("file", FILE) in words
    assert found in words
    assert remedy in words
    assert "\n" not in words


def test_a_database_that_is_not_there_or_lacks_the_table_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"party 'bank': there is no database file .*bank\.db; check data\.source"):
        broken(tmp_path, None, "sqlite:///bank.db", settings='table = "people"')
    with sqlite3.connect(tmp_path / "bank.db") as database:
        pd.DataFrame({"a": [1]}).to_sql("persons", database)
    with pytest.raises(DataError, match="party 'bank': the database has no table 'people'; it has persons; correct"):
        broken(tmp_path, None, "sqlite:///bank.db", settings='table = "people"')
    with pytest.raises(
        DataError, match=r"party 'bank': 'nosuch:///x' is not .*|data\.source 'nosuch:///x' is not the URL"
    ):
        broken(tmp_path, None, "nosuch:///x", settings='table = "people"')


def test_parties_that_do_not_fit_together_are_refused(tmp_path):
    (tmp_path / FILE).write_text(SOUND)
    base = f'[data]\nsource = "{FILE}"\nkey = "customer"\n'

    def read(*texts):
        paths = []
        for number, text in enumerate(texts):
            paths.append(tmp_path / f"{number}.toml")
            paths[-1].write_text(text)
        return from_party_files(paths)

    bank, shop = f'name = "bank"\n{base}label = "churned"\n', f'name = "shop"\n{base}'
    with pytest.raises(PlanError, match=r"0\.toml and .*1\.toml are both called 'bank'; rename"):
        read(bank, bank)
    with pytest.raises(PlanError, match=r"exactly one party must name a data\.label; none does"):
        read(shop, shop.replace("shop", "shop2"))
    with pytest.raises(DataError, match="bank and shop write ids by different rules"):
        read(bank, shop + 'ids.case = "lower"\n')
    with pytest.raises(PlanError, match=r"the key of bank has 1 columns .* that of shop has 2"):
        read(bank, shop.replace('"customer"', '["customer", "joined"]'))

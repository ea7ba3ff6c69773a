"""Messy but legal files are read as they were meant: what is read equals what was written, and choices are noted."""

import gzip
import io
import zipfile
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laconic.data.readers.columns import kinds_of, look_at, read_columns, read_known
from laconic.data.readers.federate import from_files, read_file, rows_from_files
from laconic.data.readers.frames import from_frames
from laconic.data.readers.source_table import read_own
from laconic.data.schema import OwnData
from laconic.errors import DataError
from laconic.inference import About, read_new, read_new_labels
from laconic.tables import Column, Recipe, Task


def cells(texts, notes=None, delimiter="", **others):
    """A column of text, beside others of the same file, as raw cells."""
    frame = pd.DataFrame({"x": texts, **others}, dtype="string")
    frame.attrs["delimiter"] = delimiter
    return read(frame, [] if notes is None else notes)["x"]


def read(frame, notes):
    looks = {name: look_at(frame[name]) for name in frame.columns}
    columns, raw = read_columns("bank", looks, kinds_of("bank", looks, {}, notes), said={}, frame=frame, notes=notes)
    return {column.name: (column, raw[:, at]) for at, column in enumerate(columns)}


def numbers(texts, notes=None, **others):
    column, values = cells(texts, notes, **others)
    assert column.kind == "numeric"
    return values.tolist()


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        (["-5", "\u22125", "+5", "- 5"], [-5, -5, 5, -5]),
        (["4.1e+299", "1e-300", "-1.7e308"], [4.1e299, 1e-300, -1.7e308]),
        (["4,1e+299", "1,5"], [4.1e299, 1.5]),
        (["1,234,567.8", "1,234", "7"], [1234567.8, 1234, 7]),
        (["1.234.567,8", "1.234", "7"], [1234567.8, 1234, 7]),
        (["1 234 567,8", "1\u202f234", "1\xa0000"], [1234567.8, 1234, 1000]),
        (["1'234.5", "1\u2019234", "7"], [1234.5, 1234, 7]),
        (["0,5", "1,234"], [0.5, 1.234]),
        (["0.5", "1,234"], [0.5, 1234]),
        (["\u20ac 5", "-\u20ac1,234.50", "7.10 \u20ac"], [5, -1234.5, 7.1]),
        (["CHF 1'234.50", "5.00 CHF", "Fr. 3.25"], [1234.5, 5, 3.25]),
        (["USD 5", "7 usd", "$8"], [5, 7, 8]),
        (["12.3 %", "50%", "0%"], [0.123, 0.5, 0]),
        (["(1,234.50)", "($5.00)", "7.25"], [-1234.5, -5, 7.25]),
        ([" 5", "6 ", "\t7"], [5, 6, 7]),
    ],
)
def test_numbers_are_read_as_they_were_meant(texts, meant):
    assert numbers(texts) == meant


def test_a_notation_that_a_column_does_not_show_follows_from_the_other_columns():
    notes = []
    assert numbers(["1,234", "5,678"], notes, other=["0,5", "1,25"]) == [1.234, 5.678]
    assert numbers(["1.234", "5.678"], notes, other=["0,5", "1,25"]) == [1234, 5678]
    assert numbers(["1,234", "5,678"], notes, other=["0.5", "1.25"]) == [1234, 5678]
    assert notes[0] == (
        "bank, column 'x': '1,234' in row 1 is read as 1.234, as other columns of the file are written; if that is "
        "wrong, say data.kinds.x = '1.234,5' or '1,234.5' (kinds= in Python, data.columns in a party file)"
    )
    assert len(notes) == 3


@pytest.mark.parametrize(
    ("delimiter", "texts", "meant"),
    [
        (";", ["1,234", "5,678"], [1.234, 5.678]),
        (";", ["1.234", "5.678"], [1234, 5678]),
        (",", ["1,234", "5,678"], [1234, 5678]),
        (",", ["1.234", "5.678"], [1.234, 5.678]),
        ("", ["1,234", "5678"], [1.234, 5678]),
        (";", ["1.234", "0.5"], [1.234, 0.5]),
    ],
)
def test_without_other_columns_it_follows_from_what_is_between_columns(delimiter, texts, meant):
    assert numbers(texts, delimiter=delimiter) == meant


def test_words_for_missing_and_few_mistakes_among_numbers_are_missing_and_noted():
    notes = []
    found = numbers([*map(str, range(100)), "?", "n/a", "-", "unknown", "oops"], notes)
    assert np.isnan(found[100:]).all()
    assert found[:100] == list(range(100))
    assert notes == ["bank, column 'x': 5 of 105 cells are no numbers, such as 'oops' in row 105, and count as missing"]


def test_amounts_in_several_currencies_are_refused_unless_somebody_says_that_they_are_numbers():
    with pytest.raises(DataError, match=r"amounts are in EUR and USD; convert them .* data.kinds.x=numeric"):
        numbers(["$5", "6 \u20ac"])
    notes = []
    frame = pd.DataFrame({"x": ["$5", "6 \u20ac"]})
    looks = {"x": look_at(frame["x"])}
    _, raw = read_columns("bank", looks, {"x": "numeric"}, said={"x": "numeric"}, frame=frame, notes=notes)
    assert raw[:, 0].tolist() == [5, 6]
    assert "amounts are in EUR and USD, and are taken as they are" in notes[0]


def test_a_column_in_two_notations_is_refused_where_a_cell_can_be_read_both_ways_and_the_setting_decides():
    cells_ = ["1.5", "2,5", "1,234"]
    with pytest.raises(DataError, match=r"'1,234' in row 3 can be read in two ways.* data.kinds.x = '1.234,5' or"):
        numbers(cells_)
    frame = pd.DataFrame({"x": cells_})
    for said, meant in (("1.234,5", 1.234), ("1,234.5", 1234.0)):
        looks = {"x": look_at(frame["x"])}
        _, raw = read_columns("bank", looks, {"x": "numeric"}, said={"x": said}, frame=frame, notes=[])
        assert raw[:, 0].tolist() == [1.5, 2.5, meant]


def test_an_example_says_how_dates_are_written():
    frame = pd.DataFrame({"x": ["01/02/2013", "03/04/2013"]})
    for said, day in (("31.01.2013", "2013-02-01"), ("01/31/2013", "2013-01-02")):
        looks = {"x": look_at(frame["x"])}
        (column,), raw = read_columns("bank", looks, {"x": "date"}, said={"x": said}, frame=frame, notes=[])
        assert raw[0, 0] == (np.datetime64(day) - np.datetime64("1970-01-01")).astype(int)
        assert column.prepare == "date"


DAY = 15736  # 2013-01-31


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        (["2013-01-31", "2013-02-01"], [DAY, DAY + 1]),
        (["31.01.2013", "1.2.2013"], [DAY, DAY + 1]),
        (["31/01/2013", "01/02/2013"], [DAY, DAY + 1]),
        (["01/31/2013", "02/01/2013"], [DAY, DAY + 1]),
        (["2013-01-31T12:00:00Z", "2013-01-31 18:00"], [DAY + 0.5, DAY + 0.75]),
        (["2013-01-31T13:00:00+01:00", "2013-02-01"], [DAY + 0.5, DAY + 1]),
        (["31.01.2013 12:00", "01.02.2013 18:00:00"], [DAY + 0.5, DAY + 1.75]),
        (["1/31/2013 12:00:00 PM", "2/1/2013 6:00 PM"], [DAY + 0.5, DAY + 1.75]),
        (["9999-12-31", "1500-01-01"], [2932896, -171664]),
        (["20130131", "20130201"], [20130131, 20130201]),
    ],
)
def test_dates_are_days_since_1970(texts, meant):
    assert numbers(texts) == meant


def test_dates_that_do_not_say_take_the_order_of_other_columns_or_the_day_first():
    notes = []
    assert numbers(["01/02/2013", "03/02/2013"], notes, other=["12/31/2013", "1/1/2013"]) == [DAY - 29, DAY + 30]
    assert numbers(["01/02/2013", "03/02/2013"], notes) == [DAY + 1, DAY + 3]
    assert "'01/02/2013' in row 1 is read with the month first, as other columns" in notes[0]
    assert "'01/02/2013' in row 1 is read with the day first, as nothing shows otherwise" in notes[1]


@pytest.mark.parametrize(
    ("texts", "new", "meant"),
    [
        (["01/31/2013", "02/01/2013"], "02/01/2013", DAY + 1),
        (["31/01/2013", "01/02/2013"], "01/02/2013", DAY + 1),
        (["1.234,5", "2"], "1,234", 1.234),
        (["1,234.5", "2"], "1,234", 1234),
        (["0.5", "36.125"], "36.125", 36.125),
        (["1.234,5", "2"], "1,234.5", 1234.5),
    ],
)
def test_new_rows_are_read_as_in_training(texts, new, meant):
    column, _ = cells(texts)
    frame = pd.DataFrame({"x": [new]}, dtype="string")
    frame.attrs["delimiter"] = ";"
    assert read_known("bank", frame, [column], notes=[])[:, 0].tolist() == [meant]


def test_new_cells_that_are_mostly_no_numbers_are_refused():
    column, _ = cells(["0.5", "1.5"])
    with pytest.raises(
        DataError, match=r"'bank', column 'x': it held numbers when the model was trained, and now 2 of 2 cells"
    ):
        read_known("bank", pd.DataFrame({"x": ["red", "blue"]}), [column], notes=[])


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (["1", "2", "3"], ["low", "high", "low"], "it held numbers when the model was trained, and now 3 of 3 cells"),
        (["1", "2", "3"], ["2013-01-31", "2013-02-01"], "it held numbers when the model was trained"),
        (["2013-01-31", "2013-02-01"], ["17", "18"], "it held dates when the model was trained"),
        (
            ["low", "high"] * 3,
            ["1", "2", "3", "4", "5"],
            "it held names when the model was trained, such as 'high', and",
        ),
        (["low", "high"] * 3, ["2013-01-31"] * 5, "and now holds dates, such as '2013-01-31'"),
    ],
)
def test_a_column_whose_kind_changed_since_training_is_refused(before, now, said):
    column, _ = cells(before)
    with pytest.raises(DataError, match="train a new model if the column means something else now") as refused:
        read_known("bank", pd.DataFrame({"x": now}), [column], notes=[])
    assert said in str(refused.value)


def test_new_levels_and_a_few_mistakes_are_no_change_of_kind():
    column, _ = cells(["low", "high"] * 3)
    new = read_known("bank", pd.DataFrame({"x": ["low", "1", "2", "3", "4"]}), [column], notes=[])
    assert new[:, 0].tolist() == [1, 2, 2, 2, 2]
    codes, _ = cells(["c1", "c2"] * 3)
    assert read_known("bank", pd.DataFrame({"x": ["c7"] * 9}), [codes], notes=[])[:, 0].tolist() == [2] * 9
    number, _ = cells(["1", "2", "3"])
    notes = []
    new = read_known("bank", pd.DataFrame({"x": ["1", "2", "tbd"]}), [number], notes=notes)
    assert np.isnan(new[2, 0])
    assert "such as 'tbd' in row 3, and count as missing" in notes[0]


def test_levels_that_differ_in_case_space_or_letters_only_are_one():
    notes = []
    column, codes = cells(["yes", "YES ", "no", "No", "no", "yes", None], notes)
    assert column.levels == ("no", "yes")
    assert codes.tolist()[:6] == [1, 1, 0, 0, 0, 1]
    assert "'YES' is taken as 'yes', which differs in case" in notes[0]
    column, codes = cells(["Z\u00fcrich", "Zu\u0308rich", "Ulm"])
    assert column.levels == ("Ulm", "Z\u00fcrich")
    new = read_known("bank", pd.DataFrame({"x": ["ULM", "Zu\u0308rich", "Bonn"]}), [column], notes=[])
    assert new[:, 0].tolist() == [0, 1, 2]


def test_levels_are_the_same_from_whole_floats_as_from_text():
    column = Column("x", "categorical", ("1", "2"))
    assert read_known("bank", pd.DataFrame({"x": [1.0, 2.0, None]}), [column], notes=[])[:2, 0].tolist() == [0, 1]


def test_bands_and_codes_stay_levels():
    assert cells(["10-19", "20-29", "40+"])[0].kind == "categorical"
    assert cells(["A1", "0D4", "12"])[0].kind == "categorical"


def test_a_text_of_its_own_in_every_row_is_left_out():
    notes = []
    frame = pd.DataFrame({"name": [f"person {row}" for row in range(50)], "n": range(50)})
    assert list(read(frame, notes)) == ["n"]
    assert notes == ["bank, column 'name': left out, as nearly every row has another text, like an id"]


TABLE = "id{d}n{d}word{d}y\n007{d}1.5{d}red{d}yes\n08{d}2.5{d}green{d}NO\n9{d}3.5{d}red{d}YES\n10{d}4{d}blue{d}no\n"


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read_bank(path):
    shop = write(path.parent / "shop.csv", "id,z\n007,1\n08,2\n9,3\n10,4\n")
    found = from_files({"bank": path, "shop": shop}, id="id", label="y")
    assert found.tables["bank"].keys.tolist() == ["007", "08", "9", "10"]
    assert found.tables["bank"].raw[:, 0].tolist() == [1.5, 2.5, 3.5, 4]
    assert found.tables["bank"].columns[1].levels == ("blue", "green", "red")
    assert [one.lower() for one in found.task.classes] == ["no", "yes"]
    assert found.tables["bank"].y.tolist() == [1, 0, 1, 0]
    return found


@pytest.mark.parametrize(
    "content",
    [
        TABLE.format(d=","),
        TABLE.format(d=";"),
        TABLE.format(d="\t"),
        TABLE.format(d="|"),
        TABLE.format(d=";").replace(".", ","),
        "sep=;\n" + TABLE.format(d=";"),
        b"\xef\xbb\xbf" + TABLE.format(d=";").encode(),
        TABLE.format(d=",").encode("utf-16"),
        TABLE.format(d="\t").replace("\n", "\r\n").encode("utf-16"),
        TABLE.format(d=",").replace("\n", "\r\n") + "\r\n\r\n",
        TABLE.format(d=",").replace("\n", ",\n"),
        TABLE.format(d=",").replace("\n", ",\n").replace("y,\n", "y\n", 1),
        TABLE.format(d=",").replace("id,n", " id , n ").replace(",", ", ").replace(", ", ","),
        gzip.compress(TABLE.format(d=",").encode(), mtime=0),
    ],
)
def test_a_file_is_read_however_its_columns_are_separated_and_encoded(tmp_path, content):
    read_bank(write(tmp_path / "bank.csv", content))


def test_the_columns_that_a_file_should_have_tell_what_is_between_them(tmp_path):
    path = write(tmp_path / "north.csv", "x,y 1;left\n10,5;1\n20,5;0\n")
    assert list(read_file("north", path, None, ["left"]).columns) == ["x,y 1", "left"]
    with pytest.raises(DataError, match="may be separated by commas or by semicolons"):
        read_file("north", path, None)


@pytest.mark.parametrize("cells", [["2.5", "-3.5"], ["2,5", "-3,5"]])
@pytest.mark.parametrize("name", ["a;b 1", "size"])
def test_one_column_may_have_a_delimiter_in_its_name_or_decimal_commas(tmp_path, name, cells):
    frame = read_file("public", write(tmp_path / "open.csv", "\n".join([name, *cells, ""])), None)
    assert list(frame.columns) == [name]
    assert frame[name].tolist() == cells


def test_quoted_cells_keep_delimiters_and_lines(tmp_path):
    path = write(tmp_path / "bank.csv", 'id,"a,b\nc",y\n1,"x;y, ""z""",0\n2,"two\nlines",1\n3,"x;y, ""z""",1\n')
    frame = read_file("bank", path, "id")
    assert list(frame.columns) == ["id", "a,b\nc", "y"]
    assert frame.iloc[:, 1].tolist() == ['x;y, "z"', "two\nlines", 'x;y, "z"']


def test_a_name_is_found_in_either_way_of_unicode(tmp_path):
    bank = write(tmp_path / "bank.csv", "id,gro\u0308\u00dfe,y\n1,2,0\n2,3,1\n")
    shop = write(tmp_path / "shop.csv", "id,z\n1,2\n2,3\n")
    found = from_files([bank, shop], id="id", label="y", kinds={"gr\u00f6\u00dfe": "numeric"})
    assert found.tables["bank"].columns[0].name == "gr\u00f6\u00dfe"


def excel():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("[Content_Types].xml", "<xml/>")
        file.writestr("xl/workbook.xml", "<xml/>")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bank.xlsx", excel(), "is an Excel file, not text; save it in Excel as 'CSV UTF-8"),
        ("bank.csv", excel(), "is an Excel file"),
        ("bank.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "is an Excel file"),
        ("bank.csv", TABLE.format(d=",").encode("utf-16")[2:], "zero bytes, so it is UTF-16 without a byte order mark"),
        ("bank.csv", TABLE.format(d=",").replace("green", "gr\u00fcn").encode("cp1252"), "line 3 has the byte 0xfc"),
        ("bank.csv", "id,n;m,y\n1,2;3,0\n".replace("n;m", "n;m;k").replace("2;3", "2;3;4"), "commas or by semicolons"),
    ],
)
def test_what_cannot_be_read_is_called_what_it_is(tmp_path, name, content, words):
    with pytest.raises(DataError, match=r"party 'bank': the file .*bank") as caught:
        read_file("bank", write(tmp_path / name, content), None)
    assert words in str(caught.value)


def test_delimiter_and_encoding_can_be_said(tmp_path):
    path = write(tmp_path / "bank.csv", TABLE.format(d="~").replace("green", "gr\u00fcn").encode("cp1252"))
    own = read_own("bank", OwnData(source=str(path), key="id", label="y", delimiter="~", encoding="cp1252"))
    assert own.table.columns[1].levels == ("blue", "gr\u00fcn", "red")


def test_a_missing_file_is_reported_with_one_of_nearly_that_name(tmp_path):
    write(tmp_path / "bank.csv", TABLE)
    with pytest.raises(DataError, match=r"'bank': there is no file .*bnak\.csv; do you mean .*bank\.csv\?"):
        read_file("bank", tmp_path / "bnak.csv", "id")
    with pytest.raises(DataError, match="nor is there a folder"):
        read_file("bank", tmp_path / "nowhere" / "bank.csv", "id")
    with pytest.raises(DataError, match=r"the folder .* holds no Parquet files; name a CSV or Parquet file"):
        read_file("bank", tmp_path, "id")


def test_a_label_of_its_own_in_every_row_is_refused():
    bank = pd.DataFrame({"id": range(400), "x": np.arange(400.0), "name": [f"n{row}" for row in range(400)]})
    shop = pd.DataFrame({"id": range(400), "z": np.arange(400.0)})
    with pytest.raises(DataError, match=r"label 'name': found 400 classes in 400 rows.*choose another column"):
        from_frames({"bank": bank, "shop": shop}, id="id", label="name")


def test_ids_with_and_without_point_zero_are_the_same(tmp_path):
    bank = write(tmp_path / "bank.csv", "id,n,y\n12.0,1,0\n13.0,2,1\n")
    pd.DataFrame({"id": [12, 13], "z": [1.0, 2.0]}).to_parquet(tmp_path / "shop.parquet")
    found = from_files([bank, tmp_path / "shop.parquet"], id="id", label="y")
    assert found.tables["bank"].keys.tolist() == found.tables["shop"].keys.tolist() == ["12", "13"]


def test_parties_may_write_numbers_dates_and_classes_each_in_its_own_way(tmp_path):
    rows = range(40)
    plain = "x,since,y\n" + "".join(f"{row}.25,2013-01-{row % 28 + 1:02},{row % 2}.0\n" for row in rows)
    german = "x;since;y\n" + "".join(f"{row},25;{row % 28 + 1:02}.01.2013;{row % 2}\n" for row in rows)
    north, south = write(tmp_path / "north.csv", plain), write(tmp_path / "south.csv", german)
    found = rows_from_files([north, south], label="y")
    assert found.task.classes == ("0", "1")
    tables = found.tables
    own = {name: np.concatenate([tables[name].raw, tables["server"].raw]) for name in ("north", "south")}
    meant = {(row + 0.25, DAY - 30 + row % 28) for row in rows}
    assert set(map(tuple, tables["north"].raw)) <= meant
    assert set(map(tuple, tables["south"].raw)) <= meant
    assert all(set(map(tuple, some)) <= meant for some in own.values())


def grouped(value, digits, thousands, decimal):
    return f"{value:,.{digits}f}".translate(str.maketrans({",": thousands, ".": decimal}))


NOTATIONS = st.sampled_from(
    [("", "."), (",", "."), (" ", "."), ("'", "."), ("", ","), (".", ","), (" ", ","), ("\u202f", ","), ("'", ",")]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    amounts=st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=12),
    counts=st.lists(st.integers(0, 10**7), min_size=12, max_size=12),
    days=st.lists(st.integers(0, 20000), min_size=12, max_size=12),
    notation=NOTATIONS,
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    dated=st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    ending=st.sampled_from(["\n", "\r\n"]),
)
def test_a_table_in_any_legal_notation_is_read_as_it_was_written(
    tmp_path, amounts, counts, days, notation, delimiter, dated, encoding, ending
):
    rows = len(amounts)
    # A cell that shows the notation, and a day that shows the order; everything else is up to chance.
    values = [0.25, *(amount / 100 for amount in amounts[1:])]
    whole = counts[:rows]
    since = [15736, *days[1:rows]]
    frame = pd.DataFrame(
        {
            "id": [f"{row:03}" for row in range(rows)],
            "amount": [grouped(value, 2, *notation) for value in values],
            "count": [grouped(value, 0, *notation) for value in whole],
            "since": [(date(1970, 1, 1) + timedelta(days=day)).strftime(dated) for day in since],
            "y": ["Yes" if row % 2 else "no" for row in range(rows)],
        }
    )
    path = tmp_path / "bank.csv"
    frame.to_csv(path, sep=delimiter, index=False, encoding=encoding, lineterminator=ending)
    found = read(read_file("bank", path, "id")[["amount", "count", "since"]], [])
    assert found["amount"][1].tolist() == values
    assert found["count"][1].tolist() == whole
    assert found["since"][1].tolist() == since


def test_labels_of_new_rows_are_those_of_the_rows_that_are_kept(tmp_path):
    frame = pd.DataFrame(
        {"id": ["a", "a", "", "b"], "x": ["1", "2", "3", "4"], "y": ["yes", "no", "?", "NO"]}, dtype="string"
    )
    task = Task(kind="binary", classes=("no", "yes"), label="y")
    recipe = Recipe(columns=(Column("x"),))
    about = About(
        party="bank", hub="bank", peers=(), method={}, seed=0, id="id", columns=(Column("x"),), recipe=recipe, task=task
    )
    frame.to_csv(tmp_path / "bank.csv", index=False)
    table = read_new(about, tmp_path / "bank.csv")
    assert table.raw.ravel().tolist() == [1, 4]
    assert read_new_labels(about, tmp_path / "bank.csv", table).tolist() == [1, 0]

"""The doctor: what each party alone finds out about its ids and columns, and what parties see together."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

from laconic.cli import main
from laconic.deploy import read_party
from laconic.doctor.checks import check_ids, examine, match_parties, write_columns


def party(folder, ids, name="bank", settings="", columns=None, more=""):
    frame = pd.DataFrame({"customer": ids} | (columns or {f"of {name}": range(len(ids))}))
    frame.to_csv(folder / f"{name}.csv", index=False)
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\n[data]\nsource = "{name}.csv"\nkey = "customer"\n{settings}\n{more}')
    return path


def label_holder(folder):
    columns = {"x": [1, 2, 3, 4], "left": list("nyny")}
    return party(folder, ["a", "b", "c", "d"], settings='label = "left"', columns=columns)


def found(path, check=check_ids):
    return list(check(read_party(path)))


def words(found, level):
    return " / ".join(f"{one.words} -> {one.remedy}" for one in found if one.level == level)


def test_sound_ids_are_described_and_need_nothing(tmp_path):
    seen = found(party(tmp_path, ["1", "22", "333"]))
    assert {one.level for one in seen} == {"fine"}
    assert words(seen, "fine") == "3 ids, all digits, 1 to 3 long ->  / 3 ids, all different -> "


@pytest.mark.parametrize(
    ("ids", "settings", "level", "said"),
    [
        (["AB1", "ab2", "x"], "", "note", "such as 'AB1', have capital letters, and are compared as they are"),
        (["AB1", "ab2", "x"], 'ids.case = "lower"', "note", "which data.ids.case = 'lower' takes out"),
        ([" a ", "b", "c"], "", "note", "1 of 3 ids, such as ' a ', have white space around them, which is dropped"),
        (["1 2", "3", "4"], "", "note", "such as '1 2', have white space inside"),
        (["007", "8", "9"], "", "note", "such as '007', begin with 0"),
        (["007", "8", "9"], 'ids.zeros = "drop"', "note", "which data.ids.zeros = 'drop' takes out"),
        (["2013-01-31", "2013-02-01", "x"], "", "note", "say data.ids.dates.customer = 'iso'"),
        (["31.01.2013", "01.02.2013", "x"], "", "note", "say data.ids.dates.customer = 'day_first'"),
        (["31.01.2013", "01/31/2013", "x"], "", "wrong", "the day first (31.01.2013) and the month first (01/31/2013)"),
        (["31.01.2013", "x", "y"], 'ids.dates.customer = "day_first"', "wrong", "found 'x' in row 2, which is no date"),
        (["a", "b", "a"], "", "wrong", "1 ids occur more than once, such as a -> keep one row"),
        (["a", "b", "a"], 'on_duplicate = "first"', "note", "such as a; the first row of each is kept"),
        (["a", "b", "a"], 'on_duplicate = "aggregate"', "note", "such as a; their rows are made one"),
        (["a", "", "b"], "", "wrong", "1 of 3 rows have no id -> fill them in, or say data.on_empty = 'drop'"),
        (["a", "", "b"], 'on_empty = "drop"', "note", "1 of 3 rows have no id"),
        (["1.23E+10", "2", "3"], "", "wrong", "rounded numbers, as spreadsheets write long ids"),
        (["1.0", "2.0", "3.0"], "", "wrong", "end in .0"),
        (["A1", "a1", "b"], 'ids.case = "lower"\non_duplicate = "first"', "note", "1 ids become the same as another"),
        (["", "", ""], "", "wrong", "no row has an id"),
    ],
)
def test_what_is_odd_about_ids_is_said_with_what_would_be_changed(tmp_path, ids, settings, level, said):
    assert said in words(found(party(tmp_path, ids, settings=settings)), level)


def test_a_key_column_that_is_not_there_is_named_with_those_that_are(tmp_path):
    path = party(tmp_path, ["a", "b"])
    path.write_text(path.read_text().replace('key = "customer"', 'key = "client"'))
    assert "has no such column; it has customer, of bank" in words(found(path), "wrong")


def test_columns_are_described_and_odd_ones_noted(tmp_path):
    rows = 200
    columns = {
        "income": range(rows),
        "same": [1] * rows,
        "code": [f"c{number}" for number in range(rows)],
        "zip": [f"z{number % 100}" for number in range(rows)],
        "rare": [1, 2, *[None] * (rows - 2)],
    }
    seen = list(examine(read_party(party(tmp_path, range(rows), columns=columns))))
    noted = {one.about: one.words for one in seen if one.level == "note"}
    assert "never varies" in noted["same"]
    assert "column 'code': left out, as nearly every row has another text, like an id" in noted["reading"]
    assert "100 levels; the 64 most frequent" in noted["zip"]
    assert "99% missing" in noted["rare"]
    assert "kinds of 4 columns were inferred from their cells" in noted["data.columns"]
    assert not words(seen, "wrong")


def test_kinds_are_written_out_for_approval_once(tmp_path):
    columns = {"income": [1.5, 2], "home town": ["Ulm", "Bonn"], "joined": ["2013-01-31", "2014-01-31"]}
    path = party(tmp_path, ["a", "b"], columns=columns, more="[allow]\nmethods = []\n")
    write_columns(read_party(path))
    approved = read_party(path)
    assert approved.own_data.columns == {"income": "numeric", "home town": "categorical", "joined": "date"}
    assert approved.allow == {"methods": []}
    outcome = CliRunner().invoke(main, ["doctor", str(path), "--write"])
    assert outcome.exit_code == 2
    assert "names its columns already" in outcome.stderr


def test_parties_together_see_the_same_fingerprint(tmp_path):
    bank = label_holder(tmp_path)
    shop = party(tmp_path, ["d", "e", "b", "c", "a"], "shop")
    insurer = party(tmp_path, ["c", "b", "e", "d", "q"], "insurer")
    seen = match_parties([bank, shop, insurer])
    assert seen.shared == 3
    assert (dict(seen.rows), dict(seen.some)) == (
        {"bank": 4, "shop": 5, "insurer": 5},
        {"bank": 1, "shop": 2, "insurer": 1},
    )
    assert len(set(seen.fingerprints.values())) == 1


def test_the_command_shows_what_is_wrong_and_says_so_by_its_exit_code(tmp_path):
    sound, twice = party(tmp_path, ["a", "b"]), party(tmp_path, ["a", "a"], "shop")
    outcome = CliRunner().invoke(main, ["doctor", str(sound)])
    assert outcome.exit_code == 0, outcome.output
    outcome = CliRunner().invoke(main, ["doctor", str(twice), "--json"])
    assert outcome.exit_code == 1
    levels = [one["level"] for one in json.loads(outcome.stdout)["parties"]["shop"]]
    assert "wrong" in levels


def test_the_command_matches_several_parties(tmp_path):
    bank = label_holder(tmp_path)
    shop = party(tmp_path, ["d", "b", "c", "a"], "shop")
    outcome = CliRunner().invoke(main, ["doctor", str(bank), str(shop)])
    assert outcome.exit_code == 0, outcome.output
    assert "Together: 4 rows at every party" in outcome.output

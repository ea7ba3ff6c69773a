"""What was decided when reading files is shown by the commands, and new rows are read as in training."""

import pandas as pd
import pytest
from click.testing import CliRunner

from laconic.cli import main

ROWS = 60


def write(folder, name, months, extra=""):
    """Two parties; dates are month first, which only some of them show, and amounts have commas before fractions."""
    bank = "".join(f"{row:03};{row % 7},25;{row % 12 + 1:02}/{day:02}/2013;{'YES' if row % 3 else 'no'}\n"
                   for row, day in enumerate(months))  # fmt: skip
    (folder / f"bank{name}.csv").write_text(f"id;amount;since;left\n{bank}{extra}")
    shop = "".join(f"{row:03},{row % 5}\n" for row in range(len(months)))
    (folder / f"shop{name}.csv").write_text(f"id,visits\n{shop}")
    return [str(folder / f"bank{name}.csv"), str(folder / f"shop{name}.csv")]


def run(*words):
    found = CliRunner().invoke(main, [*map(str, words)], env={"COLUMNS": "400"})
    assert found.exit_code == 0, found.output
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading")
    files = write(folder, "", [row % 28 + 1 for row in range(ROWS)], extra="003;9,5;01/01/2013;no\n")
    model = folder / "model"
    shown = run("run", "Solo", "--files", *files, "--id", "id", "--label", "left", "--model", model, "--seed", "1")
    return folder, model, shown.output


def test_notes_are_shown_with_the_result(trained):
    shown = " ".join(trained[2].split())
    assert "Read: bank, id 'id': 1 rows have the id of an earlier row and are left out; 1 of them differ" in shown


def test_new_rows_are_read_as_in_training_although_they_do_not_show_how(trained):
    folder, model, _ = trained
    ambiguous, clear = folder / "a", folder / "b"
    ambiguous.mkdir()
    clear.mkdir()
    write(ambiguous, "", [row % 12 + 1 for row in range(10)])
    write(clear, "", [row % 12 + 1 for row in range(10)])
    frame = pd.read_csv(clear / "bank.csv", sep=";", dtype=str)
    frame["since"] = pd.to_datetime(frame["since"], format="%m/%d/%Y").dt.strftime("%Y-%m-%d")
    frame["amount"] = frame["amount"].str.replace(",", ".")
    frame.to_csv(clear / "bank.csv", index=False)
    scores = []
    for place in (ambiguous, clear):
        run("predict", model, "--files", place / "bank.csv", place / "shop.csv", "--out", place / "scores.csv")
        scores.append(pd.read_csv(place / "scores.csv", dtype={"id": str}))
    assert scores[0].equals(scores[1])
    assert scores[0].select_dtypes("number").nunique().max() > 1


def test_a_row_that_comes_twice_among_new_rows_is_noted(trained):
    folder, model, _ = trained
    new = folder / "twice"
    new.mkdir()
    files = write(new, "", range(1, 11), extra="003;9,5;01/01/2013;no\n")
    found = run("predict", model, "--files", *files)
    assert "Read: bank, id 'id': 1 rows have the id of an earlier row" in found.stderr
    found = run("add", model, "--files", *write(new, "-b", range(1, 11), extra="003;9,5;01/01/2013;no\n"))
    assert "Read: bank, id 'id': 1 rows have the id of an earlier row" in found.stderr


def many_columns(folder):
    rows = "".join(
        f"{row},{','.join(str((row * 7 + at) % 13) for at in range(40))},€ {row % 9}.50\n" for row in range(80)
    )
    (folder / "wide.csv").write_text(f"id,{','.join(f'c{at}' for at in range(40))},price\n{rows}")
    label = "".join(f"{row},{row % 5},{'YES' if row % 3 else 'yes' if row % 2 else 'no'}\n" for row in range(80))
    (folder / "hub.csv").write_text(f"id,visits,left\n{label}")
    return [str(folder / "hub.csv"), str(folder / "wide.csv")]


def test_run_and_compare_read_files_aloud_and_fold_what_is_not_odd(tmp_path):
    files = many_columns(tmp_path)
    roles = ("--files", *files, "--id", "id", "--label", "left")
    saved = ("--seeds", "1", "--save", tmp_path / "runs.jsonl")
    for words in (("run", "Solo", *roles), ("compare", "Solo", *roles, *saved, "--no-yardsticks")):
        shown = run(*words).stderr
        assert "wide: 80 rows, 41 columns (41 numeric)" in shown
        assert "  left: label, categorical, 2 levels; YES/yes are taken as one level" in shown
        assert "  price: numeric, 9 values; amounts in EUR" in shown
        assert "nothing odd in 41 other columns" in shown
        assert "c17: numeric" not in shown
    assert "c17: numeric, 13 values" in run("run", "Solo", *roles, "--columns").stderr


def test_the_result_as_json_stays_alone_on_the_output(tmp_path):
    found = run("run", "Solo", "--files", *many_columns(tmp_path), "--id", "id", "--label", "left", "--json")
    assert found.stdout.startswith("{")
    assert found.stdout.count("\n") == 1


def test_doctor_looks_at_plain_files_alone_and_together(tmp_path):
    files = many_columns(tmp_path)
    assert "price: numeric, 9 values; amounts in EUR" in run("doctor", "--files", *files).output
    shown = run("doctor", "--files", *files, "--id", "id", "--label", "left").output
    assert "Together: 80 rows at every party" in shown


def test_doctor_says_what_is_wrong_with_plain_files_by_its_exit_code(tmp_path):
    files = many_columns(tmp_path)
    found = CliRunner().invoke(main, ["doctor", "--files", *files, "--id", "id", "--label", "gone"])
    assert found.exit_code == 1
    assert "Wrong: no party has the label column 'gone'" in found.output
    assert "hub: 80 rows" in found.output
    assert CliRunner().invoke(main, ["doctor"]).exit_code == 2
    assert "name party files" in CliRunner().invoke(main, ["doctor"]).stderr


def visits(folder):
    rows = [f"{row},{row % 7},2013-{row % 11 + 1:02}-{row % 27 + 1:02},home{row % 9},{'yes' if row % 3 else 'no'}\n"
            for row in range(90)]  # fmt: skip
    (folder / "hub.csv").write_text("id,visits,when,home,left\n" + "".join(rows))
    (folder / "wide.csv").write_text("id,z\n" + "".join(f"{row},{row % 5}\n" for row in range(90)))
    return ("--files", str(folder / "hub.csv"), str(folder / "wide.csv"), "--id", "id", "--label", "left")


@pytest.mark.parametrize("by", [("--split-by", "when"), ("--group", "home")])
def test_rows_of_files_are_parted_by_a_column_also_by_a_plan(tmp_path, by):
    files = visits(tmp_path)
    shown = run("run", "Solo", *files, *by).stdout
    assert "held out by a column of the label holder" in " ".join(shown.split())
    (tmp_path / "plan.toml").write_text(run("plan", "Solo", *files, *by).stdout)
    again = run("run", tmp_path / "plan.toml").stdout
    assert [line for line in again.splitlines() if "Solo on" in line] == [
        line for line in shown.splitlines() if "Solo on" in line
    ]


def test_rows_of_party_files_are_parted_by_the_label_holders_column(tmp_path):
    visits(tmp_path)
    (tmp_path / "hub.toml").write_text('name = "hub"\n[data]\nsource = "hub.csv"\nkey = "id"\nlabel = "left"\n')
    (tmp_path / "wide.toml").write_text('name = "wide"\n[data]\nsource = "wide.csv"\nkey = "id"\n')
    shown = run("run", "Solo", "--files", tmp_path / "hub.toml", tmp_path / "wide.toml", "--group", "home").stdout
    assert "held out by a column of the label holder" in " ".join(shown.split())


def test_a_column_that_rows_cannot_be_parted_by_is_named(tmp_path):
    files = visits(tmp_path)
    for words, said in (
        (("--split-by", "gone"), "party 'hub' has no column 'gone' to part rows by (--split-by)"),
        (("--split-by", "when", "--group", "home"), "not by both"),
    ):
        found = CliRunner().invoke(main, ["run", "Solo", *files, *words])
        assert found.exit_code == 2
        assert said in found.stderr
    found = CliRunner().invoke(main, ["run", "Solo", "--data", "breast_cancer", "--group", "home"])
    assert "data.group (--group) is for your own files" in found.stderr

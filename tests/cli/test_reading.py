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

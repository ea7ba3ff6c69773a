"""Models and labels that cannot be used as they are: one line that says what to do, or a result all the same."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from laconic.cli import main

ROWS, SHARED = 240, 150
QUICK = (
    "--set",
    "method.head.type=Best",
    "--set",
    "method.head.seconds=2",
    "--set",
    'method.head.kinds=["linear", "trees"]',
)


def frames():
    """The shop knows the first 150 of the bank's 240 customers."""
    rng = np.random.default_rng(3)
    income, visits = rng.normal(size=(2, ROWS)).round(3)
    left = np.where(income + visits + 0.3 * rng.normal(size=ROWS) > 0, "yes", "no")
    ids = [f"c{row}" for row in range(ROWS)]
    bank = pd.DataFrame(
        {"customer": ids, "income": income, "region": rng.choice(["north", "south"], ROWS), "left": left}
    )
    return bank, pd.DataFrame({"customer": ids, "visits": visits})[:SHARED]


@pytest.fixture
def files(tmp_path):
    def write(bank=None, shop=None):
        usual = frames()
        for name, given, frame in zip(("bank", "shop"), (bank, shop), usual, strict=True):
            (frame if given is None else given).to_csv(tmp_path / f"{name}.csv", index=False)
        paths = [str(tmp_path / f"{name}.csv") for name in ("bank", "shop")]
        return ("run", "FedOnce", "--files", *paths, "--id", "customer", "--label", "left")

    return write


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def refused(*words):
    outcome = call(*words)
    assert outcome.exit_code == 2, outcome.output
    said = outcome.stderr.splitlines()[-1]
    assert said.startswith("Error: ")
    return said


def outside(folder):
    """How many rows outside the overlap a saved result says were learnt from."""
    return json.loads((folder / "result.json").read_text())["data"].get("outside", {})


def test_every_head_learns_from_rows_outside_the_overlap_as_the_result_counts(files, tmp_path):
    for head in ("LinearModel", "Boosted"):
        done = call(*files(), "--set", f"method.head.type={head}", "--save", tmp_path / "result.json")
        assert done.exit_code == 0, done.output
        assert outside(tmp_path) == {"bank": ROWS - SHARED}


def test_an_allowance_too_small_to_try_anything_says_how_much_is_needed(files):
    said = refused(*files(), "--set", "method.head.type=Best", "--set", "method.head.seconds=0.001")
    assert "seconds = 0.001 is too little to try any model of linear, trees, net" in said
    assert "allow at least that" in said


@pytest.mark.parametrize("only", ["yes", "no"])
def test_one_class_only_outside_the_overlap_is_learnt_from_or_left_out(files, tmp_path, only):
    bank, _ = frames()
    bank.loc[SHARED:, "left"] = only
    done = call(*files(bank=bank), *QUICK, "--save", tmp_path / "result.json")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "result.json").read_text())["metrics"]["auc"] > 0.75


def test_one_class_only_in_the_overlap_is_refused(files):
    bank, _ = frames()
    bank.loc[: SHARED - 1, "left"] = "yes"
    assert "label 'left': found only class 'yes' among 150 shared rows" in refused(*files(bank=bank), *QUICK)


def test_labels_that_are_missing_are_named_with_what_to_do(files):
    bank, _ = frames()
    bank.loc[SHARED:, "left"] = None
    said = refused(*files(bank=bank), *QUICK)
    assert "label 'left': 90 of 240 labels are missing or infinite, the first in row 151; fill them in or leave" in said


def test_labels_outside_the_overlap_that_contradict_are_left_out_and_do_no_harm(files, tmp_path):
    bank, _ = frames()
    rest = bank.loc[SHARED:, "left"]
    bank.loc[SHARED:, "left"] = rest.map({"yes": "no", "no": "yes"})
    done = call(*files(bank=bank), *QUICK, "--save", tmp_path / "result.json")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "result.json").read_text())["metrics"]["auc"] > 0.8


@pytest.mark.parametrize(
    ("column", "cells", "said"),
    [
        ("income", ["high"] * ROWS, "column 'income'"),
        ("region", [str(row) for row in range(ROWS)], "it held names when the model was trained"),
    ],
)
def test_a_column_whose_kind_changed_since_training_is_refused_by_name(files, tmp_path, column, cells, said):
    trained = call(*files(), "--set", "method.trainer.epochs=1", "--model", tmp_path / "model")
    assert trained.exit_code == 0, trained.output
    bank, shop = frames()
    bank[column] = cells
    bank.drop(columns="left").to_csv(tmp_path / "bank-may.csv", index=False)
    shop.to_csv(tmp_path / "shop-may.csv", index=False)
    words = ("predict", tmp_path / "model", "--files", tmp_path / "bank-may.csv", tmp_path / "shop-may.csv")
    found = refused(*words)
    assert "'bank'" in found
    assert said in found

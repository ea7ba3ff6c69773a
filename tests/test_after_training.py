"""The walk-through in docs/after_training.md is real: every block of it runs, in order."""

import json
import re
import shlex
from pathlib import Path

import pandas
import pytest
from click.testing import CliRunner

from laconic.cli import main

TEXT = (Path(__file__).parent.parent / "docs" / "after_training.md").read_text()


@pytest.mark.slow
def test_the_walk_through_runs_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|sh)\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 14
    names = {}
    for kind, block in blocks:
        if kind == "python":
            exec(block, names)  # noqa: S102 (our own document)
            continue
        for line in block.splitlines():
            words = shlex.split(line)
            assert words.pop(0) == "laconic"
            outcome = CliRunner().invoke(main, words)
            assert outcome.exit_code == 0, (line, outcome.output)
    check_scores()


def check_scores():
    """The files that the walk-through leaves say what the text says they do."""
    february, march = pandas.read_csv("february.csv"), pandas.read_csv("march.csv")
    # One way for one pattern of presence: the one that did best on validation rows.
    (way,) = set(march["answered by"])
    assert way in {"refit", "zeros", "solo"}
    assert february["answered by"].value_counts().to_dict() == {"all": 450, way: 50}
    assert set(pandas.read_csv("march-alone.csv")["answered by"]) == {"solo"}
    again = pandas.read_csv("march-again.csv")
    truth = pandas.read_csv("bank-march-labelled.csv")["left"]
    accuracy = {name: (table["left"] == truth).mean() for name, table in {"march": march, "again": again}.items()}
    assert accuracy["again"] > accuracy["march"] + 0.05
    without = pandas.read_csv("march-without-shop.csv")
    assert set(without["parties"]) == {"insurer"}
    record = json.loads(Path("churn/bank/forgotten.jsonl").read_text())
    assert record["party"] == "shop"
    assert "from-shop.safetensors" in record["before"].keys() - record["after"].keys()

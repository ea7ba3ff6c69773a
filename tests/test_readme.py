"""The page that a newcomer reads first is real: its commands and its Python run, in order, on the demo's files."""

import re
import shlex
from pathlib import Path

import pandas
import pytest
from click.testing import CliRunner

from laconic.cli import main
from laconic.cli.demo_runs import write_files

TEXT = (Path(__file__).parent.parent / "README.md").read_text()


def lines_of(block):
    return [line for line in block.splitlines() if line.strip()]


@pytest.mark.slow
def test_two_files_become_a_model_and_a_prediction_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (commands,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    assert len(lines_of(commands)) <= 5
    for line in lines_of(commands):
        words = shlex.split(line)
        assert words.pop(0) == "laconic"
        if words == ["demo"]:
            write_files(Path("laconic-demo"))  # what is needed of it
            continue
        outcome = CliRunner().invoke(main, words)
        assert outcome.exit_code == 0, (line, outcome.output)
    written = pandas.read_csv("scores.csv")
    assert len(written) == 89
    assert set(written["answered by"]) == {"all"}

    (script,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(lines_of(script)) <= 11  # ten, and the import
    names = {}
    exec(script, names)  # noqa: S102 (our own document)
    assert names["scores"]["diagnosis"].tolist() == written["diagnosis"].tolist()
    assert type(names["table"].best).__name__ in ("FedOnce", "SplitNN")
    assert Path("page.html").stat().st_size > 10_000

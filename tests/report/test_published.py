"""A paper's tables: presets are plans, and our figures stand beside the paper's with the right sign."""

import json
from io import StringIO

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from laconic import DataPlan, Linear, Plan
from laconic.cli import main
from laconic.errors import PlanError
from laconic.plan import papers, read_preset, read_table
from laconic.report.published import cells, lines_on, run_published, show_published

TABLES = ("5", "6", "7")


def line(metric="rmse", paper=60.0):
    plan, given = Plan(method=Linear(), data=DataPlan(name="diabetes", parties=2)), read_table("fedonce", "7")[0]
    row = msgspec.structs.replace(given.row, metric=metric)
    return msgspec.structs.replace(given, row=row, plan=plan, paper=paper)


def test_every_row_of_every_table_is_a_plan_that_can_be_read():
    assert papers() == ("fedonce",)
    lines = [one for number in TABLES for one in read_table("fedonce", number)]
    assert {one.plan.data.name for one in lines} >= {"phishing", "superconduct", "mnist", "covtype_binary"}
    assert [one.paper for one in read_table("fedonce", "7")] == [0.9278, 0.9241, 0.9805, 0.2598]
    by_host = [one for one in read_table("fedonce", "6") if one.row.arm == "Priv-Baseline, epsilon 4"][:4]
    assert [(one.plan.data.hub, one.paper) for one in by_host] == [(0, 0.8943), (1, 0.8749), (2, 0.8879), (3, 0.8792)]
    assert {one.plan.budget.equal_noise for one in by_host} == {False}


def test_a_preset_has_the_papers_settings():
    plan = read_preset("fedonce#phishing-table5")
    encoder, trainer = plan.method.encoder, plan.method.trainer
    assert (plan.data.parties, encoder.dim, encoder.epochs, encoder.weight_decay) == (10, 3, 100, 1e-5)
    assert (trainer.epochs, trainer.batch, trainer.lr, trainer.weight_decay) == (300, 100, 1e-4, 1e-4)
    noised = read_preset("fedonce#phishing-table10-epsilon8")
    assert (noised.budget.epsilon, noised.budget.equal_noise, noised.method.trainer.clip) == (8.0, True, 1.5)


@pytest.mark.parametrize("name", ["fedonce#nix", "fedonce#", "nobody#phishing-table5"])
def test_a_preset_that_is_not_there_is_refused_with_those_that_are(name):
    with pytest.raises(PlanError, match=r"there (is no preset|are no presets)"):
        read_preset(name)


def test_what_is_done_stays_done_and_goes_on(tmp_path):
    path, lines = tmp_path / "runs.jsonl", [line()]
    run_published(lines, (0,), path)
    before = path.read_text()
    (runs,) = run_published(lines, (0, 1), path)
    assert [run.seed for run in runs] == [0, 1]
    assert path.read_text().startswith(before)
    assert len(path.read_text().splitlines()) == 2


def test_lower_errors_and_higher_shares_are_better_and_other_code_has_a_star(tmp_path):
    (runs,) = run_published([line()], (0,), tmp_path / "runs.jsonl")
    ours = runs[0].metrics["rmse"]
    assert cells(line(), runs)[1:4] == (f"{ours:.4f}", "60.0000", f"{60 - ours:+.4f}")
    assert cells(line("r2", 0.0), runs)[3] == f"{runs[0].metrics['r2']:+.4f}"
    assert cells(line(paper=None), runs)[2:4] == ("", "")
    old = [msgspec.structs.replace(runs[0], versions=runs[0].versions | {"code": "0" * 16})]
    console = Console(record=True, width=100, file=StringIO())
    console.print(show_published("a table", [line()], [old]))
    assert "00000000*" in (said := console.export_text())
    assert "by other code" in said


def test_a_table_without_rows_on_a_data_set_says_which_it_has():
    with pytest.raises(PlanError, match="it has: phishing, mnist"):
        lines_on(read_table("fedonce", "7"), "adult")


def test_the_command_refuses_what_no_paper_has():
    said = CliRunner().invoke(main, ["reproduce", "fedonce", "--table", "9"])
    assert said.exit_code != 0
    written = CliRunner().invoke(main, ["plan", "fedonce#phishing-table5"])
    assert written.exit_code == 0
    assert json.dumps("Nat") in written.output

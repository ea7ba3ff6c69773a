import shlex

import pytest

from laconic import DataPlan, FedAvg, FedOnce, Plan, Rap, Solo
from laconic.cli import main
from laconic.deploy.tuning import compare_plans, read_results
from laconic.errors import DataError, PlanError
from laconic.learn import Sgd
from laconic.report import commands_for

DATA = DataPlan(name="breast_cancer")
QUICK = Sgd(epochs=2, patience=10)
PLANS = [Plan(method=Solo(trainer=QUICK), data=DATA), Plan(method=FedOnce(trainer=QUICK), data=DATA)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    path = tmp_path_factory.mktemp("compared") / "runs.jsonl"
    return compare_plans(PLANS, (0, 1), path), path


def test_every_plan_is_run_with_every_seed_on_the_same_rows(compared):
    results, _ = compared
    assert [(one.method["type"], one.seed) for one in results] == [
        ("Solo", 0),
        ("FedOnce", 0),
        ("Solo", 1),
        ("FedOnce", 1),
    ]
    assert results[0].data["rows"] == results[1].data["rows"]


def test_importance_is_found_out_with_the_first_seed_where_the_method_allows(compared):
    results, _ = compared
    assert [one.importance is not None for one in results] == [False, True, False, False]
    assert set(results[1].importance) == {"heads", "noise", "shapley"}


def test_weighing_parties_changes_neither_score_nor_bytes(compared):
    from laconic.deploy.execute import execute

    results, _ = compared
    plain = execute(PLANS[1])
    assert (plain.predictions, plain.fit.bytes) == (results[1].predictions, results[1].fit.bytes)
    assert plain.releases == results[1].releases


def test_digests_are_the_same_with_parties_in_processes_of_their_own(compared):
    from laconic.deploy.execute import execute
    from laconic.deploy.transports.processes import Processes

    results, _ = compared
    apart = execute(Plan(method=PLANS[1].method, data=DATA, runtime=Processes()))
    assert [one.digest for one in apart.releases] == [one.digest for one in results[1].releases]
    assert all(len(one.digest) == 32 for one in apart.releases)


def test_what_was_compared_is_read_back_and_not_run_again(compared):
    results, path = compared
    assert read_results(path) == results
    heard = []
    assert compare_plans(PLANS, (0, 1), path, on_result=lambda *what: heard.append(what)) == results
    assert heard == [(None, 4, 4)]


def test_runs_on_files_that_changed_since_are_not_shown_as_if_of_the_new_ones(tmp_path):
    bank, shop = tmp_path / "bank.csv", tmp_path / "shop.csv"
    rows = [(f"c{row}", row % 7, "yes" if row % 3 else "no") for row in range(60)]
    bank.write_text("id,age,left\n" + "".join(f"{one},{age},{left}\n" for one, age, left in rows))
    shop.write_text("id,spent\n" + "".join(f"{one},{age * 3 % 5}\n" for one, age, _ in rows))
    data = DataPlan(files=(str(bank), str(shop)), id="id", label="left")
    plans, path = [Plan(method=Solo(trainer=QUICK), data=data)], tmp_path / "runs.jsonl"
    before = compare_plans(plans, (0,), path)
    assert compare_plans(plans, (0,), path) == before
    bank.write_text("id,age,left\n" + "".join(f"{one},{age},{'abc'[age % 3]}\n" for one, age, _ in rows))
    with pytest.raises(PlanError, match="they changed since; remove it"):
        compare_plans(plans, (0,), path)
    (after,) = compare_plans(plans, (0,), tmp_path / "new.jsonl")
    assert after.task.classes == ("a", "b", "c")


def test_a_file_of_something_else_is_not_spoilt(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{\n  "precious": 1\n}\n')
    with pytest.raises(PlanError, match="would be spoilt"):
        compare_plans(PLANS, (0,), path)
    assert "precious" in path.read_text()
    with pytest.raises(DataError, match="holds no result"):
        read_results(path)
    with pytest.raises(DataError, match="no result file"):
        read_results(tmp_path / "gone.json")


def test_methods_that_cannot_share_a_split_are_refused(tmp_path):
    with pytest.raises(PlanError, match="cannot share a split"):
        compare_plans([PLANS[0], Plan(method=FedAvg(), data=DATA)], (0,), tmp_path / "runs.jsonl")
    with pytest.raises(PlanError, match="different data"):
        compare_plans([PLANS[0], Plan(method=Solo(), data=DataPlan(name="digits"))], (0,), tmp_path / "runs.jsonl")


def test_the_command_to_run_it_again_gives_the_same_plan(compared, monkeypatch):
    from click.testing import CliRunner

    results, _ = compared
    commands = commands_for(results)
    assert commands["breast_cancer, 3 parties"] == (
        "laconic compare Solo FedOnce --data breast_cancer --parties 3 --seeds 2 --no-yardsticks "
        "--set 'Solo.trainer.type=\"Sgd\"' --set Solo.trainer.epochs=2 --set Solo.trainer.patience=10 "
        "--set 'FedOnce.trainer.type=\"Sgd\"' --set FedOnce.trainer.epochs=2 --set FedOnce.trainer.patience=10"
    )
    heard = []
    monkeypatch.setattr(
        "laconic.deploy.tuning.compare_plans", lambda plans, seeds, *_, **__: heard.append((plans, seeds)) or results
    )
    words = shlex.split(commands["breast_cancer, 3 parties"])[1:]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert heard == [(PLANS, range(2))]


def test_a_setting_of_another_type_is_in_the_command(tmp_path):
    plan = Plan(method=Rap(precision="float16"), data=DataPlan(name="breast_cancer", parties=2, overlap=200))
    from laconic.deploy.execute import execute

    (command, *_) = commands_for([execute(plan)]).values()
    assert command == (
        "laconic run Rap --data breast_cancer --parties 2 --set data.overlap=200 --seed 0 "
        "--set 'method.precision=\"float16\"'"
    )

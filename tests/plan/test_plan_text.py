import tomllib

import pytest

from laconic import FedAvg, FedOnce
from laconic.align import PrivateMatch
from laconic.data import Biased, Groups, Iid
from laconic.deploy import Faults, InProcess, Processes
from laconic.errors import PlanError
from laconic.learn import AnyEncoder, Pca, Sgd, WhitenedPca
from laconic.methods import methods
from laconic.plan.plan import Budget, DataPlan, Plan
from laconic.plan.text import change_plan, describe_keys, draft, read_plan, read_value, to_plain, write_plan

BREAST = DataPlan(name="breast_cancer")


@pytest.mark.parametrize("method", methods().values())
def test_every_methods_plan_is_read_back_as_it_was_written(method):
    plan = change_plan(draft(method), [("data.name", "digits")])
    assert plan.method == method()
    assert read_plan(write_plan(plan)) == plan


@pytest.mark.parametrize(
    "plan",
    [
        Plan(method=FedOnce(encoder=Pca(dim=3), trainer=Sgd(patience=None, lr=1e-4)), data=BREAST),
        Plan(method=FedOnce(), data=DataPlan(name="adult", cut=Groups(groups={"the bank": ("a b", 'c"d')}))),
        Plan(method=FedOnce(), data=DataPlan(name="adult", cut=Biased(alpha=0.25), hub="shop", overlap=0.5)),
        Plan(method=FedOnce(), data=DataPlan(files={"bank": "a.csv", "shop": "b\\c.csv"}, id="i", label="é\x7f")),
        Plan(method=FedOnce(), data=DataPlan(files=("a.csv",), id="i", label="y", kinds={"zip": "categorical"})),
        Plan(method=FedOnce(), data=BREAST, runtime=Processes(deadline=2.5), look_every=2, seed=7),
        Plan(method=FedOnce(), data=BREAST, runtime=InProcess(faults=Faults(absent=("shop",)))),
        Plan(method=FedOnce(), data=BREAST, budget=Budget(max_bytes=10, epsilon=2.0)),
    ],
)
def test_a_plan_with_choices_made_is_read_back_as_it_was_written(plan):
    assert read_plan(write_plan(plan)) == plan


def test_a_written_plan_says_what_its_keys_mean():
    text = write_plan(Plan(method=FedOnce(trainer=Sgd()), data=BREAST))
    epochs = next(line for line in text.splitlines() if line.startswith("epochs"))
    assert epochs.split("#")[1].strip() == "how often every row is seen"
    assert max(map(len, text.splitlines())) <= 120


def test_every_key_of_a_plan_has_a_meaning():
    for kind in (Plan, DataPlan, Budget):
        assert set(kind.__struct_fields__) <= describe_keys(kind).keys()


def test_a_plan_with_an_unknown_key_is_refused():
    text = '[method]\ntype = "FedOnce"\n[method.encoder]\ntype = "Pca"\ndmi = 5\n[data]\nname = "digits"\n'
    with pytest.raises(
        PlanError, match=r"no setting method\.encoder\.dmi \(found: 5\); did you mean method\.encoder\.dim"
    ):
        read_plan(text)


def test_text_that_is_not_toml_is_refused():
    with pytest.raises(PlanError, match=r"not TOML.*line 1"):
        read_plan("method = FedOnce")


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("0.1", 0.1), ("true", True), ("[1, 2]", [1, 2]), ('"float16"', "float16"), ("float16", "float16")],
)
def test_values_are_read_as_toml_and_other_words_as_text(text, value):
    assert read_value(text) == value
    assert type(read_value(text)) is type(value)


def test_a_line_break_cannot_bring_further_keys():
    assert read_value("1\nother = 2") == "1\nother = 2"


def test_changes_reach_settings_that_are_not_set_and_other_types():
    plan = Plan(method=FedOnce(), data=BREAST)
    changes = [("method.encoder.dim", 8), ("method.encoder.type", "WhitenedPca"), ("method.precision", "float16")]
    changed = change_plan(to_plain(plan), changes)
    assert changed.method == FedOnce(encoder=WhitenedPca(dim=8), precision="float16")
    assert isinstance(changed.method, FedOnce)
    assert isinstance(changed.method.encoder, AnyEncoder)


def test_a_plan_holds_only_data():
    assert tomllib.loads(write_plan(Plan(method=FedOnce(), data=BREAST)))["method"]["type"] == "FedOnce"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "name a public data set"),
        ({"name": "a", "files": ("b.csv",)}, "one of the two"),
        ({"files": ("b.csv",)}, "files need label"),
        ({"name": "a", "parties": 0}, "parties must be 1 or more, not 0"),
        ({"name": "a", "test": 1.0}, "test is a share"),
        ({"name": "a", "overlap": -5}, "overlap is a number of rows"),
        ({"name": "a", "public": "open.csv"}, "public is for your own files"),
    ],
)
def test_data_that_cannot_be_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        DataPlan(**settings)


TABLES = {"files": ("a.csv", "b.csv"), "label": "sick"}


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        (FedOnce(), TABLES, r"files need id .* FedOnce is for parties with other columns"),
        (FedOnce(), TABLES | {"id": "who", "public": "open.csv"}, "data.public is for horizontal methods"),
        (FedAvg(), {"files": ("a.toml", "b.toml"), "task": "binary"}, "party files say themselves what the label is"),
        (FedAvg(), TABLES | {"match": PrivateMatch()}, "FedAvg matches no rows"),
        (FedAvg(), TABLES | {"cut": Iid(parties=3)}, "the files say which rows each party of FedAvg has"),
    ],
)
def test_files_that_the_method_cannot_use_are_refused(method, settings, said):
    with pytest.raises(ValueError, match=said):
        Plan(method=method, data=DataPlan(**settings))


def test_a_plan_for_other_rows_needs_no_id_and_reads_back_as_it_was():
    plan = Plan(method=FedAvg(), data=DataPlan(**TABLES, public="open.csv"))
    assert read_plan(write_plan(plan)) == plan


@pytest.mark.parametrize(
    ("settings", "said"), [({"epsilon": 0}, "epsilon"), ({"delta": 1}, "delta"), ({"max_bytes": 0}, "max")]
)
def test_limits_that_nothing_could_keep_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        Budget(**settings)


def test_a_path_longer_than_a_line_is_written_whole_under_what_it_means():
    far = "/" + "a_folder/" * 20 + "bank.csv"
    plan = Plan(method=FedOnce(), data=DataPlan(files=(far, "shop.csv"), id="customer", label="churned"))
    text = write_plan(plan)
    assert far in text
    assert read_plan(text) == plan

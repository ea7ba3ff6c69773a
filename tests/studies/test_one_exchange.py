"""The study of one exchange: few shared rows with all labels, differences by seed, and one allowance for all arms."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from studies.harness import Job, only_on, run_jobs
from studies.one_exchange import LAST_TEN, Difference, few_shared, report
from tests.needs import public_data

RESULTS = Path(__file__).parent.parent.parent / "studies" / "results"


def record(arm, seed, value, **changes):
    key = {"table": "all shared", "data": "vehicle", "seed": seed, "arm": arm}
    said = {"score": {"metric": "accuracy", "value": value}, "bytes_a_row": 16.0, "took": ["net"], "code": "0" * 16}
    said |= {"rows": {"train": 600, "valid": 60, "test": 160}, "parties": 2}
    return {"key": key, **said, "allowance": {"trials": 1, "seconds_of_choice": 60.0}} | changes


def test_a_difference_is_taken_seed_by_seed():
    better = [record("pooled", seed, value) for seed, value in ((0, 0.9), (1, 0.7), (2, 0.5))]
    worse = [record("home", seed, value) for seed, value in ((1, 0.6), (0, 0.8))]
    found = Difference.of(better, worse)
    assert found.mean == pytest.approx(0.1)
    assert found.error == pytest.approx(0.0)
    assert found.exceeds(2) is True
    assert Difference.of(better[:1], worse).exceeds(2) is None


def test_less_is_better_for_errors():
    scores = [{"score": {"metric": "rmse", "value": value}} for value in (2.0, 3.0)]
    assert Difference.of([record("pooled", 0, 0.0, **scores[0])], [record("home", 0, 0.0, **scores[1])]).mean == 1.0


def test_the_table_has_the_share_of_the_gap_for_the_seeds_that_all_arms_have():
    scores = {"home": (0.60, 0.62), "FedOnce": (0.69, 0.71), "pooled": (0.70, 0.72)}
    records = [record(arm, seed, value) for arm, two in scores.items() for seed, value in enumerate(two)]
    (line,) = (
        one for one in report([*records, record("home", 2, 0.1)]).splitlines() if one.startswith("| vehicle | accuracy")
    )
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:6] == ["accuracy", "2", "0.6100 ± 0.0141", "0.7000 ± 0.0141", "0.7100 ± 0.0141"]
    assert cells[7:] == ["90 %", "yes", "16", "net", "older"]


@public_data
def test_few_rows_are_shared_and_the_hub_keeps_the_labels_of_all_others():
    federation = few_shared("credit_default", 250, seed=0, rows=2_000)
    hub, other = (federation.tables[name] for name in ("bank", "bureau"))
    assert {column.name for column in hub.columns} == set(LAST_TEN)
    assert (len(hub.cut("train")), len(hub.cut("valid")), len(hub.cut("test"))) == (225, 25, 400)
    assert len(hub.cut("own")) == 1_350
    assert len(other.cut("own")) == 0
    assert hub.part("own")[1] is not None
    assert np.array_equal(hub.keys[hub.cut("train")], other.keys[other.cut("train")])
    assert not set(hub.keys[hub.cut("own")]) & set(hub.keys[hub.cut("test")])


def test_no_table_has_arms_with_different_allowances():
    """Of every study that says what its arms were allowed; runs of `laconic compare --tune` say it in their result."""
    for path in RESULTS.glob("*/*.jsonl"):
        allowed = defaultdict(set)
        for line in path.read_text().splitlines():
            one = json.loads(line)
            given = one.get("allowance") or one["key"].get("tune")
            if given is not None:
                key = {name: value for name, value in one["key"].items() if name not in ("arm", "seed", "plan")}
                allowed[json.dumps(key, sort_keys=True)].add(json.dumps(given, sort_keys=True))
        unequal = [key for key, different in allowed.items() if len(different) > 1]
        assert not unequal, f"{path}: arms of one table had different allowances: {unequal}"


def test_what_other_code_measured_is_measured_again_if_asked(tmp_path):
    results, ran = tmp_path / "results.jsonl", []

    def job(code):
        return Job({"data": "vehicle", "table": "unseen"}, lambda: {"value": ran.append(code)}, code)

    run_jobs([job("old")], results)
    run_jobs([job("new")], results)
    assert ran == ["old"]
    run_jobs([job("new")], results, renew=True)
    run_jobs([job("new")], results, renew=True)
    assert ran == ["old", "new"]
    assert only_on([job("new")], None, "few shared") == []
    assert len(only_on([job("new")], "vehicle", "unseen")) == 1

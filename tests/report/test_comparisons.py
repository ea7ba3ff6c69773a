import pytest
from msgspec.structs import replace

from laconic.report.comparisons import comparisons_of
from laconic.tables import Score
from tests.report.results import alone, paid, pooled, result


def part(*results):
    (found,) = comparisons_of(results)
    return found


def test_runs_of_one_method_are_one_arm_with_mean_and_spread():
    (arm,) = part(result(score=0.9, seed=1), result(score=0.8, seed=0)).arms
    assert (arm.label, len(arm.results)) == ("FedOnce", 2)
    assert arm.score == pytest.approx(0.85)
    assert arm.spread == pytest.approx(0.0707, abs=1e-4)
    assert arm.first.seed == 0


def test_arms_of_one_name_are_told_apart_by_their_settings():
    other = result(method={"type": "FedOnce", "trainer": {"type": "Sgd", "lr": 0.1}})
    assert [arm.label for arm in part(result(), other).arms] == ["FedOnce, lr 0.001", "FedOnce, lr 0.1"]


def test_an_arm_with_a_price_is_called_by_its_epsilon():
    assert [arm.label for arm in part(result(), result(method={"type": "FedOnce"}, privacy=paid())).arms] == [
        "FedOnce",
        "FedOnce, epsilon 2",
    ]


def test_the_fewest_settings_tell_arms_apart():
    other = result(
        method={"type": "FedOnce", "encoder": {"type": "Nat", "dim": 3}, "trainer": {"type": "Sgd", "lr": 0.1}}
    )
    mine = result(
        method={"type": "FedOnce", "encoder": {"type": "Pca", "dim": 8}, "trainer": {"type": "Sgd", "lr": 0.2}}
    )
    assert [arm.label for arm in part(mine, other).arms] == ["FedOnce, Pca", "FedOnce, Nat"]


def test_results_on_other_data_are_another_part():
    titles = [one.title for one in comparisons_of([result(), result(data={"name": "others"})])]
    assert titles == ["people, 2 parties", "others, 2 parties"]


def test_the_cheapest_of_those_as_good_as_the_best_is_chosen():
    seeds = [result("Dear", score, up=90_000, seed=seed) for seed, score in enumerate((0.95, 0.97))]
    seeds += [result("Cheap", score, up=500, seed=seed) for seed, score in enumerate((0.95, 0.96))]
    seeds += [result("Bad", 0.7, up=10, seed=seed) for seed in (0, 1)]
    assert part(*seeds).chosen.label == "Cheap"


def test_with_one_seed_scores_within_a_tenth_of_the_gap_count_as_equal():
    runs = (alone(0.8), pooled(0.9), result("Dear", 0.89, up=9000), result("Cheap", 0.881, up=500))
    assert part(*runs).chosen.label == "Cheap"
    runs = (alone(0.8), pooled(0.9), result("Dear", 0.89, up=9000), result("Cheap", 0.879, up=500))
    assert part(*runs).chosen.label == "Dear"


def test_less_is_better_for_errors():
    runs = [result(kind, up=up) for kind, up in (("Dear", 9000), ("Cheap", 500))]
    errors = [replace(one, score=Score("rmse", value)) for one, value in zip(runs, (10.0, 12.0), strict=True)]
    assert part(*errors).best.label == "Dear"


def test_yardsticks_are_never_chosen():
    assert part(alone(0.9), pooled(0.99)).chosen is None


def test_the_frontier_is_what_nothing_beats_in_both():
    runs = (alone(0.8), pooled(1.0), result("A", 0.9, up=100), result("B", 0.85, up=500), result("C", 0.95, up=900))
    assert [arm.label for arm in part(*runs).frontier] == ["Solo", "A", "C"]

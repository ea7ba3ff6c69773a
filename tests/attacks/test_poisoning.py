"""A party sends something else than it should: constant, scaled, noisy, shuffled, no numbers, from wrong labels."""

from functools import partial

import numpy as np
import pytest

from laconic import (
    Equal,
    FedAvg,
    FedDf,
    FedOnce,
    FedProx,
    FewShot,
    OneShot,
    Rap,
    Result,
    Scaffold,
    deal,
    load,
    simulate,
)
from laconic.data import Iid
from laconic.errors import LaconicError, WireError
from laconic.learn import Krum, LinearModel, Median, Sgd, TrimmedMean
from laconic.methods import Check
from laconic.privacy import ClippedGaussian, DpSgd, PublicProjection
from laconic.report.tables import show_result
from laconic.testing import BadParty, bare_party, flip_labels, leave_out

SIFT = Check(leave_out=True)
KINDS = ("constant", "scaled", "noisy", "shuffled")
QUICK = Sgd(epochs=5, batch=32)


@pytest.fixture(scope="module")
def federation():
    """Four parties with other columns; the first has the labels."""
    return deal(load("breast_cancer"), Equal(parties=4), seed=0, test=0.3)


@pytest.fixture(scope="module")
def bad(federation):
    """The party that sends something else."""
    return federation.peers[1]


@pytest.fixture(scope="module")
def by_hand(federation, bad):
    """What the others reach among themselves."""
    return simulate(FedOnce(trainer=QUICK), leave_out(federation, bad))


def left_out(result):
    return [one.party for one in result.contributions if one.left_out]


def odd(result):
    return [one.party for one in result.contributions if one.problems]


@pytest.mark.parametrize("how", KINDS)
def test_a_bad_party_is_found_and_left_out_as_if_by_hand(federation, bad, by_hand, how):
    result = simulate(FedOnce(trainer=QUICK, check=SIFT), federation, runtime=BadParty(bad, how))
    assert left_out(result) == odd(result) == [bad]
    assert result.predictions == by_hand.predictions


@pytest.mark.parametrize("how", ["constant", "scaled", "noisy", "shuffled"])
def test_nobody_is_left_out_unless_asked_but_the_result_names_who_is_odd(federation, bad, how):
    runtime = BadParty(bad, how)
    counted = simulate(FedOnce(trainer=QUICK), federation, runtime=runtime)
    sifted = simulate(FedOnce(trainer=QUICK, check=SIFT), federation, runtime=runtime)
    assert odd(counted) == [bad] and left_out(counted) == []
    assert (counted.fit.bytes, counted.fit.rounds) == (sifted.fit.bytes, sifted.fit.rounds)


def test_numbers_that_are_none_end_the_run_with_the_partys_name(federation, bad):
    with pytest.raises(LaconicError, match=bad):
        simulate(FedOnce(trainer=QUICK), federation, runtime=BadParty(bad, "not a number"))


@pytest.mark.parametrize(
    ("method", "how"),
    [
        ("Rap", "scaled"),
        ("Rap", "shuffled"),
        ("OneShot", "noisy"),
        *(pytest.param(method, how, marks=pytest.mark.slow) for method in ("OneShot", "FewShot") for how in KINDS),
    ],
)
def test_other_methods_leave_a_bad_party_out_too(federation, bad, method, how):
    kind = {"Rap": Rap, "OneShot": OneShot, "FewShot": FewShot}[method]
    result = simulate(kind(check=SIFT), federation, runtime=BadParty(bad, how))
    assert left_out(result) == odd(result) == [bad]


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(partial(FedOnce, trainer=QUICK), id="FedOnce with a net"),
        pytest.param(partial(Rap, learner=LinearModel()), id="Rap with a linear model"),
        *(pytest.param(one, id=one.__name__, marks=pytest.mark.slow) for one in (FedOnce, OneShot, Rap)),
    ],
)
@pytest.mark.parametrize("name", ["breast_cancer", "digits", "diabetes"])
def test_honest_parties_are_not_left_out(method, name):
    for seed in range(2):
        honest = deal(load(name), Equal(parties=4), seed=seed, test=0.2)
        counted, sifted = (simulate(method(check=check), honest, seed=seed) for check in (Check(), SIFT))
        assert odd(sifted) == [] and len(sifted.contributions) == 3
        assert sifted.predictions == counted.predictions


@pytest.mark.slow
def test_honest_parties_are_not_left_out_in_a_hundred_runs():
    for seed in range(50):
        for name in ("breast_cancer", "digits"):
            honest = deal(load(name), Equal(parties=4), seed=seed, test=0.2)
            assert odd(simulate(FedOnce(trainer=Sgd(epochs=1), check=SIFT), honest, seed=seed)) == []


# Parties' numbers made by hand: what each attack does is seen, and nothing else.


def rows_of_three(count=600, seed=0):
    """Labels, the hub's columns and three parties' numbers that all come from the same few causes."""
    rng = np.random.default_rng(seed)
    causes = {"train": rng.normal(size=(count, 4)), "valid": rng.normal(size=(count // 3, 4))}
    labels = {cut: (x.sum(axis=1) > 0).astype(np.int64) for cut, x in causes.items()}

    def mixed(width):
        weights = rng.normal(size=(4, width))
        return {cut: (x @ weights + rng.normal(size=(len(x), width))).astype(np.float32) for cut, x in causes.items()}

    return labels, mixed(3), {name: mixed(3) for name in ("shop", "club", "bank")}


def found_by(received, own, labels, check=SIFT, **more):
    """Who is left out, and what is said of each."""
    hub = bare_party("hub")
    kept = check.sift(hub, received, own, labels, **more)
    return set(received) - set(kept), {one["party"]: one["problems"] for one in hub.memory["contributions"]}


def test_two_parties_that_agree_with_each_other_only_do_not_vouch_for_each_other():
    labels, own, received = rows_of_three()
    order = {cut: np.random.default_rng(1).permutation(len(y)) for cut, y in labels.items()}
    for name in ("shop", "club"):
        received[name] = {cut: block[order[cut]] for cut, block in received[name].items()}
    assert found_by(received, own, labels)[0] == {"shop", "club"}


def test_a_party_that_is_honest_about_training_rows_only_is_found():
    labels, _, received = rows_of_three(count=1500)
    valid = np.random.default_rng(1).permutation(received["shop"]["valid"])
    received["shop"] = received["shop"] | {"valid": valid}
    gone, said = found_by(received, {}, labels)
    assert gone == {"shop"} and "predicted worse" in said["shop"][0]


def test_a_few_huge_rows_are_found():
    labels, own, received = rows_of_three()
    received["club"]["train"][7] = 1e6
    gone, said = found_by(received, own, labels)
    assert gone == {"club"} and "times as large" in said["club"][0]


def weak_predictions(seed, count=300):
    """Numbers to be predicted, and a party's honest predictions, which explain one or two hundredths of them."""
    rng = np.random.default_rng(seed)
    cause = rng.normal(size=count)
    return {"train": 0.12 * cause + rng.normal(size=count)}, {"train": (0.12 * cause)[:, None]}


def test_a_party_that_predicts_little_but_better_than_the_mean_is_no_liar():
    """Of 20, most agree with the labels no better than a coincidence could, and by that alone they were left out."""
    weak = [weak_predictions(seed) for seed in range(20)]
    called_bad = [
        sum(
            bool(found_by({"shop": sent}, {}, labels, predictions=known, check=Check())[1]["shop"])
            for labels, sent in weak
        )
        for known in (False, True)
    ]
    assert called_bad[0] >= 3 * called_bad[1] > 0


@pytest.mark.parametrize("how", ["shuffled", "shifted", "of one class"])
def test_predictions_that_say_nothing_of_these_rows_are_found(how):
    labels, _, received = rows_of_three(count=900)
    rng = np.random.default_rng(1)
    right = {name: {"train": labels["train"][:, None] + rng.normal(size=(900, 1))} for name in received}
    bad = {
        "shuffled": rng.permutation(right["shop"]["train"]),
        "shifted": 3.0 + 1e-6 * rng.normal(size=(900, 1)),
        "of one class": 0.99 + 1e-3 * rng.normal(size=(900, 1)),
    }[how]
    sent = right | {"shop": {"train": bad.astype(np.float32)}}
    assert found_by(sent, {}, {"train": labels["train"]}, predictions=True)[0] == {"shop"}


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"train": np.zeros((5, 3)), "valid": np.zeros((5, 3))}, "more or fewer rows"),
        ({"train": np.zeros((600, 3))}, "no numbers for its rows"),
        ({"train": np.zeros((600, 3)), "valid": np.zeros((200, 2))}, "different lengths"),
        ({"train": np.zeros(600), "valid": np.zeros(200)}, "no rows of numbers"),
        ({"train": np.zeros((600, 3), bool), "valid": np.zeros((200, 3), bool)}, "no rows of numbers"),
        ("nothing", "no numbers for its rows"),
        ({"train": np.full((600, 3), np.nan), "valid": np.zeros((200, 3))}, "not finite"),
    ],
)
def test_what_cannot_be_used_ends_the_run_or_is_left_out(sent, words):
    labels, own, received = rows_of_three()
    received["shop"] = sent
    with pytest.raises(WireError, match=f"shop sent .*{words}"):
        found_by(received, own, labels, Check())
    gone, said = found_by(received, own, labels)
    assert gone == {"shop"} and words in said["shop"][0]


def test_the_last_party_is_not_left_out_without_an_error():
    labels, own, received = rows_of_three()
    bad = {cut: np.ones_like(block) for cut, block in received["shop"].items()}
    assert found_by({"shop": bad}, own, labels)[0] == {"shop"}
    with pytest.raises(WireError, match="left nobody: shop: the same numbers for all rows"):
        found_by({"shop": bad}, {}, labels)


def test_with_few_rows_no_party_is_called_unrelated():
    labels, own, received = rows_of_three(count=90)
    received["shop"] = {cut: np.random.default_rng(1).permutation(block) for cut, block in received["shop"].items()}
    assert found_by(received, own, labels)[0] == set()


def test_noise_that_a_party_was_asked_for_is_not_held_against_it(federation):
    noise = ClippedGaussian(sigma=50.0, seeded=True)
    method = FedOnce(trainer=QUICK, encoder=PublicProjection(), noise=noise, check=SIFT)
    assert odd(simulate(method, federation)) == []


def test_who_is_left_out_must_not_hang_on_labels_that_noise_should_cover():
    with pytest.raises(ValueError, match="decides by the true labels"):
        FedOnce(trainer=DpSgd(), check=SIFT)


def test_a_server_without_labels_cannot_leave_anybody_out():
    with pytest.raises(ValueError, match="needs labels at the server"):
        Rap(trains="label holder", check=SIFT)


def test_limits_that_nobody_could_pass_are_refused():
    with pytest.raises(ValueError, match="scale must be above 0"):
        Check(scale=0.0)
    with pytest.raises(ValueError, match="significance must be above 0 and at most 1"):
        Check(significance=2.0)


def test_the_result_tells_and_keeps_what_was_found(federation, bad):
    from rich.console import Console

    result = simulate(FedOnce(trainer=QUICK), federation, runtime=BadParty(bad, "scaled"))
    assert Result.from_json(result.to_json()) == result
    console = Console(width=400)
    with console.capture() as captured:
        console.print(show_result(result))
    text = captured.get()
    assert f"Checked: {bad}: numbers" in text and "It counts all the same; method.check.leave_out = true" in text
    assert "Checked: nothing odd in what was sent by" in text


# Parties with other rows.


@pytest.fixture(scope="module")
def rows_apart():
    """Four parties with other rows, and a server."""
    from laconic import deal_rows

    return deal_rows(load("digits"), Iid(parties=4), seed=0)


@pytest.fixture(scope="module")
def liar(rows_apart):
    """The party whose model is bad."""
    return [name for name in rows_apart.peers if rows_apart.tables[name].y is not None][1]


def averaging(average=None, **more):
    settings = {} if average is None else {"average": average}
    return FedAvg(trainer=Sgd(epochs=5, batch=32), exchanges=3, **settings, **more)


@pytest.mark.parametrize("average", [Median(), TrimmedMean(), Krum()])
@pytest.mark.parametrize("how", ["constant", "scaled", "noisy", "shuffled", "flipped"])
def test_an_average_holds_against_one_bad_party_of_four(rows_apart, liar, average, how):
    poisoned = flip_labels(rows_apart, liar) if how == "flipped" else rows_apart
    runtime = {} if how == "flipped" else {"runtime": BadParty(liar, how)}
    by_hand = simulate(averaging(), leave_out(rows_apart, liar)).score.value
    usual = simulate(averaging(), poisoned, **runtime).score.value
    robust = simulate(averaging(average), poisoned, **runtime).score.value
    # Test rows are about 225: one standard error is about 0.015.
    assert robust > by_hand - 0.03 and robust > usual - 0.01


@pytest.mark.parametrize("method", [FedProx, FedDf, Scaffold])
def test_other_averaging_methods_hold_too(rows_apart, liar, method):
    usual, robust = (
        simulate(method(exchanges=3, **more), rows_apart, runtime=BadParty(liar, "scaled")).score.value
        for more in ({}, {"average": Median()})
    )
    assert robust > 0.85 > usual

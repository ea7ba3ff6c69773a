"""One party's model is bad, or what it sends while all learn together: it is found, and left out as if by hand."""

import numpy as np
import pytest

from laconic import Equal, Fdml, FedAvg, LateFusion, Scaffold, Vafl, VimAdmm, VimSgd, deal, deal_rows, load, simulate
from laconic.data import Dirichlet, Iid
from laconic.errors import WireError
from laconic.learn import Sgd
from laconic.methods import Check, ModelCheck
from laconic.methods.families.model_checks import mark_of, read_marks
from laconic.privacy import BatchClip, GaussianUpdates
from laconic.testing import BadParty, bare_party, flip_labels, leave_out

LOOK, SIFT = ModelCheck(), ModelCheck(leave_out=True)
JUDGED = ModelCheck(leave_out=True, judged=True)
KINDS = ("constant", "scaled", "noisy", "shuffled")


def left_out(result):
    return [one.party for one in result.contributions if one.left_out]


def odd(result):
    return [one.party for one in result.contributions if one.problems]


# Parties with other rows: models.


@pytest.fixture(scope="module")
def rows_apart():
    return deal_rows(load("digits"), Iid(parties=4), seed=7)


@pytest.fixture(scope="module")
def liar(rows_apart):
    return [name for name in rows_apart.peers if rows_apart.tables[name].y is not None][1]


def averaging(check=None, kind=FedAvg):
    trainer = {} if kind is Scaffold else {"trainer": Sgd(epochs=2, batch=32)}
    return kind(exchanges=2, check=check, **trainer)


def poisoned(method, federation, party, how):
    if how == "flipped":
        return simulate(method, flip_labels(federation, party))
    return simulate(method, federation, runtime=BadParty(party, how))


@pytest.fixture(scope="module", params=[SIFT, JUDGED], ids=["directions", "judged"])
def check(request):
    return request.param


@pytest.fixture(scope="module")
def by_hand(rows_apart, liar, check):
    return simulate(averaging(check), leave_out(rows_apart, liar))


@pytest.mark.parametrize("how", [*KINDS, "flipped"])
def test_a_bad_model_is_found_and_left_out_as_if_by_hand(rows_apart, liar, by_hand, how, check):
    """The liar's marks of others are as bad as its model."""
    result = poisoned(averaging(check), rows_apart, liar, how)
    assert left_out(result) == odd(result) == [liar]
    assert result.predictions == by_hand.predictions
    assert result.fit.rounds == averaging(check).rounds == 2 + check.judged
    assert odd(by_hand) == []


def test_a_bad_model_counts_unless_asked_but_the_result_names_it(rows_apart, liar):
    looked, usual = (poisoned(averaging(check), rows_apart, liar, "flipped") for check in (LOOK, None))
    assert odd(looked) == [liar] and left_out(looked) == []
    assert looked.predictions == usual.predictions and looked.fit.bytes == usual.fit.bytes


def test_scaffold_leaves_a_bad_model_out_too(rows_apart, liar):
    hand = simulate(averaging(kind=Scaffold), leave_out(rows_apart, liar))
    result = poisoned(averaging(SIFT, Scaffold), rows_apart, liar, "flipped")
    assert left_out(result) == [liar]
    assert result.predictions == hand.predictions


@pytest.mark.parametrize(("check", "beta"), [(SIFT, 0.5), (SIFT, 5.0), (JUDGED, 5.0)])
def test_honest_models_are_not_left_out(check, beta):
    for seed in range(3):
        honest = deal_rows(load("breast_cancer"), Dirichlet(parties=4, beta=beta), seed=seed)
        assert odd(simulate(averaging(check), honest, seed=seed)) == []


def models_of(changes):
    """A server with a model of zeros, and parties' models of it."""
    hub = bare_party("hub")
    hub.memory["model"] = {"w": np.zeros(changes[0].shape, np.float32)}
    return hub, {f"party {number}": {"w": change.astype(np.float32)} for number, change in enumerate(changes)}


def test_two_of_five_are_left_out_and_most_stay():
    rng = np.random.default_rng(0)
    way = rng.normal(size=50)
    hub, models = models_of([way + rng.normal(size=50) * 0.3 for _ in range(3)] + [-way, 1000 * way])
    assert list(SIFT.sift(hub, models)) == ["party 0", "party 1", "party 2"]
    said = [one["problems"] for one in hub.memory["contributions"][3:]]
    assert "another direction" in said[0][0] and "times as much" in said[1][0]


def given(marks):
    """Marks by judge and by whose model it is."""
    names = [f"party {number}" for number in range(len(marks))]
    return {judge: dict(zip(names, row, strict=True)) for judge, row in zip(names, marks, strict=True)}


def test_where_directions_say_nothing_wrong_labels_are_found_by_marks():
    rng = np.random.default_rng(0)
    way = rng.normal(size=500)
    hub, models = models_of([way + 3 * rng.normal(size=500) for _ in range(3)] + [3 * rng.normal(size=500) - way])
    assert len(SIFT.sift(hub, models)) == 4
    hub.memory.pop("contributions")
    kept = JUDGED.sift(hub, models, given([[0.9, 0.8, 0.8, 0.2]] * 3 + [[0.2, 0.2, 0.2, 0.9]]))
    assert list(kept) == ["party 0", "party 1", "party 2"]
    assert "(AUC) of 0.20, where theirs have 0.80" in hub.memory["contributions"][3]["problems"][0]


def test_an_honest_party_of_other_shares_stays_if_others_find_its_model_good():
    rng = np.random.default_rng(0)
    way, other = rng.normal(size=(2, 500))
    hub, models = models_of([way + 0.3 * rng.normal(size=500) for _ in range(3)] + [other])
    assert list(SIFT.sift(hub, models)) == ["party 0", "party 1", "party 2"]
    hub.memory.pop("contributions")
    assert len(JUDGED.sift(hub, models, given([[0.8] * 4] * 4))) == 4


def test_where_all_models_rank_badly_who_agrees_or_ranks_as_usual_stays():
    """As on credit_default: one honest model agrees with others and ranks no better than guessing, one the reverse."""
    rng = np.random.default_rng(0)
    way = rng.normal(size=500)
    near = [way + 0.5 * rng.normal(size=500) for _ in range(3)]
    hub, models = models_of([*near, rng.normal(size=500)])
    assert len(JUDGED.sift(hub, models, given([[0.51, 0.65, 0.66, 0.70]] * 4))) == 4
    hub.memory.pop("contributions")
    assert list(JUDGED.sift(hub, models, given([[0.51, 0.65, 0.66, 0.55]] * 4))) == ["party 0", "party 1", "party 2"]


@pytest.mark.parametrize("parties", [3, 4, 5])
def test_one_that_marks_all_others_down_blames_nobody(parties):
    rng = np.random.default_rng(0)
    hub, models = models_of([np.ones(50) + rng.normal(size=50) for _ in range(parties)])
    assert len(JUDGED.sift(hub, models, given([[0.9] * parties] * (parties - 1) + [[0.0] * parties]))) == parties


@pytest.mark.parametrize("marks", [np.ones(3), np.ones(4, int), [1.0] * 4, None])
def test_who_sends_no_marks_is_named(marks):
    with pytest.raises(WireError, match="shop did not send a mark for each of 4 models"):
        read_marks("shop", list("abcd"), marks)


def test_rows_of_one_class_mark_nothing(rows_apart):
    task = rows_apart.task
    assert mark_of(task, np.full((5, 10), 0.1), np.zeros(5, int)) is None
    assert read_marks("shop", list("abcd"), np.empty(0)) == {}


def test_two_parties_cannot_judge_each_other(rows_apart):
    two = leave_out(leave_out(rows_apart, rows_apart.peers[0]), rows_apart.peers[1])
    with pytest.raises(ValueError, match=r"check\.judged needs 3 parties or more, and there are 2"):
        simulate(averaging(JUDGED), two)


def test_marks_without_noise_are_refused_where_models_bear_noise():
    with pytest.raises(ValueError, match=r"check\.judged sends marks of parties' rows that no noise covers"):
        FedAvg(updates=GaussianUpdates(clip=1.0, sigma=1.0), check=JUDGED)


def test_nobody_is_called_different_where_all_differ():
    rng = np.random.default_rng(0)
    hub, models = models_of(list(rng.normal(size=(4, 500))))
    assert len(SIFT.sift(hub, models)) == 4


def test_with_two_models_nobody_is_the_odd_one():
    hub, models = models_of([np.ones(9), -np.ones(9)])
    assert len(SIFT.sift(hub, models)) == 2


def test_limits_of_models_that_nobody_could_pass_are_refused():
    with pytest.raises(ValueError, match="agreement must be above 0 and at most 1"):
        ModelCheck(agreement=2.0)
    with pytest.raises(ValueError, match="standing must be above 0 and at most 1"):
        ModelCheck(standing=0.0)


# Parties with other columns, which learn together.


@pytest.fixture(scope="module")
def federation():
    return deal(load("breast_cancer"), Equal(parties=4), seed=0, test=0.3)


@pytest.mark.parametrize("kind", [VimSgd, VimAdmm, Fdml])
@pytest.mark.parametrize("how", ["scaled", "shuffled"])
def test_summed_methods_leave_a_bad_party_out_as_if_by_hand(federation, kind, how):
    bad = federation.peers[1]
    hand = simulate(kind(epochs=2), leave_out(federation, bad))
    result = simulate(kind(epochs=2, check=Check(leave_out=True)), federation, runtime=BadParty(bad, how))
    assert left_out(result) == odd(result) == [bad]
    assert result.score.value == pytest.approx(hand.score.value, abs=0.01)


def test_vafl_leaves_a_bad_party_out_where_it_diverged_with_it(federation):
    bad = federation.peers[0]
    result = simulate(Vafl(epochs=2, check=Check(leave_out=True)), federation, runtime=BadParty(bad, "scaled"))
    assert left_out(result) == [bad] and result.score.value > 0.9


def test_a_check_of_honest_parties_changes_nothing(federation):
    looked, usual = (simulate(VimSgd(epochs=2, check=check), federation) for check in (Check(leave_out=True), None))
    assert odd(looked) == [] and len(looked.contributions) == 3
    assert looked.predictions == usual.predictions and looked.fit.bytes > usual.fit.bytes


def test_numbers_that_noise_should_cover_are_not_asked_for_a_second_time():
    with pytest.raises(ValueError, match="check asks for every training row once more"):
        VimSgd(privacy=BatchClip(clip=1.0, sigma=1.0), check=Check())


# Parties that send predictions only: judged by validation rows, whose labels they do not have.


@pytest.fixture(scope="module")
def many_rows():
    return deal(load("digits"), Equal(parties=4), seed=0, valid=0.2)


def fusing(check=None):
    return LateFusion(trainer=Sgd(epochs=3), check=check)


@pytest.mark.parametrize("how", ["constant", "noisy", "shuffled"])
def test_late_fusion_leaves_bad_predictions_out(many_rows, how):
    bad = many_rows.peers[1]
    hand = simulate(fusing(), leave_out(many_rows, bad))
    result = simulate(fusing(Check(leave_out=True)), many_rows, runtime=BadParty(bad, how))
    assert left_out(result) == odd(result) == [bad]
    assert result.predictions == hand.predictions


def test_a_party_without_numbers_ends_late_fusion_by_name(many_rows):
    bad = many_rows.peers[1]
    with pytest.raises(WireError, match=bad):
        simulate(fusing(Check()), many_rows, runtime=BadParty(bad, "not a number"))

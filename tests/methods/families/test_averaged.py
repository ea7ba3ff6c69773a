"""Averaging with cohorts and lost parties, and under noise that keeps a budget, by rows and by whole parties."""

import numpy as np
import pytest

from laconic import FedAvg, FedProx, Scaffold, price, simulate, train
from laconic.audit import canary_attack
from laconic.core import Party
from laconic.deploy import Faults, InProcess, ledgers_of
from laconic.errors import PartyAbsent, PlanError
from laconic.learn import Sgd
from laconic.methods import SecureSums
from laconic.privacy import Budget, DpSgd, GaussianUpdates, epsilon_of
from laconic.tables import Table
from laconic.testing import small_horizontal

BINARY = small_horizontal("binary")
QUICK = Sgd(epochs=1)
FEWEST = min(len(BINARY.tables[name].cut("train")) for name in BINARY.peers)


def test_a_cohort_is_drawn_by_the_seed_and_is_in_the_result():
    method = FedAvg(trainer=QUICK, exchanges=6, cohort=2)
    first, again, other = (simulate(method, BINARY, seed=seed) for seed in (1, 1, 2))
    assert first.data["cohorts"] == again.data["cohorts"] != other.data["cohorts"]
    assert {len(asked) for asked in first.data["cohorts"]} == {2}
    asked = [(one.party, one.times) for one in first.wire if one.step == "improve"]
    assert sum(times for _, times in asked) == 12
    assert "cohorts" not in simulate(FedAvg(trainer=QUICK), BINARY).data


@pytest.mark.parametrize("kind", [FedAvg, Scaffold])
def test_late_parties_are_left_out_of_an_exchange_and_back_in_the_next(kind):
    faults = InProcess(faults=Faults(late=0.3, seed=1))
    result = simulate(kind(exchanges=8, least=1), BINARY, runtime=faults)
    assert 0 < len(result.absences) < 24
    late = {one.round for one in result.absences if one.party == "party1"}
    assert late and late != set(range(8)), "it came back"
    with pytest.raises(PartyAbsent):
        simulate(kind(exchanges=8), BINARY, runtime=faults)


def test_too_few_answers_end_the_run_with_the_number():
    lost = InProcess(faults=Faults(absent=("party1", "party2")))
    with pytest.raises(ValueError, match="1 parties answered in time, and least = 2"):
        simulate(FedAvg(trainer=QUICK, least=2), BINARY, runtime=lost)
    with pytest.raises(ValueError, match="least is a number of parties from 1 to the cohort of 2, not 3"):
        FedAvg(least=3, cohort=2)


def test_a_secure_sum_goes_on_without_lost_parties():
    result = simulate(
        FedAvg(exchanges=3, sums=SecureSums(least_parties=2)),
        BINARY,
        runtime=InProcess(faults=Faults(absent=("party2",))),
    )
    assert {one.party for one in result.absences} == {"party2"}
    assert result.score.value > 0.9


PRIVATE = [
    FedAvg(trainer=DpSgd(epochs=2, batch=32), exchanges=2),
    FedProx(trainer=DpSgd(epochs=2, batch=32), exchanges=2, sums=SecureSums()),
    Scaffold(trainer=DpSgd(epochs=2, batch=32), exchanges=2),
    FedAvg(updates=GaussianUpdates(clip=0.5), exchanges=2),
    Scaffold(updates=GaussianUpdates(clip=0.5), exchanges=2, sums=SecureSums()),
]


ALONE = Budget(epsilon=2.0, people="disjoint")


@pytest.mark.parametrize(
    "method", PRIVATE, ids=["rows", "rows, masked", "rows, scaffold", "parties", "parties, masked"]
)
def test_a_budget_is_kept_and_nothing_leaves_without_noise(method):
    pytest.importorskip("dp_accounting")
    result = simulate(method.within(ALONE, FEWEST, BINARY.hub, BINARY.peers), BINARY)
    paid = price(ledgers_of(result), 1e-5, "disjoint")
    assert 1.9 < paid.epsilon <= 2.0
    assert paid.open == () and paid.secure
    assert {one.label for one in result.releases} <= {"noised", "no rows"}
    expected = method.within(ALONE, FEWEST, BINARY.hub, BINARY.peers).expected_noise(FEWEST, "", ("a",))
    assert len(expected["a"]) == 2


def test_an_epsilon_without_noise_is_refused_with_what_to_set():
    with pytest.raises(PlanError, match=r"method\.trainer\.type = DpSgd hides single rows, method\.updates\.clip"):
        FedAvg().within(Budget(epsilon=1.0), 100, "hub", ("a", "b"))
    with pytest.raises(ValueError, match="not both"):
        FedAvg(trainer=DpSgd(sigma=1.0), updates=GaussianUpdates(sigma=1.0))


def test_private_steps_are_pulled_and_pushed_as_plain_ones_are():
    # Without noise, and with all rows in every step, private descent is plain descent.
    plain = Sgd(epochs=4, batch=10_000, lr=0.1, optimizer="sgd", momentum=0.0, weight_decay=0.0)
    private = DpSgd(sigma=0.0, clip=1e6, epochs=4, batch=10_000, lr=0.1)
    for kind, settings in ((FedProx, {"mu": 0.5}), (Scaffold, {})):
        ours, theirs = (
            train(kind(trainer=one, exchanges=3, **settings), BINARY).hub.memory["model"] for one in (private, plain)
        )
        for name, values in theirs.items():
            assert np.allclose(ours[name], values, atol=1e-5)


def released(updates: GaussianUpdates, change: np.ndarray, number: int = 0) -> np.ndarray:
    party = Party("shop", Table.without_rows("shop"), seed=0)
    party.turn("fit", number)
    start = {"model": {"w": np.zeros(change.shape, np.float32)}}
    return updates.release(party, start, {"model": {"w": change.astype(np.float32)}}).value["model"]["w"]


def test_a_change_is_clipped_as_a_whole():
    quiet = GaussianUpdates(clip=2.0, sigma=1e-9, seeded=True)
    assert np.allclose(released(quiet, np.array([30.0, 40.0])), [1.2, 1.6], atol=1e-6)
    assert np.allclose(released(quiet, np.array([0.3, 0.4])), [0.3, 0.4], atol=1e-6)
    # A net that left all numbers would show past the noise: nothing has changed, then.
    for wild in (np.nan, np.inf):
        assert np.allclose(released(quiet, np.array([wild, 1.0])), [0.0, 0.0], atol=1e-6)


def test_the_canary_stays_below_the_claim_and_shows_a_missing_clip():
    pytest.importorskip("dp_accounting")
    updates = GaussianUpdates(clip=2.0, sigma=1.5, seeded=True)
    plays = iter(range(10**6))

    def game(length: float):
        # All rows of a party, or none: the whole of its change is the canary.
        return lambda there, rng: float(released(updates, np.array([length * there, 0.0]), next(plays))[0])

    claim = epsilon_of(1 / 1.5, 1e-5)
    rng = np.random.default_rng(0)
    assert 0.5 < canary_attack(game(1e6), claim, 1e-5, 1500, rng, what="updates").success <= claim
    bare = GaussianUpdates(clip=20.0, sigma=0.15, seeded=True)  # The noise of clip 2, and a change of 20.
    loud = lambda there, rng: float(released(bare, np.array([20.0 * there, 0.0]), next(plays))[0])  # noqa: E731
    assert canary_attack(loud, claim, 1e-5, 1500, rng, what="no clip").success > claim

"""Noisy votes: the paper's theorems by hand, bounds that hold, and noise that is what it says."""

from math import exp, log

import numpy as np
import pytest

from laconic.audit import epsilon_lower_bound
from laconic.privacy.mechanisms.gaussian import delta_of, epsilon_of
from laconic.privacy.mechanisms.votes import (
    L1,
    L2,
    Election,
    GaussianVotes,
    LaplaceVotes,
    Sure,
    log_gaussian_doubt,
    log_laplace_doubt,
    uniforms,
)

SPLIT = np.tile([[60, 40]], (41, 1))
AGREED = np.tile([[100, 0]], (41, 1))


def test_the_moment_of_one_agreed_answer_is_theorem_two():
    gamma, s, gap = 0.04, 2, 100
    q = (2 + gamma * gap) / (4 * exp(gamma * gap))
    worst = 2 * s * gamma
    moments = {}
    for order in range(1, 33):
        kept = (1 - q) * ((1 - q) / (1 - exp(worst) * q)) ** order
        moments[order] = min(log(kept + q * exp(worst * order)), worst**2 * order * (order + 1) / 2)
    by_hand = min((41 * moment + log(1e5)) / order for order, moment in moments.items())
    assert LaplaceVotes(gamma=gamma).price(AGREED, s, 1e-5).dependent == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize(
    ("gamma", "answers", "printed"), [(0.04, 40, 2.59), (0.04, 81, 3.72), (0.05, 297, 9.78), (0.05, 74, 4.51)]
)
def test_the_papers_epsilons_at_l2_are_those_of_shares_of_the_held_out_quarter(gamma, answers, printed):
    # Adult: 0.5 % and 1 % of 8,141 rows, public and test together. Cod-rna: 2 % of 14,884, and 0.5 %, which the paper
    # calls 1 %. One partition, Theorem 3 with eight moments.
    by_hand = min((answers * 2 * gamma**2 * order * (order + 1) + log(1e5)) / order for order in range(1, 9))
    assert by_hand == pytest.approx(printed, abs=0.005)
    # Ours follows the distribution of the loss instead of its moments.
    price = LaplaceVotes(gamma=gamma).price(np.tile([[3, 2]], (answers, 1)), 1, 1e-5)
    assert 0.7 * printed < price.independent < printed


@pytest.mark.parametrize("noise", [LaplaceVotes(gamma=0.04), GaussianVotes(sigma=20.0)])
def test_agreement_is_cheaper_and_never_dearer_than_the_independent_bound(noise):
    split, agreed = noise.price(SPLIT, 2, 1e-5), noise.price(AGREED, 2, 1e-5)
    assert agreed.dependent < split.dependent <= split.independent + 1e-12
    assert agreed.independent == split.independent


@pytest.mark.parametrize(
    ("noise", "votes", "answers", "least"),
    [(LaplaceVotes(gamma=1.0), 40, 81, 1.47), (GaussianVotes(sigma=8.0), 100, 100, 0.76)],
    ids=["laplace", "gaussian"],
)
def test_answers_that_noise_all_but_never_changes_are_not_free(noise, votes, answers, least):
    # Two students each of 20 or 50 parties, unanimous: the chance of another winner is below what 1 can be told from.
    agreed = np.tile([[votes, 0]], (answers, 1))
    assert noise.price(agreed, 2, 1e-5).dependent == pytest.approx(least, abs=0.005)
    further = np.tile([[1000 * votes, 0]], (answers, 1))
    assert 0 < noise.price(further, 2, 1e-5).dependent < least


def test_gaussian_noise_of_the_same_spread_costs_less():
    laplace = LaplaceVotes(gamma=0.04)
    gaussian = GaussianVotes(sigma=2**0.5 / 0.04)
    assert gaussian.price(SPLIT, 2, 1e-5).independent < laplace.price(SPLIT, 2, 1e-5).independent / 2


def test_more_answers_cost_more():
    noise = LaplaceVotes(gamma=0.05)
    prices = [noise.price(SPLIT[:count], 1, 1e-5).independent for count in (1, 10, 41)]
    assert prices == sorted(prices)
    # Pure noise of epsilon 0.1 is a little better than that at any delta above 0.
    assert 0.0999 < prices[0] <= 0.1


@pytest.mark.parametrize(
    ("doubt", "noise"),
    [(log_laplace_doubt, LaplaceVotes(gamma=0.1)), (log_gaussian_doubt, GaussianVotes(sigma=10.0))],
    ids=["laplace", "gaussian"],
)
def test_the_doubt_bounds_how_often_noise_changes_the_winner(doubt, noise):
    counts = np.array([[30, 12, 5], [10, 9, 8], [40, 0, 0]])
    scale = noise.gamma if isinstance(noise, LaplaceVotes) else noise.sigma
    rng = np.random.default_rng(0)
    changed = np.mean([L1(noise=noise).noisy(counts, rng).argmax(axis=1) != 0 for _ in range(4000)], axis=0)
    # Two standard errors of a share among 4,000 draws: 0.016.
    assert (changed <= np.exp(doubt(counts, scale)) + 0.016).all()


@pytest.mark.parametrize("secure", [False, True], ids=["seeded", "secure"])
def test_noise_has_the_spread_it_claims(secure):
    rng, counts = np.random.default_rng(0), np.zeros(50_000)
    laplace = LaplaceVotes(gamma=0.5).draw(uniforms(counts, rng, secure=secure))
    gaussian = GaussianVotes(sigma=3.0).draw(uniforms(counts, rng, secure=secure))
    assert np.abs(laplace).mean() == pytest.approx(2.0, rel=0.03)
    assert gaussian.std() == pytest.approx(3.0, rel=0.03)
    assert abs(laplace.mean()) < 0.1
    assert abs(gaussian.mean()) < 0.1


def test_secure_numbers_never_repeat_and_stay_inside():
    one, other = (uniforms(np.zeros(100), np.random.default_rng(0), secure=True) for _ in range(2))
    assert not (one == other).any()
    assert 0 < min(one.min(), other.min()) <= max(one.max(), other.max()) < 1


def test_noise_that_is_none_is_refused():
    with pytest.raises(ValueError, match="gamma must be above 0"):
        LaplaceVotes(gamma=0.0)
    with pytest.raises(ValueError, match="sigma must be above 0"):
        GaussianVotes(sigma=-1.0)


def test_noise_is_secure_unless_a_study_asks_for_a_seed():
    assert L1().words(1, 1, "a party").secure
    assert L2().words(1, 1, "a row").secure
    assert not L1(secure=False).words(1, 1, "a party").secure


def test_smoothed_votes_have_no_price_that_depends_on_data():
    assert L1().price(AGREED, 2).dependent is None
    winners_only = L1(noise=GaussianVotes(), smooth=False).price(AGREED, 2)
    assert winners_only.dependent <= winners_only.independent


def _outcomes(counts, noise):
    """How often a row with these votes is not answered, or answered by class 0 or 1, in 40,000 trials."""
    level, many = L1(noise=noise, secure=False, smooth=False), 40_000
    nothing = np.zeros((many, 1))
    places, noisy = level.answer(
        np.tile([counts], (many, 1)), Election(2, many, nothing, nothing), np.random.default_rng(0)
    )
    first = float((noisy[:, 0] > noisy[:, 1]).sum() / many)
    return np.array([1 - len(places) / many, first, len(places) / many - first])


def test_sure_answers_tell_neighbours_apart_no_better_than_their_price_and_better_than_without_the_tests():
    # One vote moves from class 0 to class 1, so that the winner's votes fall as well; the test is nearly bare.
    noise = GaussianVotes(sigma=1.0, sure=Sure(least=0.75, tests=1, width=0.5))
    before, after = _outcomes([2, 0], noise), _outcomes([1, 1], noise)
    priced, unpriced = (1 / one.words(1, 1, "a row", False).multiplier for one in (noise, GaussianVotes(sigma=1.0)))
    found = {epsilon: np.maximum(before - exp(epsilon) * after, 0).sum() for epsilon in (0.0, 0.5, 1.0, 2.0)}
    # Three standard deviations of a share of 40,000 are at most 0.0075.
    assert all(delta <= delta_of(priced, epsilon) + 0.0075 for epsilon, delta in found.items())
    assert found[0.0] > delta_of(unpriced, 0.0) + 0.1


def test_sure_answers_are_never_more_than_were_paid_for_and_nearer_to_the_truth():
    rng = np.random.default_rng(1)
    counts = np.stack([one := rng.integers(0, 101, 4000), 100 - one], axis=1)
    election = Election(100, 400, np.zeros((4000, 1)), np.zeros((4000, 1)))
    right = {}
    for sure in (None, Sure(least=0.8, tests=10, width=1.0)):
        level = L1(noise=GaussianVotes(sigma=40.0, sure=sure), secure=False, smooth=False)
        places, noisy = level.answer(counts, election, rng)
        assert sure is None or len(places) <= 400
        right[sure] = float((noisy.argmax(axis=1) == counts[places].argmax(axis=1)).mean())
    assert right.popitem()[1] > right[None] + 0.02


def test_the_canary_finds_sure_answers_below_their_claim_and_above_the_price_of_answers_alone():
    noise, many = GaussianVotes(sigma=1.0, sure=Sure(least=0.75, tests=1, width=0.5)), 20_000
    level, rng = L1(noise=noise, secure=False, smooth=False), np.random.default_rng(2)
    nothing, scores = np.zeros((many, 1)), []
    for counts in ([2, 0], [1, 1]):
        places, noisy = level.answer(np.tile([counts], (many, 1)), Election(2, many, nothing, nothing), rng)
        # Not to be answered at all speaks most for the votes that are not sure.
        found = np.full(many, -100.0)
        found[places] = noisy[:, 0] - noisy[:, 1]
        scores.append(found)
    priced, bare = (1 / one.words(1, 1, "a row", False).multiplier for one in (noise, GaussianVotes(sigma=1.0)))
    bound = epsilon_lower_bound(*scores, delta=0.05)
    assert epsilon_of(bare, 0.05) < bound <= epsilon_of(priced, 0.05)

"""The sensitivity of joint sums is exact, the noise is as stated, and the canary stays below the claim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.audit import canary_attack
from laconic.core import Party
from laconic.learn.models.least_squares import pack, unpack
from laconic.privacy.accounting import Event, Pld, price
from laconic.privacy.budget import Budget
from laconic.privacy.mechanisms.sums import GaussianMoments, GaussianSums, moments_from, unit_rows
from laconic.tables import Table

DELTA = 1e-5


def party():
    return Party("shop", Table.without_rows("shop"), seed=0)


def isometric(gram, moments, weight):
    """What is released, in the units in which its noise has one scale."""
    whole = unpack(gram) * np.where(np.eye(len(moments)), 1, np.sqrt(2))
    return np.concatenate([pack(whole), weight * moments.ravel()])


def row_in(privacy, features, target):
    u = privacy.rows(features[None])
    return isometric(pack(u.T @ u), u.T @ target[None], privacy.moments_weight)


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 5), st.sampled_from([0.3, 1.0, 4.0]))
def test_a_row_moves_the_release_by_exactly_the_sensitivity(seed, width, classes, weight):
    rng = np.random.default_rng(seed)
    privacy = GaussianSums(sigma=1.0, moments_weight=weight)
    target = np.eye(classes)[rng.integers(classes)]
    moved = row_in(privacy, rng.standard_normal(width) * 10.0 ** rng.integers(-3, 6), target)
    assert np.linalg.norm(moved) == pytest.approx(privacy.sensitivity)
    short = row_in(privacy, np.zeros(width), target)
    assert np.linalg.norm(short) < privacy.sensitivity


@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_feature_that_is_no_number_stays_within_the_noise(cell):
    rows = np.ones((5, 3))
    rows[0, 1] = cell
    sums = GaussianSums(sigma=1.0).release(unit_rows(rows), np.ones((5, 1)), party()).value
    moments = GaussianMoments(sigma=1.0).release([unit_rows(rows)], party()).value
    for found in (*sums.values(), moments):
        assert np.isfinite(found).all(), "whether such a row is there can be seen past the noise"
    assert np.linalg.norm(unit_rows(rows), axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize(("weight", "classes"), [(1.0, 1), (1.0, 3), (0.5, 1), (1.2, 2)])
def test_replacing_a_row_moves_the_release_by_as_much_as_is_said(weight, classes):
    privacy = GaussianSums(sigma=1.0, moments_weight=weight)
    rng = np.random.default_rng(0)
    targets = np.array([[-1.0], [1.0]]) if classes == 1 else np.eye(classes)
    found, angles = 0.0, np.linspace(0, np.pi, 721)
    for angle in angles:
        first = np.array([1.0, 0.0]) * 10.0 ** rng.integers(-3, 3)
        other = np.array([np.cos(angle), np.sin(angle)])
        for one in targets:
            moved = row_in(privacy, first, targets[0]) - row_in(privacy, other, one)
            found = max(found, float(np.linalg.norm(moved)))
    assert found == pytest.approx(privacy.when_replaced, rel=1e-4)


def test_noise_has_the_stated_scale_on_diagonal_half_and_moments():
    privacy = GaussianSums(sigma=2.0, moments_weight=3.0)
    sent = privacy.release(np.zeros((1, 150)), np.zeros((1, 40)), party()).value
    gram, moments = unpack(sent["gram"]), sent["moments"]
    on_gram, on_moments = privacy.scales()
    assert (on_gram, on_moments) == pytest.approx((2 * np.sqrt(10), 2 * np.sqrt(10) / 3))
    above = gram[np.triu_indices(150, 1)]
    # Spreads of 150, 11,175 and 6,000 draws: within 4 standard errors.
    assert np.diag(gram).std() == pytest.approx(on_gram, rel=4 / np.sqrt(300))
    assert above.std() == pytest.approx(on_gram / np.sqrt(2), rel=4 / np.sqrt(2 * 11175))
    assert moments.std() == pytest.approx(on_moments, rel=4 / np.sqrt(12000))


def test_secure_noise_is_the_default_and_is_never_drawn_again():
    rows, targets = np.zeros((1, 3)), np.zeros((1, 1))
    secure, seeded = GaussianSums(sigma=1.0), GaussianSums(sigma=1.0, seeded=True)
    assert secure.words().secure
    assert not seeded.words().secure
    assert (
        seeded.release(rows, targets, party()).value["gram"] == seeded.release(rows, targets, party()).value["gram"]
    ).all()
    assert (
        secure.release(rows, targets, party()).value["gram"] != secure.release(rows, targets, party()).value["gram"]
    ).all()


def test_the_price_is_that_of_one_gaussian_answer():
    pytest.importorskip("dp_accounting")
    one = party()
    from laconic.core import Entry

    noise = GaussianSums(sigma=3.7303, moments_weight=2.0).words()
    one.ledger.write(Entry(phase="fit", step="s", words="w", form="", times=1, bytes=0, noise=noise))
    assert price({"shop": one.ledger}, DELTA, "disjoint").epsilon == pytest.approx(1.0, abs=1e-2)


def game(privacy):
    """Sums with and without a row of full length; the attacker knows the row, and looks along what it adds."""
    features, target = np.array([[3.0, 4.0]]), np.array([[0.0, 1.0]])
    u = privacy.rows(features)
    along, at, half = row_in(privacy, features[0], target[0]), party(), u.shape[1] * (u.shape[1] + 1) // 2
    # What `isometric` would do to each release, done once to what it is compared with: plays are many.
    units = isometric(np.ones(half), np.ones((u.shape[1], 2)), privacy.moments_weight)
    on_gram, on_moments = np.split(along * units, [half])

    def play(there, rng):
        at.rng = rng
        sent = privacy.release(u * there, target, at).value
        return float(sent["gram"] @ on_gram + sent["moments"].ravel() @ on_moments)

    return play


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "plays"), [(1.0, 400_000), (4.0, 60_000)])
def test_the_canary_stays_below_the_claim_and_above_half_of_it(epsilon, plays):
    pytest.importorskip("dp_accounting")
    privacy = GaussianSums(seeded=True)
    (sigma,) = Budget(epsilon=epsilon, delta=DELTA).multipliers({"a": privacy.demand()}).values()
    claim = Pld().epsilon({"a": {Event("gaussian", sigma): 1}}, DELTA)
    assert claim == pytest.approx(epsilon, rel=0.01)
    rng = np.random.default_rng(0)
    # So many plays, for half of the claim is out of reach of fewer: what is missing lies far out in the tails.
    found = canary_attack(game(privacy.with_sigma(sigma)), claim, DELTA, plays, rng, what="sums").success
    assert claim / 2 < found <= claim


def test_a_release_that_forgets_its_moments_in_the_sensitivity_is_caught():
    # Noise for the Gram matrix alone, at weight 4: a row moves four times as much as was paid for.
    privacy = GaussianSums(sigma=1.0 / np.sqrt(17), moments_weight=4.0, seeded=True)
    pytest.importorskip("dp_accounting")
    claim = Pld().epsilon({"a": {Event("gaussian", 2.5): 1}}, DELTA)
    assert canary_attack(game(privacy), claim, DELTA, 400, np.random.default_rng(0), what="it").success > claim


def moments_game(privacy):
    """Moments of two classes, of one of which there is a row of full length or none."""
    u, at = unit_rows(np.array([[3.0, 4.0]])), party()
    half = privacy.with_sigma(1e-9).release([u, u[:0]], party()).value
    # Numbers beside the diagonal bear noise that is less by the root of 2, so that they count for two.
    along = half * np.where(pack(np.eye(u.shape[1])) > 0, 1.0, 2.0)

    def play(there, rng):
        at.rng = rng
        return float((privacy.release([u * there, u[:0]], at).value * along).sum())

    return play


@pytest.mark.slow
def test_the_canary_stays_below_the_claim_of_moments_by_class_and_above_half_of_it():
    pytest.importorskip("dp_accounting")
    privacy = GaussianMoments(seeded=True)
    (sigma,) = Budget(epsilon=4.0, delta=DELTA).multipliers({"a": privacy.demand()}).values()
    found = canary_attack(
        moments_game(privacy.with_sigma(sigma)), 4.0, DELTA, 60_000, np.random.default_rng(0), what="moments"
    ).success
    assert 2.0 < found <= 4.0


def test_moments_under_half_of_the_noise_that_was_paid_for_are_caught():
    privacy = GaussianMoments(sigma=0.4, seeded=True)
    pytest.importorskip("dp_accounting")
    claim = Pld().epsilon({"a": {Event("gaussian", 4.0): 1}}, DELTA)
    rng = np.random.default_rng(0)
    assert canary_attack(moments_game(privacy), claim, DELTA, 400, rng, what="it").success > claim


def test_numbers_are_brought_to_their_bounds_and_back():
    privacy = GaussianSums(sigma=1.0, bounds=(10.0, 30.0))
    assert privacy.numbers(np.array([0.0, 10.0, 25.0, 99.0])) == pytest.approx([-1, -1, 0.5, 1])
    assert privacy.numbers_back(np.array([-1.0, 0.5])) == pytest.approx([10, 25])
    with pytest.raises(ValueError, match=r"privacy\.bounds"):
        GaussianSums(sigma=1.0).numbers(np.zeros(2))
    with pytest.raises(ValueError, match="must rise"):
        GaussianSums(bounds=(1.0, 1.0))


def test_without_a_sigma_nothing_is_released():
    with pytest.raises(ValueError, match=r"budget\.epsilon"):
        GaussianSums().release(np.zeros((1, 2)), np.zeros((1, 1)), party())


def test_one_row_moves_the_noisy_release_by_one_at_most():
    rng = np.random.default_rng(0)
    rows = [unit_rows(rng.standard_normal((20, 5)) * 100) for _ in range(3)]
    still = GaussianMoments(sigma=1e-12, seeded=True)
    # Numbers beside the diagonal bear noise that is less by the root of 2, so that they count for two.
    twice = np.full(21, np.sqrt(2))
    twice[np.cumsum([0, *range(6, 1, -1)])] = 1.0

    def released(groups):
        return still.release(groups, party()).value.astype(np.float64)

    moved = np.linalg.norm((released(rows) - released([rows[0][1:], *rows[1:]])) * twice)
    assert moved == pytest.approx(1.0, abs=1e-3)
    count, mean, second = moments_from(released(rows)[0])
    assert count == pytest.approx(20, abs=1e-3)
    assert mean == pytest.approx(rows[0][:, :-1].mean(axis=0), abs=1e-5)
    assert second == pytest.approx(rows[0][:, :-1].T @ rows[0][:, :-1] / 20, abs=1e-5)

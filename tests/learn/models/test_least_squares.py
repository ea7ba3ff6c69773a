"""Sums add up to the pooled fit, rows leave by subtraction, and the penalty follows from the sums alone."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import Ridge

from laconic import load
from laconic.learn import RandomFourier
from laconic.learn.models.least_squares import (
    LEAST_SINGLE,
    Sums,
    add_sums,
    calibrate,
    pack,
    solve,
    solve_noisy,
    subtract_sums,
    sum_up,
    targets_of,
    to_predictions,
    unpack,
)
from laconic.tables import Task
from tests.needs import public_data

DIGITS = Task(kind="multiclass", classes=tuple("0123456789"))


def digits():
    x, y = load_digits(return_X_y=True)
    return x / 16, y


def split(x, t, ends, **settings):
    parts = zip(np.split(x, ends), np.split(t, ends), strict=True)
    return [sum_up(some, aims, **settings) for some, aims in parts]


def as_sent(sums):
    return Sums(
        gram=sums.gram.astype(np.float32),
        moments=sums.moments.astype(np.float32),
        squares=sums.squares,
        rows=sums.rows,
    )


@pytest.mark.parametrize("ends", [[1], [900], [3, 4, 500, 1700], list(range(100, 1700, 100))], ids=len)
def test_sums_of_parts_are_the_pooled_fit_whatever_the_split(ends):
    x, y = digits()
    t = targets_of(DIGITS, y)
    # Sorted by class, so that most parts see a class or two.
    order = np.argsort(y, kind="stable")
    pooled = solve(sum_up(x, t, exact=True))
    exact = solve(add_sums(*split(x[order], t[order], ends, exact=True)))
    sent = solve(add_sums(*map(as_sent, split(x[order], t[order], ends))), penalty=pooled.penalty)
    assert exact.penalty == pooled.penalty
    for fit, close in ((exact, 1e-6), (sent, 1e-4)):
        scores = x @ fit.coefficients + fit.intercept
        assert np.abs(scores - (x @ pooled.coefficients + pooled.intercept)).max() < close


def test_the_fit_is_scikit_learns_ridge():
    x, y = load_diabetes(return_X_y=True, scaled=False)
    fit = solve(sum_up(x, y[:, None], exact=True), penalty=0.03)
    ridge = Ridge(alpha=0.03 * len(x)).fit((x - x.mean(axis=0)) / x.std(axis=0), y)
    assert fit.coefficients[:, 0] * x.std(axis=0) == pytest.approx(ridge.coef_, rel=1e-6)


def test_the_expected_error_is_that_of_generalised_cross_validation_by_hand():
    x, y = load_diabetes(return_X_y=True)
    fit = solve(sum_up(x, y[:, None], exact=True), penalty=0.1)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    smoother = z @ np.linalg.solve(z.T @ z + 0.1 * len(z) * np.eye(10), z.T) + 1 / len(z)
    freedom = np.trace(smoother)
    assert fit.freedom == pytest.approx(freedom)
    assert fit.error == pytest.approx(np.mean((y - smoother @ y) ** 2) / (1 - freedom / len(z)) ** 2)


def test_the_chosen_penalty_is_near_the_best_on_other_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 60))
    y = x[:, :5].sum(axis=1) + 4 * rng.standard_normal(3000)

    def error(penalty):
        fit = solve(sum_up(x[:150], y[:150, None], exact=True), penalty=penalty)
        return np.mean((x[150:] @ fit.coefficients[:, 0] + fit.intercept - y[150:]) ** 2)

    assert error(None) < 1.05 * min(error(one) for one in 10.0 ** np.arange(-5, 2, 0.5))


def test_rows_that_leave_leave_nothing_behind():
    x, y = digits()
    t = targets_of(DIGITS, y)
    whole, part = sum_up(x, t, exact=True), sum_up(x[:300], t[:300], exact=True)
    left, never = solve(subtract_sums(whole, part)), solve(sum_up(x[300:], t[300:], exact=True))
    assert np.abs(x @ (left.coefficients - never.coefficients)).max() < 1e-6
    with pytest.raises(ValueError, match="cannot be taken away"):
        subtract_sums(part, whole)


def test_weights_count_as_repeated_rows():
    x, y = digits()
    t = targets_of(DIGITS, y)
    twice = np.concatenate([x, x[y == 3]]), np.concatenate([t, t[y == 3]])
    weighed = solve(sum_up(x, t, np.where(y == 3, 2.0, 1.0), exact=True), penalty=0.01)
    repeated = solve(sum_up(*twice, exact=True), penalty=0.01)
    assert weighed.coefficients == pytest.approx(repeated.coefficients, abs=1e-8)


def test_a_half_holds_the_whole_of_a_symmetric_matrix():
    matrix = np.arange(9.0).reshape(3, 3)
    matrix = matrix + matrix.T
    assert len(pack(matrix)) == 6
    assert (unpack(pack(matrix)) == matrix).all()


def test_a_feature_that_never_varies_does_no_harm():
    x, y = digits()
    assert (x[:, 0] == 0).all()
    fit = solve(sum_up(np.column_stack([x, np.full(len(x), 5.0)]), targets_of(DIGITS, y)))
    assert np.isfinite(fit.coefficients).all()
    assert (fit.coefficients[[0, -1]] == 0).all()


def test_one_factor_makes_scores_into_probabilities_nearly_as_good_as_the_best_factor_would():
    x, y = digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    train, test = order[:1200], order[1200:]
    sums = sum_up(x[train], targets_of(DIGITS, y[train]), exact=True)
    fit = solve(sums)
    model = fit.coefficients, fit.intercept
    found = calibrate(DIGITS, (unpack(sums.gram), sums.moments), model, inflate=(1 - fit.freedom / 1200) ** -2)

    def loss(factor):
        scores = x[test] @ fit.coefficients + fit.intercept
        return -np.log(to_predictions(DIGITS, scores, factor)[np.arange(len(test)), y[test]]).mean()

    # 3 percent: a factor off by a third costs as much.
    assert loss(found) < 1.03 * min(map(loss, np.exp(np.arange(0, 4, 0.1))))


def test_the_noisy_penalty_is_near_the_best_for_that_noise():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 40)) / np.sqrt(40)
    t = np.sign(x[:, :3].sum(axis=1, keepdims=True))
    gram, moments = x.T @ x, x.T @ t
    half = rng.standard_normal(gram.shape) * 20
    noisy = gram + (half + half.T) / 2
    told = moments + 20 * rng.standard_normal(moments.shape)

    def error(w):
        return float((w.T @ gram @ w - 2 * w.T @ moments)[0, 0])

    tried = [error(np.linalg.solve(noisy + penalty * np.eye(40), told)) for penalty in 2.0 ** np.arange(5, 16, 0.5)]
    # Within a twentieth of all that could be explained.
    assert error(solve_noisy(noisy, told, 4000, (20.0, 20.0)).coefficients) < 0.95 * min(tried)


@public_data
@pytest.mark.parametrize("seed", [0, 4])
def test_rounded_sums_do_not_fool_the_choice_of_the_penalty(seed):
    data, rng = load("codrna"), np.random.default_rng(seed)
    some = rng.choice(59535, 2800, replace=False)
    x, y = data.raw[some], np.where(data.y[some] == 1, 1.0, -1.0)[:, None]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    chosen = RandomFourier(width=800, seed=seed)
    features = chosen.apply(chosen.draw((8,), dict), x)
    sums = sum_up(features[:800], y[:800])
    sent = Sums(gram=sums.gram.astype(np.float32), moments=sums.moments, squares=sums.squares, rows=sums.rows)

    def missed(fit):
        return (np.sign(features[800:] @ fit.coefficients + fit.intercept) != y[800:]).mean()

    exact = missed(solve(sum_up(features[:800], y[:800], exact=True)))
    assert missed(solve(sent)) > 0.2 > 0.1 > exact
    assert missed(solve(sent, least=LEAST_SINGLE)) < exact + 0.005

"""Every attack succeeds against random projections as published: Gaussian matrix, pseudo column, two codes a class."""

import numpy as np

from laconic.audit.rap_attacks import (
    best_correlations,
    match_by_leverage,
    pair_codes,
    recover_from_known_rows,
    share_recovered,
    unmask_numeric_label,
    unmask_single,
    unmix,
)
from laconic.learn import Gaussian
from laconic.learn.encoders.rap import draw_categorical, draw_numeric, draw_secret, hide_classes, hide_numbers, project
from laconic.values import Array


def mixed(x: Array, seed: int = 0) -> Array:
    rows = np.arange(len(x))
    return project(draw_secret(x, rows, Gaussian(), np.random.default_rng(seed)), x, rows, rows.astype(str))


def skewed(rows: int, width: int, seed: int = 0) -> Array:
    """Correlated columns with long tails, as real ones have."""
    rng = np.random.default_rng(seed)
    x = rng.standard_gamma(1.0, (rows, width)) @ (np.eye(width) + 0.3 * rng.standard_normal((width, width)))
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)


def test_as_many_known_rows_as_columns_give_all_rows():
    x = skewed(2000, 10)
    at = np.arange(10)
    assert share_recovered(recover_from_known_rows(mixed(x), x[at], at), x) > 0.99


def test_one_known_row_too_few_does_not():
    x = skewed(2000, 10)
    at = np.arange(9)
    assert share_recovered(recover_from_known_rows(mixed(x), x[at], at), x) < 0.05


def test_of_flags_half_as_many_known_rows_give_most_rows():
    common = np.eye(12, dtype=np.float32)[np.minimum(np.random.default_rng(0).geometric(0.4, 2000) - 1, 11)]
    at = np.random.default_rng(1).choice(2000, 6, replace=False)
    assert share_recovered(recover_from_known_rows(mixed(common), common[at], at), common) > 0.5


def test_nothing_known_gives_independent_columns():
    x = np.random.default_rng(0).standard_gamma(1.0, (5000, 6)).astype(np.float32)
    assert best_correlations(unmix(mixed(x), np.random.default_rng(1)), x).min() > 0.97


def test_nothing_known_gives_flags():
    x = (np.random.default_rng(0).random((5000, 8)) < 0.2).astype(np.float32)
    assert best_correlations(unmix(mixed(x), np.random.default_rng(1)), x).min() > 0.97


def test_the_pseudo_column_hides_nothing():
    x = np.random.default_rng(0).lognormal(size=(5000, 1)).astype(np.float32)
    found = unmask_single(mixed(x), np.random.default_rng(1))
    assert best_correlations(found[:, None], x)[0] > 0.99


def test_known_rows_in_unknown_places_are_found_and_give_all_rows():
    x = skewed(9000, 8)
    public, secret = x[:3000], x[3000:]
    rng = np.random.default_rng(2)
    order, known = rng.permutation(6000), rng.choice(6000, 200, replace=False)
    shuffled = mixed(secret)[order]
    who, where = match_by_leverage(shuffled, secret[known], public)
    assert np.mean(order[where] == known[who]) > 0.9
    assert share_recovered(recover_from_known_rows(shuffled, secret[known[who]], where), secret[order]) > 0.9


def test_the_two_codes_of_a_class_are_paired():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=4000)
    x = (rng.standard_normal((4000, 6)) + 0.5 * rng.standard_normal((5, 6))[y]).astype(np.float32)
    secret = draw_categorical(5, rng)
    pairs = pair_codes(mixed(x), hide_classes(secret, y, rng))
    assert {frozenset(pair) for pair in pairs} == {frozenset(pair) for pair in secret["codes"].tolist()}


def test_a_numeric_label_is_read_off_the_two_numbers():
    rng = np.random.default_rng(0)
    x = skewed(4000, 6)
    y = x[:, 0] - 0.5 * x[:, 1] + rng.standard_normal(4000)
    hidden = hide_numbers(draw_numeric(y, Gaussian(), rng), y, rng)
    assert best_correlations(unmask_numeric_label(mixed(x), hidden)[:, None], y[:, None])[0] > 0.99


def test_enough_noise_stops_known_rows_from_giving_the_others():
    x = skewed(2000, 10)
    sent = mixed(x)
    noisy = sent + np.random.default_rng(1).normal(0, 3 * sent.std(), sent.shape)
    at = np.arange(100)
    found = recover_from_known_rows(noisy, x[at], at)
    assert share_recovered(found, x) < 0.01
    assert best_correlations(found, x).mean() < 0.6

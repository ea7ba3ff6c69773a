import numpy as np

from laconic.learn.encoders.rap import (
    Gaussian,
    Orthogonal,
    draw_secret,
    draw_several,
    draw_single,
    project,
    project_several,
    project_single,
)
from laconic.tables import Column, Table

ROWS = np.arange(200)
IDS = ROWS.astype(str)


def test_several_columns_are_multiplied_by_the_secret_matrix():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 5)).astype(np.float32)
    secret = draw_several(5, Gaussian(), rng)
    assert np.allclose(project_several(secret, x, ROWS[50:60]), x[50:60] @ secret["matrix"], atol=1e-5)


def test_rows_projected_in_blocks_are_those_projected_at_once():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150_000, 3)).astype(np.float32)
    secret = draw_several(3, Orthogonal(), rng)
    assert np.allclose(project_several(secret, x, np.arange(len(x))), x @ secret["matrix"], atol=1e-5)


def test_a_single_column_becomes_two_from_which_it_can_be_had_back():
    rng = np.random.default_rng(0)
    x = (5 + 3 * rng.standard_normal((200, 1))).astype(np.float32)
    secret = draw_single(x, Orthogonal(), rng)
    sent = project_single(secret, x, ROWS, IDS)
    restored = sent @ np.linalg.inv(secret["matrix"])
    assert sent.shape == (200, 2)
    assert np.allclose(restored[:, 0], x[:, 0], atol=1e-4)


def test_the_pseudo_column_has_the_mean_and_spread_of_the_column():
    rng = np.random.default_rng(0)
    x = (5 + 3 * rng.standard_normal((5000, 1))).astype(np.float32)
    secret = draw_single(x, Orthogonal(), rng)
    sent = project_single(secret, x, np.arange(5000), np.arange(5000).astype(str))
    pseudo = (sent @ np.linalg.inv(secret["matrix"]))[:, 1]
    assert abs(pseudo.mean() - 5) < 0.2  # four standard errors
    assert abs(pseudo.std() - 3) < 0.15
    assert abs(np.corrcoef(pseudo, x[:, 0])[0, 1]) < 0.06


def test_a_row_sent_twice_has_the_same_pseudo_value_twice():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 1)).astype(np.float32)
    secret = draw_single(x, Orthogonal(), rng)
    assert np.array_equal(project_single(secret, x, ROWS, IDS)[40:50], project_single(secret, x, ROWS[40:50], IDS))


def test_rows_of_next_month_in_the_same_places_do_not_show_the_matrix():
    # With one pseudo value per place, all differences point along the matrix's first row, which undoes the mixing.
    rng = np.random.default_rng(0)
    before, after = rng.standard_normal((2, 200, 1)).astype(np.float32)
    secret = draw_single(before, Orthogonal(), rng)
    for later in ([f"new {row}" for row in ROWS], IDS):  # other people; or the same, or none with an id
        differences = project_single(secret, before, ROWS, IDS) - project_single(secret, after, ROWS, np.array(later))
        spread = np.linalg.svd(differences, compute_uv=False)
        assert spread[1] > 0.5 * spread[0]


def test_a_category_is_mixed_level_by_level_with_the_numbers_beside_it():
    # Figure 2 (c): one category of three levels and one number make four columns and a 4 x 4 matrix.
    rng = np.random.default_rng(0)
    columns = (Column("colour", "categorical", ("R", "G", "B")), Column("age"))
    table = Table(np.column_stack([rng.integers(3, size=200), rng.integers(20, 90, 200)]).astype(float), columns)
    secret = draw_secret(table.x, ROWS, Orthogonal(), rng)
    sent = project(secret, table.x, ROWS, IDS)
    assert secret["matrix"].shape == (4, 4)
    assert np.allclose(sent @ secret["matrix"].T, table.x, atol=1e-5)


def test_two_parties_draw_different_matrices_from_different_chance():
    one, other = (draw_several(4, Orthogonal(), np.random.default_rng(seed))["matrix"] for seed in (0, 1))
    assert not np.allclose(one, other)


def test_images_are_flattened():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 1, 4, 4)).astype(np.float32)
    assert project(draw_secret(x, np.arange(20), Orthogonal(), rng), x, np.arange(20), IDS).shape == (20, 16)

import numpy as np
import pytest

from laconic.learn.encoders.rap import (
    Gaussian,
    Orthogonal,
    draw_categorical,
    draw_label_secret,
    draw_numeric,
    hidden_classes,
    hidden_task,
    hide_classes,
    hide_labels,
    hide_numbers,
    reveal_classes,
    reveal_labels,
    reveal_numbers,
)
from laconic.tables import Task


@pytest.mark.parametrize("matrix", [Orthogonal(), Gaussian()])
def test_a_numeric_label_is_decoded_by_the_inverse(matrix):
    rng = np.random.default_rng(0)
    y = rng.normal(206_855, 115_395, 300)
    secret = draw_numeric(y, matrix, rng)
    hidden = hide_numbers(secret, y, rng)
    assert hidden.shape == (300, 2)
    assert np.allclose(reveal_numbers(secret, hidden), y, rtol=1e-3, atol=10)


def test_one_rotation_in_six_hardly_mixes_label_and_pseudo_label():
    # A rotation by less than 8.1 degrees from a right angle leaves a correlation above 0.99: 16.2 of 90 degrees.
    rng = np.random.default_rng(0)
    y = rng.standard_normal(1000)
    bare = []
    for _ in range(400):
        hidden = hide_numbers(draw_numeric(y, Orthogonal(), rng), y, rng)
        bare.append(max(abs(np.corrcoef(y, hidden[:, place])[0, 1]) for place in (0, 1)) > 0.99)
    assert 0.1 < np.mean(bare) < 0.26  # 0.18, four standard deviations either way


def test_labels_that_are_all_alike_can_still_be_hidden():
    rng = np.random.default_rng(0)
    y = np.full(10, 7.0)
    secret = draw_numeric(y, Orthogonal(), rng)
    assert np.allclose(reveal_numbers(secret, hide_numbers(secret, y, rng)), 7.0, atol=1e-4)


def test_each_class_has_two_codes_of_its_own_used_equally_often():
    rng = np.random.default_rng(0)
    secret = draw_categorical(3, rng)
    y = rng.integers(3, size=6000)
    codes = hide_classes(secret, y, rng)
    assert sorted(secret["codes"].ravel()) == list(range(6))
    for label in range(3):
        used, counts = np.unique(codes[y == label], return_counts=True)
        assert set(used) == set(secret["codes"][label])
        assert abs(counts[0] / counts.sum() - 0.5) < 0.05  # four standard deviations of 2000 fair coins


def test_decoding_sums_the_two_halves_of_a_class():
    secret = {"codes": np.array([[0, 3], [2, 1]])}
    decoded = reveal_classes(secret, np.array([[0.3, 0.35, 0.05, 0.3]]))
    assert decoded == pytest.approx(np.array([[0.6, 0.4]]))  # the most likely single code would have said class 1


def test_codes_take_one_byte_up_to_128_classes_and_two_beyond():
    rng = np.random.default_rng(0)
    assert hide_classes(draw_categorical(128, rng), np.array([127]), rng).dtype == np.uint8
    assert hide_classes(draw_categorical(129, rng), np.array([128]), rng).dtype == np.uint16


def test_two_classes_come_back_as_the_chance_of_the_second():
    task, rng = Task(kind="binary", classes=("no", "yes")), np.random.default_rng(0)
    secret = draw_label_secret(task, np.array([0, 1]), Orthogonal(), rng)
    codes = hide_labels(task, secret, np.array([1, 1, 0]), rng)
    assert reveal_labels(task, secret, np.eye(4)[codes]) == pytest.approx(np.array([1.0, 1.0, 0.0]))


def test_from_outside_a_task_is_so_many_codes_or_numbers():
    assert len(hidden_task(hidden_classes(Task(kind="multiclass", classes=("a", "b", "c")))).classes) == 6
    assert hidden_task(hidden_classes(Task(kind="regression"))).kind == "regression"

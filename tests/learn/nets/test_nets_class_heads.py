"""Class heads of several parties become one model, whatever names each party has for the classes."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from laconic.learn.models.supervised import predict_top
from laconic.learn.nets.nets import LINEAR, Mlp, PartLayer, add_up, class_head
from laconic.learn.train.semisupervised import begin
from laconic.tables import Task

THREE = Task(kind="multiclass", classes=("a", "b", "c"))
BINARY = Task(kind="binary", classes=("no", "yes"))
Y = np.repeat([0, 1, 2], [20, 30, 50])


def knowing(y, classes, rng):
    """Numbers that tell classes apart, and the head that does it: one for each class, in an order of its own."""
    order = rng.permutation(classes)
    numbers = rng.normal(0, 0.3, (len(y), classes)) + 3 * np.eye(classes)[y]
    head = np.concatenate([np.eye(classes), rng.normal(0, 0.1, (1, classes))])
    return PartLayer(numbers, head[:, order]), numbers @ head[:-1] + head[-1]


def side_by_side(parts):
    return [np.concatenate([part.numbers for part in parts], axis=1).astype(np.float32)]


@pytest.mark.parametrize("parties", [1, 2, 5])
def test_log_odds_add_up_and_how_common_a_class_is_counts_once(parties):
    rng = np.random.default_rng(0)
    parts, logits = zip(*(knowing(Y, 3, rng) for _ in range(parties)), strict=True)
    shares = np.array([21, 31, 51]) / 103
    expected = softmax(np.sum(logits, axis=0) - (parties - 1) * np.log(shares), axis=1)
    found = predict_top(LINEAR, THREE, add_up(THREE, parts, Y), side_by_side(parts))
    assert found == pytest.approx(expected, abs=1e-5)
    assert (found.argmax(axis=1) == Y).all()


def test_two_classes_become_one_log_odds():
    rng, y = np.random.default_rng(1), Y[:50]
    parts, logits = zip(*(knowing(y, 2, rng) for _ in range(2)), strict=True)
    both = np.sum(logits, axis=0) - np.log(np.array([21, 31]) / 52)
    found = predict_top(LINEAR, BINARY, add_up(BINARY, parts, y), side_by_side(parts))
    assert found == pytest.approx(expit(both[:, 1] - both[:, 0]), abs=1e-5)


def test_a_class_head_is_what_an_extractor_learns_with():
    local = begin(Mlp(hidden=(4,)), (6,), 5, 3, np.random.default_rng(0))
    head = class_head(local)
    assert head.shape == (6, 3)
    assert np.array_equal(head[:-1].T, local["head.weight"])
    assert np.array_equal(head[-1], local["head.bias"])


def test_a_class_that_no_row_has_is_never_the_likeliest():
    rng, y = np.random.default_rng(0), np.repeat([0, 2], [40, 60])
    learnt = [knowing(np.searchsorted([0, 2], y), 2, rng)[0] for _ in range(3)]
    # Heads far from zero, as their offsets mean nothing.
    parts = [PartLayer(part.numbers, part.head - 50.0) for part in learnt]
    found = predict_top(LINEAR, THREE, add_up(THREE, parts, y), side_by_side(parts))
    assert (found.argmax(axis=1) == y).all()
    assert found[:, 1].max() < 0.01


def test_lies_may_teach_parties_a_class_that_no_row_has():
    rng, y = np.random.default_rng(0), np.repeat([0, 2], [40, 60])
    parts = [knowing(y, 3, rng)[0] for _ in range(2)]
    found = predict_top(LINEAR, THREE, add_up(THREE, parts, y), side_by_side(parts))
    assert (found.argmax(axis=1) == y).all()

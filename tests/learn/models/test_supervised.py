"""Labels are learnt and predicted for every kind of task."""

import numpy as np
import pytest

from laconic.learn.models.supervised import fit_linear, fit_supervised, predict_linear, predict_supervised
from laconic.learn.nets.nets import AnyNet, Cnn, Joint, Mlp
from laconic.learn.train.sgd import Sgd
from laconic.tables import Task

TRAINER = Sgd(epochs=15, lr=1e-2)
X = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
SUM = X[:, 0] + X[:, 1]


@pytest.mark.parametrize("net", [Mlp(), Joint(own=Mlp(hidden=()))])
def test_two_classes_are_learnt(net: AnyNet) -> None:
    task, y = Task(kind="binary", classes=("no", "yes")), (SUM > 0).astype(int)
    inputs = [X] if isinstance(net, Mlp) else [X[:, :1], X[:, 1:]]
    predictions = predict_supervised(
        net, task, fit_supervised(net, task, inputs, y, TRAINER, np.random.default_rng(1)), inputs
    )
    assert predictions.shape == task.shape(300)
    assert (task.decide(predictions) == y).mean() > 0.95


def test_several_classes_are_learnt_from_images() -> None:
    task, y = Task(kind="multiclass", classes=("a", "b", "c")), np.digitize(X[:, 0], [-0.5, 0.5])
    images = np.tile(X[:, :1, None, None], (1, 1, 2, 2))
    net = Cnn(channels=(4,), hidden=(8,))
    weights = fit_supervised(net, task, [images], y, TRAINER, np.random.default_rng(1))
    predictions = predict_supervised(net, task, weights, [images])
    assert predictions.shape == (300, 3)
    assert predictions.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert (task.decide(predictions) == y).mean() > 0.85


def test_numbers_are_learnt_in_their_own_unit() -> None:
    task, y = Task(kind="regression"), 5e5 + 1e5 * SUM
    weights = fit_supervised(Mlp(), task, [X], y, TRAINER, np.random.default_rng(1))
    errors = predict_supervised(Mlp(), task, weights, [X]) - y
    assert np.sqrt((errors**2).mean()) < 0.2 * y.std()


def test_the_same_seed_gives_the_same_weights_and_early_stopping_works() -> None:
    task, y = Task(kind="binary", classes=("no", "yes")), (SUM > 0).astype(int)
    trainer = Sgd(epochs=5, patience=1, lr=1e-2)
    first, again = (
        fit_supervised(Mlp(), task, [X], y, trainer, np.random.default_rng(1), valid=([X[:50]], y[:50])) for _ in "12"
    )
    assert all(np.array_equal(first[name], again[name]) for name in first)


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_a_linear_model_of_rows_that_are_all_of_one_class_names_it(classes) -> None:
    task = Task(kind="binary" if len(classes) == 2 else "multiclass", classes=classes)
    y = np.full(len(X), len(classes) - 1)
    predictions = predict_linear(task, fit_linear(task, X, y, penalty=1.0), X)
    assert predictions.shape == task.shape(300)
    assert (task.decide(predictions) == y).all()
    assert ((predictions > 0) & (predictions < 1)).all()

"""Noise as targets: targets are traded, never lost, and chasing them works."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.learn.encoders.learnt import AnyAssignment, Exact, FlatMlp, Nat, Swaps, _ModuleLearner, sphere
from laconic.learn.nets.nets import Cnn, Mlp, load, make, weights_of
from laconic.learn.train.sgd import Optimiser, Sgd
from laconic.values import Array, Rng

ASSIGNMENTS = [Exact(), Swaps(), Swaps(block=3)]


def rng(seed: int = 0) -> Rng:
    return np.random.default_rng(seed)


def rows(count: int, columns: int = 4) -> Array:
    return rng(2).standard_normal((count, columns)).astype(np.float32)


def distance(outputs: Array, targets: Array) -> float:
    return float(((outputs - targets) ** 2).sum(axis=1).mean())


def as_set(points: Array) -> list[list[float]]:
    return sorted(points.tolist())


@given(
    st.integers(1, 40),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(0, 2**32),
    st.sampled_from(ASSIGNMENTS),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_an_assignment_keeps_every_target_and_never_raises_the_distance(
    count: int, dim: int, epoch: int, seed: int, assignment: AnyAssignment, alike: bool
) -> None:
    outputs, targets = (
        np.tanh(rng(seed).standard_normal((count, dim))).astype(np.float32),
        sphere(count, dim, rng(seed + 1)),
    )
    if alike:
        outputs[: count // 2], targets[: count // 2] = outputs[0], targets[0]
    traded = assignment.assign(outputs, targets, epoch)
    assert as_set(traded) == as_set(targets)
    assert distance(outputs, traded) <= distance(outputs, targets) + 1e-5


def test_the_exact_assignment_is_the_best_of_all_orders() -> None:
    outputs, targets = rows(5, 2), sphere(5, 2, rng(3))
    best = min(distance(outputs, targets[list(order)]) for order in permutations(range(5)))
    assert distance(outputs, Exact().assign(outputs, targets, 0)) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("count", [1, 7, 53])
def test_training_only_reorders_the_targets(assignment: AnyAssignment, count: int) -> None:
    targets = sphere(count, 3, rng())
    _, owned = Nat(dim=3, epochs=3, batch=10, assignment=assignment).chase(rows(count), targets, rng(1))
    assert as_set(owned) == as_set(targets)


def test_targets_lie_on_the_unit_sphere() -> None:
    assert np.linalg.norm(sphere(100, 3, rng()), axis=1) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("assignment", [Exact(), Swaps()])
def test_the_loss_falls_well_below_that_of_a_guess(assignment: AnyAssignment) -> None:
    x = rows(300)
    nat = Nat(dim=3, epochs=20, batch=50, lr=3e-3, assignment=assignment)
    weights, owned = nat.chase(x, sphere(300, 3, rng()), rng(1))
    assert distance(nat.encode(weights, x), owned) < 0.4  # always guessing the middle gives 1


def test_targets_are_kept_in_epochs_between_trades() -> None:
    x, targets = rows(40), sphere(40, 3, rng())
    _, after_one = Nat(dim=3, epochs=1, every=3).chase(x, targets, rng(1))
    _, after_three = Nat(dim=3, epochs=3, every=3).chase(x, targets, rng(1))
    assert np.array_equal(after_one, after_three)
    assert not np.array_equal(after_one, targets)


def test_convolutions_learn_too() -> None:
    images = rng().standard_normal((60, 1, 4, 4)).astype(np.float32)
    nat = Nat(dim=2, epochs=8, batch=20, lr=1e-2, image_net=Cnn(channels=(4,), hidden=(8,)))
    weights, owned = nat.chase(images, sphere(60, 2, rng()), rng(1))
    assert distance(nat.encode(weights, images), owned) < 0.8


@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
def test_hand_written_steps_agree_with_torch(hidden: tuple[int, ...]) -> None:
    net, x, targets = Mlp(hidden=hidden, final="tanh"), rows(20), sphere(20, 3, rng())
    module = make(net, (4,), 3, rng())
    flat = FlatMlp(x, {name: values.copy() for name, values in weights_of(module).items()}, lr=1e-2)
    sgd = Sgd(lr=1e-2, weight_decay=0.0)
    adam = Optimiser(sgd, module, sgd.begin(module))
    for _ in range(5):
        outputs = flat.outputs(np.arange(20))
        flat.learn((outputs - targets) * np.float32(2 / 20))
        module.zero_grad()
        ((module(torch.from_numpy(x)) - torch.from_numpy(targets)) ** 2).sum(dim=1).mean().backward()
        adam.step(sgd.lr)
    found = weights_of(load(net.build((4,), 3), flat.weights()))
    for name, values in weights_of(module).items():
        assert found[name] == pytest.approx(values, abs=1e-4)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch": 0}, {"every": 0}, {"lr": 0.0}])
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Nat(**wrong)  # type: ignore[arg-type]


def test_weight_decay_is_the_same_by_numpy_and_by_torch():
    x, targets = rows(60), sphere(60, 3, rng(2))
    found = []
    for decay in (0.0, 0.05):
        nat = Nat(dim=3, epochs=2, batch=20, lr=1e-2, weight_decay=decay, assignment=Exact())
        net = make(nat.rows_net, x.shape[1:], 3, rng(5))
        by_numpy, by_torch = FlatMlp(x, weights_of(net), nat.lr, decay), _ModuleLearner(x, net, nat)
        for learner in (by_numpy, by_torch):
            for start in (0, 20, 40):
                at = np.arange(start, start + 20)
                learner.learn((learner.outputs(at) - targets[at]) * np.float32(0.1))
        for name, values in by_numpy.weights().items():
            np.testing.assert_allclose(values, by_torch.weights()[name], atol=1e-5)
        found.append(np.abs(by_numpy.weights()["1.weight"]).sum())
    assert found[1] < found[0]


def test_images_are_moved_and_mirrored_anew_each_time_and_only_while_learning():
    x = rng(0).normal(size=(30, 1, 8, 8)).astype(np.float32)
    small = Cnn(channels=(2,), hidden=())
    plain, moved = (Nat(dim=2, epochs=1, image_net=small, shift=most, flips=most > 0) for most in (0, 2))
    learner = _ModuleLearner(x, make(small, (1, 8, 8), 2, rng(1)), moved, rng(3))
    at = np.arange(30)
    assert not np.allclose(learner.outputs(at), learner.outputs(at))
    weights = moved.fit(x, rng(4))
    np.testing.assert_array_equal(moved.encode(weights, x), plain.encode(weights, x))

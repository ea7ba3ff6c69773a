"""Nets trained a few steps at a time, by hand-written and by automatic gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.learn.kernels import (
    LANES,
    CompiledLayers,
    DenseLayer,
    Stage,
    compiled_products,
    forwards,
    slopes,
    widen,
    widened,
)
from laconic.learn.nets.nets import Cnn, Mlp, make, weights_of
from laconic.learn.train import descent as descents
from laconic.learn.train.descent import Rule, no_velocity, outputs_of, start_descent, take_steps
from tests.needs import gcc

_RULE = Rule(lr=0.05, momentum=0.9, weight_decay=0.01)


def _torch_steps(net, x, goal, steps):
    """What torch's own optimiser does with the loss |outputs - goal|^2 / 2."""
    module = make(net, x.shape[1:], goal.shape[1], np.random.default_rng(0))
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        (0.5 * (module(torch.tensor(x)) - torch.tensor(goal)) ** 2).sum().backward()
        optimiser.step()
    return weights_of(module)


def _our_steps(net, x, goal, steps, *, stops=1):
    weights = weights_of(make(net, x.shape[1:], goal.shape[1], np.random.default_rng(0)))
    velocity = no_velocity(weights)
    for _ in range(stops):
        descent = start_descent(net, goal.shape[1], weights, velocity, x, np.random.default_rng(0))
        take_steps(descent, steps // stops, lambda outputs: outputs - widen(goal), _RULE)
        weights, velocity = descent.weights(), descent.velocity()
    return weights


def _batch(shape, rows=16):
    rng = np.random.default_rng(1)
    return rng.normal(size=(rows, *shape)).astype(np.float32), rng.normal(size=(rows, 3)).astype(np.float32) * 0.1


@pytest.mark.parametrize("final", ["relu", "tanh", "linear"])
@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
def test_hand_written_gradients_agree_with_torch(hidden, final):
    x, goal = _batch((6,))
    net = Mlp(hidden=hidden, final=final)
    for name, values in _torch_steps(net, x, goal, 5).items():
        np.testing.assert_allclose(_our_steps(net, x, goal, 5)[name], values, atol=1e-5)


def test_convolutions_take_the_same_steps_as_torch():
    x, goal = _batch((1, 6, 6))
    net = Cnn(channels=(3,), hidden=(5,), final="relu")
    for name, values in _torch_steps(net, x, goal, 3).items():
        np.testing.assert_allclose(_our_steps(net, x, goal, 3)[name], values, atol=1e-5)


@pytest.mark.parametrize("net", [Mlp(hidden=(7,)), Cnn(channels=(3,), hidden=())], ids=["dense", "convolutions"])
def test_stopping_and_going_on_changes_no_bit(net):
    x, goal = _batch((1, 6, 6))
    whole, parted = _our_steps(net, x, goal, 6), _our_steps(net, x, goal, 6, stops=3)
    assert all((whole[name] == parted[name]).all() for name in whole)


@pytest.mark.parametrize("net", [Mlp(hidden=(7,), dropout=0.5), Cnn(channels=(3,), hidden=())], ids=["dense", "conv"])
def test_outputs_are_those_of_the_module_in_evaluation(net):
    x, goal = _batch((1, 6, 6), rows=5)
    module = make(net, x.shape[1:], goal.shape[1], np.random.default_rng(0))
    found = outputs_of(net, goal.shape[1], weights_of(module), x)
    with torch.no_grad():
        np.testing.assert_allclose(found, module.eval()(torch.tensor(x)).numpy(), atol=1e-6)


@pytest.mark.parametrize("net", [Mlp(hidden=(7,)), Cnn(channels=(3,), hidden=())], ids=["dense", "conv"])
def test_outputs_come_on_full_lanes(net):
    x, goal = _batch((1, 6, 6))
    weights = weights_of(make(net, x.shape[1:], goal.shape[1], np.random.default_rng(0)))
    descent = start_descent(net, goal.shape[1], weights, no_velocity(weights), x, np.random.default_rng(0))
    outputs = descent.outputs()
    assert outputs.shape == (len(x), LANES)
    assert not outputs[:, goal.shape[1] :].any()
    np.testing.assert_allclose(outputs[:, : goal.shape[1]], outputs_of(net, goal.shape[1], weights, x), atol=1e-6)


@gcc
def test_products_are_compiled_where_there_is_a_compiler():
    assert compiled_products() is not None


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr(descents, "compiled_products", lambda: None)


@pytest.fixture(scope="module")
def widest_lanes():
    yield
    compiled_products().use_lanes(LANES)


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
def test_without_a_compiler_gradients_agree_with_torch_too(hidden, uncompiled):
    x, goal = _batch((6,))
    net = Mlp(hidden=hidden, final="relu")
    for name, values in _torch_steps(net, x, goal, 5).items():
        np.testing.assert_allclose(_our_steps(net, x, goal, 5)[name], values, atol=1e-5)


@pytest.mark.skipif(
    compiled_products() is None, reason="needs a C compiler when Laconic is installed: install gcc, make clean"
)
@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 150),
    widths=st.lists(st.integers(1, 140), min_size=2, max_size=4),
    usual=st.floats(0, 1),
    final=st.sampled_from(["relu", "linear"]),
    lanes=st.sampled_from([4, 8, 16]),
    seed=st.integers(0, 2**32 - 1),
)
def test_compiled_products_are_exactly_those_of_torch(rows, widths, usual, final, lanes, seed, widest_lanes):
    compiled_products().use_lanes(lanes)
    # Small whole numbers, whose sums are exact in whatever order they are taken.
    rng = np.random.default_rng(seed)
    differs = rng.random((rows, widths[0])) >= usual
    layers = _layers(rng, _whole(rng, widths[0]) + _whole(rng, rows, widths[0]) * torch.tensor(differs), widths, final)
    flow = _whole(rng, *layers[-1].outputs.shape)
    stages = [Stage(layer.matrix.T, layer.bias, layer.final) for layer in layers]
    given = forwards(stages, layers[0].inputs)
    expected = [
        one
        for slope, taken in zip(slopes(stages, given, flow), given, strict=False)
        for one in (0.5 * 2.0 + taken.T @ slope, 0.5 * 4.0 + slope.sum(dim=0))
    ]
    compiled = CompiledLayers(layers, compiled_products())
    for layer in layers:
        layer.speed.fill_(2.0)
        layer.bias_speed.fill_(4.0)
    compiled.forwards()
    assert torch.equal(layers[-1].outputs, given[-1])
    compiled.backwards(flow.clone(), 0.5)
    found = [one for layer in layers for one in (layer.speed, layer.bias_speed)]
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def _whole(rng, *shape):
    return torch.tensor(rng.integers(-1, 2, shape), dtype=torch.float32)


def _layers(rng, x, widths, final):
    layers = []
    for outputs in map(widened, widths[1:]):
        matrix, bias = _whole(rng, x.shape[1], outputs), _whole(rng, outputs)
        by_inputs = torch.empty_like(x) if layers else None
        last = len(layers) == len(widths) - 2
        made = torch.empty(len(x), outputs)
        velocities = (torch.empty_like(matrix), torch.empty_like(bias))
        layers.append(DenseLayer(matrix, bias, *velocities, x, made, by_inputs, final if last else "relu"))
        x = made
    return layers

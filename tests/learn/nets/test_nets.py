"""Nets are built from settings, filled from a seed, and take and give plain arrays."""

import msgspec
import numpy as np
import pytest
import torch
from torch.nn import functional

from laconic.learn.nets.nets import (
    Cnn,
    Convolution,
    Joint,
    Mlp,
    Net,
    default_net,
    give_randomness,
    initialise,
    load,
    make,
    weights_of,
)
from laconic.values import Rng


def rng(seed: int = 0) -> Rng:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("shape", [(5,), (1,), (1, 4, 3)])
def test_mlp_takes_rows_of_any_shape(shape: tuple[int, ...]) -> None:
    assert make(Mlp(hidden=(8, 4)), shape, 3, rng())(torch.ones(2, *shape)).shape == (2, 3)


@pytest.mark.parametrize("shape", [(1, 14, 14), (3, 32, 32), (1, 28, 14), (1, 2, 28), (1, 28, 28), (1, 1, 1)])
def test_cnn_takes_whole_images_and_strips(shape: tuple[int, ...]) -> None:
    assert make(Cnn(channels=(4, 8), hidden=(6,)), shape, 3, rng())(torch.ones(2, *shape)).shape == (2, 3)


def test_cnn_refuses_columns() -> None:
    with pytest.raises(ValueError, match="use Mlp"):
        Cnn().build((5,), 1)


def test_final_tanh_keeps_outputs_within_one() -> None:
    outputs = make(Mlp(final="tanh"), (3,), 2, rng())(100 * torch.ones(4, 3))
    assert bool((outputs.abs() <= 1).all())


def test_default_net_convolves_images_only() -> None:
    assert isinstance(default_net((1, 14, 14)), Cnn)
    assert isinstance(default_net((7,)), Mlp)


def test_joint_puts_own_columns_beside_received_ones() -> None:
    x, received = torch.ones(4, 3), torch.ones(4, 6)
    for own in (None, Mlp(hidden=())):
        module = initialise(Joint(own=own, width=5).model([(3,), (6,)], 2), rng())
        assert module(x, received).shape == (4, 2)


def test_joint_works_without_own_columns() -> None:
    module = initialise(Joint(own=Mlp()).model([(6,)], 2), rng())
    assert module(torch.ones(4, 6)).shape == (4, 2)


def test_a_net_for_one_input_refuses_two() -> None:
    with pytest.raises(ValueError, match="use Joint"):
        Mlp().model([(3,), (6,)], 1)


def test_first_weights_follow_from_the_seed() -> None:
    first, again, other = (weights_of(make(Mlp(), (3,), 2, rng(seed))) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["1.weight"], other["1.weight"])


def test_loaded_weights_give_the_same_outputs_and_are_not_shared() -> None:
    module, x = make(Mlp(), (3,), 2, rng()), torch.ones(2, 3)
    weights = {name: values.copy() for name, values in weights_of(module).items()}
    twin = load(Mlp().build((3,), 2), weights)
    assert torch.equal(module(x), twin(x))
    weights["1.weight"] += 1
    assert torch.equal(module(x), twin(x))


def test_load_takes_arrays_that_cannot_be_written() -> None:
    weights = weights_of(make(Mlp(), (3,), 2, rng()))
    frozen = {
        name: np.frombuffer(values.tobytes(), values.dtype).reshape(values.shape) for name, values in weights.items()
    }
    assert np.array_equal(weights_of(load(Mlp().build((3,), 2), frozen))["1.weight"], weights["1.weight"])


def test_load_names_a_missing_an_extra_and_a_misshapen_array() -> None:
    weights = weights_of(make(Mlp(), (3,), 2, rng()))
    with pytest.raises(ValueError, match=r"missing \['1.bias'\]"):
        load(Mlp().build((3,), 2), {name: values for name, values in weights.items() if name != "1.bias"})
    with pytest.raises(ValueError, match=r"unknown \['odd'\]"):
        load(Mlp().build((3,), 2), {**weights, "odd": weights["1.bias"]})
    with pytest.raises(ValueError, match=r"'1.weight' have shape \(64, 3\)"):
        load(Mlp().build((4,), 2), weights)


def test_dropout_draws_from_its_own_seed_and_leaves_the_global_one_alone() -> None:
    before = torch.get_rng_state()
    first, again = (
        give_randomness(make(Mlp(dropout=0.5), (3,), 2, rng()), rng(5)).train()(torch.ones(9, 3)) for _ in "12"
    )
    assert torch.equal(first, again)
    assert not torch.equal(first[0], first[1])
    assert torch.equal(before, torch.get_rng_state())


def test_dropout_without_chance_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="give_randomness"):
        make(Mlp(dropout=0.5), (3,), 2, rng()).train()(torch.ones(9, 3))


@pytest.mark.parametrize("net", [Mlp(hidden=(3,), final="tanh"), Cnn(channels=(2,))])
def test_nets_survive_being_written_as_text(net: Net) -> None:
    assert msgspec.json.decode(msgspec.json.encode(net), type=Mlp | Cnn) == net


@pytest.mark.parametrize("settings", [{"hidden": (0,)}, {"dropout": 1.0}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        msgspec.convert(settings, Mlp)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_leave_a_convolution_with_channels_last_also_after_loading(channels):
    module = make(Cnn(channels=(4,)), (channels, 6, 6), 2, np.random.default_rng(0))
    again = load(Cnn(channels=(4,)).build((channels, 6, 6), 2), weights_of(module))
    for one in (module, again):
        assert one[0](torch.zeros(5, channels, 6, 6)).is_contiguous(memory_format=torch.channels_last)


def test_convolutions_of_their_own_are_those_of_torch():
    first = Convolution(4, kernel=8, stride=2, pad=3, pool=2, pool_stride=1)
    net = make(Cnn(channels=(first, Convolution(6, kernel=4, stride=2), 8), hidden=()), (1, 28, 20), 3, rng(1))
    x, weights = torch.randn(5, 1, 28, 20), dict(net.named_parameters())
    (w1, b1), (w2, b2), (w3, b3), (w4, b4) = list(zip(*[iter(weights.values())] * 2, strict=True))
    y = functional.max_pool2d(functional.relu(functional.conv2d(x, w1, b1, stride=2, padding=3)), 2, 1)
    y = functional.relu(functional.conv2d(y, w2, b2, stride=2))
    y = functional.relu(functional.max_pool2d(functional.conv2d(y, w3, b3, padding=1), (2, 1)))
    torch.testing.assert_close(net(x), functional.linear(y.flatten(1), w4, b4))
    with pytest.raises(ValueError, match="too small for this Cnn"):
        Cnn(channels=(first,)).build((1, 3, 3), 2)

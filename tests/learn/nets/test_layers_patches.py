"""Filters for patches are found without labels, and are trained by nobody."""

import numpy as np
import pytest
import torch

from laconic.learn.nets.layers import PatchLayer, PatchNet
from laconic.learn.nets.nets import Mlp, load, look_at, make, weights_of


def stripes(rows: int, seed: int = 0) -> np.ndarray:
    """Images of upright stripes, each at a place and a brightness of its own, with some noise."""
    rng = np.random.default_rng(seed)
    waves = np.sign(np.sin(np.arange(12) * np.pi / 2 + rng.integers(4, size=(rows, 1)) * np.pi / 2 + 0.1))
    images = np.repeat(waves[:, None, :], 12, axis=1) * rng.uniform(0.5, 2.0, (rows, 1, 1))
    return (images + 0.1 * rng.standard_normal(images.shape))[:, None].astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 14, 28), (3, 16, 32), (1, 4, 28), (1, 2, 28), (1, 1, 1)])
def test_whole_images_and_strips_go_through(shape: tuple[int, ...]) -> None:
    net = look_at(make(PatchNet(filters=4), shape, 3, np.random.default_rng(0)), lambda: np.ones((9, *shape)), _rng())
    outputs = net(torch.randn(2, *shape))
    assert outputs.shape == (2, 3)
    assert bool(outputs.isfinite().all())


def test_filters_become_the_patches_that_are_there() -> None:
    # Stripes four pixels apart lie in four ways, two of which are the others with their signs turned.
    layer = PatchLayer(2, (1, 12, 12), size=4, stride=1, cell=6)
    layer.learn(torch.tensor(stripes(200)), torch.Generator().manual_seed(0))
    # Upright stripes look the same along each column: learnt filters hardly change from one of their rows to the next.
    down = layer.kernels.diff(dim=2).abs().mean()
    right = layer.kernels.diff(dim=3).abs().mean()
    assert float(right) > 5 * float(down)


def test_neither_light_nor_contrast_matters() -> None:
    x = torch.tensor(stripes(5))
    layer = PatchLayer(8, (1, 12, 12), size=4, stride=2, cell=6)
    layer.learn(x, torch.Generator().manual_seed(0))
    # A patch's spread has a little added to it so that flat ones stay flat, so this holds nearly, not exactly.
    torch.testing.assert_close(layer(10 * x + 3), layer(10 * x), atol=1e-3, rtol=0)
    torch.testing.assert_close(layer(20 * x), layer(10 * x), atol=0.02, rtol=0)


def test_no_gradient_and_no_step_changes_filters() -> None:
    net = make(PatchNet(filters=4), (1, 12, 12), 2, _rng())
    assert [name for name, _ in net.named_parameters()] == ["1.weight", "1.bias"]
    assert {"0.kernels", "0.offsets"} <= weights_of(net).keys()


def test_filters_travel_with_the_other_weights() -> None:
    net = look_at(make(PatchNet(filters=4), (1, 12, 12), 2, _rng()), lambda: stripes(50), _rng())
    there = load(PatchNet(filters=4).build((1, 12, 12), 2), weights_of(net))
    x = torch.tensor(stripes(3, seed=1))
    assert torch.equal(there(x), net(x))


def test_without_rows_filters_stay_as_they_were_drawn() -> None:
    net = make(PatchNet(filters=4), (1, 12, 12), 2, _rng())
    before = {name: values.copy() for name, values in weights_of(net).items()}
    look_at(net, lambda: stripes(0), _rng())
    assert all(np.array_equal(before[name], values) for name, values in weights_of(net).items())


def test_rows_are_fetched_only_for_a_layer_that_looks_at_them() -> None:
    def fetch() -> np.ndarray:
        raise AssertionError("nobody needs these rows")

    net = make(Mlp(), (5,), 2, _rng())
    assert look_at(net, fetch, _rng()) is net


def test_columns_and_empty_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="use Mlp for columns"):
        PatchNet().build((5,), 1)
    with pytest.raises(ValueError, match="filters must be whole numbers from 1 up"):
        PatchNet(filters=0)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)

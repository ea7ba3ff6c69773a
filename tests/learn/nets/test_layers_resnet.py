import numpy as np
import pytest
import torch

from laconic.learn.nets.layers import ResNet
from laconic.learn.nets.nets import initialise, load, weights_of


def test_weights_survive_the_way_through_plain_arrays():
    net = ResNet(channels=(4, 8))
    module = initialise(net.build((3, 8, 6), 5), np.random.default_rng(0))
    again = load(net.build((3, 8, 6), 5), weights_of(module))
    x = torch.rand(7, 3, 8, 6)
    assert torch.equal(module(x), again(x))
    assert module(x).shape == (7, 5)


def test_rows_of_a_batch_never_meet():
    module = initialise(ResNet(channels=(4, 8)).build((1, 9, 4), 3), np.random.default_rng(1))
    x = torch.rand(6, 1, 9, 4)
    assert torch.allclose(module(x)[:2], module(x[:2]), atol=1e-6)


def test_the_wide_net_of_the_paper_has_twenty_layers():
    module = ResNet(blocks=3, widen=2).build((3, 32, 16), 10)
    layers = [one for one in module.modules() if list(one.parameters(recurse=False))]
    assert len(layers) == 20
    assert layers[1].weight.shape == (32, 32, 3, 3)


def test_columns_and_empty_stages_are_refused():
    with pytest.raises(ValueError, match="use Mlp for columns"):
        ResNet().build((20,), 3)
    with pytest.raises(ValueError, match="blocks must be whole numbers"):
        ResNet(blocks=0)

"""Matched averaging finds units again whose order was changed."""

import numpy as np
import pytest

from laconic.learn.models.clustering import Matching, match_nets
from laconic.learn.nets.nets import Mlp, load, make, to_tensor, weights_of


def shuffled(net, orders):
    first, second = orders
    return {
        "1.weight": net["1.weight"][first],
        "1.bias": net["1.bias"][first],
        "3.weight": net["3.weight"][second][:, first],
        "3.bias": net["3.bias"][second],
        "5.weight": net["5.weight"][:, second],
        "5.bias": net["5.bias"],
    }


def test_nets_that_differ_in_the_order_of_units_are_one_net():
    form = Mlp(hidden=(8, 6))
    rng = np.random.default_rng(0)
    net = {name: 3 * values for name, values in weights_of(make(form, (5,), 3, rng)).items()}
    nets = [net, *(shuffled(net, (rng.permutation(8), rng.permutation(6))) for _ in range(3))]
    matched = match_nets(nets, Matching(spread=0.01, prior=100.0), rng)
    assert matched["1.weight"].shape == (8, 5)
    x = to_tensor(rng.normal(size=(20, 5)))
    same = load(form.build((5,), 3), matched)(x).detach().numpy()
    assert same == pytest.approx(load(form.build((5,), 3), net)(x).detach().numpy(), abs=1e-2)


def test_units_that_are_unlike_stay_apart():
    far = [np.eye(4)[:2] * 50, np.eye(4)[2:] * 50]
    places = Matching(spread=1.0, prior=100.0).assign(far, np.random.default_rng(0))
    assert sorted(np.concatenate(places).tolist()) == [0, 1, 2, 3]


def test_senseless_settings_are_refused():
    with pytest.raises(ValueError, match="above 0"):
        Matching(spread=0.0)

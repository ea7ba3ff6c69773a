"""Matched averaging finds units again whose order was changed."""

import numpy as np
import pytest

from laconic.learn.models.clustering import Matching, Units, match_nets
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
    matched = match_nets(nets, np.ones((4, 3)), Matching(spread=0.01, prior=100.0), rng)
    assert matched["1.weight"].shape == (8, 5)
    x = to_tensor(rng.normal(size=(20, 5)))
    same = load(form.build((5,), 3), matched)(x).detach().numpy()
    assert same == pytest.approx(load(form.build((5,), 3), net)(x).detach().numpy(), abs=1e-2)


def test_units_that_are_unlike_stay_apart():
    far = [np.eye(4)[:2] * 50, np.eye(4)[2:] * 50]
    units = [Units(one, np.ones(4), np.zeros(4)) for one in far]
    places = Matching(spread=1.0, prior=100.0).assign(units, np.random.default_rng(0))
    assert sorted(np.concatenate(places).tolist()) == [0, 1, 2, 3]


def test_weights_to_a_class_are_those_of_the_parties_that_have_its_rows():
    shared = {"1.weight": np.eye(2, 3) * 9, "1.bias": np.full(2, 0.1), "3.bias": np.zeros(2)}
    one, other = ({**shared, "3.weight": np.array(rows, dtype=float)} for rows in ([[4, 0], [1, 1]], [[0, 1], [0, 4]]))
    counts = np.array([[30, 0], [0, 50]])
    merged = match_nets([one, other], counts, Matching(spread=0.01, prior=1.0), np.random.default_rng(0))
    # By hand: all of a class is at one party, whose weights are drawn towards zero by the prior alone, 100 / 101.
    order = np.argsort(merged["1.weight"][:, 0])[::-1]
    assert merged["3.weight"][:, order] == pytest.approx(np.array([[4, 0], [0, 4]]) * 100 / 101, abs=1e-5)


def test_senseless_settings_are_refused():
    with pytest.raises(ValueError, match="above 0"):
        Matching(spread=0.0)

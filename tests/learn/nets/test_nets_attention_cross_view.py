"""Cross-view training, worked out by hand: two parties of one number each, whose models add numbers up."""

from math import exp, log1p, tanh

import pytest
import torch

from laconic.learn.nets.layers import Linear
from laconic.learn.nets.nets import Agreement, CrossView, Join

TARGETS = torch.tensor([1, 0])
NONE = torch.zeros(0, 1)
# The first of them lies on the first shared row's side, of whose guess at the other party it gets e / (e + 1 / e).
OWN = [[4.0], [0.1]]
GUESS = 2 * tanh(1.0)
SHARED = log1p(exp(-3)) + log1p(exp(-1)) + log1p(exp(-2))


def summing(outputs=2, alone=1.0):
    """Class 1 has as logit the sum of all numbers, or one party's number, the first's times `alone`; class 0 has 0."""
    model = CrossView(Join(None, Linear(2, outputs)), [1, 1], outputs)
    with torch.no_grad():
        for layer, slope in ((model.joint.head, 1.0), (model.views[0], alone), (model.views[1], 1.0)):
            layer.weight.zero_()[-1] = slope
            layer.bias.zero_()
    return model


def shared_blocks():
    return [torch.tensor([[1.0], [-1.0]]).requires_grad_(), torch.tensor([[2.0], [-2.0]]).requires_grad_()]


def below(x):
    """1 / (1 + e^x): how the loss of a logit x of the right class falls with it."""
    return 1 / (1 + exp(x))


@pytest.mark.parametrize("outputs", [1, 2])
def test_an_own_row_counts_where_both_heads_agree_and_are_sure(outputs):
    rule = Agreement(threshold=0.9, weight=0.5, sharpness=1.0)
    found = summing(outputs).loss(shared_blocks(), TARGETS, [torch.tensor(OWN), NONE], rule)
    # The second row is class 1 by 0.52 for the head of its party alone, which is not sure.
    guessed = (log1p(exp(-4 - GUESS)) + log1p(exp(-4))) / 2
    assert float(found.detach()) == pytest.approx(SHARED + 0.5 * guessed, abs=1e-5)


def test_a_row_below_the_threshold_counts_for_nothing():
    # By its party's number alone the first row is class 1 by 1 / (1 + e^-4) = 0.982.
    for threshold, counts in ((0.98, True), (0.985, False)):
        rule = Agreement(threshold=threshold, weight=0.5, sharpness=1.0)
        found = float(summing().loss(shared_blocks(), TARGETS, [torch.tensor(OWN), NONE], rule).detach())
        assert (found > SHARED + 1e-4) == counts


def test_heads_that_disagree_teach_nothing_however_sure_they_are():
    model, rule = summing(alone=-1.0), Agreement(threshold=0.9, weight=0.5, sharpness=1.0)
    with_own = model.loss(shared_blocks(), TARGETS, [torch.tensor(OWN), NONE], rule)
    assert torch.equal(with_own, model.loss(shared_blocks(), TARGETS, [NONE, NONE], rule))


def test_gradients_reach_own_rows_that_count_and_no_shared_row_through_them():
    rule = Agreement(threshold=0.9, weight=0.5, sharpness=1.0)
    own, blocks, without = torch.tensor(OWN).requires_grad_(), shared_blocks(), shared_blocks()
    summing().loss(blocks, TARGETS, [own, NONE], rule).backward()
    summing().loss(without, TARGETS, [NONE, NONE], rule).backward()
    # Weight 0.5, a mean over two rows, two heads; the guess does not change with a number on one side of the centre.
    assert own.grad[:, 0].tolist() == pytest.approx([-0.25 * (below(4 + GUESS) + below(4)), 0.0], abs=1e-6)
    for one, other in zip(blocks, without, strict=True):
        assert torch.equal(one.grad, other.grad)

"""Several nets speak as one, and learn each by itself."""

import numpy as np
import pytest
import torch

from laconic import Equal, FewShot, OneShot, check_method, deal, simulate
from laconic import load as load_data
from laconic.learn.nets.layers import PatchNet
from laconic.learn.nets.nets import Cnn, Ensemble, Members, Mlp, SummedHeads, initialise, load, look_at, members_of
from laconic.learn.train.semisupervised import Extractor, FixMatch, FixMatchTab, begin
from laconic.learn.train.sgd import Sgd

NET = Mlp(hidden=(16,))
LOCAL = FixMatchTab(steps=30, lr=1e-2)


def stripes(rows, rng):
    """Images of two classes, lines across and lines down, none of them clear."""
    label = rng.integers(2, size=rows)
    lines = np.tile(np.sin(np.arange(8)), (8, 1))
    x = np.where(label[:, None, None], lines, lines.T) + rng.normal(0, 1.2, (rows, 8, 8))
    return x[:, None].astype(np.float32), label


def test_what_they_say_together_is_the_mean_of_what_each_says():
    module = initialise(Extractor(Ensemble(net=NET, count=3), (5,), 4, 2), np.random.default_rng(0))
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    each = torch.stack(module.each(x))
    assert not torch.allclose(each[0], each[1])
    assert torch.allclose(module(x), each.mean(dim=0), atol=1e-6)


@pytest.mark.parametrize("ratio", [0, 4], ids=["labelled rows alone", "unlabelled rows too"])
def test_one_of_several_learns_exactly_as_a_net_by_itself(ratio):
    rng = np.random.default_rng(1)
    (x, y), (unlabelled, _) = stripes(20, rng), stripes(40, rng)
    net, learner = Cnn(channels=(4,), hidden=()), FixMatch(steps=5, ratio=ratio)
    found = []
    for form in (net, Ensemble(net=net, count=1)):
        chance = np.random.default_rng(2)
        found.append(learner.fit(begin(form, x.shape[1:], 4, 2, chance), form, 4, x, y, unlabelled, chance))
    assert all(np.array_equal(*pair) for pair in zip(found[0].values(), found[1].values(), strict=True))


def test_each_learns_the_classes_and_together_they_know_better():
    rng = np.random.default_rng(3)
    (x, y), (unlabelled, _), (test, truth) = stripes(24, rng), stripes(400, rng), stripes(2000, rng)
    several = Ensemble(net=Mlp(hidden=(16,)), count=4)
    start = begin(several, x.shape[1:], 4, 2, rng)
    weights = FixMatch(steps=60, lr=1e-2).fit(start, several, 4, x, y, unlabelled, rng)
    module = load(Extractor(several, x.shape[1:], 4, 2), weights).eval()
    with torch.no_grad():
        views = torch.from_numpy(test)
        each = [float((one.argmax(dim=1).numpy() == truth).mean()) for one in module.each(views)]
        together = float((module(views).argmax(dim=1).numpy() == truth).mean())
    assert min(each) > 0.7
    assert len(set(each)) == 4
    assert together > np.mean(each)


def test_each_finds_patches_of_its_own():
    rng = np.random.default_rng(4)
    body = Ensemble(net=PatchNet(filters=4)).build((1, 8, 8), 3)
    found = look_at(initialise(body, rng), lambda: stripes(50, rng)[0], rng)
    first, second = (member[0].kernels for member in members_of(found))
    # Filters that were found sum to zero; random ones do not.
    assert first.sum(dim=(1, 2, 3)).abs().max() < 1e-5
    assert not torch.allclose(first, second)


def test_a_single_net_is_its_only_member():
    body = NET.build((5,), 4)
    assert members_of(body) == [body]
    assert len(members_of(Members([body, body]))) == 2


def test_none_at_all_is_refused():
    with pytest.raises(ValueError, match="count must be 1 or more, not 0"):
        Ensemble(net=NET, count=0)


def test_several_nets_send_no_more_than_one():
    federation = deal(load_data("digits"), Equal(parties=2), hub=None, overlap=100, seed=1)
    one, two = (
        simulate(OneShot(net=net, local=LOCAL, head=SummedHeads()), federation) for net in (NET, Ensemble(net=NET))
    )
    assert two.fit.bytes == one.fit.bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        OneShot(net=Ensemble(net=NET), local=LOCAL),
        FewShot(net=Ensemble(net=NET), local=LOCAL, trainer=Sgd(epochs=15, lr=1e-2), more=Sgd(epochs=2, batch=32)),
    ],
    ids=["one-shot", "few-shot, fine-tuned"],
)
def test_several_nets_keep_the_contract(method):
    check_method(method)

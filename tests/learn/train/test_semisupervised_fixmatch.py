import numpy as np
import pytest
import torch

from laconic.learn.nets.nets import Cnn, Mlp, load, to_tensor
from laconic.learn.train.semisupervised import Adaptive, Extractor, Fixed, FixMatch, FixMatchTab, Soft, begin, body_of
from laconic.learn.train.sgd import evaluate

NET = Mlp(hidden=(16,), final="relu")


def bands(rows, rng):
    """Two long bands side by side: few labels leave open where the gap between them is, many rows show it."""
    label = rng.integers(2, size=rows)
    x = np.stack([2 * label - 1 + 0.3 * rng.standard_normal(rows), 3 * rng.standard_normal(rows)], axis=1)
    return x.astype(np.float32), label


def score(learner, labelled, unlabelled, test):
    rng = np.random.default_rng(0)
    start = begin(NET, (2,), 8, 2, rng)
    weights = learner.fit(start, NET, 8, *labelled, unlabelled, rng)
    found = evaluate(load(Extractor(NET, (2,), 8, 2), weights), [to_tensor(test[0])]).argmax(dim=1).numpy()
    return (found == test[1]).mean()


def test_unlabelled_rows_help():
    rng = np.random.default_rng(1)
    labelled, unlabelled, test = bands(8, rng), bands(1000, rng)[0], bands(500, rng)
    settings = {"steps": 250, "batch": 16, "lr": 1e-2, "keep": 1.0, "strong_keep": 1.0, "noise": 0.4}
    alone = score(FixMatchTab(**settings, ratio=0), labelled, unlabelled, test)
    assert score(FixMatchTab(**settings), labelled, unlabelled, test) > alone + 0.02


def test_without_unlabelled_rows_it_learns_from_labels_alone():
    rng = np.random.default_rng(6)
    assert score(FixMatchTab(steps=150, lr=1e-2), bands(200, rng), np.zeros((0, 2), np.float32), bands(200, rng)) > 0.9


def test_images_are_learnt_in_any_shape_and_few_rows():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((6, 1, 8, 5)).astype(np.float32)
    net = Cnn(channels=(4,), hidden=(), final="relu")
    start = begin(net, (1, 8, 5), 6, 3, rng)
    found = FixMatch(steps=3, batch=8).fit(start, net, 6, x, np.array([0, 1, 2, 0, 1, 2]), x[:5], rng)
    assert found.keys() == start.keys()
    assert any(not np.array_equal(found[name], start[name]) for name in start)
    assert body_of(found).keys() == {"0.weight", "0.bias", "4.weight", "4.bias"}


def test_the_same_chance_learns_the_same():
    rng = np.random.default_rng(2)
    labelled, unlabelled = bands(20, rng), bands(50, rng)[0]
    runs = []
    for _ in range(2):
        chance = np.random.default_rng(3)
        runs.append(FixMatchTab(steps=10).fit(begin(NET, (2,), 8, 2, chance), NET, 8, *labelled, unlabelled, chance))
    assert all(np.array_equal(runs[0][name], runs[1][name]) for name in runs[0])


def test_weak_views_are_nearer_than_strong_ones():
    x = torch.randn(200, 1, 14, 14, generator=torch.Generator().manual_seed(0))
    columns, chance = x.flatten(1), torch.Generator().manual_seed(1)
    tab = FixMatchTab()
    assert (tab.weak(columns, chance) - columns).norm() < (tab.strong(columns, chance) - columns).norm()
    assert set(FixMatch().weak(x, chance).unique().tolist()) <= set(x.unique().tolist())


def test_a_fixed_threshold_stays_and_an_adaptive_one_follows_each_class():
    guesses = torch.tensor([[0.9, 0.1]] * 9 + [[0.3, 0.7]])
    fixed, adaptive = Fixed(level=0.8).watch(2), Adaptive(momentum=0.5).watch(2)
    for _ in range(50):
        fixed.see(guesses)
        adaptive.see(guesses)
    assert fixed.cutoffs.tolist() == pytest.approx([0.8, 0.8])
    # Mean confidence 0.88; the second class is guessed at 0.16 where the first is at 0.84.
    assert adaptive.cutoffs.tolist() == pytest.approx([0.88, 0.88 * 0.16 / 0.84], abs=1e-4)


def test_without_a_threshold_every_guess_counts_as_it_is():
    guesses = torch.tensor([[0.5, 0.5], [0.9, 0.1]])
    labels, counts = Soft().watch(2).labels(guesses)
    assert torch.equal(labels, guesses)
    assert counts.tolist() == [1.0, 1.0]


def test_nets_with_dropout_learn_with_every_threshold():
    rng = np.random.default_rng(7)
    net, (x, label) = Mlp(hidden=(8,), dropout=0.2), bands(20, rng)
    for threshold in (Adaptive(), Soft()):
        start = begin(net, (2,), 4, 2, np.random.default_rng(0))
        found = FixMatchTab(steps=3, batch=8, threshold=threshold).fit(start, net, 4, x, label, x, rng)
        assert all(np.isfinite(values).all() for values in found.values())


def test_rows_that_do_not_tell_their_class_stay_undecided_without_a_threshold():
    """Columns of noise: a fifth of the rows are of the second class, whatever they say."""
    rng = np.random.default_rng(4)
    x, label = rng.standard_normal((200, 2)).astype(np.float32), (rng.random(200) < 0.2).astype(np.int64)
    settings = {"steps": 200, "batch": 32, "lr": 1e-2, "weight": 4.0, "align": False}

    def doubt(threshold):
        chance = np.random.default_rng(5)
        learner = FixMatchTab(**settings, threshold=threshold)
        unlabelled = rng.standard_normal((500, 2)).astype(np.float32)
        weights = learner.fit(begin(NET, (2,), 8, 2, chance), NET, 8, x, label, unlabelled, chance)
        logits = evaluate(load(Extractor(NET, (2,), 8, 2), weights), [to_tensor(unlabelled)])
        return float(logits.softmax(dim=1)[:, 1].mean())

    assert doubt(Soft()) == pytest.approx(0.2, abs=0.05)
    assert doubt(Adaptive()) < 0.1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": 0}, "steps must be 1 or more, not 0"),
        ({"ratio": -1}, "ratio must be 0 or more"),
        ({"weight": -0.5}, "weight must be 0 or more"),
        ({"warm_up": 1.0}, "warm_up must be from 0 to"),
        ({"keep": 0.0}, "keep must be above 0"),
    ],
)
def test_settings_that_train_nothing_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        FixMatchTab(**wrong)


def test_a_hole_as_large_as_the_image_is_refused():
    with pytest.raises(ValueError, match="below 1"):
        FixMatch(hole=1.0)


def test_columns_are_not_warped_like_images():
    x, rng = np.zeros((4, 6), np.float32), np.random.default_rng(0)
    net = Mlp(hidden=())
    with pytest.raises(ValueError, match="FixMatchTab"):
        FixMatch(steps=1).fit(begin(net, (6,), 2, 2, rng), net, 2, x, np.array([0, 1, 0, 1]), x, rng)

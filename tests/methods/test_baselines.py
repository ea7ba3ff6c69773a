import numpy as np
import pytest

from laconic import check_method, simulate
from laconic.core import Method
from laconic.learn import Sgd, fit_linear, predict_linear
from laconic.methods.baselines.centralised import Centralised
from laconic.methods.baselines.linear import Linear
from laconic.methods.baselines.solo import Solo
from laconic.methods.families.rows import batch_rows, side_by_side
from laconic.tables import Task
from laconic.testing import small_federation

QUICK = Sgd(epochs=20, lr=3e-3, patience=5)


def test_linear_keeps_the_contract():
    check_method(Linear())


@pytest.mark.parametrize("method", [Solo(trainer=QUICK), Centralised(trainer=QUICK)])
def test_baselines_with_a_net_keep_the_contract(method):
    for kind in Method.tasks:  # Nets learn no times to an event.
        check_method(method, small_federation(kind))


def test_solo_says_nothing_and_pooling_says_it_pools():
    cancer = small_federation("binary")
    solo = simulate(Solo(trainer=QUICK), cancer)
    assert (solo.fit.bytes, solo.fit.rounds, solo.releases) == (0, 0, ())
    pooled = simulate(Linear(), cancer)
    assert all("raw columns" in release.words for release in pooled.releases)
    assert {release.covered for release in pooled.releases} == {"open release: not protected"}


def test_a_linear_model_that_never_saw_a_class_gives_it_no_chance():
    task = Task(kind="multiclass", classes=("a", "b", "c"))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = np.where(x[:, 0] > 0, 2, 0)
    found = predict_linear(task, fit_linear(task, x, y, 1.0), x)
    assert found.shape == (60, 3)
    assert found[:, 1].max() < 1e-6
    assert (found.argmax(axis=1) == y).mean() > 0.9


def test_images_of_one_size_are_pooled_as_channels():
    quarters = [np.ones((5, 1, 14, 14), np.float32)] * 4
    assert side_by_side(quarters).shape == (5, 4, 14, 14)
    assert side_by_side([np.ones((5, 1, 2, 3)), np.ones((5, 4))]).shape == (5, 10)


def test_batches_of_an_epoch_hold_every_row_once():
    rows = np.concatenate([batch_rows(103, 10, 5, 2, number) for number in range(11)])
    assert sorted(rows) == list(range(103))
    assert not np.array_equal(rows, np.concatenate([batch_rows(103, 10, 5, 3, number) for number in range(11)]))

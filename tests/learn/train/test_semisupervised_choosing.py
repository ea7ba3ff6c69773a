import numpy as np
import pytest

from laconic.learn.train.semisupervised import Confident, PerClass, aligned, chances

EVEN = np.array([0.5, 0.5])


def test_only_rows_that_both_models_are_sure_of_and_agree_on_get_a_chance():
    alone = np.array([[0.95, 0.05], [0.1, 0.9], [0.05, 0.95], [0.9, 0.1]])
    joint = np.array([[0.92, 0.08], [0.95, 0.05], [0.4, 0.6], [0.2, 0.8]])
    alone, joint = (np.concatenate([rows, rows[:, ::-1]]) for rows in (alone, joint))  # So that both classes are even.
    found = chances(alone, joint, Confident(level=0.9), EVEN)
    assert found == pytest.approx([0.92, 0, 0, 0, 0.92, 0, 0, 0])


def test_one_level_chooses_the_common_class_alone_and_a_share_per_class_does_not():
    rng = np.random.default_rng(0)
    rare = rng.random(2000) < 0.2
    sure = np.where(rare, rng.uniform(0.5, 0.7, 2000), rng.uniform(0.8, 1.0, 2000))
    both = np.stack([np.where(rare, 1 - sure, sure), np.where(rare, sure, 1 - sure)], axis=1)
    prior = both.mean(axis=0)
    assert (chances(both, both, Confident(level=0.9), prior) > 0)[rare].sum() == 0
    chosen = chances(both, both, PerClass(share=0.5), prior) > 0
    assert chosen[rare].mean() == pytest.approx(0.5, abs=0.01)
    assert chosen[~rare].mean() == pytest.approx(0.5, abs=0.01)


def test_probabilities_are_brought_towards_the_prior():
    rng = np.random.default_rng(1)
    first = rng.uniform(0.6, 1.0, 500)
    before = np.stack([first, 1 - first], axis=1)
    after = aligned(before, EVEN)
    assert after.sum(axis=1) == pytest.approx(np.ones(500))
    assert abs(after.mean(axis=0) - EVEN).max() < abs(before.mean(axis=0) - EVEN).max() / 2


def test_no_rows_get_no_chances():
    assert chances(np.zeros((0, 2)), np.zeros((0, 2)), PerClass(), EVEN).shape == (0,)

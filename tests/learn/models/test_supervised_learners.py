import numpy as np
import pytest

from laconic.learn.models.learners import LinearModel, NetModel, TreeModel
from laconic.learn.nets.nets import Mlp
from laconic.learn.train.sgd import Sgd
from laconic.learn.trees.dense_trees import Boosted
from laconic.tables import Task

LEARNERS = [
    NetModel(net=Mlp(hidden=(16,)), trainer=Sgd(epochs=30, batch=32, lr=1e-2)),
    LinearModel(),
    TreeModel(trees=Boosted(trees=15, depth=3)),
]
TWO = Task(kind="binary", classes=("a", "b"))
THREE = Task(kind="multiclass", classes=("a", "b", "c"))
NUMBERS = Task(kind="regression")


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
class TestEveryLearner:
    def test_learns_two_classes(self, learner, x):
        y = (x[:, 0] > 0).astype(int)
        found = learner.predict(TWO, learner.fit(TWO, x, y, np.random.default_rng(1)), x)
        assert found.shape == (300,)
        assert np.mean((found > 0.5) == y) > 0.9

    def test_learns_three_classes(self, learner, x):
        y = np.digitize(x[:, 0], [-0.5, 0.5])
        found = learner.predict(THREE, learner.fit(THREE, x, y, np.random.default_rng(1)), x)
        assert found.shape == (300, 3)
        assert np.mean(found.argmax(axis=1) == y) > 0.8

    def test_learns_one_number(self, learner, x):
        y = 100 + 10 * x[:, 0]
        found = learner.predict(NUMBERS, learner.fit(NUMBERS, x, y, np.random.default_rng(1)), x)
        assert found.shape == (300,)
        assert np.std(found - y) < 4

    def test_learns_several_numbers_a_row(self, learner, x):
        y = np.column_stack([100 + 10 * x[:, 0], x[:, 1]])
        found = learner.predict(NUMBERS, learner.fit(NUMBERS, x, y, np.random.default_rng(1)), x)
        assert found.shape == (300, 2)
        assert np.corrcoef(found[:, 0], y[:, 0])[0, 1] > 0.9
        assert np.corrcoef(found[:, 1], y[:, 1])[0, 1] > 0.9

    def test_learns_the_same_from_the_same_chance(self, learner, x):
        y = (x[:, 0] > 0).astype(int)
        one, other = (learner.fit(TWO, x, y, np.random.default_rng(1)) for _ in range(2))
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_net_with_patience_looks_at_validation_rows():
    assert NetModel(trainer=Sgd(patience=3)).cuts == ("train", "valid")
    assert NetModel(trainer=Sgd()).cuts == ("train",)


def test_a_penalty_of_zero_is_refused():
    with pytest.raises(ValueError, match="penalty must be above 0, not 0"):
        LinearModel(penalty=0)

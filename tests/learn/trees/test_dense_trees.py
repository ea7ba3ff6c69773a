"""Trees as arrays: they say what XGBoost says, and only well-formed ones get through."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.learn.trees.dense_trees import Boosted, Forest, check_trees, predict_trees
from laconic.tables import Task

xgboost = pytest.importorskip("xgboost")

TASKS = {
    "binary": Task(kind="binary", classes=("no", "yes")),
    "multiclass": Task(kind="multiclass", classes=("a", "b", "c")),
    "regression": Task(kind="regression"),
}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)).astype(np.float32)
SCORE = X[:, 0] + X[:, 1] * X[:, 2]
LABELS = {"binary": (SCORE > 0).astype(int), "multiclass": np.digitize(SCORE, [-0.5, 0.5]), "regression": SCORE * 10}


@pytest.mark.parametrize("settings_", [Forest(trees=20), Boosted(trees=20)], ids=["forest", "boosted"])
@pytest.mark.parametrize("kind", TASKS)
def test_trees_learn_every_kind_of_task(kind, settings_):
    task, y = TASKS[kind], LABELS[kind]
    weights = settings_.fit(task, X[:200], y[:200], np.random.default_rng(1))
    check_trees(task, weights, (5,))
    found = predict_trees(task, weights, X[200:])
    assert found.shape == task.shape(100)
    if kind == "regression":
        assert np.corrcoef(found, y[200:])[0, 1] > 0.7
    else:
        assert (task.decide(found) == y[200:]).mean() > 0.7


def test_padded_trees_say_what_xgboost_says():
    task, y = TASKS["binary"], LABELS["binary"]
    weights = Boosted(trees=7, depth=4).fit(task, X, y, np.random.default_rng(3))
    rows = xgboost.QuantileDMatrix(X, label=y, max_bin=64)
    seed = int(np.random.default_rng(3).integers(2**31))
    asked = {"objective": "binary:logistic", "eta": 0.3, "lambda": 1.0, "max_depth": 4, "tree_method": "hist"}
    same = xgboost.train(asked | {"max_bin": 64, "seed": seed, "base_score": 0.5, "nthread": 1}, rows, 7)
    assert predict_trees(task, weights, X) == pytest.approx(same.predict(xgboost.DMatrix(X)), abs=1e-6)


def test_a_forest_of_one_whole_tree_gives_shares_of_its_leaves():
    task, y = TASKS["binary"], (X[:, 3] > 0).astype(int)
    weights = Forest(trees=1, depth=1, rows=1.0, columns=1.0).fit(task, X, y, np.random.default_rng(0))
    assert sorted(set(predict_trees(task, weights, X).round(3))) == pytest.approx([0.0, 1.0], abs=0.05)


def test_the_same_chance_grows_the_same_trees():
    one, other = (Forest(trees=5).fit(TASKS["binary"], X, LABELS["binary"], np.random.default_rng(5)) for _ in range(2))
    assert all((one[name] == other[name]).all() for name in one)


MODEL = Boosted(trees=2, depth=3).fit(TASKS["binary"], X, LABELS["binary"], np.random.default_rng(0))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(MODEL)), st.integers(-(2**20), 2**20), st.integers(0, 30), st.booleans())
def test_a_model_changed_on_its_way_is_refused_or_still_predicts(name, value, place, cut):
    changed = {key: array.copy() for key, array in MODEL.items()}
    if cut:
        changed[name] = changed[name][..., : place % 3]
    else:
        flat = changed[name].astype(np.float64 if changed[name].dtype.kind == "f" else np.int64).ravel()
        flat[place % flat.size] = value
        changed[name] = flat.reshape(changed[name].shape)
    try:
        check_trees(TASKS["binary"], changed, (5,))
    except ValueError:
        return
    found = predict_trees(TASKS["binary"], changed, X)
    assert found.shape == (300,)
    assert np.isfinite(found).all()


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="columns"):
        check_trees(TASKS["binary"], MODEL | {"column": MODEL["column"] + 5}, (5,))


def test_settings_that_grow_nothing_are_refused():
    with pytest.raises(ValueError, match="depth"):
        Forest(depth=11)
    with pytest.raises(ValueError, match="trees"):
        Boosted(trees=0)
    with pytest.raises(ValueError, match="rows"):
        Forest(rows=0.0)


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_rows_that_lack_a_number_go_where_xgboost_learnt_to_send_them(kind):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 4)).astype(np.float32)
    numbers = np.where(rng.random(400) < 0.5, x[:, 0], 2.0)
    x[numbers == 2.0, 0] = np.nan  # Missing means high.
    task = Task(kind=kind, classes=("no", "yes") if kind == "binary" else ())
    y = (numbers > 0).astype(np.int64) if kind == "binary" else numbers
    learner = Boosted(trees=12, depth=3)
    weights = learner.fit(task, x, y, np.random.default_rng(0))
    seed = int(np.random.default_rng(0).integers(2**31))
    asked = learner.plan(task, 4) | {"seed": seed, "base_score": 0.5 if kind == "binary" else float(y.mean())}
    same = xgboost.train(asked, xgboost.QuantileDMatrix(x, label=y, max_bin=64), 12).predict(xgboost.DMatrix(x))
    assert predict_trees(task, weights, x) == pytest.approx(same, abs=1e-5)
    learner.check(task, weights, (4,))
    left = {name: values for name, values in weights.items() if name != "missing"}
    assert not np.allclose(predict_trees(task, left, x), same, atol=1e-3)


def test_trees_of_rows_that_lack_nothing_are_kept_as_before():
    task, (x, y) = Task(kind="regression"), (np.arange(40, dtype=np.float32)[:, None], np.arange(40.0))
    weights = Boosted(trees=2).fit(task, x, y, np.random.default_rng(0))
    assert set(weights) == {"column", "threshold", "leaf", "output", "base", "logit"}

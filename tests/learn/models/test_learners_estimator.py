import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from laconic import DataPlan, FedOnce, Plan, read_plan, simulate, write_plan
from laconic.errors import DataError, PlanError
from laconic.learn import Estimator
from laconic.tables import Task
from laconic.testing import small_federation

pytest.importorskip("skops")

BINARY = Task(kind="binary", classes=("no", "yes"))
X = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def rng():
    return np.random.default_rng(1)


@pytest.mark.parametrize(
    "given",
    [ExtraTreesClassifier(n_estimators=5), HistGradientBoostingClassifier(max_iter=5), LogisticRegression(C=0.5)],
    ids=lambda one: type(one).__name__,
)
def test_an_estimator_is_kept_as_arrays_and_predicts_what_it_did(given):
    learner = Estimator.of(given)
    weights = learner.fit(BINARY, X, Y, rng())
    assert {array.dtype for array in weights.values()} == {np.dtype(np.uint8)}
    seed = {"random_state": int(rng().integers(2**31))} if "random_state" in given.get_params() else {}
    whole = given.set_params(**seed).fit(X, Y)
    assert learner.predict(BINARY, weights, X) == pytest.approx(whole.predict_proba(X)[:, 1])


def test_the_same_seed_gives_the_same_forest():
    learner = Estimator(path="sklearn.ensemble.ExtraTreesClassifier", settings={"n_estimators": 3})
    one, same = (learner.predict(BINARY, learner.fit(BINARY, X, Y, rng()), X) for _ in range(2))
    assert np.array_equal(one, same)


def test_a_class_without_rows_gets_no_share():
    three = Task(kind="multiclass", classes=("a", "b", "c"))
    learner = Estimator.of(LogisticRegression())
    said = learner.predict(three, learner.fit(three, X, 2 * Y, rng()), X)
    assert said.shape == (120, 3)
    assert not said[:, 1].any()


def test_a_pipeline_goes_through_a_plan_and_a_run():
    head = Estimator.of(make_pipeline(StandardScaler(), LogisticRegression(C=2.0)))
    plan = Plan(method=FedOnce(head=head), data=DataPlan(name="breast_cancer"))
    assert read_plan(write_plan(plan)) == plan
    assert simulate(FedOnce(head=head), small_federation("binary")).score.value > 0.95


def test_numbers_are_predicted_by_regressors_alone():
    learner, number = Estimator.of(Lasso(alpha=0.01)), Task(kind="regression")
    said = learner.predict(number, learner.fit(number, X, X[:, 1], rng()), X)
    assert said == pytest.approx(X[:, 1], abs=0.1)
    with pytest.raises(PlanError, match=r"Lasso does not predict a label of kind binary"):
        learner.fit(BINARY, X, Y, rng())


@pytest.mark.parametrize(
    "made",
    [
        LogisticRegression(),
        make_pipeline(SimpleImputer(strategy="constant", fill_value=3.0), LogisticRegression()),
        HistGradientBoostingClassifier(max_iter=5),
    ],
    ids=["means", "own pipeline", "gaps as they are"],
)
def test_gaps_are_filled_with_means_unless_the_estimator_takes_them_itself(made):
    holes = X.copy()
    holes[:7, 2] = np.nan
    learner = Estimator.of(made)
    said = learner.predict(BINARY, learner.fit(BINARY, holes, Y, rng()), holes)
    filled = holes.copy()
    if isinstance(made, LogisticRegression):
        filled[:7, 2] = holes[7:, 2].mean()
    made = clone(made).set_params(**({"random_state": 0} if "random_state" in made.get_params() else {}))
    assert said == pytest.approx(made.fit(filled, Y).predict_proba(filled)[:, 1], abs=1e-6)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("os.system", "not in scikit-learn"),
        ("sklearn_evil.Model", "not in scikit-learn"),
        ("sklearn.ensemble.NoSuchThing", "no such estimator"),
        ("sklearn.datasets.fetch_openml", "no estimator"),
    ],
)
def test_nothing_but_estimators_of_scikit_learn_can_be_named(path, why):
    with pytest.raises(PlanError, match=why):
        Estimator(path=path)


def test_a_setting_that_it_does_not_have_is_named():
    with pytest.raises(PlanError, match=r"ExtraTreesClassifier has no setting n_estimator; did you mean n_estimators"):
        Estimator(path="sklearn.ensemble.ExtraTreesClassifier", settings={"n_estimator": 3})


def test_one_without_probabilities_is_refused():
    with pytest.raises(PlanError, match=r"LinearSVC gives no probabilities.*CalibratedClassifierCV"):
        Estimator.of(LinearSVC()).fit(BINARY, X, Y, rng())


def test_a_function_as_parameter_cannot_be_written_down():
    with pytest.raises(PlanError, match=r"func is a .*cannot be written down"):
        Estimator.of(FunctionTransformer(func=np.log1p))


def test_a_kept_model_that_would_run_code_is_not_read():
    import os

    import skops.io

    evil = make_pipeline(FunctionTransformer(func=os.system), LogisticRegression())
    written = np.frombuffer(skops.io.dumps(evil), dtype=np.uint8)
    with pytest.raises(DataError, match=r"holds .*system.* it is not read"):
        Estimator.of(LogisticRegression()).predict(BINARY, {"estimator": written}, X)


def test_a_kept_model_of_another_kind_than_the_settings_name_is_refused():
    weights = Estimator.of(LogisticRegression()).fit(BINARY, X, Y, rng())
    with pytest.raises(DataError, match="LogisticRegression, but its settings name"):
        Estimator.of(ExtraTreesClassifier()).predict(BINARY, weights, X)

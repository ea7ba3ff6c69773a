import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from laconic import Equal, FedAvg, FedOnce, Linear, Rap, SplitNN
from laconic.inference.estimators import FederatedClassifier, FederatedRegressor
from laconic.learn import LinearModel, Pca, Sgd

QUICK = FedOnce(trainer=Sgd(epochs=15, batch=32, lr=3e-3))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FederatedClassifier, FederatedRegressor])
def test_scikit_learns_own_checks_find_nothing(kind):
    estimator = kind(Linear(), valid=0.1)
    outcomes = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [(one["check_name"], repr(one["exception"])[:200]) for one in outcomes if one["status"] == "failed"]
    assert failed == []
    assert len(outcomes) > 30


def test_clone_has_the_same_parameters_and_nothing_learnt():
    estimator = FederatedClassifier(QUICK, cut=Equal(parties=4), hub=1, seed=3)
    copy = clone(estimator.fit(*load_iris(return_X_y=True)))
    assert copy.get_params() == estimator.get_params()
    assert not hasattr(copy, "trained_")


def test_settings_of_the_method_are_parameters():
    estimator = FederatedClassifier(QUICK).set_params(method__encoder=Pca(dim=3), cut__parties=2, seed=5)
    estimator.set_params(method__encoder__dim=2, method__precision="float16")
    assert estimator.method.encoder == Pca(dim=2)
    assert estimator.get_params()["method__encoder__dim"] == 2
    assert estimator.get_params()["method__precision"] == "float16"
    assert (estimator.cut, estimator.seed) == (Equal(parties=2), 5)
    assert QUICK.precision == "float32"


@pytest.mark.parametrize("key", ["metod", "method__encodr", "method__encoder__dim__size"])
def test_an_unknown_parameter_is_named_with_those_there_are(key):
    with pytest.raises(ValueError, match=r"has no (parameter|setting) .*it has"):
        FederatedClassifier(QUICK).set_params(**{key: 1})


def test_grid_search_over_a_simulated_federation_finds_the_better_setting():
    x, y = load_breast_cancer(return_X_y=True)
    search = GridSearchCV(
        FederatedClassifier(QUICK), {"method__trainer__epochs": [0, 15], "method__encoder": [Pca(dim=4)]}, cv=3
    ).fit(x, y)
    assert search.best_params_["method__trainer__epochs"] == 15
    assert search.best_score_ > 0.9
    assert search.score(x, y) == np.mean(search.predict(x) == y)


def test_several_classes_and_cross_validation():
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    assert cross_val_score(FederatedClassifier(QUICK), x, names, cv=3).mean() > 0.8
    fitted = FederatedClassifier(QUICK).fit(x, names)
    shares = fitted.predict_proba(x)
    assert shares.shape == (150, 3)
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-6)
    assert set(fitted.predict(x)) <= set(names)


def test_numbers_are_predicted_in_their_own_unit():
    x, y = load_diabetes(return_X_y=True)
    fitted = FederatedRegressor(FedOnce(trainer=Sgd(epochs=60, lr=3e-3))).fit(x, y)
    assert fitted.score(x, y) > 0.4
    assert abs(fitted.predict(x).mean() - y.mean()) < 20


def test_a_frame_with_text_and_gaps_is_taken_as_it_is():
    rng = np.random.default_rng(0)
    town = rng.choice(["Ulm", "Trier"], 200)
    frame = pandas.DataFrame({"age": rng.normal(40, 9, 200), "town": town, "debt": rng.normal(size=200)})
    frame.loc[::7, "age"] = None
    fitted = FederatedClassifier(QUICK).fit(frame, town == "Ulm")
    again = frame.assign(town=frame["town"].where(frame.index != 3, "Bonn"))
    assert fitted.score(frame, town == "Ulm") > 0.9
    assert np.isfinite(fitted.predict_proba(again)).all()
    assert list(fitted.feature_names_in_) == ["age", "town", "debt"]


def test_a_pipeline_works():
    x, y = load_breast_cancer(return_X_y=True)
    assert (
        make_pipeline(StandardScaler(), FederatedClassifier(SplitNN(trainer=Sgd(epochs=10)))).fit(x, y).score(x, y)
        > 0.9
    )


def test_a_method_whose_label_holder_does_not_predict_is_refused():
    with pytest.raises(ValueError, match="FedAvg is a horizontal method"):
        FederatedClassifier(FedAvg()).fit(*load_iris(return_X_y=True))


def test_a_method_with_a_server_can_be_searched_too():
    x, y = load_iris(return_X_y=True)
    grid = {"method": [Rap(learner=LinearModel()), Linear()]}
    search = GridSearchCV(FederatedClassifier(), grid, cv=2, error_score="raise").fit(x[::2], y[::2])
    assert search.cv_results_["mean_test_score"][0] > 0.7
    assert search.predict(x).shape == y.shape

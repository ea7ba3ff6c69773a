"""FedKT: the contract at every level, its edge cases, and models that are not what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB
from torch import nn

from laconic import Dirichlet, check_method, deal_rows, load, simulate
from laconic.core import Party
from laconic.deploy import Faults, InProcess
from laconic.errors import LaconicError, WireError
from laconic.learn import Boosted, Cnn, Forest, Learner, Logistic, Mlp, Network, Sgd, check_model
from laconic.learn.nets.layers import Linear
from laconic.methods.horizontal.fedkt import FedKt, Prox
from laconic.privacy import L1, L2, GaussianVotes, LaplaceVotes
from laconic.privacy.mechanisms.votes import SEEDED
from laconic.testing import small_horizontal
from laconic.values import Array, Rng, Settings, Weights

BINARY = small_horizontal("binary")
DIGITS = small_horizontal("multiclass")
TREE = Forest(trees=1, rows=1.0, columns=1.0)


@pytest.mark.slow
def test_keeps_the_contract():
    assert check_method(FedKt()).fit.rounds == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        FedKt(model=Logistic(), level=L1(noise=LaplaceVotes(gamma=2.0)), queries=0.5),
        FedKt(model=Logistic(), level=L2(noise=GaussianVotes(sigma=0.5))),
        FedKt(model=Boosted(trees=5), teacher=TREE),
        FedKt(more=Prox(exchanges=2, trainer=Sgd(epochs=2))),
    ],
    ids=["L1", "L2", "trees", "more"],
)
def test_keeps_the_contract_at_every_level(method):
    pytest.importorskip("xgboost")
    check_method(method, BINARY)


def test_forests_travel_as_arrays_and_vote():
    pytest.importorskip("xgboost")
    result = simulate(FedKt(model=Forest(trees=20)), BINARY)
    assert result.metrics["accuracy"] > 0.85
    assert result.releases[0].noise is None


def test_convolutional_nets_can_be_students():
    raw = load("digits")
    from dataclasses import replace

    from laconic.tables import Column

    images = (raw.raw.reshape(-1, 1, 8, 8) * 15).astype(np.uint8)
    federation = deal_rows(
        replace(raw, raw=images, columns=(Column("image", "pixels"),)), Dirichlet(parties=2, beta=5.0)
    )
    model = Network(net=Cnn(channels=(4,), hidden=()), trainer=Sgd(epochs=8, lr=0.01))
    assert simulate(FedKt(model=model, teachers=2), federation).score.value > 0.5


class Bayes(Learner, frozen=True):
    """A scikit-learn model of one's own, as plain arrays."""

    def fit(self, task, x: Array, y: Array, rng: Rng) -> Weights:
        model = GaussianNB().fit(x, y)
        return {"mean": model.theta_, "variance": model.var_, "prior": model.class_prior_, "classes": model.classes_}

    def predict(self, task, weights: Weights, x: Array) -> Array:
        model = GaussianNB()
        model.theta_, model.var_ = weights["mean"], weights["variance"]
        model.class_prior_, model.classes_ = weights["prior"], weights["classes"]
        return model.predict_proba(x)[:, 1]


class Wide(Settings, frozen=True):
    """A torch net of one's own."""

    def build(self, shape, outputs):
        return nn.Sequential(Linear(shape[0], 32), nn.Sigmoid(), Linear(32, outputs))

    def model(self, shapes, outputs):
        return self.build(shapes[0], outputs)


@pytest.mark.parametrize(
    "model", [Bayes(), Network(net=Wide(), trainer=Sgd(epochs=20, lr=0.01))], ids=["sklearn", "torch"]
)
def test_a_users_own_model_works_in_one_process(model):
    assert simulate(FedKt(model=model), BINARY).metrics["accuracy"] > 0.85


def test_going_on_with_fedprox_starts_where_fedkt_ended():
    model = Network(net=Mlp(hidden=(32,)), trainer=Sgd(epochs=20, lr=3e-3))
    once = simulate(FedKt(model=model), DIGITS)
    more = simulate(FedKt(model=model, more=Prox(exchanges=3, trainer=Sgd(epochs=2))), DIGITS, look_every=1)
    assert more.curve[0].score == once.score
    assert more.score.value > once.score.value
    assert more.fit.rounds == 4


def test_going_on_is_refused_where_it_would_break_a_promise():
    with pytest.raises(ValueError, match="without noise"):
        FedKt(level=L1(), more=Prox())
    with pytest.raises(ValueError, match="only nets can be averaged"):
        FedKt(model=Logistic(), more=Prox())


def test_empty_and_one_class_shares_are_left_out_or_constant():
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=12, beta=0.05, least=0), seed=2)
    sizes = [len(federation.tables[name].cut("train")) for name in federation.peers]
    assert min(sizes) == 0
    kinds = [len(set(federation.tables[name].part("train")[1].tolist())) for name in federation.peers]
    assert 1 in kinds
    simulate(FedKt(model=Logistic()), federation)


def test_no_rows_anywhere_is_an_error_that_says_so():
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=2))
    for name in federation.peers:
        federation.tables[name].cuts["train"] = np.empty(0, dtype=np.int64)
    with pytest.raises(ValueError, match="no party has any rows"):
        simulate(FedKt(), federation)


def test_an_absent_party_does_not_vote():
    lost = simulate(FedKt(model=Logistic()), BINARY, runtime=InProcess(faults=Faults(absent=("party1",))))
    assert [absence.party for absence in lost.absences] == ["party1"]
    assert lost.metrics["accuracy"] > 0.8


def test_l1_puts_noise_on_the_final_model_and_names_the_bare_students():
    result = simulate(FedKt(model=Logistic(), level=L1(noise=LaplaceVotes(gamma=0.5)), queries=0.5), BINARY)
    final = next(release for release in result.releases if release.party == "server")
    assert final.noise.sensitivity == 2 * 2
    assert final.noise.count == round(0.5 * result.data["rows"]["public"])
    assert SEEDED in final.covered
    assert all(release.noise is None for release in result.releases if release.party != "server")


def test_l2_puts_noise_on_every_student_and_counts_all_partitions():
    result = simulate(FedKt(model=Logistic(), level=L2(noise=LaplaceVotes(gamma=0.5)), queries=0.1), BINARY)
    noises = [release.noise for release in result.releases if release.party != "server"]
    assert all(noise.sensitivity == 2 for noise in noises)
    assert all(noise.count == 2 * round(0.1 * result.data["rows"]["public"]) for noise in noises)


def test_secure_noise_cannot_be_repeated_and_is_marked():
    method = FedKt(model=Logistic(), level=L1(noise=LaplaceVotes(gamma=0.05), secure=True))
    one, other = (simulate(method, BINARY, seed=1) for _ in range(2))
    assert one.predictions != other.predictions
    assert one.releases[0].noise.secure


@pytest.mark.parametrize("answer", [None, {}, {"students": 3}, {"students": [{}]}, {"students": [{}, {"constant": 1}]}])
def test_an_answer_that_is_no_students_is_an_error(answer):
    hub = Party("server", BINARY.tables["server"], 0)
    with pytest.raises(WireError):
        FedKt(model=Logistic())._read(hub, "party1", answer)


arrays = st.builds(
    lambda shape, fill, kind: np.full(shape, fill).astype(kind),
    st.lists(st.integers(0, 70), max_size=3),
    st.floats(-1e3, 1e3) | st.sampled_from([np.nan, np.inf]),
    st.sampled_from(["f4", "i2", "u1", "i8"]),
)
names = st.sampled_from(
    ["column", "threshold", "leaf", "output", "base", "logit", "constant", "1.weight", "coefficients", "x"]
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(names, arrays | st.integers() | st.text(max_size=3), max_size=6))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_hostile_model_is_an_error_or_a_model(blob):
    task, x = BINARY.task, BINARY.tables["server"].part("test")[0]
    for classifier in (Forest(), Logistic(), Network()):
        try:
            model = check_model(classifier, task, blob, x.shape[1:], "party1")
        except LaconicError:
            continue
        from laconic.learn import predict_model

        assert predict_model(classifier, task, model, x).shape == (len(x),)


def test_senseless_settings_are_refused():
    with pytest.raises(ValueError, match="1 or more"):
        FedKt(partitions=0)
    with pytest.raises(ValueError, match="share of the public rows"):
        FedKt(queries=0.0)
    with pytest.raises(ValueError, match="delta"):
        L1(delta=0.0)

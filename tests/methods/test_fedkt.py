"""FedKT: the contract at every level, its edge cases, and models that are not what they say."""

from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sklearn.naive_bayes import GaussianNB
from torch import nn

from laconic import Dirichlet, check_method, deal_rows, load, price, simulate, train
from laconic.core import Party, decode
from laconic.data import RandomHoldout
from laconic.deploy import Faults, InProcess, Recorder, ledgers_of
from laconic.errors import LaconicError, PlanError, WireError
from laconic.learn import Boosted, Cnn, Forest, Learner, Logistic, Mlp, Network, Sgd, check_model
from laconic.learn.nets.layers import Linear
from laconic.methods.horizontal.fedkt import FedKt, Majority, PooledShares, Prox, ServerShares
from laconic.privacy import L0, L1, L2, Budget, Event, GaussianVotes, LaplaceVotes, Rdp, Sure, epsilon_of
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
        FedKt(model=Logistic(), level=L1(noise=LaplaceVotes(gamma=2.0), secure=False, smooth=False), queries=0.5),
        FedKt(model=Logistic(), level=L1(noise=GaussianVotes(sigma=0.5), secure=False), labels=40),
        FedKt(model=Logistic(), level=L2(noise=GaussianVotes(sigma=0.5), secure=False)),
        FedKt(model=Boosted(trees=5), teacher=TREE),
        FedKt(more=Prox(exchanges=2, trainer=Sgd(epochs=2))),
    ],
    ids=["L1 as published", "L1", "L2", "trees", "more"],
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
    result = simulate(
        FedKt(model=Logistic(), level=L1(noise=LaplaceVotes(gamma=0.5), secure=False), queries=0.5), BINARY
    )
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
    method = FedKt(model=Logistic(), level=L1(noise=LaplaceVotes(gamma=0.05), smooth=False))
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


def test_votes_cut_at_the_pooled_share_name_the_rarer_class_as_often_as_it_comes():
    # Nine parties know next to nothing of class 1; the tenth, with as many rows as all of them, does.
    hub = Party("server", BINARY.tables["server"], 0)
    rows = len(hub.data.cut("public"))
    truth = np.arange(rows) < rows // 4
    groups = [np.zeros((2, rows), dtype=np.int64)] * 9 + [np.tile(truth.astype(np.int64), (2, 1))]
    counts = np.array([[100, 1]] * 9 + [[600, 300]])
    everything = np.arange(rows)
    _, plain = FedKt(count=Majority())._elect(hub, groups, counts, everything)
    _, cut = FedKt(count=PooledShares())._elect(hub, groups, counts, everything)
    assert plain.sum() == 0
    assert cut.sum() == round(309 / 1809 * rows)
    assert truth[cut == 1].all()


def test_votes_of_a_model_saved_without_counts_of_rows_are_counted_as_they_were():
    hub = Party("server", BINARY.tables["server"], 0)
    rows = np.arange(len(hub.data.cut("public")))
    groups = [np.tile((rows < at).astype(np.int64), (2, 1)) for at in (10, 20, 30)]
    for counts in (np.zeros((3, 2)), np.array([[0, 0], [0, 0], [5, 90]])):  # The last one joined by today's code.
        (_, then), (_, now) = (FedKt(count=one)._elect(hub, groups, counts, rows) for one in (Majority(), None))
        assert (then == now).all()
        assert then.sum() == 20


def test_the_servers_own_labelled_rows_may_say_how_often_classes_come():
    hub = Party("server", BINARY.tables["server"], 0)
    rows = len(hub.data.cut("public"))
    groups = [np.zeros((2, rows), dtype=np.int64)] * 3
    method = FedKt(count=ServerShares())
    with pytest.raises(ValueError, match=r"server has no labelled rows.*data\.valid"):
        method._elect(hub, groups, np.zeros((3, 2)), np.arange(rows))
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=3), reserve=RandomHoldout(valid=0.2))
    hub = Party("server", federation.tables["server"], 0)
    rows = len(hub.data.cut("public"))
    _, labels = method._elect(hub, [one[:, :rows] for one in groups], np.zeros((3, 2)), np.arange(rows))
    assert labels.sum() == round(hub.data.part("valid")[1].mean() * rows)


def test_class_counts_cross_only_where_they_are_used():
    words = {}
    for count in (Majority(), None):
        recorder = Recorder()
        simulate(FedKt(model=Logistic(), count=count), BINARY, runtime=recorder)
        answers = [decode(blob) for party, _, way, blob in recorder.crossings if way == "up"]
        words[type(count)] = {key for one in answers for key in one}
    assert words == {Majority: {"students"}, type(None): {"students", "counts"}}


@pytest.mark.parametrize("counts", [None, [3, 4], np.array([3]), np.array([-1, 3]), np.array([np.nan, 1.0])])
def test_counts_that_nobody_can_have_are_an_error_that_names_the_party(counts):
    hub = Party("server", BINARY.tables["server"], 0)
    answer = {"students": [{"constant": np.array([1])}] * 2, "counts": counts}
    with pytest.raises(WireError, match="party1"):
        FedKt(model=Logistic(), count=PooledShares())._read(hub, "party1", answer)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.05, 20),
    st.sampled_from([1e-6, 1e-5, 1e-3]),
    st.sampled_from([L0(), L1(), L2()]),
    st.sampled_from([1, 2, 3]),
    st.integers(2, 60),
    st.integers(1, 3000),
    st.sampled_from([None, 1, 41, 1000]),
    st.sampled_from([None, Majority()]),
)
def test_what_is_priced_never_exceeds_the_budget(epsilon, delta, level, partitions, parties, rows, labels, count):
    names = tuple(f"party{at}" for at in range(parties))
    method = FedKt(level=level, partitions=partitions, labels=labels, count=count)
    found = method.within(
        Budget(epsilon=epsilon, delta=delta, people="disjoint", accountant=Rdp()), rows, "server", names
    )
    for noises in found.expected_noise(rows, "server", names).values():
        events = sum((Counter({Event(noise.mechanism, noise.multiplier): noise.count}) for noise in noises), Counter())
        spent = Rdp().epsilon({"party": events}, delta)
        assert 0.95 * epsilon < spent <= epsilon


@pytest.mark.parametrize("level", [L0(), L1(), L2()], ids=["open", "L1", "L2"])
def test_a_run_within_a_budget_spends_no_more_in_its_ledgers(level):
    method = FedKt(model=Logistic(), level=level).within(
        Budget(epsilon=3.0, people="disjoint"), 40, "server", BINARY.peers
    )
    result = simulate(method, BINARY)
    found = price(ledgers_of(result), 1e-5, "disjoint")
    assert found.epsilon is not None
    assert found.epsilon <= 3.0
    assert found.secure
    expected = method.expected_noise(40, "server", BINARY.peers)
    for party, noises in expected.items():
        written = [one.noise for one in result.releases if one.party == party and one.noise is not None]
        assert [one.multiplier for one in written] == [one.multiplier for one in noises]
        assert all(one.count <= most.count for one, most in zip(written, noises, strict=True))


def test_a_budget_is_refused_where_nothing_can_keep_it():
    budget = Budget(epsilon=3.0)
    for method in (FedKt(level=L1(noise=LaplaceVotes())), FedKt(more=Prox())):
        with pytest.raises(PlanError, match="GaussianVotes"):
            method.within(budget, 40, "server", BINARY.peers)
    with pytest.raises(PlanError, match=r"method\.labels"):
        FedKt(level=L2()).expected_noise(40, "server", BINARY.peers)


def test_a_price_made_from_votes_is_kept_with_its_warning_and_never_by_default():
    for smooth in (True, False):
        kept = train(FedKt(model=Logistic(), level=L1(noise=GaussianVotes(), smooth=smooth)), BINARY)
        found = kept.hub.memory["price"]
        assert ("dependent" in found) is not smooth
        assert ("not to be published" in found.get("warning", "")) is not smooth
        assert b"dependent" not in msgspec.json.encode(kept.result)


def test_what_is_answered_only_where_voters_seem_sure_is_paid_for_with_its_tests():
    noise = GaussianVotes(sigma=1.0, sure=Sure(least=0.9, tests=3))
    method = FedKt(model=Logistic(), level=L1(noise=noise, secure=False, smooth=False), labels=10)
    kept = train(method, BINARY)
    (written,) = [one.noise for one in kept.result.releases if one.noise is not None]
    assert written == replace(method.expected_noise(40, "server", BINARY.peers)["server"][0], once=True)
    assert written.count == 10
    # Ten answers of sensitivity 2 sqrt(2), and thirty tests of sensitivity 2 under noise three times as wide.
    assert written.count / written.multiplier**2 == pytest.approx(10 * 8 + 30 * 4 / 9)
    assert kept.hub.memory["price"]["independent"] == pytest.approx(epsilon_of((80 + 120 / 9) ** 0.5, 1e-5))
    assert "dependent" not in kept.hub.memory["price"]


def test_senseless_settings_are_refused():
    with pytest.raises(ValueError, match="number of public rows"):
        FedKt(labels=0)
    with pytest.raises(ValueError, match="ServerShares"):
        FedKt(level=L1(), count=PooledShares())
    with pytest.raises(ValueError, match="1 or more"):
        FedKt(partitions=0)
    with pytest.raises(ValueError, match="share of the public rows"):
        FedKt(queries=0.0)
    with pytest.raises(ValueError, match="delta"):
        L1(delta=0.0)

import subprocess

import numpy as np
import pytest

from laconic import Equal, check_method, deal, load, simulate, train
from laconic.core import decode_question
from laconic.deploy import Faults, InProcess, Processes, Recorder
from laconic.errors import BudgetSpent, LaconicError, PartyAbsent
from laconic.learn import Boosted
from laconic.learn.trees.dense_trees import predict_trees
from laconic.learn.trees.xgboost_mode import Tls, has_mode
from laconic.methods.families.rows import side_by_side
from laconic.methods.vertical.vertical_xgboost import Socket, VerticalXgboost
from laconic.privacy import Encrypted
from laconic.testing import small_federation
from tests.needs import FULL_XGBOOST, openssl

pytest.importorskip("xgboost")
FEW = Boosted(trees=4, depth=3)


@pytest.fixture(scope="module")
def cancer():
    return small_federation("binary")


def pooled(federation, rows):
    names = (federation.hub, *federation.peers)
    return side_by_side([federation.tables[name].part(rows)[0] for name in names if federation.tables[name].columns])


def by_xgboost(federation, settings):
    task, y = federation.task, federation.labels("train")
    weights = settings.fit(task, pooled(federation, "train"), y, np.random.default_rng(0))
    return predict_trees(task, weights, pooled(federation, "test"))


@pytest.mark.slow
def test_vertical_xgboost_keeps_the_contract():
    check_method(VerticalXgboost(trees=Boosted(trees=2, depth=2)))


@pytest.mark.slow
def test_best_splits_keep_the_contract(cancer):
    check_method(VerticalXgboost(trees=Boosted(trees=2, depth=2), sends="best splits"), cancer)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("sends", ["histograms", "best splits"])
def test_the_trees_are_those_of_xgboost_on_all_columns(kind, sends):
    federation = small_federation(kind)
    settings = Boosted(trees=20 if kind != "multiclass" else 6, lr=0.2, penalty=0.7)
    found = train(VerticalXgboost(trees=settings, sends=sends), federation).predict("test")
    assert found == pytest.approx(by_xgboost(federation, settings), rel=1e-6, abs=1e-6)


def test_a_label_holder_without_columns_grows_the_same_trees():
    federation = deal(load("breast_cancer"), Equal(parties=3), hub=None, seed=3, test=0.3)
    found = train(VerticalXgboost(trees=FEW), federation).predict("test")
    assert found == pytest.approx(by_xgboost(federation, FEW), abs=1e-6)


def test_best_splits_are_the_same_model_for_fewer_bytes(cancer):
    all_sums, best = (
        simulate(VerticalXgboost(trees=FEW, sends=sends), cancer) for sends in ("histograms", "best splits")
    )
    assert best.predictions == all_sums.predictions
    assert best.fit.bytes_up < all_sums.fit.bytes_up / 10


def test_every_tree_can_be_looked_at_and_costs_two_rounds_a_level(cancer):
    result = simulate(VerticalXgboost(trees=FEW), cancer, look_every=1)
    assert len(result.curve) == 4
    assert [look.bytes for look in result.curve] == sorted({look.bytes for look in result.curve})
    # One question to begin; a level may need one round only, if the label holder itself keeps all its splits.
    assert result.fit.rounds <= 1 + 4 * 3 * 2
    shorter = simulate(VerticalXgboost(trees=Boosted(trees=2, depth=3)), cancer)
    assert result.curve[1].score == shorter.score


def test_growing_stops_at_the_byte_budget_and_keeps_what_it_has(cancer):
    whole = simulate(VerticalXgboost(trees=FEW), cancer, look_every=1)
    budget = whole.curve[-1].bytes - 1
    cut_short = simulate(VerticalXgboost(trees=FEW), cancer, max_bytes=budget)
    assert cut_short.stopped == "byte budget"
    assert cut_short.fit.bytes <= budget
    assert cut_short.score in [look.score for look in whole.curve if look.bytes == cut_short.fit.bytes]
    with pytest.raises(BudgetSpent):
        simulate(VerticalXgboost(trees=FEW), cancer, max_bytes=100)


def test_only_the_owner_of_a_split_keeps_its_rule(cancer):
    trained = train(VerticalXgboost(trees=FEW), cancer)
    kept = {party.name: len(party.memory["growth"]["edge"]) for party in (trained.hub, *trained.others)}
    model = trained.hub.memory["model"]
    inner = {name: int((model["holder"] == place).sum()) for place, name in enumerate(trained.hub.memory["holders"])}
    assert kept == inner
    assert min(kept.values()) > 0
    assert not {"threshold", "edge", "column"} & model.keys()


def test_the_ledger_says_that_gradients_give_labels_away_and_what_histograms_show(cancer):
    result = simulate(VerticalXgboost(trees=FEW), cancer)
    down = {release.step: release.words for release in result.releases if release.to == "peers"}
    up = {release.step: release.words for release in result.releases if release.to == "hub"}
    assert "labels can be read" in down["look_at"]
    assert "sums of gradients by bins" in up["look_at"]
    assert {"begin", "part", "give_sides"} <= up.keys()


def test_the_first_gradients_are_the_labels(cancer):
    recorder = Recorder()
    simulate(VerticalXgboost(trees=Boosted(trees=1, depth=1)), cancer, runtime=recorder)
    asked = [decode_question(blob) for _, step, way, blob in recorder.crossings if (step, way) == ("look_at", "down")]
    assert ((asked[0].payload["slopes"][0, :, 0] < 0) == (cancer.labels("train") == 1)).all()


def test_a_lost_party_is_named(cancer):
    with pytest.raises(PartyAbsent, match="shop"):
        simulate(VerticalXgboost(trees=FEW), cancer, runtime=InProcess(faults=Faults(absent=("shop",))))


@pytest.mark.slow
def test_encrypted_gradients_keep_the_contract(cancer):
    pytest.importorskip("tenseal")
    check_method(VerticalXgboost(trees=Boosted(trees=1, depth=2, bins=8), cipher=Encrypted()), cancer)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_encrypted_gradients_grow_the_same_trees(kind, packed):
    pytest.importorskip("tenseal")
    federation, settings = small_federation(kind), Boosted(trees=2, depth=2, bins=8)
    plain = train(VerticalXgboost(trees=settings), federation)
    sealed = train(VerticalXgboost(trees=settings, cipher=Encrypted(packed=packed)), federation)
    assert sealed.predict("test") == pytest.approx(plain.predict("test"), rel=1e-5, abs=1e-5)
    down = [release for release in sealed.result.releases if release.to == "peers"]
    assert not any("labels can be read" in release.words for release in down)
    assert sealed.result.fit.bytes > 10 * plain.result.fit.bytes


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="cannot compare encrypted sums"):
        VerticalXgboost(sends="best splits", cipher=Encrypted())
    with pytest.raises(ValueError, match="leave out socket"):
        VerticalXgboost(socket=Socket(), cipher=Encrypted())


def test_xgboosts_own_mode_refuses_parties_that_share_a_process(cancer):
    with pytest.raises(ValueError, match=r"shop and insurer answered from the hub's; use the runtime Processes"):
        simulate(VerticalXgboost(trees=FEW, socket=Socket()), cancer)


@pytest.mark.slow
def test_a_wheel_without_the_mode_is_named(cancer):
    if has_mode():
        pytest.skip("the installed xgboost has the federated mode")
    with pytest.raises(LaconicError, match="xgboost-cpu has not"):
        simulate(VerticalXgboost(trees=FEW, socket=Socket()), cancer, runtime=Processes())


def certificates(folder):
    for name in ("server", "client"):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
        command += ["-addext", "subjectAltName=DNS:localhost"]
        command += ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
        subprocess.run(command, check=True, capture_output=True)
    keys = {f"{name}_key": str(folder / f"{name}.key") for name in ("server", "client")}
    return Tls(**keys, **{f"{name}_certificate": str(folder / f"{name}.pem") for name in ("server", "client")})


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, pytest.param(True, marks=openssl)])
def test_xgboosts_own_mode_grows_the_same_trees_over_sockets(cancer, tmp_path, secure):
    if not has_mode():
        pytest.skip(FULL_XGBOOST)
    settings = Socket(tls=certificates(tmp_path) if secure else None)
    ours = simulate(VerticalXgboost(trees=FEW), cancer)
    theirs = simulate(VerticalXgboost(trees=FEW, socket=settings), cancer, runtime=Processes())
    assert theirs.metrics == pytest.approx(ours.metrics, rel=1e-6)
    assert theirs.predictions == ours.predictions
    over = {part.step: part for part in theirs.wire if part.party == "shop" and part.phase == "fit"}
    payload, framing = over["work_by_socket, payload"], over["work_by_socket, framing"]
    assert min(payload.bytes_up, payload.bytes_down, framing.bytes_up, framing.bytes_down) > 1000
    assert theirs.fit.bytes_up > payload.bytes_up
    words = [release.words for release in theirs.releases if release.step == "work_by_socket"]
    assert any("labels can be read" in text for text in words)
    assert any("to all parties" in text for text in words)

import msgspec
import numpy as np
import pytest

from laconic import Federation, check_method, simulate
from laconic.core import steps_of
from laconic.learn import Boosted, Gaussian, LinearModel, Mlp, NetModel, Sgd, TreeModel
from laconic.methods.baselines.linear import Linear
from laconic.methods.baselines.local_dp import LocalDp
from laconic.methods.vertical.rap import Rap
from laconic.privacy import LocalGaussian
from laconic.tables import Table
from laconic.testing import small_federation

SMALL = NetModel(net=Mlp(hidden=(32,)), trainer=Sgd(epochs=15, lr=5e-3, batch=64))


def apart(federation: Federation) -> Federation:
    """The same federation with its labels at a party of their own, as in the paper."""
    holder = federation.tables[federation.hub]
    alone = Table(np.empty((holder.rows, 0)), (), y=holder.y, task=holder.task, cuts=holder.cuts, party="labels")
    tables = {
        name: Table(table.raw, table.columns, cuts=table.cuts, party=name) for name, table in federation.tables.items()
    }
    return Federation(name=federation.name, tables={**tables, "labels": alone}, hub="labels", aligned=True)


@pytest.mark.slow
def test_rap_keeps_the_contract():
    check_method(Rap(learner=SMALL))


@pytest.mark.slow
def test_rap_keeps_the_contract_where_the_label_holder_trains():
    check_method(Rap(learner=SMALL, trains="label holder"), small_federation("multiclass"))


@pytest.mark.slow
def test_local_privacy_keeps_the_contract():
    check_method(LocalDp(learner=SMALL, noise=LocalGaussian(epsilon=1000.0, seeded=True)), small_federation("binary"))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize(
    "learner", [SMALL, TreeModel(trees=Boosted(trees=20, depth=3))], ids=lambda learner: type(learner).__name__
)
def test_every_learner_does_every_kind_of_task(learner, kind):
    federation = small_federation(kind)
    result = simulate(Rap(learner=learner), federation)
    better = result.metrics["r2"] > 0.05 if kind == "regression" else result.metrics["accuracy"] > 0.75
    assert better, result.metrics


@pytest.mark.parametrize("matrix", [None, Gaussian()])
def test_a_ridge_regression_predicts_as_on_pooled_columns(matrix):
    federation = small_federation("regression")
    settings = {"learner": LinearModel(penalty=1e-6)} | ({} if matrix is None else {"matrix": matrix})
    mixed = simulate(Rap(**settings), federation).score.value
    assert mixed == pytest.approx(simulate(Linear(penalty=1e-6), federation).score.value, rel=1e-3)


def test_two_models_predict_a_numeric_label_too():
    federation = small_federation("regression")
    assert simulate(Rap(learner=SMALL, numbers="two models"), federation).metrics["r2"] > 0.05


def test_bytes_are_one_upload_of_mixed_columns_and_codes():
    federation = small_federation("binary")
    fit = simulate(Rap(learner=SMALL), federation).fit
    rows = len(federation.tables[federation.hub].cut("train"))
    columns = sum(table.shape[0] for table in federation.tables.values())
    assert fit.rounds == fit.uploads == 1
    assert fit.downloads == 0
    assert 0 <= fit.bytes - rows * (columns * 4 + 1) < 1000


def test_half_precision_halves_the_columns_bytes():
    federation = small_federation("binary")
    full, half = (simulate(Rap(learner=SMALL, precision=precision), federation) for precision in ("float32", "float16"))
    assert half.fit.bytes < 0.55 * full.fit.bytes
    assert abs(half.score.value - full.score.value) < 0.02


def test_validation_rows_are_sent_only_to_a_learner_that_looks_at_them():
    federation = small_federation("binary")
    patient = NetModel(net=Mlp(hidden=(32,)), trainer=Sgd(epochs=15, lr=5e-3, batch=64, patience=3))
    with_valid, without = (simulate(Rap(learner=learner), federation).fit.bytes for learner in (patient, SMALL))
    assert with_valid > without


def test_a_label_holder_that_trains_sends_no_labels():
    federation = apart(small_federation("binary"))
    result = simulate(Rap(learner=SMALL, trains="label holder"), federation)
    sent = [part for part in result.wire if part.phase == "fit" and part.step == "send" and part.party == "labels"]
    assert sent[0].bytes_up < 30
    assert result.metrics["accuracy"] > 0.9


def test_labels_may_be_at_a_party_without_columns():
    assert simulate(Rap(learner=SMALL), apart(small_federation("multiclass"))).metrics["accuracy"] > 0.85


def test_a_party_with_one_column_sends_two():
    federation = small_federation("regression")
    name, table = next((name, table) for name, table in federation.tables.items() if name != federation.hub)
    single = Table(table.raw[:, :1], table.columns[:1], cuts=table.cuts, party=name)
    narrow = Federation(name="narrow", tables={**federation.tables, name: single}, hub=federation.hub, aligned=True)
    result = simulate(Rap(learner=LinearModel()), narrow)
    sent = next(part.bytes_up for part in result.wire if part.party == name and part.step == "send")
    assert sent // (4 * len(table.cut("train"))) == 2


def test_secrets_from_the_system_differ_from_run_to_run():
    federation = small_federation("binary")
    secret = Rap(learner=SMALL, secrets="system")
    assert simulate(secret, federation).predictions != simulate(secret, federation).predictions


def test_looking_at_the_model_sends_no_row_under_a_second_matrix():
    federation = small_federation("binary")
    result = simulate(Rap(learner=SMALL), federation, look_every=1)
    assert result.curve[0].score == result.score


def test_the_ledger_says_that_the_release_is_open_and_can_be_undone():
    release = next(release for release in simulate(Rap(learner=SMALL), small_federation("binary")).releases)
    assert release.covered == "open release: not protected"
    assert "known rows as columns undo it" in steps_of(Rap)["send"].gives


def test_noise_is_written_in_the_ledger_with_what_it_does_not_cover():
    result = simulate(Rap(learner=SMALL, noise=LocalGaussian(epsilon=50.0)), small_federation("binary"))
    release = next(release for release in result.releases if release.step == "send")
    assert release.noise is not None
    assert release.noise.sensitivity > 0
    assert "not labels" in release.covered


def test_settings_can_be_written_as_text_and_back():
    method = Rap(matrix=Gaussian(), learner=LinearModel(penalty=2.0), noise=LocalGaussian(epsilon=3.0))
    assert msgspec.json.decode(msgspec.json.encode(method), type=Rap) == method


def test_two_label_holders_are_refused():
    federation = small_federation("binary")
    holder = federation.tables[federation.hub]
    tables = {
        name: Table(table.raw, table.columns, y=holder.y, task=holder.task, cuts=table.cuts, party=name)
        for name, table in federation.tables.items()
    }
    crowded = Federation(name="crowded", tables=tables, hub=federation.hub, aligned=True)
    with pytest.raises(ValueError, match="one party must hold the labels"):
        simulate(Rap(learner=SMALL), crowded)

import numpy as np
import pytest

from laconic import Equal, Federation, check_method, deal, load, simulate
from laconic.core import Method
from laconic.deploy import Faults, InProcess
from laconic.learn import Autoencoder, Nat, Pca, RandomProjection, Sgd, WhitenedPca
from laconic.methods.baselines.solo import Solo
from laconic.methods.vertical.fedonce import FedOnce, usual_trainer
from laconic.privacy import Perturb
from laconic.tables import Table
from laconic.testing import small_federation

QUICK = Sgd(epochs=30, lr=3e-3, patience=5)
NAT = Nat(dim=4, epochs=3)


@pytest.fixture(scope="module")
def cancer():
    return small_federation("binary")


def test_fedonce_keeps_the_contract():
    for kind in Method.tasks:  # A net as head learns no times to an event.
        check_method(FedOnce(trainer=QUICK), small_federation(kind))


def test_fedonce_with_nat_keeps_the_contract(cancer):
    check_method(FedOnce(encoder=NAT, trainer=QUICK), cancer)


def test_fedonce_with_noise_keeps_the_contract(cancer):
    check_method(FedOnce(noise=Perturb(scale=0.3), trainer=QUICK), cancer)


@pytest.mark.slow
def test_fedonce_continued_over_more_exchanges_keeps_the_contract(cancer):
    check_method(FedOnce(trainer=QUICK, more=Sgd(epochs=2, batch=128)), cancer)


@pytest.mark.parametrize(
    "encoder",
    [NAT, Pca(), WhitenedPca(), RandomProjection(), Autoencoder(dim=4, trainer=Sgd(epochs=3))],
    ids=lambda one: type(one).__name__,
)
def test_every_encoder_serves(encoder, cancer):
    result = simulate(FedOnce(encoder=encoder, trainer=QUICK), cancer)
    assert result.fit.rounds == result.fit.uploads == 1
    assert result.fit.downloads == 0
    assert result.score.value > 0.9


@pytest.mark.parametrize(("precision", "size"), [("float32", 4), ("float16", 2)])
def test_one_exchange_costs_its_numbers_and_little_more(precision, size):
    digits = small_federation("multiclass")
    rows = sum(digits.facts["rows"][cut] for cut in ("train", "valid"))
    result = simulate(FedOnce(encoder=WhitenedPca(dim=8), precision=precision, trainer=QUICK), digits)
    numbers = rows * 8 * 2
    assert result.fit.bytes <= 1.02 * size * numbers + 1000
    assert result.fit.bytes >= size * numbers


def test_float16_loses_nothing_to_speak_of():
    digits = small_federation("multiclass")
    scores = [simulate(FedOnce(precision=one, trainer=QUICK), digits).score.value for one in ("float32", "float16")]
    assert abs(scores[0] - scores[1]) < 0.01


def test_a_guest_that_never_answers_is_left_out_and_named(cancer):
    alone = simulate(FedOnce(trainer=QUICK), cancer, runtime=InProcess(faults=Faults(absent=("shop",))))
    assert {(absence.party, absence.step) for absence in alone.absences} == {("shop", "learn_and_send")}
    assert alone.score.value > 0.9


def test_with_no_guest_at_all_the_label_holder_still_learns(cancer):
    result = simulate(FedOnce(trainer=QUICK), cancer, runtime=InProcess(faults=Faults(absent=("shop", "insurer"))))
    assert result.score.value > 0.9
    assert result.fit.bytes_up == 0


def test_guests_lost_after_fitting_count_as_zeros(cancer):
    # With this seed nobody is lost while fitting, and somebody is before predicting.
    result = simulate(FedOnce(trainer=QUICK), cancer, runtime=InProcess(faults=Faults(lost=0.4, seed=11)))
    assert {absence.phase for absence in result.absences} == {"final"}
    assert result.score.value > 0.6


def test_a_label_holder_without_columns_learns_from_its_guests(cancer):
    bank = cancer.tables["bank"]
    empty = Table(np.zeros((bank.rows, 0)), (), y=bank.y, task=bank.task, cuts=bank.cuts, party="bank")
    federation = Federation(name="labels only", tables=cancer.tables | {"bank": empty}, hub="bank", aligned=True)
    result = simulate(FedOnce(trainer=QUICK), federation)
    assert result.score.value > 0.9
    with pytest.raises(ValueError, match="no columns of its own"):
        simulate(Solo(), federation)


def test_more_exchanges_start_from_exactly_the_one_shot_model(cancer):
    once = simulate(FedOnce(encoder=NAT, trainer=QUICK), cancer)
    more = simulate(FedOnce(encoder=NAT, trainer=QUICK, more=Sgd(epochs=1, batch=64)), cancer, look_every=1)
    assert more.curve[0].metrics == pytest.approx(once.metrics)
    # The second look is after the first outputs were sent, before anything was learnt from them.
    assert more.curve[1].metrics == pytest.approx(once.metrics)
    assert more.fit.rounds > 1


def test_noise_stands_in_the_ledger_and_costs_score(cancer):
    loud = simulate(FedOnce(noise=Perturb(scale=30.0), trainer=QUICK), cancer)
    clean = simulate(FedOnce(trainer=QUICK), cancer)
    assert {release.noise.scale for release in loud.releases} == {30.0}
    assert all("no epsilon" in release.covered for release in loud.releases)
    assert all(release.noise is None for release in clean.releases)
    assert loud.metrics["log_loss"] > clean.metrics["log_loss"]


def test_published_noise_leaves_predictions_clean(cancer):
    result = simulate(FedOnce(noise=Perturb(scale=1.0, rows="training"), trainer=QUICK), cancer)
    assert {release.phase: release.noise is None for release in result.releases} == {"fit": False, "final": True}


def test_noise_and_more_exchanges_exclude_each_other():
    with pytest.raises(ValueError, match="leave out either noise or more"):
        FedOnce(noise=Perturb(scale=1.0), more=Sgd())


def test_ten_parties_work():
    assert simulate(FedOnce(trainer=QUICK), deal(load("breast_cancer"), Equal(parties=10))).score.value > 0.9


def test_only_many_rows_get_larger_batches_and_a_trainer_that_is_given_none():
    assert usual_trainer(99_999) == Sgd(epochs=100, patience=10)
    found = {rows: usual_trainer(rows) for rows in (100_000, 399_999, 400_000, 1_599_999, 1_600_000)}
    assert [one.batch for one in found.values()] == [1024, 1024, 2048, 2048, 4096]
    assert [round(one.lr, 4) for one in found.values()] == [0.003, 0.003, 0.0042, 0.0042, 0.006]
    assert {one.decay for one in found.values()} == {"plateau"}

"""An audit attacks all that a party ever sent, and all numbers from which labels can be read."""

import numpy as np
import pytest

from laconic import FedOnce, Rap, SplitNN, VerticalXgboost, VimAdmm, VimSgd
from laconic.audit import audit, reconstruct
from laconic.audit.attacks import infer_numbers
from laconic.audit.upload_attacks import uploads_of
from laconic.deploy import Recorder, train
from laconic.learn import Boosted, Gaussian, Joint, LinearModel, Mlp, Pca, Sgd
from laconic.testing import small_federation

BINARY, NUMERIC = small_federation("binary"), small_federation("regression")


def name_of(method):
    return type(method).__name__


def heard(method, federation):
    recorder = Recorder()
    fitted = train(method, federation, runtime=recorder)
    return fitted, uploads_of(fitted, recorder)


def test_every_cut_and_every_epoch_of_batches_is_an_upload():
    _, uploads = heard(SplitNN(trainer=Sgd(epochs=2, batch=64)), BINARY)
    rows = len(BINARY.labels("train"))
    for party in BINARY.peers:
        epochs = [one for one in uploads[party] if one.step == "exchange"]
        assert len(epochs) == 2
        assert all(list(one.places) == list(range(rows)) for one in epochs)
        assert {one.cut for one in uploads[party]} == {"train", "test"}
        together = [one for one in uploads[party] if one.step == "2 answers together"]
        assert together[0].values.shape[1] == sum(one.values.shape[1] for one in epochs)


def test_training_rows_are_attacked_and_not_only_what_was_sent_last():
    method = FedOnce(encoder=Pca(dim=2), trainer=Sgd(epochs=2), head=Joint(head=Mlp(hidden=())))
    _, uploads = heard(method, BINARY)
    for party in BINARY.peers:
        rows = {one.cut: one.values.shape for one in uploads[party]}
        assert rows == {cut: (len(BINARY.tables[party].cut(cut)), 2) for cut in ("train", "valid", "test")}


@pytest.mark.slow
def test_the_label_holders_mixed_columns_are_rebuilt():
    """Its last answer holds no columns, so that an attack on the last answers alone missed them."""
    found = audit(Rap(learner=LinearModel()), NUMERIC, known=50)
    (named,) = [one for one in found if f"{NUMERIC.hub}'s columns, Linear" in one.attack] or [None]
    assert named is not None and named.success > 0.99
    attacks = " / ".join(one.attack for one in found)
    assert f"columns of {NUMERIC.hub}, by independent components" in attacks
    (label,) = [one for one in found if one.attack == "hidden labels"]
    assert label.success > 0.5 > label.baseline


@pytest.mark.slow
def test_codes_of_a_class_are_paired_by_an_audit():
    (label,) = [one for one in audit(Rap(matrix=Gaussian(), learner=LinearModel()), BINARY) if "hidden" in one.attack]
    assert label.success == 1.0


FEW_TREES = VerticalXgboost(trees=Boosted(trees=3))


@pytest.mark.parametrize("method", [VimSgd(epochs=1), VimAdmm(epochs=1), FEW_TREES], ids=name_of)
def test_labels_are_read_off_signals_and_gradients(method):
    found = [one for one in audit(method, BINARY, known=20) if one.attack.startswith("labels")]
    assert len(found) == len(BINARY.peers)
    assert all(one.success > 0.95 > one.baseline for one in found)


@pytest.mark.parametrize("method", [VimSgd(epochs=1), SplitNN(trainer=Sgd(epochs=1, batch=64))], ids=name_of)
def test_numeric_labels_are_read_off_too(method):
    found = [one for one in audit(method, NUMERIC, known=20) if one.attack.startswith("labels")]
    assert len(found) == len(NUMERIC.peers)
    assert all(one.success > 0.9 for one in found)


def test_numbers_that_do_not_vary_tell_nothing_of_a_numeric_label():
    y = np.arange(20.0)
    assert infer_numbers(np.ones((20, 3)), y).success == 0.0
    assert infer_numbers(np.column_stack([np.ones(20), -2 * y]), y).success == pytest.approx(1.0)


def test_a_number_that_is_the_same_for_all_known_rows_does_not_spoil_an_attack():
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((200, 2))
    odd = np.zeros((200, 1))
    odd[np.random.default_rng(1).permutation(200)[150:]] = 1.0  # Zero for all that the attacker knows.
    assert reconstruct(np.hstack([columns, odd]), columns, 100, np.random.default_rng(1)).success > 0.99


def test_a_cut_without_rows_is_no_upload():
    federation = small_federation("binary")
    for table in federation.tables.values():
        table.cuts["valid"] = table.cuts["valid"][:0]
    _, uploads = heard(FedOnce(encoder=Pca(dim=2), head=LinearModel()), federation)
    assert {one.cut for party in federation.peers for one in uploads[party]} == {"train", "test"}

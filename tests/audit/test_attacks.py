import numpy as np
import pytest

from laconic import FedCVT, FedOnce, LateFusion, OneShot, SplitNN
from laconic.audit.attacks import (
    LinearAttacker,
    MlpAttacker,
    compare_labels,
    infer_labels,
    likelihood_ratio_attack,
    reconstruct,
    row_losses,
    threshold_attack,
)
from laconic.audit.audit_run import audit
from laconic.learn import FixMatchTab, Joint, Mlp, Pca, Sgd
from laconic.methods import SendLabels
from laconic.tables import Task
from laconic.testing import small_federation, small_overlap


def test_a_model_that_remembers_its_rows_is_found_out():
    rng = np.random.default_rng(0)
    found = threshold_attack(members=rng.exponential(0.1, 500), outsiders=rng.exponential(1.0, 500))
    assert found.success > 0.85
    assert found.baseline == 0.5


def test_a_model_that_treats_all_rows_the_same_is_not():
    rng = np.random.default_rng(0)
    assert abs(threshold_attack(rng.exponential(1.0, 2000), rng.exponential(1.0, 2000)).success - 0.5) < 0.05


def test_the_likelihood_ratio_finds_members_that_a_threshold_cannot():
    rng = np.random.default_rng(0)
    hardness = rng.normal(0, 3, 400)  # How hard a row is hides whether it was there, unless one knows its hardness.
    present = rng.random((17, 400)) < 0.5
    losses = np.log1p(np.exp(hardness - 1.0 * present + 0.3 * rng.standard_normal((17, 400))))
    by_ratio = likelihood_ratio_attack(losses[0], present[0], losses[1:], present[1:]).success
    by_threshold = threshold_attack(losses[0][present[0]], losses[0][~present[0]]).success
    assert by_ratio > 0.9 > 0.7 > by_threshold


def test_a_row_that_no_shadow_model_saw_is_refused():
    with pytest.raises(ValueError, match="shadow model"):
        likelihood_ratio_attack(np.ones(2), np.ones(2, bool), np.ones((2, 2)), np.zeros((2, 2), bool))


@pytest.mark.parametrize("attacker", [LinearAttacker(), MlpAttacker(trainer=Sgd(epochs=60, batch=64, lr=3e-3))])
def test_columns_are_rebuilt_from_a_turned_copy_and_not_from_noise(attacker):
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((600, 4))
    turned = columns @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    assert reconstruct(turned, columns, 200, rng, attacker=attacker).success > 0.8
    assert reconstruct(rng.standard_normal((600, 4)), columns, 200, rng, attacker=attacker).success < 0.1


def test_labels_are_read_off_gradients():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    gradients = np.eye(3)[y] - 1 / 3 + 0.01 * rng.standard_normal((90, 3))
    found = infer_labels(gradients, y, rng)
    assert found.success == 1.0
    assert found.baseline < 0.6


def test_randomised_labels_are_known_as_far_as_most_are_true():
    received = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    y = np.array([3, 3, 5, 5, 5, 5, 3, 5])
    found = compare_labels(received, y)
    assert (found.success, found.baseline) == (6 / 8, 5 / 8)


def test_losses_are_those_of_the_true_class():
    binary = row_losses(Task(kind="binary"), np.array([0.9, 0.2]), np.array([1, 0]))
    np.testing.assert_allclose(binary, -np.log([0.9, 0.8]))
    many = row_losses(Task(kind="multiclass"), np.array([[0.1, 0.7, 0.2]]), np.array([1]))
    np.testing.assert_allclose(many, -np.log([0.7]))


def test_an_audit_of_a_run_names_every_party_and_attack():
    method = FedOnce(encoder=Pca(dim=2), trainer=Sgd(epochs=3), head=Joint(head=Mlp(hidden=())))
    federation = small_federation("binary")
    findings = audit(method, federation, known=50, shadows=2)
    attacks = " / ".join(one.attack for one in findings)
    assert all(party in attacks for party in federation.peers)
    assert "likelihood ratio" in attacks
    assert all(0 <= one.success <= 1 for one in findings)


def test_an_audit_of_split_learning_finds_the_labels():
    method = SplitNN(trainer=Sgd(epochs=1, batch=64))
    labels = [one for one in audit(method, small_federation("binary"), known=50) if one.attack.startswith("labels")]
    assert labels
    assert all(one.success > 0.9 for one in labels)


QUICK = {"local": FixMatchTab(steps=5), "trainer": Sgd(epochs=2)}


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (OneShot(**QUICK), "labels from the gradients sent to"),
        (OneShot(**QUICK, guide=SendLabels()), "labels sent to"),
        (LateFusion(), "labels sent to"),
        # Batches of 60 shared rows that leave a rest, and one that is not full.
        (FedCVT(trainer=Sgd(epochs=2, batch=40)), "labels from the gradients sent to"),
        (FedCVT(trainer=Sgd(epochs=2, batch=64)), "labels from the gradients sent to"),
    ],
    ids=["OneShot", "SendLabels", "LateFusion", "FedCVT, batch 40", "FedCVT, batch 64"],
)
def test_an_audit_finds_the_labels_that_every_party_is_sent(method, words):
    shared = small_overlap()
    found = [one for one in audit(method, shared, known=30) if one.attack.startswith("labels")]
    assert {one.attack for one in found} == {f"{words} {name}" for name in shared.peers}
    assert all(one.success == 1.0 > one.baseline for one in found)

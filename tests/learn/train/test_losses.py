"""Tasks become losses and targets, and outputs become predictions."""

import numpy as np
import pytest
import torch

from laconic.learn.train import losses as heads
from laconic.tables import Task

BINARY = Task(kind="binary", classes=("no", "yes"))
MULTICLASS = Task(kind="multiclass", classes=("a", "b", "c"))
REGRESSION = Task(kind="regression")


def test_regression_targets_are_standardised_and_come_back() -> None:
    y = np.array([1e6, 3e6, 5e6, 7e6])
    scale = heads.scale_of(REGRESSION, y)
    targets = heads.to_targets(REGRESSION, y, scale)
    assert float(targets.mean()) == pytest.approx(0, abs=1e-6)
    assert float(targets.std(correction=0)) == pytest.approx(1, abs=1e-6)
    assert heads.to_predictions(REGRESSION, targets[:, None], scale) == pytest.approx(y, rel=1e-6)


def test_labels_that_are_all_alike_can_still_be_scaled() -> None:
    scale = heads.scale_of(REGRESSION, np.full(3, 7.0))
    assert heads.to_targets(REGRESSION, np.full(3, 7.0), scale).tolist() == [0, 0, 0]


def test_classes_have_no_scale() -> None:
    assert heads.scale_of(BINARY, np.array([0, 1])) == {}


def test_binary_loss_and_prediction_by_hand() -> None:
    outputs = torch.tensor([[0.0], [np.log(3.0)]])
    targets = heads.to_targets(BINARY, np.array([1, 1]), {})
    assert heads.to_predictions(BINARY, outputs, {}) == pytest.approx([0.5, 0.75])
    assert float(heads.loss(BINARY, outputs, targets)) == pytest.approx(-(np.log(0.5) + np.log(0.75)) / 2)


def test_multiclass_loss_and_prediction_by_hand() -> None:
    outputs = torch.tensor([[0.0, 0.0, np.log(2.0)]])
    targets = heads.to_targets(MULTICLASS, np.array([2]), {})
    assert heads.to_predictions(MULTICLASS, outputs, {})[0] == pytest.approx([0.25, 0.25, 0.5])
    assert float(heads.loss(MULTICLASS, outputs, targets)) == pytest.approx(np.log(2))


def test_regression_loss_is_the_squared_error() -> None:
    assert float(heads.loss(REGRESSION, torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 0.0]))) == pytest.approx(5)


@pytest.mark.parametrize("task", [BINARY, MULTICLASS, REGRESSION])
def test_slopes_written_out_are_those_of_automatic_gradients(task) -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=50) if task.kind == "regression" else rng.integers(0, len(task.classes), 50)
    outputs = torch.tensor(rng.normal(0, 3, (50, task.outputs)), requires_grad=True)
    targets = heads.to_targets(task, y, heads.scale_of(task, y))
    targets = targets if task.kind == "multiclass" else targets.double()
    (by_outputs,) = torch.autograd.grad(heads.loss(task, outputs, targets) * len(y), outputs)
    found = heads.slope(heads.loss_of(task), outputs.detach(), targets)
    assert torch.allclose(found, by_outputs, rtol=0, atol=1e-12)


def test_no_slope_is_made_up_for_a_loss_of_somebody_else() -> None:
    assert heads.slope(lambda outputs, targets: outputs.sum(), torch.zeros(2, 1), torch.zeros(2)) is None

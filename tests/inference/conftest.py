"""One small federation, trained and saved, for every test of models."""

import shutil

import pytest

from laconic import FedOnce, train
from laconic.inference.save import save_model
from laconic.testing import small_federation
from tests.inference.asking import QUICK


@pytest.fixture(scope="module")
def federation():
    return small_federation("binary")


@pytest.fixture(scope="module")
def trained(federation):
    return train(FedOnce(trainer=QUICK), federation)


@pytest.fixture(scope="module")
def original(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    return folder, save_model(trained, folder)


@pytest.fixture
def saved(original, tmp_path):
    """A copy of the model that a test may change, and its card."""
    shutil.copytree(original[0], tmp_path, dirs_exist_ok=True)
    return tmp_path, original[1]

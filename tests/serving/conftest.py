import pytest

from laconic.check import small_federation
from laconic.learn.sgd import Sgd
from laconic.methods.vertical.fedonce import FedOnce
from laconic.model.absent import Refit
from laconic.model.model import load_model
from laconic.model.saving import save_model
from laconic.serving.answering import Answering
from laconic.serving.app import make_app
from laconic.serving.guard import Access, read_tokens
from laconic.serving.limits import Limits
from laconic.trained import train

TOKEN = "a token that is long enough"  # noqa: S105
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="session")
def trained():
    return train(FedOnce(trainer=Sgd(epochs=20, lr=3e-3)), small_federation("binary"))


@pytest.fixture(scope="session")
def folder(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("served")
    save_model(trained, path)
    return path


@pytest.fixture
def answering(folder):
    return Answering(load_model(folder))


@pytest.fixture
def app(answering):
    access = Access(tokens=read_tokens(TOKEN))
    return make_app(answering, absent=Refit(), access=access, limits=Limits(requests=1e6, ids_a_second=1e9))

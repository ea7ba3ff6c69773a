import pytest

from laconic import FedOnce, train
from laconic.inference.absent import Refit
from laconic.inference.predict import load_model
from laconic.inference.save import save_model
from laconic.inference.server.app import Answering, make_app
from laconic.inference.server.guard import Access, Limits, read_tokens
from laconic.learn import Sgd
from laconic.testing import small_federation

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

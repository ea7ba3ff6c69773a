"""Schemathesis against the server's own description: no 500, and no answer without authorisation."""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import negative_data_rejection
from starlette.testclient import TestClient

from laconic import Analytic, load_model, train
from laconic.inference.absent import Refit
from laconic.inference.save import save_model
from laconic.inference.server.app import Answering, make_app
from laconic.inference.server.guard import Access, Limits, read_tokens
from laconic.testing import small_horizontal
from tests.inference.server.conftest import HEADERS, TOKEN

OPERATIONS = ("POST /predict", "GET /health", "GET /metrics", "GET /openapi.json")
TOO_LARGE = 413
MANY = int(os.environ.get("LACONIC_EXAMPLES", "60"))
"""Requests for each kind of attack; more of them by the environment variable."""


@pytest.fixture
def operations(app):
    return described_by(app)


def described_by(app):
    described = schemathesis.openapi.from_dict(TestClient(app, headers=HEADERS).get("/openapi.json").json())
    described.app = app
    found = [one.ok() for one in described.get_all_operations()]
    return {one.label: one for one in found}


def test_the_description_names_every_operation(operations):
    assert set(operations) == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_no_request_breaks_the_server_or_gets_in_without_a_token(operations, name, mode):
    attack_with(operations[name], mode)


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_no_row_breaks_a_server_that_predicts_rows(mode, tmp_path):
    save_model(train(Analytic(least_rows=1), small_horizontal("binary")), tmp_path)
    limits = Limits(requests=1e6, ids_a_second=1e9)
    answering, access = Answering(load_model(tmp_path)), Access(tokens=read_tokens(TOKEN))
    served = make_app(answering, absent=Refit(), access=access, limits=limits)
    attack_with(described_by(served)["POST /predict"], mode)


def attack_with(operation, mode):
    statuses = set()

    @settings(
        max_examples=MANY if operation.label == "POST /predict" else 10,
        deadline=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def attack(case):
        # All of schemathesis's checks: no 500, answers as described, and none without the token. A body over the limit
        # is refused before it is read, which schemathesis does not count as refusing what is wrong in it.
        answer = case.call(headers=HEADERS)
        too_large = [negative_data_rejection] if answer.status_code == TOO_LARGE else []
        case.validate_response(answer, excluded_checks=too_large, headers=HEADERS)
        statuses.add(answer.status_code)

    attack()
    assert statuses <= {200, 400, 401, 405, 413, 429}
    assert statuses

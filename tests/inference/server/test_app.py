import numpy as np
import pytest
from prometheus_client import generate_latest
from starlette.testclient import TestClient

from laconic.inference.absent import Refit
from laconic.inference.server.app import Answering, Counts, make_app
from laconic.inference.server.guard import Access, Allowance, Limits, read_tokens
from tests.inference.server.conftest import HEADERS, TOKEN


@pytest.fixture
def client(app):
    return TestClient(app, headers=HEADERS)


@pytest.fixture
def ids(answering):
    return answering.model.store.ids_of("valid")


def test_stored_people_are_predicted_as_the_model_predicts_them(client, trained, ids):
    answer = client.post("/predict", json={"ids": ids}).json()
    found = [one["probabilities"]["benign"] for one in answer["scores"]]
    # Worked out for everybody at once: matrix products of another size may round otherwise.
    assert np.allclose(found, trained.predict("valid"), atol=1e-6)
    assert [one["id"] for one in answer["scores"]] == ids
    assert {one["answered_by"] for one in answer["scores"]} == {"all"}
    assert answer["scores"][0]["parties"] == ["shop", "insurer"]


def test_a_stranger_has_no_prediction_and_says_why(client, ids):
    one, other = client.post("/predict", json={"ids": [ids[0], "nobody"]}).json()["scores"]
    assert one["prediction"] in ("malignant", "benign")
    assert (other["prediction"], other["probabilities"]) == (None, None)
    assert other["answered_by"] == "unknown to the hub"


@pytest.mark.parametrize(
    ("way", "answered"), [(None, "refit"), ("zeros", "zeros"), ("solo", "solo"), ("abstain", "abstain")]
)
def test_an_absent_party_is_made_up_for_as_asked(answering, ids, way, answered):
    model = answering.model
    lacking = model.__class__(_without(model.part, "shop"), model.method, model.heads)
    access = Access(tokens=read_tokens(TOKEN))
    app = make_app(Answering(lacking), absent=Refit(), access=access, limits=Limits())
    asked = {"ids": ids[:3]} | ({} if way is None else {"absent": way})
    scores = TestClient(app, headers=HEADERS).post("/predict", json=asked).json()["scores"]
    assert {one["answered_by"] for one in scores} == {way or "refit"}
    assert {one["prediction"] is None for one in scores} == {way == "abstain"}


def _without(part, party):
    from dataclasses import replace

    return replace(part, store=part.store.as_if_absent(party))


@pytest.mark.parametrize("path", ["/predict", "/health", "/metrics", "/openapi.json", "/", "/docs"])
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"}]
)
def test_nothing_is_answered_without_the_token(app, path, headers):
    answer = TestClient(app).request("POST" if path == "/predict" else "GET", path, headers=headers)
    assert answer.status_code == 401
    assert answer.json().keys() == {"error"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"ids": []}', 400),
        (b'{"ids": [1]}', 400),
        (b'{"ids": ["a"], "more": 1}', 400),
        (b'{"ids": ["a"], "absent": "guess"}', 400),
        (b'{"ids": ["' + b"a" * 300 + b'"]}', 400),
        (b"[" * 100_000, 400),
        (b'{"ids": ["a"' + b', "a"' * 1000 + b"]}", 400),
        (b" " * (2 << 20), 413),
    ],
)
def test_bad_requests_are_told_what_is_wrong(client, body, status):
    answer = client.post("/predict", content=body)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_asking_too_often_is_told_when_to_come_back(answering):
    limits = Limits(requests=0.2, ids_a_second=1.0)
    app = make_app(answering, absent=Refit(), access=Access(tokens=read_tokens(TOKEN)), limits=limits)
    client = TestClient(app, headers=HEADERS)
    assert client.post("/predict", json={"ids": ["a"] * 9}).status_code == 200
    late = client.post("/predict", json={"ids": ["a"] * 9})
    assert (late.status_code, int(late.headers["Retry-After"]) >= 1) == (429, True)
    assert client.get("/health").status_code == 429


def test_an_allowance_is_refilled_by_time_and_each_client_has_its_own():
    now = [0.0]
    allowance = Allowance(2.0, clock=lambda: now[0])
    assert [allowance.spend("one") for _ in range(20)] == [0.0] * 20
    assert allowance.spend("one") == pytest.approx(0.5)
    assert allowance.spend("other") == 0.0
    now[0] = 0.5
    assert allowance.spend("one") == 0.0
    now[0] = 100.0
    assert allowance.spend("one", 1000) == 0.0
    assert allowance.spend("one") > 400


def test_health_and_metrics_say_what_was_done(client, ids):
    client.post("/predict", json={"ids": ids[:2]})
    health = client.get("/health").json()
    assert (health["status"], health["method"], health["asks"]) == ("ok", "FedOnce", [])
    assert health["people"] == 358 + 40
    text = client.get("/metrics").text
    assert 'laconic_people_total{answered_by="all"} 2' in text
    assert "laconic_predict_seconds_count 1" in text
    assert 'laconic_requests_total{let_in="yes"}' in text


def test_a_party_with_quotes_in_its_name_can_be_counted():
    counts = Counts()
    counts.bytes.labels('the "shop"').inc(3)
    assert 'laconic_bytes_total{party="the \\"shop\\""} 3.0' in generate_latest(counts.registry).decode()


def test_short_tokens_and_no_tokens_are_refused():
    with pytest.raises(ValueError, match="shorter than 16"):
        read_tokens("abc")
    with pytest.raises(ValueError, match="0 tokens"):
        read_tokens("# none yet\n")
    with pytest.raises(ValueError, match="clients could not be identified"):
        Access()

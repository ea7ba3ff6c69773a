"""Advice before a run: candidates within limits, and estimates that runs bear out."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace

from laconic import Analytic, Centralised, FedAvg, FedOnce, OneShot, Solo, SplitNN, VimAdmm, federation, simulate, train
from laconic.deploy import RunLimits, advise
from laconic.deploy.advice import estimate, read_link
from laconic.errors import PlanError
from laconic.learn import Boosted, Sgd

ROWS = 2600


def columns(seed=0, rows=ROWS):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 8)).round(3)
    frame = pd.DataFrame({f"c{at}": x[:, at] for at in range(8)})
    frame["left"] = np.where(x[:, 0] + x[:, 5] + rng.normal(size=rows) > 0, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def vertical():
    frame = columns().assign(id=range(ROWS))
    parts = {
        "bank": frame[["id", "c0", "c1", "left"]],
        "shop": frame[["id", "c2", "c3", "c4"]],
        "club": frame[["id", "c5", "c6", "c7"]].iloc[: ROWS - 200],
    }
    made = federation(parts, id="id", label="left")
    return train(Solo(trainer=Sgd(epochs=1)), made, seed=0).federation


@pytest.fixture(scope="module")
def horizontal():
    return federation({"north": columns(0, 1500), "south": columns(1, 1500)}, label="left")


@pytest.mark.parametrize(
    "method",
    [FedOnce(trainer=Sgd(epochs=3)), VimAdmm(epochs=2), Centralised(trainer=Sgd(epochs=3))],
    ids=lambda one: type(one).__name__,
)
def test_bytes_and_rounds_of_vertical_methods_are_within_five_percent_of_a_run(vertical, method, monkeypatch):
    # Processor time, in estimate and run alike: others may use the machine.
    monkeypatch.setattr("laconic.core.traffic.perf_counter", time.process_time)
    found, ran = estimate(method, vertical), simulate(method, vertical, seed=0)
    assert found.bytes == pytest.approx(ran.fit.bytes, rel=0.05)
    assert found.rounds == pytest.approx(ran.fit.rounds, rel=0.05)
    assert found.labels_leave is bool(ran.label_leaks)
    # The stated factor, of times of learning above a tenth of a second.
    assert 1 / 5 < max(found.learning_seconds, 0.1) / max(ran.fit.seconds, 0.1) < 5


def test_rows_that_only_some_parties_share_count_in_the_bytes():
    frame = columns().assign(id=range(ROWS))
    parts = {
        "bank": frame[["id", "c0", "c1", "left"]],
        "shop": frame[["id", "c2", "c3", "c4"]],
        "club": frame[["id", "c5", "c6", "c7"]].iloc[: ROWS // 2],
    }
    made = train(Solo(trainer=Sgd(epochs=1)), federation(parts, id="id", label="left"), seed=0).federation
    method = FedOnce(head=Boosted(trees=3))
    ran = simulate(method, made, seed=0)
    assert ran.data["outside"] == {"bank": ROWS // 2, "shop": ROWS // 2}
    assert estimate(method, made).bytes == pytest.approx(ran.fit.bytes, rel=0.05)


@pytest.mark.parametrize("method", [FedAvg(trainer=Sgd(epochs=1)), Analytic()], ids=lambda one: type(one).__name__)
def test_bytes_and_rounds_of_horizontal_methods_are_within_five_percent_of_a_run(horizontal, method):
    found, ran = estimate(method, horizontal), simulate(method, horizontal, seed=0)
    assert found.bytes == pytest.approx(ran.fit.bytes, rel=0.05)
    assert found.rounds == ran.fit.rounds


@pytest.mark.slow
@pytest.mark.parametrize("method", [OneShot(), VimAdmm(), FedOnce()], ids=lambda one: type(one).__name__)
def test_usual_settings_are_within_five_percent_of_a_run_too(vertical, method):
    found, ran = estimate(method, vertical), simulate(method, vertical, seed=0)
    assert found.bytes == pytest.approx(ran.fit.bytes, rel=0.05)
    assert found.rounds == pytest.approx(ran.fit.rounds, rel=0.05)


def test_where_training_may_stop_early_figures_are_those_of_not_stopping(vertical):
    method = SplitNN(trainer=Sgd(epochs=2, patience=1))
    found = estimate(method, vertical)
    assert found.at_most
    to_the_end = simulate(replace(method, trainer=Sgd(epochs=2, patience=2)), vertical, seed=0)
    assert found.bytes == pytest.approx(to_the_end.fit.bytes, rel=0.05)
    assert found.rounds == pytest.approx(to_the_end.fit.rounds, rel=0.05)


def test_the_time_on_the_line_follows_from_its_speed_and_from_rounds(vertical):
    method = VimAdmm(epochs=1)
    found = estimate(method, vertical, RunLimits(link=1e6, ping=0.1))
    assert found.line_seconds == pytest.approx(found.bytes * 8 / 1e6 + found.rounds * 0.1)


def test_candidates_keep_labels_and_raw_columns_unless_they_may_leave(vertical):
    kept = advise(vertical)
    assert [one.method for one in kept.candidates] == ["FedOnce", "LocalDp"]
    assert not any(one.labels_leave or one.raw_leaves for one in kept.candidates)
    assert kept.left_out["SplitNN"] == "gives labels away, which may not leave"
    assert kept.left_out["Centralised"] == "hands over raw columns, which may not leave"
    assert (kept.kind, kept.parties, kept.columns["shop"]) == ("vertical", 3, 3)
    assert json.loads(kept.to_json())["candidates"][0]["rounds"] == 1


def test_few_exchanges_leave_out_what_asks_batch_by_batch(horizontal):
    found = advise(horizontal, RunLimits(exchanges=1))
    assert [one.method for one in found.candidates] == ["Analytic", "FedAvg"]
    assert found.left_out["Scaffold"] == "takes 20 exchanges, and 1 are allowed"
    assert found.kind == "horizontal"


@pytest.mark.parametrize(
    ("words", "bits"), [("10Mbit", 1e7), ("1.5 Gbit/s", 1.5e9), ("512kbit", 512e3), ("9600", 9600.0), ("2 Mbps", 2e6)]
)
def test_speeds_are_read_as_people_write_them(words, bits):
    assert read_link(words) == bits


@pytest.mark.parametrize("words", ["fast", "", "-1Mbit", "0"])
def test_what_is_no_speed_is_refused(words):
    with pytest.raises(PlanError, match="such as 10Mbit or 1Gbit"):
        read_link(words)

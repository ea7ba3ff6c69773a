"""FedPFT sends mixtures once; the head of draws from them is good, noise keeps its budget, and parties come and go."""

from dataclasses import replace

import numpy as np
import pytest

from laconic import (
    Dirichlet,
    FedPft,
    check_method,
    deal_rows,
    forget,
    load,
    load_model,
    price,
    save_model,
    simulate,
    train,
)
from laconic.core import Mergeable, Party
from laconic.data import Iid
from laconic.deploy import ledgers_of
from laconic.errors import WireError
from laconic.learn import Columns, Logistic
from laconic.privacy import Budget, GaussianMoments
from laconic.testing import small_horizontal

QUICK = FedPft(features=Columns(), head=Logistic())


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        FedPft(),
        FedPft(features=Columns(), components=1, covariance="full"),
        FedPft(features=Columns(), privacy=GaussianMoments(sigma=0.1, seeded=True)),
    ],
    ids=["default", "full", "private"],
)
def test_keeps_the_contract(method):
    check_method(method)


def test_takes_one_exchange_and_comes_near_a_model_of_all_rows():
    federation = deal_rows(load("digits"), Dirichlet(parties=4, beta=0.5, least=20), seed=1)
    result = simulate(QUICK, federation)
    assert result.fit.rounds == 1
    assert result.metrics["accuracy"] > 0.9


def test_a_class_with_few_rows_stays_at_its_party_and_no_gaussian_has_few():
    table = deal_rows(load("digits"), Dirichlet(parties=4, beta=0.2, least=20), seed=1).tables["party1"]
    sent = replace_settings(QUICK, least_rows=15).give_mixtures(Party("party1", table, seed=0))
    counts = np.bincount(table.part("train")[1], minlength=10)
    assert set(sent) == {str(code) for code in range(10) if counts[code] >= 15} != {str(code) for code in range(10)}
    for code, one in sent.items():
        assert one["rows"] == counts[int(code)]
        assert len(one["weights"]) <= max(1, one["rows"] // 15)


def replace_settings(method, **settings):
    return type(method)(**{name: getattr(method, name) for name in method.__struct_fields__} | settings)


def test_the_server_refuses_what_are_no_mixtures_and_names_the_sender():
    run = train(QUICK, small_horizontal("binary"))
    (sent,) = run.hub.memory["mixtures"]["party1"]
    good = sent["0"]
    for broken in (
        {"7": good},
        {"0": {**good, "means": good["means"][:, 1:]}},
        {"0": {**good, "spreads": good["spreads"] * np.nan}},
        {"0": {**good, "rows": 1}},
        [good],
    ):
        with pytest.raises(WireError, match="party9 did not send mixtures"):
            QUICK._read("party9", broken, run.hub.memory["width"], run.federation.task)


def test_noise_keeps_the_budget_and_covers_all_that_is_sent():
    pytest.importorskip("dp_accounting")
    federation = deal_rows(load("breast_cancer"), Iid(parties=3), seed=0)
    method = QUICK.within(Budget(epsilon=2.0, delta=1e-5, people="disjoint"), 100, "server", federation.peers)
    result = simulate(method, federation)
    paid = price(ledgers_of(result), 1e-5, "disjoint")
    assert 1.95 < paid.epsilon <= 2.0
    assert not paid.open
    assert {one.noise for one in result.releases if one.party == "party1"} == set(
        method.expected_noise(100, "server", federation.peers)["party1"]
    )


def test_a_forgotten_party_leaves_a_head_that_never_saw_its_mixtures(tmp_path):
    federation = deal_rows(load("digits"), Iid(parties=3), seed=0)
    assert isinstance(QUICK, Mergeable)
    save_model(train(QUICK, federation), tmp_path, id="")
    forget(tmp_path, "party2")
    model = load_model(tmp_path)
    assert set(model.part.memory["mixtures"]) == {"party1", "party3"}
    assert model.method.members(Party("server", federation.tables["server"], 0, model.part.memory)).keys() == {
        "party1",
        "party3",
    }
    kept = {name: table for name, table in federation.tables.items() if name != "party2"}
    never = train(QUICK, replace(federation, tables=kept))
    rows = federation.tables["server"]
    found, wanted = (
        QUICK.predict(Party("server", rows, 0, memory), None, "test")
        for memory in (model.part.memory, never.hub.memory)
    )
    # Another draw of features from the same mixtures: the same decisions on nearly all rows.
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).mean() > 0.95


@pytest.mark.parametrize("settings", [{"components": 0}, {"least_rows": 0}], ids=str)
def test_mixtures_of_nothing_are_refused(settings):
    with pytest.raises(ValueError, match="must be 1 or more"):
        FedPft(**settings)

"""FedTrees: the contract, class shares put right, thresholds that are nobody's cells, and trees that are none."""

import numpy as np
import pytest

from laconic import (
    Dirichlet,
    FedTrees,
    SoloRows,
    check_method,
    deal_rows,
    forget,
    load,
    load_model,
    save_model,
    simulate,
    train,
)
from laconic.core import Party, Peers, WireLog
from laconic.deploy import Faults, InProcess, open_calls
from laconic.errors import WireError
from laconic.learn import Boosted
from laconic.methods.horizontal.fedtrees import _add_up, round_down
from laconic.testing import small_horizontal

pytest.importorskip("xgboost")
BINARY = small_horizontal("binary")
DIGITS = small_horizontal("multiclass")
SMALL = Boosted(trees=10, depth=3)


@pytest.mark.slow
def test_keeps_the_contract():
    assert check_method(FedTrees(trees=SMALL, least_rows=20)).fit.rounds == 1


def test_trees_of_all_beat_the_trees_of_each():
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=6, beta=0.5, least=5), seed=1)
    together = simulate(FedTrees(trees=SMALL, least_rows=5), federation)
    alone = simulate(SoloRows(model=SMALL), federation)
    assert together.metrics["accuracy"] > alone.metrics["accuracy"] + 0.05


def answers(federation, **changed):
    method = FedTrees(trees=SMALL, **changed)
    return {name: method.give_trees(Party(name, federation.tables[name], 0)) for name in federation.peers}


def test_one_model_says_what_the_corrected_mean_of_all_says():
    sent = list(answers(BINARY, least_rows=1).values())
    counts = np.array([one["counts"] for one in sent], dtype=float)
    x = BINARY.tables["server"].part("test")[0]

    def log_odds(probability):
        return np.log(probability / (1 - probability))

    known = 2 / (1 / (counts[:, 0] + 0.5) + 1 / (counts[:, 1] + 0.5))
    odds = np.log((counts[:, 1] + 0.5) / (counts[:, 0] + 0.5))
    everybody = np.log((counts[:, 1].sum() + 0.5) / (counts[:, 0].sum() + 0.5))
    margins = np.array([log_odds(SMALL.predict(BINARY.task, one["trees"], x)) for one in sent])
    by_hand = everybody + ((margins - odds[:, None]) * (known / known.sum())[:, None]).sum(axis=0)
    model = _add_up(BINARY.task, [one["trees"] for one in sent], list(counts), counts)
    assert log_odds(SMALL.predict(BINARY.task, model, x)) == pytest.approx(by_hand, abs=1e-4)


def test_parties_that_differ_only_in_how_often_classes_come_agree_once_corrected():
    # A single yes-or-no column; class 1 has "yes" in 80 of 100 rows, class 0 in 20. One party has ten times class 1.
    x = np.repeat([[1.0], [0.0], [1.0], [0.0]], [800, 200, 20, 80], axis=0).astype(np.float32)
    y = np.repeat([1, 0], [1000, 100])
    task = BINARY.task
    rng = np.random.default_rng(0)
    learner = Boosted(trees=60, depth=1, penalty=0.0)
    much, little = learner.fit(task, x, y, rng), learner.fit(task, x, 1 - y, rng)
    counts = np.array([[100.0, 1000.0], [1000.0, 100.0]])
    model = _add_up(task, [much, little], list(counts), counts)
    # The two parties see "yes" point to opposite classes, so that together it says nothing.
    assert SMALL.predict(task, model, np.array([[1.0], [0.0]])) == pytest.approx([0.5, 0.5], abs=0.01)
    alone = _add_up(task, [much], [counts[0]], np.array([[1000.0, 1000.0]]))
    # Of equally many rows of both classes, "yes" is right in 80 of 100.
    assert SMALL.predict(task, alone, np.array([[1.0], [0.0]])) == pytest.approx([0.8, 0.2], abs=0.01)


def thresholds_of(answer, column):
    trees = answer["trees"]
    asked = (trees["column"] == column) & (trees["threshold"] < np.finfo(np.float32).max)
    return set(trees["threshold"][asked].tolist())


def test_thresholds_are_public_numbers_where_there_are_public_rows_and_else_cells():
    name = BINARY.peers[0]
    table = BINARY.tables[name]
    public, own = (np.float32(table.part(cut)[0]) for cut in ("public", "train"))
    party = Party(name, table, 0)
    method = FedTrees(trees=SMALL, least_rows=1)
    given = method.give_trees(party)
    bare = Party(name, table, 0)
    kept = dict(table.cuts)
    try:
        del table.cuts["public"]
        taken = method.give_trees(bare)
    finally:
        table.cuts.update(kept)
    columns = range(public.shape[1])
    seen = [(column, value) for column in columns for value in thresholds_of(given, column)]
    assert seen
    assert all(value in public[:, column] for column, value in seen)
    # Without public rows, thresholds are this party's own cells: each one says what somebody's row holds.
    told = [value in own[:, column] for column in columns for value in thresholds_of(taken, column)]
    assert np.mean(told) > 0.9


def test_rounding_down_changes_no_answer_to_a_public_threshold():
    rng = np.random.default_rng(0)
    x, opened = rng.normal(size=(500, 3)), rng.normal(size=(200, 3))
    rounded = round_down(x, opened, 16)
    assert len(np.unique(rounded[:, 0])) <= 17
    for edge in np.unique(rounded[:, 0])[1:]:
        assert ((rounded[:, 0] >= edge) == (np.float32(x[:, 0]) >= edge)).all()


def test_a_party_with_few_rows_sends_nothing_and_nobody_is_an_error():
    assert all(answer == {} for answer in answers(BINARY, least_rows=10_000).values())
    with pytest.raises(ValueError, match=r"no party has 10000 rows.*least_rows"):
        simulate(FedTrees(trees=SMALL, least_rows=10_000), BINARY)
    with pytest.raises(ValueError, match="least_rows"):
        FedTrees(least_rows=-1)


def test_a_party_leaves_exactly_and_joins_again_by_one_upload():
    method = FedTrees(trees=SMALL, least_rows=1)
    whole = train(method, BINARY)
    without = train(method, BINARY, runtime=InProcess(faults=Faults(absent=("party1",)))).hub.memory["model"]
    before, hub = dict(whole.hub.memory["model"]), whole.hub
    assert list(method.members(hub)) == ["party1", "party2", "party3"]
    method.take_out(hub, "party1")
    assert method.members(hub).keys() == {"party2", "party3"}
    for name, values in without.items():
        assert np.array_equal(hub.memory["model"][name], values)
    with open_calls([one for one in whole.others if one.name == "party1"]) as carrier:
        method.merge_in(hub, Peers(method, hub, carrier, WireLog(), carrier.names))
    assert set(method.members(hub)) == {"party1", "party2", "party3"}
    assert {name: values.shape for name, values in hub.memory["model"].items()} == {
        name: values.shape for name, values in before.items()
    }


def test_a_saved_model_forgets_a_party_with_a_record(tmp_path):
    fitted = train(FedTrees(trees=SMALL, least_rows=1), BINARY)
    save_model(fitted, tmp_path / "model")
    record, _ = forget(tmp_path / "model", "party1")
    assert record.party == "party1" and record.people == len(BINARY.tables["party1"].cut("train"))
    left = load_model(tmp_path / "model").part.memory
    assert set(left["sent"]) == {"party2", "party3"}


def test_parties_of_one_class_count_for_shares_and_absent_ones_for_nothing():
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=8, beta=0.05, least=0), seed=2)
    kinds = [len(set(federation.tables[name].part("train")[1].tolist())) for name in federation.peers]
    assert 1 in kinds
    simulate(FedTrees(trees=SMALL, least_rows=1), federation)
    lost = simulate(FedTrees(trees=SMALL, least_rows=1), BINARY, runtime=InProcess(faults=Faults(absent=("party1",))))
    assert [absence.party for absence in lost.absences] == ["party1"]


@pytest.mark.parametrize(
    "change",
    [
        {"counts": None},
        {"counts": np.array([1])},
        {"counts": np.array([-1, 9])},
        {"counts": np.array([0, 0])},
        {"trees": None},
        {"trees": {"leaf": np.zeros((2, 8))}},
    ],
    ids=["no counts", "too few", "negative", "none", "no trees", "half a tree"],
)
def test_an_answer_that_is_no_trees_names_its_sender(change):
    hub = Party("server", BINARY.tables["server"], 0)
    answer = answers(BINARY, least_rows=1)["party1"] | change
    with pytest.raises(WireError, match="party1"):
        FedTrees(trees=SMALL)._read(hub, "party1", answer)


def test_deeper_or_more_trees_than_asked_for_are_refused():
    hub = Party("server", BINARY.tables["server"], 0)
    answer = answers(BINARY, least_rows=1)["party1"]
    for asked in (Boosted(trees=9, depth=3), Boosted(trees=10, depth=2)):
        with pytest.raises(WireError, match="party1 sent trees of other number or depth"):
            FedTrees(trees=asked)._read(hub, "party1", answer)

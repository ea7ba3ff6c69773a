"""What a card expects is what new people get, for every pattern of presence."""

import numpy as np
import pandas as pd
import pytest

from laconic import FedOnce, from_frames, train
from laconic.align import ExactMatch
from laconic.inference.absent import Measured
from laconic.inference.local_transport import parts_of, reach_parts
from laconic.inference.predict import load_model
from laconic.inference.save import _of_the_best, save_model
from laconic.learn import Best, Sgd
from laconic.tables import Task, metrics

METHODS = {
    "chosen": FedOnce(head=Best(seconds=2, kinds=("linear", "trees"))),
    "net": FedOnce(trainer=Sgd(epochs=30, batch=256, lr=3e-3, patience=5)),
}


def federation(rows=4000):
    """Labels of one column of each of three parties, with so much noise that nobody can be sure."""
    rng = np.random.default_rng(7)
    cells = rng.normal(size=(rows, 9))
    left = (cells[:, 0] + cells[:, 3] + cells[:, 6] + 1.5 * rng.normal(size=rows) > 0).astype(int)
    frames = {
        name: pd.DataFrame(cells[:, at : at + 3], columns=[f"{name}_{one}" for one in "abc"]).assign(id=range(rows))
        for name, at in (("bank", 0), ("shop", 3), ("insurer", 6))
    }
    frames["bank"]["left"] = left
    return from_frames(frames, id="id", label="left")


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_new_people_get_what_the_card_expects_within_two_standard_errors(method, tmp_path):
    run = train(method, federation(), align=ExactMatch(test=0.4, valid=0.4))
    card = save_model(run, tmp_path)
    model, tables = load_model(tmp_path), run.federation.tables
    fresh, y = {name: table.as_new("test") for name, table in tables.items()}, tables["bank"].part("test")[1]
    with reach_parts(model.part, parts_of(tmp_path), fresh) as carrier:
        asked = model.store_of(fresh["bank"], carrier, fresh["bank"].keys.tolist())
    ways = {one.word: one for one in model.ways} | {"all": Measured(), "best": Measured()}
    for one in card.expected:
        if one.value is None:
            continue
        seen = asked
        for name in set(asked.answers) - set(one.present):
            seen = seen.as_if_absent(name)
        found = metrics(
            model.task, y, model.predict_from(seen, list(seen.own.keys), absent=ways[one.answer]).predictions
        )
        # Hanley and McNeil's bound: the variance of an AUC is at most value * (1 - value) / the smaller class.
        error = np.sqrt(sum(one.value * (1 - one.value) / (0.5 * count) for count in (one.rows, len(y))))
        assert abs(found["auc"] - one.value) < 2 * error, (one.present, one.answer)
        assert one.rows > 900


@pytest.mark.slow
def test_what_the_best_of_several_ways_is_worth_is_not_what_it_got_by_luck():
    """Ten ways that guess: the best of them looks better than guessing on any rows, and its card must not."""
    task, rng, promised, lucky = (
        Task(kind="binary", label="left", classes=("no", "yes")),
        np.random.default_rng(1),
        [],
        [],
    )
    for _ in range(40):
        y, said = rng.integers(0, 2, 100), [rng.random(100) for _ in range(10)]
        promised.append(_of_the_best(task, y, said))
        lucky.append(max(metrics(task, y, one)["auc"] for one in said))
    assert np.mean(lucky) > 0.57
    assert abs(np.mean(promised) - 0.5) < 0.02


def test_the_best_way_is_worth_its_own_score_where_it_is_clearly_best():
    task, y = Task(kind="binary", label="left", classes=("no", "yes")), np.arange(60) % 2
    assert _of_the_best(task, y, [y * 0.8 + 0.1, np.full(60, 0.5)]) == 1.0
    assert _of_the_best(task, y[:10], [y[:10] * 0.8, y[:10] * 0.5]) is None

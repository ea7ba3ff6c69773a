"""What a card expects is what new people get, for every pattern of presence."""

import numpy as np
import pandas as pd
import pytest

from laconic import FedOnce, from_frames, train
from laconic.align import ExactMatch
from laconic.inference.absent import Measured
from laconic.inference.local_transport import parts_of, reach_parts
from laconic.inference.predict import load_model
from laconic.inference.save import save_model
from laconic.learn import Best, Sgd
from laconic.tables import metrics

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
    ways = {one.word: one for one in model.ways} | {"all": Measured()}
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

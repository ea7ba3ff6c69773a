from hashlib import blake2b

import numpy as np
import pandas
import pytest

from laconic.deploy.coordinator import host, predict
from laconic.deploy.sealed_answers import seal_new, seal_plan
from laconic.deploy.transports.envelopes.keys import OtherAlignment
from laconic.errors import DataError, PlanError, Waiting
from tests.deploy.conftest import World, frames
from tests.deploy.test_training import FEDONCE, ONESHOT, mail_until_done, seal_all

RAP = '[method]\ntype = "Rap"\n[method.learner]\ntype = "LinearModel"\n'


def trained(world, method):
    world.plan(method)
    if method != ONESHOT:
        seal_all(world)
        return host(world.context("bank"), world.inbox)
    seal_all(world)
    return mail_until_done(world)[0]


def scored(world, ids, inbox="november"):
    folder = world.home("bank") / inbox
    folder.mkdir()
    for name in world.parties[1:]:
        seal_new(world.trained_context(name), ids, folder / f"{name}.envelope")
    return predict(world.trained_context("bank"), folder, ids)


def held_out(world):
    """The ids of the rows that the run held out, in their order."""
    table = world.trained_context("bank").party.data
    return table.keys[table.cut("test")].tolist()


LINEAR = '[method]\ntype = "Linear"\n'


@pytest.mark.parametrize("method", [FEDONCE, RAP, ONESHOT, LINEAR], ids=["FedOnce", "Rap", "OneShot", "Linear"])
def test_predictions_by_mail_are_those_of_the_run(world, method):
    result = trained(world, method)
    found = scored(world, held_out(world))
    assert blake2b(np.ascontiguousarray(found.values).tobytes(), digest_size=16).hexdigest() == result.predictions


def test_people_who_came_after_training_are_scored(world, tmp_path):
    trained(world, FEDONCE)
    rng = np.random.default_rng(1)
    for name in world.parties:
        path = world.home(name) / "rows.csv"
        old = pandas.read_csv(path)
        new = old.head(3).assign(customer=["n1", "n2", "n3"])
        new[[column for column in old if column.startswith(name)]] = rng.normal(size=(3, 3))
        pandas.concat([old, new.drop(columns="churned", errors="ignore")]).to_csv(path, index=False)
    found = scored(world, ["n2", "n1"])
    found.save(tmp_path / "scores.csv")
    lines = (tmp_path / "scores.csv").read_text().splitlines()
    assert lines[0] == "id,prediction"
    assert [line.split(",")[0] for line in lines[1:]] == ["n2", "n1"]
    assert all(0 <= float(line.split(",")[1]) <= 1 for line in lines[1:])


def test_answers_about_other_ids_are_refused(world):
    trained(world, FEDONCE)
    folder = world.home("bank") / "november"
    folder.mkdir()
    ids = frames()["shop"]["customer"].tolist()
    for name in world.parties[1:]:
        seal_new(world.trained_context(name), ids[:3], folder / f"{name}.envelope")
    with pytest.raises(OtherAlignment):
        predict(world.trained_context("bank"), folder, ids[:4])


def test_ids_that_a_party_lacks_are_named(world):
    trained(world, FEDONCE)
    with pytest.raises(DataError, match=r"'shop' has no row for 1 of the 2 ids to predict, such as 'nobody'"):
        seal_new(world.trained_context("shop"), ["c0001", "nobody"], world.root / "x")


def test_without_a_model_there_is_nothing_to_predict_with(world):
    world.plan(FEDONCE)
    with pytest.raises(PlanError, match="train first"):
        seal_new(world.trained_context("shop"), ["c0001"], world.root / "x")


def test_a_party_whose_envelope_is_missing_is_waited_for(tmp_path):
    world = World(tmp_path, parties=("bank", "shop"))
    world.plan(FEDONCE)
    seal_plan(world.context("shop"), world.inbox / "shop.envelope")
    host(world.context("bank"), world.inbox)
    folder = world.home("bank") / "november"
    folder.mkdir()
    with pytest.raises(Waiting, match="shop"):
        predict(world.trained_context("bank"), folder, ["c0001"])
    assert [path.name for path in (folder / "questions").iterdir()]

"""A saved model has all labels of its hub: those outside the overlap teach every head that is fitted later."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from laconic import FedOnce, FewShot, OneShot, from_frames, train
from laconic.errors import DataError
from laconic.inference.absent import OWN, Gaps, Refit, SoloModel
from laconic.inference.local_transport import parts_of, reach_parts, read_rows
from laconic.inference.merge import forget
from laconic.inference.predict import Model, find, load_model
from laconic.inference.save import save_model
from laconic.inference.server.app import Answering
from laconic.learn import Best, Boosted, FixMatchTab, LinearModel, Mixture, NetModel, Sgd, TreeModel
from laconic.tables import metrics

ROWS, EVERYONE = 1500, 120
QUICK = Best(seconds=2, kinds=("linear", "trees"))


def frames(turned=False, seed=1):
    """A bank and a shop share all people; the insurer knows the first 120. Labels need columns of bank and shop."""
    rng = np.random.default_rng(seed)
    income, debts, visits, claims = rng.normal(size=(4, ROWS))
    left = (income * debts + visits + 0.3 * claims + 0.3 * rng.normal(size=ROWS) > 0).astype(int)
    if turned:
        left[EVERYONE:] = 1 - left[EVERYONE:]
    ids = np.arange(ROWS)
    bank = pd.DataFrame({"id": ids, "income": income, "debts": debts, "left": left})
    shop = pd.DataFrame({"id": ids, "visits": visits})
    insurer = pd.DataFrame({"id": ids[:EVERYONE], "claims": claims[:EVERYONE]})
    return {"bank": bank, "shop": shop, "insurer": insurer}


def saved(folder, head=QUICK, **how):
    save_model(train(FedOnce(head=head), from_frames(frames(**how), id="id", label="left")), folder)
    return load_model(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("own"))


def without_own(model):
    """The same model, of a hub that kept only the labels of the overlap."""
    own = model.store.own
    store = replace(model.store, own=own.with_cut(OWN, own.cut(OWN)[:0]))
    return Model(replace(model.part, store=store), model.method)


def auc(model, way, present):
    """On new people."""
    fresh, parts = frames(seed=2), parts_of(model.part.path.parent)
    tables = {name: read_rows(parts[name].about, fresh[name]) for name in ("bank", *present)}
    with reach_parts(model.part, parts, tables) as carrier:
        found = model.ask(tables["bank"], carrier, tables["bank"].keys.tolist(), absent=way).predictions
    return metrics(model.task, fresh["bank"]["left"].to_numpy(), found)["auc"]


def test_the_hub_keeps_its_labelled_rows_outside_the_overlap_and_what_was_sent_about_them(model):
    store = model.store
    assert len(store.ids_of(OWN)) == ROWS - EVERYONE
    assert set(store.ids_of(OWN)) <= set(store.answers["shop"].ids)
    assert not set(store.ids_of(OWN)) & set(store.answers["insurer"].ids)
    assert store.people == store.own.keys.tolist()
    alone = replace(store, answers={"insurer": store.answers["insurer"]})
    assert len(alone.people) == len(store.ids_of("train")) + len(store.ids_of("valid"))


@pytest.mark.parametrize("kind", [OneShot, FewShot])
def test_parties_that_learn_by_themselves_have_their_pairs_kept_too(tmp_path, kind):
    method = kind(local=FixMatchTab(steps=5), head=Boosted(trees=5))
    save_model(train(method, from_frames(frames(), id="id", label="left")), tmp_path)
    found = load_model(tmp_path)
    assert set(found.store.ids_of(OWN)) <= set(found.store.answers["shop"].ids)
    assert not set(found.store.ids_of(OWN)) & set(found.store.answers["insurer"].ids)
    # What was sent about pairs is what would be answered now, so that a refit learns from 1,380 rows more.
    shop, people = parts_of(tmp_path)["shop"], found.store.ids_of(OWN)[:20]
    tables = {name: read_rows(parts_of(tmp_path)[name].about, frames()[name]) for name in ("bank", "shop")}
    with reach_parts(found.part, {"shop": shop}, {"shop": tables["shop"]}) as carrier:
        again = found.ask(tables["bank"], carrier, people, absent=Refit(learner=TreeModel(trees=Boosted(trees=5))))
    kept = found.predict_stored(people, absent=Refit(learner=TreeModel(trees=Boosted(trees=5))))
    assert np.allclose(again.predictions, kept.predictions)
    assert set(kept.how) == {"refit"}


def test_nobody_is_asked_about_people_outside_the_overlap(tmp_path, monkeypatch):
    asked = []

    def listening(peers, ids, rows):
        asked.extend(ids)
        return find(peers, ids, rows)

    monkeypatch.setattr("laconic.inference.predict.find", listening)
    saved(tmp_path, head=Boosted(trees=2))
    assert asked
    assert all(int(one) < EVERYONE for one in asked)


@pytest.mark.parametrize(("way", "present"), [(SoloModel(), ()), (Refit(), ()), (Refit(), ("shop",))])
def test_absence_is_made_up_for_with_all_labels(model, way, present):
    assert auc(model, way, present) > auc(without_own(model), way, present)


@pytest.mark.parametrize("head", [NetModel(trainer=Sgd(epochs=20, lr=3e-3)), Boosted(trees=30)], ids=["net", "trees"])
def test_one_model_serves_whoever_is_there(tmp_path, head):
    found = saved(tmp_path, head=head)
    words = {one.answer for one in found.part.card.expected}
    assert "gaps" in words
    # The insurer knows few: a model that takes its absence as a gap does no worse than one fitted without it.
    assert auc(found, Gaps(), ("shop",)) > auc(found, found.refit, ("shop",)) - 0.02
    forget(tmp_path, "insurer", accept=True)
    left = load_model(tmp_path)
    assert "gaps" in {one.answer for one in left.part.card.expected}
    assert left.predict_stored(left.store.ids_of(OWN)[:5], absent=Gaps()).answered.all()


def test_a_model_that_learnt_from_shared_rows_alone_knows_no_gaps(tmp_path):
    made = frames()
    shared = {"bank": made["bank"][:EVERYONE], "shop": made["shop"], "insurer": made["insurer"]}
    save_model(train(FedOnce(head=QUICK), from_frames(shared, id="id", label="left")), tmp_path)
    found = load_model(tmp_path)
    assert "gaps" not in {one.answer for one in found.part.card.expected}
    store = found.store.as_if_absent("shop")
    with pytest.raises(DataError, match=r"knows no gaps; take another way"):
        found.predict_from(store, store.people, absent=Gaps())


def test_a_hub_that_chose_its_model_chooses_anew_for_itself_alone(model, tmp_path):
    assert isinstance(model.refit.learner, Mixture)
    assert model.way_for(SoloModel(), ()) == SoloModel(learner=QUICK)
    assert saved(tmp_path, head=LinearModel()).solo.learner == LinearModel()


def test_a_refit_after_a_party_left_has_the_other_labels_too(tmp_path):
    saved(tmp_path)
    forget(tmp_path, "insurer", accept=True)
    left = load_model(tmp_path)
    poor = without_own(left)
    poor.head_for(left.part.about.head, left.part.about.peers)
    assert auc(left, Refit(), ("shop",)) > auc(poor, Refit(), ("shop",))


def test_labels_that_contradict_are_left_out_of_refits_too(tmp_path):
    model = saved(tmp_path, turned=True)
    assert not model.refit.learner.others
    few = without_own(model)
    assert auc(model, model.refit, ("shop",)) == auc(few, few.refit, ("shop",))


def test_a_label_that_comes_later_counts(model):
    store, own = model.store, model.store.own
    place = int(own.cut(OWN)[0])
    row = own.with_cut("one", np.array([place])).as_new("one")
    later = store.with_rows(row, np.array([1 - store.y[place]]), "train")
    assert later.y[place] == 1 - store.y[place]
    assert place in later.own.cut("train")
    assert place not in later.own.cut(OWN)
    kept = own.with_cut("one", own.cut("valid")[:1]).as_new("one")
    same = store.with_rows(kept, np.array([1 - store.labels_of("valid")[0]]), "train")
    assert (same.y == store.y).all()


def test_served_are_people_whom_no_party_shares_too(model):
    own = model.store.own
    alone = replace(model.store, answers={name: one.take(()) for name, one in model.store.answers.items()})
    someone = own.keys[own.cut(OWN)][0]
    hub = Model(replace(model.part, store=alone), model.method)
    assert someone not in alone.people
    scores = Answering(hub).predict([someone, "nobody"], SoloModel())
    assert scores.answered.tolist() == [True, False]
    assert scores.how == ("solo", "unknown to the hub")

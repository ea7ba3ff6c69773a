import numpy as np
import pytest

from laconic import Federation, FedOnce, SplitNN, train
from laconic.errors import DataError
from laconic.inference.absent import Refit
from laconic.inference.bundle import load_part
from laconic.inference.local_transport import parts_of, reach_parts
from laconic.inference.merge import RECORD, forget
from laconic.inference.predict import load_model
from laconic.inference.save import save_model
from laconic.inference.update import add_party, add_rows, save_grown
from laconic.learn import Boosted, Mlp, NetModel, Sgd
from tests.inference.asking import QUICK, ask, part_folder, rows_of


def test_forgetting_deletes_refits_and_writes_it_down(saved, federation):
    folder, _ = saved
    before = load_part(part_folder(folder, "bank"))
    record, card = forget(folder, "shop")
    hub = part_folder(folder, "bank")
    assert not list(hub.glob("from-shop*"))
    after = load_part(hub)
    assert after.memory == {}
    assert set(after.store.answers) == {"insurer"}
    assert np.array_equal(after.store.answers["insurer"].block, before.store.answers["insurer"].block)
    assert not any("shop" in key for key in after.heads)
    assert record.people == len(before.store.answers["shop"].ids)
    assert "from-shop.safetensors" in record.before.keys() - record.after.keys()
    assert record.before["memory.json"] != record.after["memory.json"]
    assert record.party in (hub / RECORD).read_text()
    assert {one.party for one in card.asked} == {"insurer"}
    tables = rows_of(federation)
    scores = ask(folder, tables)
    assert set(scores.how) == {"all"}
    assert (scores.task.decide(scores.predictions) == federation.labels("test")).mean() > 0.85


def test_forgetting_twice_keeps_both_records(saved):
    folder, _ = saved
    forget(folder, "shop")
    forget(folder, "insurer")
    lines = (part_folder(folder, "bank") / RECORD).read_text().splitlines()
    assert [line[:20] for line in lines] == ['{"party": "shop", "a', '{"party": "insurer",']
    assert set(load_model(folder).predict_stored(["4"]).how) == {"all"}


@pytest.mark.parametrize(("party", "words"), [("bank", "holds the label"), ("nobody", "is no party of this model")])
def test_who_cannot_be_forgotten_is_told_why_and_nothing_changes(saved, party, words):
    folder, _ = saved
    before = load_part(part_folder(folder, "bank")).memory.keys()
    with pytest.raises(DataError, match=words):
        forget(folder, party)
    assert load_part(part_folder(folder, "bank")).memory.keys() == before


def test_new_rows_are_asked_for_once_and_only_they(saved, federation):
    folder, _ = saved
    tables = rows_of(federation)
    model = load_model(folder)
    with reach_parts(model.part, parts_of(folder), tables) as carrier:
        grown, sent = add_rows(model, tables["bank"], None, carrier)
        again, nothing = add_rows(grown, tables["bank"], None, carrier)
    count = tables["bank"].rows
    assert sent.people == {"shop": count, "insurer": count}
    assert all(sent.bytes[name] < sent.whole[name] for name in sent.bytes)
    assert nothing.bytes == {}
    assert again.store.own.rows == grown.store.own.rows == model.store.own.rows + count
    ids = tables["bank"].keys.tolist()
    assert np.allclose(grown.predict_stored(ids).predictions, ask(folder, tables).predictions, atol=1e-6)
    save_grown(grown)
    assert load_model(folder).store.own.rows == grown.store.own.rows


def test_new_labelled_rows_are_learnt_from(saved, federation):
    folder, _ = saved
    tables = rows_of(federation)
    model = load_model(folder)
    with reach_parts(model.part, parts_of(folder), tables) as carrier:
        grown, _ = add_rows(model, tables["bank"], federation.labels("test"), carrier)
    assert len(grown.store.ids_of("train")) == len(model.store.ids_of("train")) + tables["bank"].rows
    assert grown.part.about.head == model.refit == Refit(learner=NetModel(net=Mlp(hidden=(64,)), trainer=QUICK))
    found = grown.predict_stored(grown.store.ids_of("valid")).predictions
    assert (grown.task.decide(found) == grown.store.labels_of("valid")).mean() > 0.85


@pytest.mark.parametrize("head", [None, Boosted(trees=10, depth=3)])
def test_a_new_party_sends_only_its_own_and_nobody_else_is_asked(federation, tmp_path, head):
    two = {name: table for name, table in federation.tables.items() if name != "insurer"}
    small = Federation(name="two", tables=two, hub="bank", aligned=True)
    save_model(train(FedOnce(trainer=QUICK, head=head), small), tmp_path)
    model = load_model(tmp_path)
    table = federation.tables["insurer"]
    new = type(table)(table.raw, table.columns, ids=table.ids, party="insurer")
    grown, sent, joined = add_party(model, "insurer", new)
    save_grown(grown, joined)
    assert set(sent.bytes) == {"insurer"}
    assert grown.part.about.peers == ("shop", "insurer")
    scores = ask(tmp_path, rows_of(federation))
    assert set(scores.how) == {"all"}
    assert (scores.task.decide(scores.predictions) == federation.labels("test")).mean() > 0.85


def test_a_method_trained_together_lets_nobody_join(federation, tmp_path):
    save_model(train(SplitNN(trainer=Sgd(epochs=1)), federation), tmp_path, ways=())
    with pytest.raises(DataError, match="SplitNN trains all parties together"):
        add_party(load_model(tmp_path), "late", federation.tables["shop"])
    record, _ = forget(tmp_path, "shop")
    assert "trained together" in record.stays

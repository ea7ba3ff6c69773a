from dataclasses import replace

import msgspec
import numpy as np
import pandas
import pytest

from laconic import Equal, FedOnce, Rap, Solo, SplitNN, deal, load, train
from laconic.core import Party, WireLog
from laconic.deploy import Faults, InProcess
from laconic.errors import DataError
from laconic.inference.absent import WAYS, Abstain, Gaps, Refit, SoloModel, Zeros
from laconic.inference.bundle import load_part
from laconic.inference.local_transport import parts_of, reach_parts, read_rows
from laconic.inference.merge import forget
from laconic.inference.predict import load_model
from laconic.inference.save import save_model
from laconic.learn import LinearModel, NetModel, Sgd
from laconic.report import show_card
from laconic.tables import Column
from laconic.testing import open_peers, small_federation
from tests.inference.asking import QUICK, ask, part_folder, rows_of


def test_each_party_s_folder_holds_nothing_of_another(saved, trained):
    folder, _ = saved
    for name in ("shop", "insurer"):
        part = load_part(part_folder(folder, name))
        assert part.store is None
        assert part.about.task is None
        assert [column.name for column in part.about.columns] == [
            column.name for column in trained.federation.tables[name].columns
        ]
    files = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert files == {".json", ".safetensors"}


def test_the_card_says_who_must_be_there_what_crosses_and_how_many_bytes(saved):
    from rich.console import Console

    _, card = saved
    asked = {(one.party, one.step): one for one in card.asked}
    dim = asked["shop", "represent"].bytes_up / 4
    assert dim == int(dim) > 0
    assert not asked["shop", "represent"].needed
    assert asked["shop", "find_rows"].bytes_down >= 2
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(show_card(card))
    text = console.export_text()
    assert "bytes/row" in text
    assert "must be there" in text
    assert "there beside bank" in text


def test_bytes_a_row_on_the_card_are_what_crosses(saved, federation):
    folder, card = saved
    tables, log = rows_of(federation), WireLog()
    model = load_model(folder)
    with reach_parts(model.part, parts_of(folder), tables) as carrier:
        model.ask(tables["bank"], carrier, tables["bank"].keys.tolist(), log=log)
    rows = tables["bank"].rows
    for one in card.asked:
        crossed = [crossing for crossing in log.crossings if (crossing.party, crossing.step) == (one.party, one.step)]
        said = rows * (one.bytes_up + one.bytes_down) + one.bytes_fixed
        assert sum(each.up + each.down for each in crossed) == pytest.approx(said, rel=0.03, abs=80)


def test_a_method_that_needs_everybody_says_so(federation, tmp_path):
    card = save_model(train(SplitNN(trainer=Sgd(epochs=1)), federation), tmp_path, ways=())
    assert {one.needed for one in card.asked if one.step == "give_outputs"} == {True}
    assert card.bytes > 0


def test_expected_scores_are_those_of_validation_rows(saved, trained, federation):
    _, card = saved
    expected = {(one.present, one.answer): one.value for one in card.expected}
    # A model that learnt from shared rows alone knows no gaps; for each pattern also what the best way is worth.
    assert len(expected) == 1 + 3 * len(WAYS)
    assert expected[("shop", "insurer"), "all"] == pytest.approx(trained.score("valid")["auc"])
    assert expected[(), "abstain"] is None


@pytest.mark.parametrize("way", [one for one in WAYS if one != Gaps()], ids=lambda way: way.word)
def test_a_lost_party_is_made_up_for_as_chosen(saved, federation, way):
    folder, _ = saved
    tables = rows_of(federation)
    lost = InProcess(faults=Faults(absent=("shop",)))
    scores = ask(folder, tables, way, lost)
    assert set(scores.how) == {way.word}
    assert set(scores.present) == {("insurer",)}
    answered = np.isfinite(scores.predictions)
    assert answered.all() == (way != Abstain())
    if way != Abstain():
        right = scores.task.decide(scores.predictions) == federation.labels("test")
        assert right.mean() > 0.85


def test_zeros_are_what_the_method_itself_does_without_a_party(saved, trained, federation):
    folder, _ = saved
    lost = InProcess(faults=Faults(absent=("shop",)))
    scores = ask(folder, rows_of(federation), Zeros(), lost)
    hub = Party("bank", federation.tables["bank"], 0, dict(trained.hub.memory))
    with open_peers(trained.method, hub, trained.others, lost) as peers:
        itself = trained.method.predict(hub, peers, "test")
    assert np.array_equal(scores.predictions, itself)


def test_people_whom_a_party_does_not_know_are_made_up_for_one_by_one(saved, federation):
    folder, _ = saved
    tables = rows_of(federation)
    shop = federation.tables["shop"]
    half = shop.with_cut("some", shop.cut("test")[::2]).as_new("some")
    scores = ask(folder, tables | {"shop": half}, Refit())
    assert scores.how[::2] == ("all",) * len(scores.how[::2])
    assert set(scores.how[1::2]) == {"refit"}
    whole = ask(folder, tables)
    assert np.allclose(scores.predictions[::2], whole.predictions[::2], atol=1e-6)


def test_a_hub_without_columns_predicts_from_others_answers_and_cannot_alone(tmp_path):
    federation = deal(load("breast_cancer"), Equal(parties=2), hub=None, seed=3, test=0.3)
    card = save_model(train(FedOnce(trainer=QUICK), federation), tmp_path)
    assert () not in {one.present for one in card.expected}
    model = load_model(tmp_path)
    ids = model.store.ids_of("valid")
    assert set(model.predict_stored(ids).how) == {"all"}
    assert model.predict_stored(["nobody"]).how == ("unknown to the hub",)


def test_refitting_is_better_than_zeros_when_the_telling_party_is_gone(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    twin = y[:, None] + rng.normal(0, 0.5, (1200, 2))
    frames = {
        "bank": pandas.DataFrame({"id": range(1200), "a": rng.normal(size=1200), "b": twin[:, 0], "y": y}),
        "shop": pandas.DataFrame({"id": range(1200), "c": twin[:, 1] + 5, "d": rng.normal(size=1200)}),
    }
    from laconic import from_frames

    card = save_model(train(FedOnce(trainer=QUICK), from_frames(frames, id="id", label="y")), tmp_path)
    found = {one.answer: one.value for one in card.expected if one.present == ()}
    assert found["refit"] >= found["zeros"] - 0.01
    assert found["refit"] > 0.8


def test_the_same_use_twice_draws_other_chance(saved):
    folder, _ = saved
    part = load_part(part_folder(folder, "shop"))
    table = small_federation("binary").tables["shop"]
    first = part.party(table).seed
    part.note_use()
    assert part.party(table).seed != first == part.about.seed


def test_a_method_that_keeps_no_answers_says_what_cannot_be_done(federation, tmp_path):
    card = save_model(train(Rap(), federation), tmp_path)
    assert not card.kept
    with pytest.raises(DataError, match="parties must be asked each time"):
        load_model(tmp_path).predict_stored(["4"])
    with pytest.raises(DataError, match="nothing to refit from"):
        forget(tmp_path, "shop")


def test_a_peers_part_cannot_predict(saved):
    folder, _ = saved
    with pytest.raises(DataError, match="only answers questions; load that of bank"):
        load_model(part_folder(folder, "shop"))


def test_solo_asks_nobody(federation, tmp_path):
    card = save_model(train(Solo(trainer=Sgd(epochs=5)), federation), tmp_path)
    assert card.asked == ()
    assert set(load_model(tmp_path).predict_stored(["4"]).how) == {"all"}


def test_new_rows_with_a_missing_column_are_told_which(saved):
    folder, _ = saved
    about = load_part(part_folder(folder, "shop")).about
    frame = pandas.DataFrame({"id": ["1"], about.columns[0].name: [1.0]})
    with pytest.raises(DataError, match=f"party 'shop': .*{about.columns[1].name}"):
        read_rows(about, frame)


def test_dates_of_new_rows_are_days_as_in_training(saved):
    about = load_part(part_folder(saved[0], "shop")).about
    about = msgspec.structs.replace(
        about, columns=(Column("since", prepare="date", written="2013-01-31"),), recipe=None
    )
    frame = pandas.DataFrame({about.id: ["a", "b"], "since": ["1970-01-02", "1970-01-31"]})
    assert read_rows(about, frame).raw.ravel().tolist() == [1, 30]


def test_any_learner_can_be_the_head_and_the_solo_model(saved):
    folder, _ = saved
    model = load_model(folder)
    store = model.store.as_if_absent("shop")
    ids, y = store.ids_of("valid"), store.labels_of("valid")
    for way in (Refit(learner=LinearModel()), SoloModel(learner=NetModel(trainer=Sgd(epochs=10)))):
        found = model.predict_from(store, ids, absent=way).predictions
        assert (model.task.decide(found) == y).mean() > 0.8


@pytest.mark.parametrize("kind", ["multiclass", "regression"])
def test_every_kind_of_task_can_do_without_a_party(kind, tmp_path):
    card = save_model(train(FedOnce(trainer=QUICK), small_federation(kind)), tmp_path)
    values = [one.value for one in card.expected if one.answer in ("zeros", "refit", "solo")]
    assert len(values) == 9
    assert all(np.isfinite(values))


def test_a_part_with_another_method_than_this_package_s_needs_its_class(saved):
    folder, _ = saved
    part = load_part(part_folder(folder, "bank"))
    import msgspec

    from tests.broken.methods import Sound

    strange = replace(part, about=msgspec.structs.replace(part.about, method={"type": "Sound", "size": 3}))
    with pytest.raises(DataError, match="give method=Sound"):
        strange.method()
    assert strange.method(Sound) == Sound(size=3)

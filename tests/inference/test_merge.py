"""A saved Analytic model: parties join, add rows, take rows back and leave, each equal to a fit on what is left."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from laconic import Analytic, FedAvg, FedKt, load_model, price, rows_from_frames, train
from laconic.cli import main
from laconic.core import Party
from laconic.errors import DataError
from laconic.inference.bundle import load_part
from laconic.inference.merge import RECORD, erase, forget, forgotten, read_labelled, refuse_forgotten, rows_due
from laconic.inference.save import save_model
from laconic.learn import Columns, Logistic, Network, PublicRows, RandomFourier, Sgd, Whitened
from laconic.learn.models.least_squares import unpack
from laconic.methods import Majority, Prox
from laconic.privacy import L1, GaussianSums
from tests.data.hospitals import hospitals, open_rows

EXACT = Analytic(features=RandomFourier(width=30), precision="float64")
SENT = Analytic(features=RandomFourier(width=30))
NEW = open_rows(40).drop(columns="patient")


def federation(*names, rows=150):
    """Hospitals whose columns are prepared by public rows, so that a fit without one prepares them the same."""
    frames = {name: frame.drop(columns="patient") for name, frame in hospitals(rows).items()}
    whole = rows_from_frames(frames, label="diagnosis", public=NEW)
    kept = {name: table for name, table in whole.tables.items() if name in ("server", *names)}
    return replace(whole, tables=kept)


def save(folder, method, *names):
    save_model(train(method, federation(*names)), folder, id="")
    return folder


def scores(folder):
    return load_model(folder).predict(NEW).predictions


def written(path, name, rows=slice(None)):
    """A file with some of the training rows of a hospital."""
    table = federation("north", "south", "west").tables[name]
    at = table.cut("train")[rows]
    cells = {
        column.name: np.array(column.levels)[table.raw[at, place].astype(int)]
        if column.levels
        else table.raw[at, place]
        for place, column in enumerate(table.columns)
    }
    frame = pd.DataFrame({**cells, "diagnosis": np.array(table.task.classes)[table.y[at].astype(int)]})
    frame.to_csv(path, index=False)
    return path


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def done(*words):
    found = call(*words)
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.parametrize("method", [EXACT, SENT], ids=["float64", "float32"])
def test_a_forgotten_party_leaves_the_model_that_never_saw_it(method, tmp_path, tmp_path_factory):
    never = scores(save(tmp_path_factory.mktemp("never"), method, "north", "south"))
    save(tmp_path, method, "north", "south", "west")
    before = scores(tmp_path)
    words = done("forget", "west", tmp_path)
    assert "west is forgotten" in words
    assert "what is kept about its 120 people is deleted" in words
    assert np.abs(scores(tmp_path) - never).max() == 0.0
    assert np.abs(before - never).max() > 1e-3
    hub = load_part(tmp_path / "server")
    assert set(hub.memory["sums"]) == {"north", "south"}
    # Whoever has the model at hand has the new one, but for the party that left, which nobody contacts.
    assert (scores(tmp_path / "north") == scores(tmp_path)).all()
    assert (scores(tmp_path / "west") == before).all()


def test_the_record_of_a_deletion_names_what_changed_and_what_stays(tmp_path):
    save(tmp_path, EXACT, "north", "south")
    record, _ = forget(tmp_path, "south")
    assert record.before["memory.safetensors"] != record.after["memory.safetensors"]
    assert "prepared" in record.stays
    assert record.party in (tmp_path / "server" / RECORD).read_text()
    with pytest.raises(DataError, match="south was forgotten by this model"):
        refuse_forgotten(load_part(tmp_path / "server"), {"south": tmp_path / "south.csv"})
    with pytest.raises(DataError, match="'south' is no party of this model; it has north"):
        forget(tmp_path, "south")
    with pytest.raises(DataError, match="nothing is left to predict from"):
        forget(tmp_path, "north")


@pytest.mark.parametrize(("method", "close"), [(EXACT, 1e-6), (SENT, 1e-4)], ids=["float64", "float32"])
def test_a_party_that_joins_gives_the_model_of_all(method, close, tmp_path):
    everybody = scores(save(tmp_path / "all", method, "north", "south", "west"))
    save(tmp_path / "two", method, "north", "south")
    words = done("add", tmp_path / "two", "--party", f"west={written(tmp_path / 'w.csv', 'west')}")
    assert "west sent answers about 120 people" in words
    for part in ("server", "north", "west"):
        assert np.abs(scores(tmp_path / "two" / part) - everybody).max() < close
    assert [one.step for one in load_part(tmp_path / "two" / "west").ledger.entries] == ["give_sums"]


def test_a_party_that_left_joins_again_and_its_ledger_goes_on(tmp_path):
    everybody = scores(save(tmp_path / "m", EXACT, "north", "south"))
    forget(tmp_path / "m", "south")
    done("add", tmp_path / "m", "--party", f"south={written(tmp_path / 's.csv', 'south')}")
    assert np.abs(scores(tmp_path / "m") - everybody).max() < 1e-6
    given = [one for one in load_part(tmp_path / "m" / "south").ledger.entries if one.step == "give_sums"]
    assert sum(one.times for one in given) == 2
    found = call("add", tmp_path / "m", "--party", f"south={tmp_path / 's.csv'}")
    assert "south is in the model already" in found.output


def test_more_rows_of_a_party_are_added_to_what_it_sent(tmp_path):
    everybody = scores(save(tmp_path / "all", EXACT, "north", "south"))
    part = federation("north", "south")
    south = part.tables["south"]
    early = replace(part, tables={**part.tables, "south": south.with_cut("train", south.cut("train")[:60])})
    save_model(train(EXACT, early), tmp_path / "m", id="")
    done("add", tmp_path / "m", "--files", written(tmp_path / "south-may.csv", "south", slice(60, None)))
    assert np.abs(scores(tmp_path / "m") - everybody).max() < 1e-6
    few = call("add", tmp_path / "m", "--files", written(tmp_path / "south-june.csv", "south", slice(0, 5)))
    assert "fewer than least_rows = 50 rows" in few.output
    assert np.abs(scores(tmp_path / "m") - everybody).max() < 1e-6


@pytest.mark.parametrize(("method", "close"), [(EXACT, 1e-6), (SENT, 1e-4)], ids=["float64", "float32"])
def test_one_person_is_erased_as_if_never_there_and_the_server_sees_the_row(method, close, tmp_path):
    part = federation("north", "south")
    south = part.tables["south"]
    rest = replace(part, tables={**part.tables, "south": south.with_cut("train", south.cut("train")[1:])})
    save_model(train(method, rest), tmp_path / "rest", id="")
    save(tmp_path / "m", method, "north", "south")
    assert np.abs(scores(tmp_path / "m") - scores(tmp_path / "rest")).max() > 10 * close
    words = done("forget", "south", tmp_path / "m", "--rows", written(tmp_path / "one.csv", "south", slice(0, 1)))
    assert "1 rows of south are taken out" in words
    assert np.abs(scores(tmp_path / "m") - scores(tmp_path / "rest")).max() < close
    assert load_part(tmp_path / "m" / "server").memory["sums"]["south"]["rows"] == 119
    (entry,) = [one for one in load_part(tmp_path / "m" / "south").ledger.entries if one.step == "give_erased"]
    assert "the server learns that row as it is" in entry.words
    # The party is still in the model, and its files are still read.
    refuse_forgotten(load_part(tmp_path / "m" / "server"), {"south": tmp_path / "one.csv"})


def test_the_sums_of_one_erased_row_are_that_row():
    south = federation("south").tables["south"]
    one = Party("south", south.with_cut("erased", south.cut("train")[:1], dropping=("train",)), seed=0)
    sent = Analytic(features=Columns()).give_erased(one)
    found = unpack(sent["gram"])[:-1, -1]
    assert found == pytest.approx(south.x[south.cut("train")[0]], abs=1e-6)


NOISY = Analytic(features=RandomFourier(width=30), privacy=GaussianSums(sigma=3.0))


def test_with_noise_a_row_is_not_erased_and_a_second_joining_costs_again(tmp_path):
    pytest.importorskip("dp_accounting")
    save(tmp_path, NOISY, "north", "south")
    once = price({"south": load_part(tmp_path / "south").ledger}, 1e-5, "disjoint").epsilon
    found = call("forget", "south", tmp_path, "--rows", written(tmp_path / "one.csv", "south", slice(0, 1)))
    assert found.exit_code != 0
    assert "costs it one more noisy release" in found.output
    forget(tmp_path, "south")
    words = done("add", tmp_path, "--party", f"south={written(tmp_path / 's.csv', 'south', slice(1, None))}")
    twice = price({"south": load_part(tmp_path / "south").ledger}, 1e-5, "disjoint").epsilon
    assert twice > 1.3 * once
    assert f"a row that was in all of them costs epsilon {twice:.2f}" in words


def test_a_map_of_public_rows_comes_with_the_model_to_a_party_that_joins(tmp_path):
    method = Analytic(features=Whitened(of=RandomFourier(width=40), width=20, by=PublicRows()), precision="float64")
    everybody = scores(save(tmp_path / "all", method, "north", "south", "west"))
    save(tmp_path / "two", method, "north", "south")
    done("add", tmp_path / "two", "--party", f"west={written(tmp_path / 'w.csv', 'west')}")
    assert np.abs(scores(tmp_path / "two") - everybody).max() < 1e-6


def test_a_file_without_labels_and_a_method_that_cannot_are_refused(tmp_path):
    save(tmp_path / "m", EXACT, "north", "south")
    NEW.to_csv(tmp_path / "south-new.csv", index=False)
    assert "has no column 'diagnosis'" in call("add", tmp_path / "m", "--files", tmp_path / "south-new.csv").output
    unknown = call("forget", "east", tmp_path / "m", "--rows", tmp_path / "south-new.csv").output
    assert "there is no party 'east'" in unknown
    save(tmp_path / "a", FedAvg(trainer=Sgd(epochs=1)), "north", "south")
    rows = read_labelled(load_part(tmp_path / "a" / "south").about, written(tmp_path / "one.csv", "south"), [])
    assert erase(tmp_path / "a", "south", rows)[0].due
    with pytest.raises(DataError, match="keeps no answers"):
        forget(tmp_path / "a", "south")


KT = FedKt(model=Logistic(), partitions=2, teachers=3)
PUBLISHED = FedKt(model=Logistic(), partitions=2, teachers=3, count=Majority())


@pytest.mark.parametrize("method", [PUBLISHED, KT], ids=["majority", "by rows"])
def test_students_that_the_server_keeps_give_the_model_that_never_saw_a_party(method, tmp_path, tmp_path_factory):
    never = scores(save(tmp_path_factory.mktemp("never"), method, "north", "south"))
    save(tmp_path, method, "north", "south", "west")
    before = scores(tmp_path)
    record, _ = forget(tmp_path, "west")
    assert (scores(tmp_path) == never).all()
    assert (before != never).any()
    assert set(load_part(tmp_path / "server").memory["sent"]) == {"north", "south"}
    assert (scores(tmp_path / "north") == never).all()
    assert record.party == "west" and not record.erased
    words = done("add", tmp_path, "--party", f"west={written(tmp_path / 'w.csv', 'west')}")
    assert "west sent answers about 120 people" in words
    assert (scores(tmp_path / "west") == scores(tmp_path)).all()
    given = [one.step for one in load_part(tmp_path / "west").ledger.entries if one.phase == "final"]
    assert "give_students" in given


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (FedKt(model=Network(trainer=Sgd(epochs=1)), more=Prox(exchanges=1)), "went on with FedProx"),
        (FedKt(model=Logistic(), level=L1(secure=False)), "at L1 votes bear noise that was paid for once"),
        (FedAvg(trainer=Sgd(epochs=1)), "keeps no answers, so there is nothing to refit from; train it again without"),
    ],
    ids=["more", "L1", "FedAvg"],
)
def test_where_a_party_cannot_leave_the_reason_is_said_and_nothing_changes(method, words, tmp_path):
    save(tmp_path, method, "north", "south", "west")
    before = scores(tmp_path)
    with pytest.raises(DataError, match=words):
        forget(tmp_path, "west")
    assert (scores(tmp_path) == before).all()


@pytest.mark.parametrize("method", [KT, FedAvg(trainer=Sgd(epochs=1))], ids=["FedKt", "FedAvg"])
def test_a_person_whose_rows_cannot_be_taken_out_is_on_record_until_the_next_training(method, tmp_path):
    save(tmp_path, method, "north", "south")
    before = scores(tmp_path)
    words = done("forget", "north", tmp_path, "--rows", written(tmp_path / "gone.csv", "north", slice(3)))
    assert "3 rows of north are on record to be erased" in words
    assert "train again" in words
    assert (scores(tmp_path) == before).all()
    hub = load_part(tmp_path / "server")
    assert rows_due(hub) == {"north": 3}
    assert not forgotten(hub)
    NEW.to_csv(tmp_path / "new.csv", index=False)
    said = call("predict", tmp_path, "--files", tmp_path / "new.csv")
    assert "3 rows of north are to be erased from this model; train it again without them" in said.output

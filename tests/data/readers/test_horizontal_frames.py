"""Federations of parties with other rows, from frames and files: what must agree, and what is held out."""

import numpy as np
import pandas as pd
import pytest

from laconic import FedAvg, FedKt, PooledRows, simulate
from laconic.data.datasets import Dataset
from laconic.data.partition.rows import Parts, deal_rows
from laconic.data.readers.federate import rows_from_files
from laconic.data.readers.horizontal_frames import rows_from_frames
from laconic.errors import DataError
from laconic.tables import Task, fit_recipe
from tests.data.hospitals import hospitals, open_rows, write


def made(frames=None, **settings):
    return rows_from_frames(frames or hospitals(), **({"label": "diagnosis", "id": "patient"} | settings))


def test_parties_have_training_rows_and_the_server_all_held_out_ones():
    found = made(id=None, kinds={"patient": "categorical"})
    assert found.names == ("server", "north", "south", "west")
    assert found.hub == "server"
    assert (found.kind, found.aligned) == ("horizontal", False)
    assert [len(found.tables[name].cut("train")) for name in ("north", "south", "west")] == [80, 80, 80]
    assert len(found.tables["server"].cut("test")) == 60
    assert found.facts["rows"] == {"train": 240, "test": 60}


def test_every_row_is_learnt_from_or_held_out_once():
    found = made(valid=0.25)
    server = found.tables["server"]
    names = [key for name in ("north", "south", "west") for key in found.tables[name].keys.tolist()]
    names += server.keys.tolist()
    assert sorted(names) == sorted(f"{name}:{row}" for name in ("north", "south", "west") for row in range(1, 101))
    assert set(server.cuts) == {"test", "valid"}


def test_rows_keep_their_labels_at_the_server():
    found, frames = made(), hospitals()
    server = found.tables["server"]
    for name, code in zip(server.keys.tolist(), server.y.tolist(), strict=True):
        party, row = name.split(":")
        assert frames[party]["diagnosis"].iloc[int(row) - 1] == found.task.classes[code]


def test_columns_are_matched_by_name_in_whatever_order():
    frames = hospitals()
    frames["south"] = frames["south"][frames["south"].columns[::-1]]
    changed, plain = simulate(PooledRows(), made(frames)), simulate(PooledRows(), made())
    assert changed.predictions == plain.predictions


def test_an_id_is_not_learnt_from_and_its_rows_are_held_out_together():
    frames = hospitals()
    for name in frames:
        frames[name]["patient"] = np.arange(100) % 30
    found = made(frames)
    sides = {"train": set(), "test": set()}
    for name in ("north", "south", "west"):
        sides["train"] |= {int(key.split(":")[1]) for key in found.tables[name].keys.tolist()}
    sides["test"] = {int(key.split(":")[1]) for key in found.tables["server"].keys.tolist()}
    people = {side: {(row - 1) % 30 for row in rows} for side, rows in sides.items()}
    assert "patient" not in [column.name for column in found.tables["north"].columns]
    assert not people["train"] & people["test"]
    assert found.facts["at_several"] == 30


def test_a_party_of_one_class_and_a_class_of_one_party_are_fine():
    frames = hospitals()
    frames["north"]["diagnosis"] = "benign"
    frames["west"].iloc[:20, frames["west"].columns.get_loc("diagnosis")] = "unclear"
    found = made(frames)
    assert found.task == Task(kind="multiclass", classes=("benign", "malignant", "unclear"), label="diagnosis")
    assert simulate(FedAvg(), found).task == found.task


def test_a_level_of_one_party_is_a_level_everywhere():
    frames = hospitals()
    frames["west"]["ward"] = "D"
    result = simulate(FedAvg(), made(frames))
    assert result.data["alignment"]["columns"] == 7


def test_an_empty_column_takes_the_kind_that_it_has_elsewhere():
    frames = hospitals()
    frames["south"]["ward"] = None
    assert made(frames).facts["kinds"]["ward"] == "categorical"


def test_dates_are_days_everywhere():
    frames = hospitals()
    for frame in frames.values():
        frame["seen"] = "2013-01-31"
        frame.iloc[:50, frame.columns.get_loc("seen")] = "2013-02-01"
    assert made(frames).facts["kinds"]["seen"] == "date"


def changed(party, change):
    frames = hospitals()
    frames[party] = change(frames[party])
    return frames


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (changed("south", lambda one: one.drop(columns="size3")), r"'south' has no column 'size3', which 'north' has"),
        (changed("west", lambda one: one.assign(extra=1)), r"'north' has no column 'extra', which 'west' has"),
        (changed("west", lambda one: one.assign(size1="big")), r"'size1' holds numbers at 'north' and text at 'west'"),
        (changed("west", lambda one: one.assign(diagnosis=one.size1)), r"quantity at 'west' and like classes"),
        (changed("south", lambda one: one.drop(columns="diagnosis")), r"'south' has no label column 'diagnosis'"),
        (changed("south", lambda one: one.drop(columns="patient")), r"'south' has no id column 'patient'"),
        (changed("south", lambda one: one.assign(patient=None)), r"'south', id 'patient': no row has an id"),
        (changed("south", lambda one: one.iloc[:0]), r"'south' has no rows"),
        ({"server": hospitals()["north"]}, r"cannot be called 'server'"),
        ({"north": hospitals()["north"].assign(diagnosis="benign")}, r"found only 'benign' at all parties"),
    ],
)
def test_frames_that_do_not_fit_together_are_refused_in_words(frames, words):
    with pytest.raises(DataError, match=words):
        made(frames)


def test_a_stray_word_is_named_by_its_row_in_the_file():
    frames = hospitals()
    frames["south"]["size2"] = frames["south"]["size2"].astype(object)
    frames["south"].iloc[41, frames["south"].columns.get_loc("size2")] = "?"
    found = made(frames, kinds={"size2": "numeric"})
    assert found.facts["notes"] == [
        "south, column 'size2': 1 of 100 cells are no numbers, such as '?' in row 42, and count as missing"
    ]
    frames["south"].iloc[41, frames["south"].columns.get_loc("size2")] = "big"
    with pytest.raises(DataError, match=r"'south', column 'size2': found 'big' in row 42"):
        made(frames, kinds={"size2": "numeric"})


def test_words_that_differ_in_case_are_the_same_at_all_parties():
    frames = changed("west", lambda one: one.assign(ward=one.ward.str.lower(), diagnosis=one.diagnosis.str.upper()))
    found = made(frames)
    assert found.task.classes == ("benign", "malignant")
    assert found.tables["server"].columns[-1].levels == made().tables["server"].columns[-1].levels
    assert (found.tables["server"].raw == made().tables["server"].raw).all()
    assert "label 'diagnosis': 'BENIGN' at west is taken as 'benign', as north writes it" in found.facts["notes"]


def test_of_too_many_levels_some_are_used_and_names_of_people_are_not_told():
    frames = {name: pd.concat([frame] * 3, ignore_index=True) for name, frame in hospitals().items()}
    for name, frame in frames.items():
        frame["doctor"] = [f"{name}{at % 30}" for at in range(300)]
    found = made(frames)
    assert len(found.tables["server"].columns[-1].levels) == 64
    assert any("levels at all parties together, of which 64 are used" in note for note in found.facts["notes"])
    for name, frame in frames.items():
        frame["doctor"] = [f"{name}{at}" for at in range(300)]
    found = made(frames)
    assert "doctor" not in [column.name for column in found.tables["server"].columns]
    assert found.facts["notes"] == ["column 'doctor': left out, as nearly every row has another text, like an id"]


def test_a_task_that_the_labels_do_not_fit_is_refused():
    with pytest.raises(DataError, match="the task is multiclass but all parties together have 2 classes"):
        made(task=Task(kind="multiclass"))


def test_public_rows_prepare_columns_for_all_and_are_the_same_everywhere():
    found = made(public=open_rows())
    tables = list(found.tables.values())
    assert all(table.recipe == tables[0].recipe for table in tables)
    assert all((table.raw[table.cut("public")] == tables[0].raw[tables[0].cut("public")]).all() for table in tables)
    raw = tables[0].raw[tables[0].cut("public")]
    assert tables[0].recipe == fit_recipe(raw, tables[0].columns, np.arange(len(raw)))


def test_public_rows_need_the_parties_columns_and_their_labels_are_not_looked_at():
    with pytest.raises(DataError, match="the public rows have no column 'size0'"):
        made(public=open_rows().drop(columns="size0"))
    with_labels = made(public=open_rows().assign(diagnosis="who knows"))
    assert with_labels.task.classes == ("benign", "malignant")


@pytest.mark.parametrize("method", [FedAvg(), FedKt(teachers=2)])
def test_own_rows_give_what_a_data_set_dealt_in_the_same_way_gives(method):
    own = made(public=open_rows(), task=Task(kind="binary", classes=("malignant", "benign")))
    server, peers = own.tables["server"], [own.tables[name] for name in own.peers]
    pieces = [(server, "public"), (server, "test"), *((table, "train") for table in peers)]
    raw = np.concatenate([table.raw[table.cut(cut)] for table, cut in pieces])
    y = np.concatenate([table.y[table.cut(cut)] for table, cut in pieces])
    ends = np.cumsum([len(table.cut(cut)) for table, cut in pieces])
    opened, tested, *shares = np.split(np.arange(len(y)), ends[:-1])
    start = ends[1]

    class AsOwn:
        def part(self, dataset, rng):
            return Parts(np.arange(start, len(y)), opened, tested, tested[:0])

        def shares(self, y, rng):
            return [share - start for share in shares]

    dataset = Dataset(name="pooled", raw=raw, columns=server.columns, y=np.maximum(y, 0), task=own.task)
    dealt = deal_rows(dataset, AsOwn(), reserve=AsOwn())
    # Chance comes from parties' names, so these must be the same too.
    tables = dict(zip(own.names, dealt.tables.values(), strict=True))
    renamed = type(dealt)(name="dealt", tables=tables, hub="server", aligned=True, kind="horizontal")
    one, other = simulate(method, own, seed=3), simulate(method, renamed, seed=3)
    assert one.predictions == other.predictions
    assert (one.score, one.fit.bytes_up, one.fit.bytes_down) == (other.score, other.fit.bytes_up, other.fit.bytes_down)


def test_files_are_read_as_frames_are(tmp_path):
    paths = write(tmp_path, hospitals())
    open_rows().to_parquet(tmp_path / "open.parquet")
    found = rows_from_files(paths, label="diagnosis", id="patient", public=tmp_path / "open.parquet")
    plain = made(public=open_rows())
    assert found.facts["files"] == {name: f"{name}.csv" for name in ("north", "south", "west")}
    assert simulate(FedAvg(), found).predictions == simulate(FedAvg(), plain).predictions


def test_an_error_names_the_files(tmp_path):
    paths = write(tmp_path, changed("south", lambda one: one.drop(columns="size3")))
    with pytest.raises(DataError, match=r"no column 'size3'.*south is .*south\.csv"):
        rows_from_files(paths, label="diagnosis", id="patient")


def test_missing_cells_of_a_file_without_ids_are_missing(tmp_path):
    frames = {name: frame.drop(columns="patient") for name, frame in hospitals().items()}
    frames["north"].iloc[:30, 0] = np.nan
    found = rows_from_files(write(tmp_path, frames), label="diagnosis")
    assert np.isnan(found.tables["north"].raw[:, 0]).any()
    assert pd.isna(frames["north"].iloc[0, 0])


@pytest.mark.parametrize("id_name", [None, "id"])
def test_a_class_of_two_rows_is_learnt_from_and_scored_on_whatever_the_seed(id_name):
    rows = pd.DataFrame(
        {"id": range(60), "x": np.arange(60.0), "y": ["ill" if row in (7, 41) else "well" for row in range(60)]}
    )
    frames = {"north": rows[:30], "south": rows[30:]}
    for seed in range(8):
        tables = rows_from_frames(frames, label="y", id=id_name, seed=seed).tables
        assert set(tables["server"].y.tolist()) == {0, 1}
        learnt = {tables[party].task.classes[code] for party in frames for code in tables[party].y}
        assert learnt == {"ill", "well"}

"""Party files of parties with other people: each reads its own rows, and all scoring is done at home."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from benchmarks.crashes import same
from laconic import DataPlan, FedAvg, FedKt, Pfnm, Plan, SoloRows, execute
from laconic.align import SameColumns
from laconic.deploy import Processes
from laconic.errors import DataError, PlanError
from laconic.learn import Network, Sgd
from tests.data.hospitals import NAMES, hospitals, open_rows

QUICK = Sgd(epochs=2, batch=32)
AVERAGE = FedAvg(trainer=QUICK)
STUDENTS = FedKt(model=Network(trainer=QUICK), partitions=1, teachers=2)


def write_party(folder: Path, name: str, frame, more: str = "", key: str | None = "patient") -> str:
    """A hospital's rows and its own file beside them, in a folder of its own."""
    (folder / name).mkdir(exist_ok=True)
    frame.to_csv(folder / name / "rows.csv", index=False)
    keyed = "" if key is None else f'key = "{key}"\n'
    text = f'name = "{name}"\nseed = "plan"\n[data]\nsource = "rows.csv"\nlabel = "diagnosis"\n{keyed}{more}'
    (folder / name / "party.toml").write_text(text)
    return str(folder / name / "party.toml")


def write_all(folder: Path, frames=None, **settings) -> dict[str, str]:
    frames = frames or hospitals()
    return {name: write_party(folder, name, frame, **settings) for name, frame in frames.items()}


def with_public(folder: Path, rows=None) -> str:
    (open_rows() if rows is None else rows).drop(columns="patient").to_csv(folder / "open.csv", index=False)
    return str(folder / "open.csv")


def run(method, files, **settings):
    return execute(Plan(method=method, data=DataPlan(files=files, **settings)))


def test_every_party_scores_the_model_that_comes_home(tmp_path):
    result = run(AVERAGE, write_all(tmp_path))
    assert set(result.by_party) == set(NAMES)
    counts = result.data["scored"]
    mean = np.average([result.by_party[name]["auc"] for name in NAMES], weights=[counts[name] for name in NAMES])
    assert result.metrics["auc"] == pytest.approx(mean)
    assert 30 < sum(counts.values()) < 90
    assert {one.step for one in result.wire if one.phase == "final"} == {"take_model"}
    assert result.final.bytes_down > 3 * 1000
    assert result.data["alignment"]["classes"] == ["benign", "malignant"]


@pytest.mark.slow
@pytest.mark.parametrize("method", [AVERAGE, STUDENTS], ids=["FedAvg", "FedKt"])
def test_processes_of_their_own_give_the_same(tmp_path, method):
    public = with_public(tmp_path) if "public" in method.uses else None
    plan = Plan(method=method, data=DataPlan(files=write_all(tmp_path), public=public))
    assert same(execute(plan), execute(Plan(method=method, data=plan.data, runtime=Processes())))


def test_every_party_has_its_own_kind_of_source(tmp_path):
    frames, files = hospitals(), write_all(tmp_path)
    frames["south"].to_parquet(tmp_path / "south" / "rows.parquet")
    (tmp_path / "south" / "party.toml").write_text(
        'name = "south"\nseed = "plan"\n[data]\nsource = "rows.parquet"\nlabel = "diagnosis"\nkey = "patient"\n'
    )
    with sqlite3.connect(tmp_path / "west" / "rows.db") as database:
        frames["west"].to_sql("patients", database, index=False)
    (tmp_path / "west" / "party.toml").write_text(
        'name = "west"\nseed = "plan"\n[data]\nsource = "sqlite:///rows.db"\ntable = "patients"\n'
        'label = "diagnosis"\nkey = "patient"\n'
    )
    mixed = run(AVERAGE, files)
    write_all(tmp_path)
    assert mixed.predictions == run(AVERAGE, files).predictions


def test_rows_of_one_person_are_held_out_together_at_all_parties(tmp_path):
    frames = hospitals()
    frames["south"]["patient"] = frames["north"]["patient"].to_numpy()
    frames["north"] = frames["north"].iloc[np.repeat(np.arange(100), 2)]
    result = run(AVERAGE, write_all(tmp_path, frames))
    counts = result.data["scored"]
    assert counts["north"] == 2 * counts["south"]


def test_columns_may_be_known_to_all_from_a_schema(tmp_path):
    files = write_all(tmp_path)
    text = 'label = "diagnosis"\nclasses = ["benign", "malignant"]\n'
    frame = hospitals()["north"]
    for at in range(6):
        column = frame[f"size{at}"]
        text += f"[columns.size{at}]\nmean = {column.mean():.3f}\nspread = {column.std():.3f}\n"
    text += '[columns.ward]\nkind = "categorical"\nlevels = ["A", "B"]\n'
    for name in NAMES:
        (tmp_path / name / "schema.toml").write_text(text)
    result = run(AVERAGE, files, schema="schema.toml")
    assert {one.step for one in result.wire if one.phase == "align"} == {"keep_columns", "show_fingerprint"}
    (tmp_path / "west" / "schema.toml").write_text(text.replace('"A", "B"', '"A", "C"'))
    with pytest.raises(DataError, match="west does not have the columns, classes or public rows that server has"):
        run(AVERAGE, files, schema="schema.toml")
    (tmp_path / "west" / "schema.toml").write_text(text.replace("spread", "breadth"))
    with pytest.raises(DataError, match=r"west/schema\.toml cannot be used: .*breadth"):
        run(AVERAGE, files, schema="schema.toml")


def test_public_rows_must_be_the_same_at_all(tmp_path):
    files = write_all(tmp_path)
    for name in NAMES:
        with_public(tmp_path / name)
    assert run(STUDENTS, files, public="open.csv").data["alignment"]["columns"] == 7
    with_public(tmp_path / "south", open_rows(79))
    with pytest.raises(DataError, match=r"south does not have .* public rows .* give all the same public rows"):
        run(STUDENTS, files, public="open.csv")


def test_a_column_that_a_party_lacks_is_refused_counted_as_missing_or_dropped(tmp_path):
    frames = hospitals()
    frames["west"] = frames["west"].drop(columns="size3")
    files = write_all(tmp_path, frames)
    with pytest.raises(DataError, match="party 'west' has no column 'size3', which 'north' has"):
        run(AVERAGE, files)
    assert run(AVERAGE, files, agree=SameColumns(lacking="missing")).data["alignment"]["columns"] == 7
    assert run(AVERAGE, files, agree=SameColumns(lacking="drop")).data["alignment"]["columns"] == 6


def test_a_column_in_another_unit_is_refused_and_names_party_and_column(tmp_path):
    frames = hospitals()
    frames["west"]["size3"] *= 1000
    files = write_all(tmp_path, frames)
    with pytest.raises(DataError, match=r"column 'size3' is about .* at 'west' and .* as if in another unit"):
        run(AVERAGE, files)
    assert run(AVERAGE, files, agree=SameColumns(units="any")).score.value > 0
    with pytest.raises(DataError, match=r"party 'west', column 'size3': half of its rows are .* as if in another unit"):
        run(STUDENTS, files, public=with_public(tmp_path))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda frame: frame.iloc[:0], r"party 'west' has no rows.*west/rows\.csv"),
        (lambda frame: frame.assign(size2="much"), "column 'size2' holds numbers at 'north' and text at 'west'"),
        (lambda frame: frame.drop(columns="diagnosis"), "party 'west' has no label 'diagnosis'"),
        (lambda frame: frame.drop(columns="patient"), "party 'west' has no key 'patient'"),
        (lambda frame: frame.assign(diagnosis=np.linspace(0, 1, len(frame))), "looks like a quantity at 'west'"),
    ],
    ids=["empty", "text", "label", "key", "quantity"],
)
def test_a_party_that_does_not_fit_is_named(tmp_path, spoil, words):
    frames = hospitals()
    frames["west"] = spoil(frames["west"])
    with pytest.raises(DataError, match=words):
        run(AVERAGE, write_all(tmp_path, frames))


def test_a_party_of_one_class_and_one_with_other_classes_take_part(tmp_path):
    frames = hospitals()
    frames["north"] = frames["north"][frames["north"]["diagnosis"] == "benign"]
    frames["west"] = frames["west"].assign(diagnosis=frames["west"]["diagnosis"].replace("malignant", "unclear"))
    result = run(Pfnm(trainer=QUICK), write_all(tmp_path, frames))
    assert result.data["alignment"]["classes"] == ["benign", "malignant", "unclear"]


def test_what_party_files_cannot_say_is_refused(tmp_path):
    files = write_all(tmp_path)
    with pytest.raises(PlanError, match="SoloRows keeps a model at each party"):
        run(SoloRows(), files)
    with pytest.raises(ValueError, match=r"data\.schema is for party files, and says all"):
        Plan(method=AVERAGE, data=DataPlan(files=files, schema="s.toml", public="p.csv"))
    write_party(tmp_path, "north", hospitals()["north"], 'prepare = { size0 = "bins" }\n')
    with pytest.raises(DataError, match=r"data\.prepare is for parties with other columns"):
        run(AVERAGE, files)

"""The final model of a horizontal method comes home: every party's own folder predicts by itself."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from laconic import Analytic, FedAvg, FedKt, Scaffold, SoloRows, load_model, rows_from_frames, train
from laconic.cli import main
from laconic.errors import DataError
from laconic.inference.absent import Refit
from laconic.inference.bundle import load_part, save_part
from laconic.inference.save import save_model
from laconic.inference.server.app import Answering, make_app
from laconic.inference.server.guard import Access, Limits, read_tokens
from laconic.learn import Mlp, Network, Sgd
from laconic.privacy import L1
from tests.data.hospitals import NAMES, hospitals, open_rows
from tests.deploy.test_sites_apart import furnish, host, plan_of

QUICK = Sgd(epochs=2, batch=32)
TOKEN = "a token that is long enough"  # noqa: S105
NEW = open_rows(40).drop(columns="patient")


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def without_ids(rows=100):
    return {name: frame.drop(columns="patient") for name, frame in hospitals(rows).items()}


def fitted(method, **settings):
    return train(method, rows_from_frames(without_ids(), label="diagnosis", **settings))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wards")
    trained = fitted(FedAvg(trainer=QUICK))
    return folder, trained, save_model(trained, folder, id="")


@pytest.mark.parametrize(
    "method",
    [FedAvg(trainer=QUICK), Analytic(), FedKt(model=Network(trainer=QUICK), partitions=1, teachers=2)],
    ids=lambda one: type(one).__name__,
)
def test_every_party_predicts_to_the_bit_what_the_server_predicts(method, tmp_path):
    public = NEW if "public" in method.uses else None
    save_model(fitted(method, public=public), tmp_path, id="")
    server = load_model(tmp_path / "server").predict(NEW)
    for name in NAMES:
        own = load_model(tmp_path / name).predict(NEW)
        assert own.predictions.tobytes() == server.predictions.tobytes()
        assert own.decisions == server.decisions


def test_the_folder_around_the_parties_is_still_the_servers_model(saved):
    folder, _, _ = saved
    assert load_model(folder).part.about.party == "server"
    assert load_model(folder / "north").part.about.made_by == "server"


def test_the_bytes_down_are_counted_and_stand_in_the_servers_ledger(saved):
    _, trained, card = saved
    (sent,) = [one for one in trained.to_date().releases if one.step == "take_model" and one.party == "server"]
    weights = sum(values.nbytes for values in trained.hub.memory["model"].values())
    assert "final model" in sent.words
    assert sent.times == len(NAMES)
    assert card.bytes >= sent.bytes > len(NAMES) * weights


def test_only_what_predicts_comes_home_and_nothing_of_another_party(tmp_path):
    save_model(fitted(Analytic()), tmp_path, id="")
    assert set(load_part(tmp_path / "server").memory) >= {"map", "sums", "model"}
    assert set(load_part(tmp_path / "north").memory) == {"map", "model"}
    save_model(fitted(Scaffold(trainer=Sgd(epochs=1, optimizer="sgd", weight_decay=0.0))), tmp_path / "s", id="")
    assert set(load_part(tmp_path / "s" / "north").memory) == {"model"}


def test_only_parties_that_are_named_get_the_model(tmp_path):
    save_model(fitted(FedAvg(trainer=QUICK)), tmp_path, id="", deliver=("north",))
    assert len(load_model(tmp_path / "north").predict(NEW).ids) == len(NEW)
    with pytest.raises(DataError, match="part of south, which only answers questions"):
        load_model(tmp_path / "south")


def test_models_of_parties_alone_stay_where_they_are(tmp_path):
    save_model(fitted(SoloRows(model=Network(trainer=QUICK))), tmp_path, id="")
    with pytest.raises(DataError, match="only answers questions"):
        load_model(tmp_path / "north")
    with pytest.raises(DataError, match="SoloRows predicts with several parties"):
        load_model(tmp_path).predict(NEW)


def test_a_model_under_noise_is_no_open_release_when_it_comes_home(tmp_path):
    method = FedKt(model=Network(trainer=QUICK), partitions=1, teachers=2, level=L1())
    trained = fitted(method, public=NEW)
    save_model(trained, tmp_path, id="")
    (sent,) = [one for one in trained.to_date().releases if one.step == "take_model" and one.party == "server"]
    made = [one.noise for one in trained.to_date().releases if one.step == "final model"]
    assert sent.noise in made
    assert sent.noise.once


def test_a_party_predicts_a_file_on_the_command_line(saved, tmp_path):
    folder, _, _ = saved
    NEW.to_csv(tmp_path / "next.csv", index=False)
    outcomes = [call("predict", folder / name, "--files", tmp_path / "next.csv") for name in ("north", "server")]
    assert outcomes[0].exit_code == 0, outcomes[0].output
    assert outcomes[0].stdout == outcomes[1].stdout


def test_rows_are_served_by_their_cells(saved):
    folder, _, _ = saved
    model = load_model(folder / "south")
    answer = client(model).post("/predict", json={"rows": cells(NEW)}).json()
    found = [one["probabilities"]["malignant"] for one in answer["scores"]]
    assert np.float32(found).tobytes() == model.predict(NEW).predictions.astype(np.float32).tobytes()
    assert [one["id"] for one in answer["scores"]] == [str(at + 1) for at in range(len(NEW))]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "give ids, or rows, one of the two"),
        ({"ids": ["1"], "rows": [{"size0": 1}]}, "give ids, or rows, one of the two"),
        ({"rows": []}, "length >= 1"),
        ({"rows": [{"size0": 1}]}, "row 1 has no cell 'size1'; give null"),
        ({"rows": [{"size0": [1]}]}, "Expected `bool | int | float | str | null`"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(saved, asked, said):
    answer = client(load_model(saved[0] / "south")).post("/predict", json=asked)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_words_among_numbers_are_refused_and_too_many_rows_too(saved):
    served = client(load_model(saved[0] / "south"), Limits(ids=3))
    row = cells(NEW)[0]
    assert "'size0': 'tall' is no number" in served.post("/predict", json={"rows": [row | {"size0": "tall"}]}).text
    assert "4 rows at once are over the limit of 3" in served.post("/predict", json={"rows": [row] * 4}).text


def test_a_level_that_training_never_saw_counts_as_unseen(saved):
    row = NEW.head(1)
    known, strange = (load_model(saved[0] / "south").predict(row.assign(ward=ward)) for ward in ("A", "Z"))
    assert known.predictions != strange.predictions
    assert np.isfinite(strange.predictions).all()


def test_a_schema_that_changed_since_training_is_refused(saved):
    with pytest.raises(DataError, match="trained on the column 'size3', which is not among"):
        load_model(saved[0] / "west").predict(NEW.drop(columns="size3"))


def test_an_altered_model_is_refused(tmp_path):
    save_model(fitted(FedAvg(trainer=QUICK)), tmp_path, id="")
    file = tmp_path / "north" / "memory.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    with pytest.raises(DataError, match="is not as it was saved"):
        load_model(tmp_path / "north")


def flipped(about):
    return msgspec.structs.replace(about, task=msgspec.structs.replace(about.task, classes=about.task.classes[::-1]))


def scaled(about):
    parts = tuple(
        msgspec.structs.replace(one, scale=9.0) if hasattr(one, "scale") else one for one in about.recipe.parts
    )
    return msgspec.structs.replace(about, recipe=msgspec.structs.replace(about.recipe, parts=parts))


def renamed(about):
    first, second, *rest = about.columns
    names = msgspec.structs.replace(first, name=second.name), msgspec.structs.replace(second, name=first.name)
    return msgspec.structs.replace(about, columns=(*names, *rest))


def linear(about):
    return msgspec.structs.replace(about, method=about.method | {"net": msgspec.to_builtins(Mlp(hidden=(7,)))})


@pytest.mark.parametrize("change", [flipped, scaled, renamed, linear])
def test_what_a_model_s_numbers_mean_is_signed_with_them(tmp_path, change):
    # Whoever alters a folder can write its digests anew; weights alone would still be as the server signed them.
    sites = furnish(tmp_path)
    host(sites, plan_of(FedAvg(trainer=QUICK)))
    call("home", sites["north"].folder, "-o", tmp_path / "model")
    part = load_part(tmp_path / "model" / "north")
    assert change(part.about) != part.about
    folder = save_part(tmp_path / "altered", replace(part, about=change(part.about), path=None))
    load_model(folder)
    assert "forged" in call("verify", folder, "--keys", sites["north"].keys).stdout


def client(model, limits=None):
    app = make_app(
        Answering(model), absent=Refit(), access=Access(tokens=read_tokens(TOKEN)), limits=limits or Limits()
    )
    return TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})


def cells(frame: pd.DataFrame):
    return json.loads(frame.to_json(orient="records", double_precision=15))

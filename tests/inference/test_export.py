"""A model as ONNX: what a runtime without this package says is what our own code says."""

import stat

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from laconic import (
    Equal,
    FedAvg,
    FedOnce,
    FedTrees,
    Solo,
    SplitNN,
    deal,
    deal_rows,
    federation,
    load,
    load_model,
    save_model,
    train,
)
from laconic.cli import main
from laconic.data import Iid
from laconic.errors import DataError
from laconic.inference import export_model, parts_of
from laconic.inference.export import run_graph
from laconic.learn import (
    Autoencoder,
    Best,
    BestEncoder,
    Boosted,
    Forest,
    Joint,
    LinearModel,
    Mlp,
    Nat,
    NetModel,
    Pca,
    Sgd,
)
from laconic.privacy import ClippedGaussian

onnx = pytest.importorskip("onnx", reason="needs pip install 'laconic-fl[onnx]'")
pytest.importorskip("onnxruntime", reason="needs pip install 'laconic-fl[onnx]'")

QUICK = Sgd(epochs=2)


def wine():
    """Three classes, two parties."""
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame.reset_index(names="bottle").astype({"target": str})
    halves = {"lab": frame[["bottle", "target", *frame.columns[1:7]]], "shop": frame[["bottle", *frame.columns[7:14]]]}
    return federation(halves, id="bottle", label="target")


def chained(folder, out, trained, gap=None):
    """Predictions of the test rows by the files alone, and by the method."""
    files = export_model(folder, out)
    graphs = {name: onnx.load(str(path)) for name, path in files.items()}
    parties = {one.name: one for one in (trained.hub, *trained.others)}
    rows = {name: party.data.part("test")[0].astype(np.float32) for name, party in parties.items() if party.data.rows}
    hub = trained.hub.name
    sent = {name: run_graph(graph, {name: rows[name]}) for name, graph in graphs.items() if name != hub}
    wanted = [one.name for one in graphs[hub].graph.input]
    given = {name: rows[name] if name == hub else sent[name] for name in wanted}
    if gap is not None:
        given[gap] = np.full_like(given[gap], np.nan)
    return run_graph(graphs[hub], given)


def ours(method, trained):
    from laconic.core import Peers, WireLog
    from laconic.deploy import open_calls

    with open_calls(tuple(trained.others)) as carrier:
        return method.predict(trained.hub, Peers(method, trained.hub, carrier, WireLog(), carrier.names), "test")


@pytest.mark.parametrize(
    "method",
    [
        FedOnce(head=Best(seconds=4)),
        FedOnce(encoder=Nat(dim=4, epochs=1), head=Boosted(trees=20)),
        FedOnce(encoder=Autoencoder(dim=3, trainer=QUICK), head=LinearModel()),
        FedOnce(encoder=BestEncoder(dim=9, beside="autoencoder"), head=LinearModel()),
        FedOnce(encoder=Pca(dim=3), trainer=QUICK, precision="float16"),
        FedOnce(head=NetModel(net=Mlp(hidden=(8,)), trainer=QUICK)),
        FedOnce(head=Joint(own=Mlp(hidden=(4,)), width=4), more=Sgd(epochs=1)),
        SplitNN(trainer=Sgd(epochs=1)),
        Solo(model=Forest(trees=10)),
    ],
    ids=["chosen", "trees", "linear", "beside", "float16", "net", "joint", "split", "forest"],
)  # fmt: skip
@pytest.mark.parametrize("data", ["breast_cancer", "diabetes", "wine"])
def test_every_party_s_file_together_say_what_the_method_says(method, data, tmp_path):
    trained = train(method, wine() if data == "wine" else deal(load(data), Equal(parties=3)), seed=0)
    save_model(trained, tmp_path / "model")
    said, wanted = chained(tmp_path / "model", tmp_path / "onnx", trained), ours(method, trained)
    assert said.shape == wanted.shape
    # A number between two of float16 may be rounded to either; everything else agrees closely.
    rounded = getattr(method, "precision", "float32") == "float16"
    assert np.max(np.abs(said - wanted) / np.maximum(np.abs(wanted), 1)) < (1e-3 if rounded else 1e-5)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in (tmp_path / "onnx").iterdir())


@pytest.mark.parametrize("method", [FedAvg(trainer=QUICK), FedTrees(trees=Boosted(trees=5))], ids=["net", "trees"])
def test_a_model_that_came_home_is_one_file_at_every_party(method, tmp_path):
    trained = train(method, deal_rows(load("breast_cancer"), Iid(parties=2)), seed=0)
    save_model(trained, tmp_path / "model", id="")
    files = export_model(tmp_path / "model", tmp_path / "onnx")
    x = trained.hub.data.part("test")[0].astype(np.float32)
    for name, file in files.items():
        assert np.max(np.abs(run_graph(onnx.load(str(file)), {name: x}) - ours(method, trained))) < 1e-5


def test_a_member_that_looks_at_own_columns_alone_does_so_in_the_file_too(tmp_path):
    rng = np.random.default_rng(0)
    ids, income, noise = np.arange(300), rng.normal(size=300), rng.normal(size=(300, 20))
    bank = pd.DataFrame({"id": ids, "income": income, "debts": rng.normal(size=300), "left": (income > 0).astype(int)})
    shop = pd.DataFrame({"id": ids} | {f"visits{place}": noise[:, place] for place in range(20)})
    method = FedOnce(head=Best(seconds=4, kinds=("linear", "net")))
    trained = train(method, federation({"bank": bank, "shop": shop}, id="id", label="left"), seed=0)
    assert any(one.columns == 2 for one in method.head_as_fitted(trained.hub).members)
    save_model(trained, tmp_path / "model")
    said = chained(tmp_path / "model", tmp_path / "onnx", trained)
    assert np.max(np.abs(said - ours(method, trained))) < 1e-5


def test_rows_that_a_party_did_not_send_are_gaps_in_the_file_too(tmp_path):
    method = FedOnce(head=Boosted(trees=10))
    trained = train(method, deal(load("breast_cancer"), Equal(parties=3)), seed=0)
    save_model(trained, tmp_path / "model")
    gone = trained.others[0].name
    said = chained(tmp_path / "model", tmp_path / "onnx", trained, gap=gone)
    trained.hub.memory["guests"] = dict(trained.hub.memory["guests"])
    rows = {one.name: method.represent(one, "test") for one in trained.others[1:]}
    assert np.max(np.abs(said - method._predictions(trained.hub, rows, trained.hub.data.part("test")[0]))) < 1e-5


def test_the_command_writes_a_file_per_party_and_says_how_rows_are_prepared(tmp_path):
    trained = train(FedOnce(head=LinearModel()), deal(load("breast_cancer"), Equal(parties=2)), seed=0)
    save_model(trained, tmp_path / "model")
    done = CliRunner().invoke(main, ["export", str(tmp_path / "model"), "-o", str(tmp_path / "onnx")])
    assert done.exit_code == 0, done.output
    for name, part in parts_of(tmp_path / "model").items():
        said = {one.key: one.value for one in onnx.load(str(tmp_path / "onnx" / f"{name}.onnx")).metadata_props}
        assert said["party"] == name
        assert part.about.recipe.names[0] in said["columns"]
    assert load_model(tmp_path / "model").task.label == said["label"] or said["label"] == ""


def test_what_cannot_be_written_is_refused_with_a_reason(tmp_path):
    noisy = FedOnce(head=LinearModel(), encoder=Pca(dim=2), noise=ClippedGaussian(clip=1.0, sigma=1.0))
    save_model(train(noisy, deal(load("breast_cancer"), Equal(parties=2)), seed=0), tmp_path / "noisy")
    with pytest.raises(DataError, match="noise"):
        export_model(tmp_path / "noisy", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
    with pytest.raises(DataError, match="no part of nobody"):
        export_model(tmp_path / "noisy", tmp_path / "onnx", party="nobody")

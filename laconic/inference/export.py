"""Writing a saved model as ONNX: a file per party, for programs that do not have this package.

Rows go in prepared: each file says, in its metadata, which prepared columns it takes and how they are made of raw ones.
Every graph is run before it is written, and must say what our own code says.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from torch import nn

from laconic.atomic_files import make_private_folder, write_whole
from laconic.core.capabilities import Exportable, Exported
from laconic.core.party import Party
from laconic.errors import DataError, MissingExtra
from laconic.inference.bundle import Part
from laconic.inference.bundle_files import folder_name
from laconic.inference.local_transport import parts_of
from laconic.inference.onnx_graph import Graph, predict_in
from laconic.learn.models.gaps import without_gaps
from laconic.learn.models.supervised import Learner
from laconic.learn.nets.nets import Join, to_array, to_tensor
from laconic.learn.train.losses import to_predictions
from laconic.learn.train.sgd import evaluate
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    import onnx

PREDICTED, SENT = "prediction", "sent"
"""What comes out at the hub, and at another party."""

TOLERANCE = 1e-5
_ROWS = 64


def export_model(folder: Path | str, out: Path | str, *, party: str | None = None) -> dict[str, Path]:
    """Write what each party of a saved model computes as ONNX, and return the files by party.

    A party's graph takes its prepared columns and puts out what it would send. The hub's takes its own prepared columns
    and what every other party sent, an input each, and puts out the prediction: a probability, or one for each class,
    or a number. NaN stands for what a party did not send, where the model takes gaps.

    Args:
        folder: a model's folder, or one party's.
        out: the folder for the files, made if it is not there.
        party: write this party's alone; None for all that are in `folder`.

    Raises:
        DataError: the method, a layer, or a change after training cannot be written as ONNX.
    """
    parts = parts_of(Path(folder))
    if party is not None and party not in parts:
        raise DataError(f"{folder} has no part of {party}; it has {', '.join(parts)}")
    wanted = parts if party is None else {party: parts[party]}
    graphs = {name: draw_part(part) for name, part in wanted.items() if computes(part)}
    make_private_folder(Path(out))
    files = {name: Path(out) / f"{folder_name(name)}.onnx" for name in graphs}
    for name, graph in graphs.items():
        write_whole(files[name], graph.SerializeToString(), private=True)
    return files


def computes(part: Part) -> bool:
    """Whether a party has anything to do at a prediction."""
    return part.about.party == part.about.hub or bool(part.about.steps)


def draw_part(part: Part) -> "onnx.ModelProto":
    """The graph of what one party computes, tried on drawn rows."""
    method = part.method()
    if not isinstance(method, Exportable):
        raise DataError(
            f"what {type(method).__name__} computes cannot be written as ONNX; `laconic methods` names those that can"
        )
    if part.about.head is not None:
        raise DataError(
            f"the model of {part.about.party} was changed after training, and its new head cannot be written as ONNX; "
            "export it before parties or rows come and go"
        )
    own = _without_rows(part)
    is_hub = part.about.party == part.about.hub
    found = method.what_computes(Party(part.about.party, own, part.about.seed, dict(part.memory)), part.about.peers)
    task = part.about.task if is_hub else None
    if is_hub and task is None:
        raise DataError(f"the part of {part.about.party} does not say what it predicts; save the model again")
    drawn = _draw(found, task, _said(part))
    _compare(drawn, found, task, part.about.party)
    return drawn


def _draw(found: Exported, task: Task | None, about: dict[str, str]) -> "onnx.ModelProto":
    graph = Graph()
    inputs = [graph.input(name, shape) for name, shape in found.inputs.items()]
    if isinstance(found.form, Learner) and task is not None:
        rows = graph.beside([graph.node("Flatten", one, axis=1) for one in inputs])
        return graph.finish(PREDICTED, predict_in(graph, found.form, task, found.weights, rows), _wide(task), about)
    net = _as_net(found)
    own, received = _grouped(net, inputs)
    outputs = graph.joined(net, [*own, graph.without_gaps(found.weights, graph.beside(received))])
    if task is None:
        return graph.finish(SENT, graph.rounded(outputs, found.rounded), ("numbers",), about)
    said = graph.cast(graph.as_prediction(task, outputs, found.weights), np.float32)
    return graph.finish(PREDICTED, said, _wide(task), about)


def _compare(drawn: "onnx.ModelProto", found: Exported, task: Task | None, party: str) -> None:
    """Refuse a graph that does not say, of drawn rows, what our own code says."""
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.normal(size=(_ROWS, *shape)).astype(np.float32).round(2) for name, shape in found.inputs.items()
    }
    said, ours = run_graph(drawn, inputs), _ours(found, task, list(inputs.values()))
    apart = float(np.max(np.abs(said - ours) / np.maximum(np.abs(ours), 1), initial=0))
    # A number that lies between two of float16 may be rounded to either.
    most = TOLERANCE if found.rounded == "float32" else 1e-3
    if said.shape != ours.shape or not apart <= most:
        raise DataError(
            f"the graph of {party} says other numbers than the model, by up to {apart:.2g}; please report this"
        )


def _ours(found: Exported, task: Task | None, inputs: list[Array]) -> Array:
    if isinstance(found.form, Learner) and task is not None:
        rows = np.concatenate([x.reshape(len(x), -1) for x in inputs], axis=1)
        return found.form.predict(task, found.weights, rows)
    net = _as_net(found)
    own, received = _grouped(net, inputs)
    beside = np.concatenate(received, axis=1) if len(received) > 1 else received[0]
    outputs = evaluate(net, [to_tensor(x) for x in (*own, without_gaps(found.weights, beside))])
    if task is None:
        return to_array(outputs).astype(found.rounded).astype(np.float32)
    return to_predictions(task, outputs, found.weights)


def run_graph(model: "onnx.ModelProto", inputs: Mapping[str, Array]) -> Array:
    """What ONNX's own runtime makes of rows, on one thread."""
    try:
        import onnxruntime
    except ImportError as problem:
        raise MissingExtra("onnxruntime", "onnx") from problem
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, dict(inputs))
    return np.asarray(found)


def _as_net(found: Exported) -> nn.Module:
    if not isinstance(found.form, nn.Module):
        raise DataError(f"a {type(found.form).__name__} is neither a net nor a learner, and cannot be written as ONNX")
    return found.form.eval()


def _grouped(net: nn.Module, inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The hub's own columns, if they go through a net of their own, and all that stands side by side."""
    apart = isinstance(net, Join) and net.own is not None
    return (inputs[:1], inputs[1:]) if apart else ([], inputs)


def _without_rows(part: Part) -> Table:
    """The party's table as it was, without its rows: what says how wide a prepared row is."""
    about = part.about
    if not about.columns:
        return Table.without_rows(about.party)
    if about.recipe is None or about.recipe.shades is not None:
        raise DataError(f"{about.party} has images, whose part of a model cannot be written as ONNX yet")
    blank = np.zeros((2, len(about.columns)))
    return Table(blank, about.columns, task=about.task, party=about.party, recipe=about.recipe)


def _wide(task: Task) -> tuple[int, ...]:
    return (task.outputs,) if task.kind == "multiclass" else ()


def _said(part: Part) -> dict[str, str]:
    """What a file says of itself: whose it is, what goes in, and how raw columns become that."""
    recipe = part.about.recipe
    return {
        "party": part.about.party,
        "method": str(part.about.method["type"]),
        "label": part.about.task.label if part.about.task else "",
        "classes": msgspec.json.encode(part.about.task.classes if part.about.task else ()).decode(),
        "columns": msgspec.json.encode(recipe.names if recipe else ()).decode(),
        "recipe": msgspec.json.encode(recipe).decode(),
    }

"""Writing a saved model as ONNX: a file per party, for programs that do not have this package.

Rows go in prepared: each file says, in its metadata, which prepared columns it takes and how they are made of raw ones.
Every graph is run before it is written, and must say what our own code says.
"""

from collections.abc import Callable, Mapping
from functools import singledispatchmethod
from itertools import count
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
from laconic.learn.encoders.encoder import KNOTS, Beside, Branched, LearntBeside, Scores
from laconic.learn.models.best import Best, Mixture, chosen_in
from laconic.learn.models.candidates import FARTHEST, LinearCandidate, NetCandidate, TreesCandidate
from laconic.learn.models.learners import LinearModel, Logistic, NetModel, Network, TreeModel
from laconic.learn.models.supervised import CONSTANT, FILL, GAPS, Learner, apart, without_gaps
from laconic.learn.nets.layers import Conv, Dropout, Linear
from laconic.learn.nets.nets import Join, Mlp, load, to_array, to_tensor
from laconic.learn.train.losses import MEAN, SD, scale_in, to_predictions
from laconic.learn.train.sgd import evaluate
from laconic.learn.trees.dense_trees import MISSING, Boosted, Forest
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Array, Weights

if TYPE_CHECKING:
    import onnx

_OPSET, _ML_OPSET = 18, 3


def require_onnx() -> Any:
    """The library; a `MissingExtra` names what to install."""
    try:
        import onnx
    except ImportError as problem:
        raise MissingExtra("onnx", "onnx") from problem
    return onnx


class Graph:
    """A graph in the making. A value in it is known by its name."""

    def __init__(self) -> None:
        self._onnx = require_onnx()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._names = (f"v{number}" for number in count())

    def input(self, name: str, shape: tuple[int, ...]) -> str:
        """Rows of float32 numbers that are given from outside."""
        kind = self._onnx.TensorProto.FLOAT
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, ["rows", *shape]))
        return name

    def constant(self, values: Any, kind: Any = np.float32) -> str:
        """Numbers that never change."""
        name = next(self._names)
        array = np.ascontiguousarray(np.asarray(values, dtype=kind))
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **settings: Any) -> str:
        """One operation; the name of what it puts out."""
        name = next(self._names)
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], domain=domain, **settings))
        return name

    def cast(self, value: str, kind: Any) -> str:
        """The same numbers in another format."""
        wanted = {np.float32: "FLOAT", np.float64: "DOUBLE", np.int64: "INT64"}[kind]
        return self.node("Cast", value, to=getattr(self._onnx.TensorProto, wanted))

    def rounded(self, value: str, kind: str) -> str:
        """The same numbers as exactly as they are sent."""
        if kind == "float32":
            return value
        return self.cast(self.node("Cast", value, to=self._onnx.TensorProto.FLOAT16), np.float32)

    def finish(self, name: str, value: str, shape: tuple[int | str, ...], about: dict[str, str]) -> "onnx.ModelProto":
        """The model whose output is this value, with what it says about itself."""
        helper = self._onnx.helper
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        output = helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, ["rows", *shape])
        graph = helper.make_graph(self._nodes, "laconic", self._inputs, [output], self._constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, producer_name="laconic", ir_version=9)
        helper.set_model_props(model, about)
        self._onnx.checker.check_model(model)
        return model

    @singledispatchmethod
    def net(self, module: nn.Module, x: str) -> str:
        """What a module with its weights makes of rows."""
        raise DataError(
            f"a layer of type {type(module).__name__} cannot be written as ONNX; use Mlp or Cnn in the method"
        )

    @net.register
    def _(self, module: nn.Sequential, x: str) -> str:
        for layer in module:
            x = self.net(layer, x)
        return x

    @net.register
    def _(self, module: nn.Flatten, x: str) -> str:
        return self.node("Flatten", x, axis=1)

    @net.register
    def _(self, module: Linear, x: str) -> str:
        return self.affine(x, module.weight.detach().numpy(), module.bias.detach().numpy())

    @net.register
    def _(self, module: nn.ReLU, x: str) -> str:
        return self.node("Relu", x)

    @net.register
    def _(self, module: nn.Tanh, x: str) -> str:
        return self.node("Tanh", x)

    @net.register
    def _(self, module: Dropout, x: str) -> str:
        return x

    @net.register
    def _(self, module: Conv, x: str) -> str:
        weights = [self.constant(values.detach().numpy()) for values in (module.weight, module.bias)]
        return self.node("Conv", x, *weights, pads=[module.padding] * 4, strides=[module.stride] * 2)

    @net.register
    def _(self, module: nn.MaxPool2d, x: str) -> str:
        sides = module.kernel_size if isinstance(module.kernel_size, tuple) else (module.kernel_size,) * 2
        return self.node("MaxPool", x, kernel_shape=list(sides), strides=list(sides))

    @net.register
    def _(self, module: Branched, x: str) -> str:
        return self.node("Add", self.net(module.direct, x), self.net(module.branch, x))

    @net.register
    def _(self, module: Beside, x: str) -> str:
        rows = self.node("Flatten", x, axis=1)
        return self.node("Concat", self.net(module.scores, rows), self.net(module.sums, rows), axis=1)

    @net.register
    def _(self, module: LearntBeside, x: str) -> str:
        rows = self.node("Flatten", x, axis=1)
        return self.node("Concat", self.net(module.scores, rows), self.net(module.learnt, rows), axis=1)

    @net.register
    def _(self, module: Scores, x: str) -> str:
        """Between which knots a cell lies, and where on the line between them."""
        columns = self.constant(module.columns.numpy(), np.int64)
        knots = module.knots.numpy()
        cells = self.node("Gather", x, columns, axis=1)
        cells = self.node("Min", self.node("Max", cells, self.constant(knots[:, 0])), self.constant(knots[:, -1]))
        wide = self.node("Unsqueeze", cells, self.constant([2], np.int64))
        reached = self.cast(self.node("GreaterOrEqual", wide, self.constant(knots[None])), np.int64)
        at = self.node("ReduceSum", reached, self.constant([2], np.int64), keepdims=0)
        one = self.constant(1, np.int64)
        at = self.node(
            "Clip", self.node("Sub", at, one), self.constant(0, np.int64), self.constant(KNOTS - 2, np.int64)
        )
        # All knots in one row, so that a place is the number of its column times KNOTS and the knot within it.
        place = self.node("Add", at, self.constant(np.arange(len(knots))[None] * KNOTS, np.int64))
        after = self.node("Add", place, one)

        def take(table: Array, where: str) -> str:
            return self.node("Gather", self.constant(table.reshape(-1)), where, axis=0)

        heights = module.heights.detach().numpy()
        low, start = take(knots, place), take(heights, place)
        gap = self.node("Max", self.node("Sub", take(knots, after), low), self.constant(1e-30))
        share = self.node("Div", self.node("Sub", cells, low), gap)
        return self.node("Add", start, self.node("Mul", self.node("Sub", take(heights, after), start), share))

    def joined(self, module: nn.Module, inputs: list[str]) -> str:
        """What a net makes of several inputs: own columns through a net of their own, then all side by side."""
        *own, received = inputs
        if not isinstance(module, Join):
            return self.net(module, self.beside(inputs))
        if module.own is not None:
            received = self.beside([self.net(module.own, own[0]), received])
        return self.net(module.head, received)

    def beside(self, inputs: list[str]) -> str:
        """Several inputs side by side."""
        return inputs[0] if len(inputs) == 1 else self.node("Concat", *inputs, axis=1)

    def affine(self, x: str, weight: Array, bias: Array, kind: Any = np.float32) -> str:
        """Rows times a matrix, and a bias."""
        product = self.node("MatMul", x, self.constant(np.asarray(weight).T, kind))
        return self.node("Add", product, self.constant(bias, kind))

    def as_prediction(self, task: Task, outputs: str, scale: Weights) -> str:
        """A net's outputs as probabilities, or as numbers in the label's own unit."""
        if task.kind == "multiclass":
            return self.node("Softmax", outputs, axis=1)
        first = self.node("Squeeze", outputs, self.constant([1], np.int64))
        if task.kind == "binary":
            return self.node("Sigmoid", first)
        if task.by_log:
            means = self.node("Exp", self.cast(first, np.float64))
            return self.node("Mul", means, self.constant(scale[MEAN].item(), np.float64))
        wide = self.node("Mul", self.cast(first, np.float64), self.constant(scale[SD].item(), np.float64))
        return self.node("Add", wide, self.constant(scale[MEAN].item(), np.float64))

    def sums_of_trees(self, weights: Weights, x: str) -> str:
        """What all trees say of each row, added up by output."""
        trees, leaves = weights["leaf"].shape
        inner, nodes = leaves - 1, 2 * leaves - 1
        place = np.tile(np.arange(nodes), (trees, 1))
        is_leaf = place >= inner
        tree = np.repeat(np.arange(trees), nodes)

        def padded(values: Array) -> Array:
            return np.concatenate([values, np.zeros((trees, leaves), values.dtype)], axis=1).ravel()

        lacking = weights.get(MISSING, np.zeros((trees, inner), np.uint8))
        return self.node(
            "TreeEnsembleRegressor",
            x,
            domain="ai.onnx.ml",
            n_targets=len(weights["base"]),
            base_values=weights["base"].astype(float).tolist(),
            nodes_treeids=tree.tolist(),
            nodes_nodeids=place.ravel().tolist(),
            nodes_featureids=padded(weights["column"].astype(np.int64)).tolist(),
            nodes_values=padded(weights["threshold"]).tolist(),
            nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LT").ravel().tolist(),
            nodes_truenodeids=np.where(is_leaf, 0, 2 * place + 1).ravel().tolist(),
            nodes_falsenodeids=np.where(is_leaf, 0, 2 * place + 2).ravel().tolist(),
            nodes_missing_value_tracks_true=padded(1 - lacking.astype(np.int64)).tolist(),
            target_treeids=np.repeat(np.arange(trees), leaves).tolist(),
            target_nodeids=np.tile(np.arange(inner, nodes), trees).tolist(),
            target_ids=np.repeat(weights["output"].astype(np.int64), leaves).tolist(),
            target_weights=weights["leaf"].ravel().astype(float).tolist(),
        )

    def first_columns(self, x: str, count: int) -> str:
        """The first columns alone."""
        return self.node("Gather", x, self.constant(np.arange(count), np.int64), axis=1)

    def without_gaps(self, weights: Weights, x: str) -> str:
        """Rows with means in place of gaps, for a model that learnt from gaps so."""
        if GAPS not in weights:
            return x
        return self.node("Where", self.node("IsNaN", x), self.constant(weights[GAPS]), x)

    def filled(self, weights: Weights, x: str, farthest: float | None = None) -> str:
        """Standardised columns, zeros for what is missing, and a mark for each block that is missing."""
        mean, sd, blocks = (weights[name] for name in FILL)
        wide = self.cast(x, np.float64)
        numbers = self.node(
            "Div", self.node("Sub", wide, self.constant(mean, np.float64)), self.constant(sd, np.float64)
        )
        nothing = self.constant(0, np.float64)
        numbers = self.node("Where", self.node("IsNaN", numbers), nothing, numbers)
        if farthest is not None:
            numbers = self.node(
                "Clip", numbers, self.constant(-farthest, np.float64), self.constant(farthest, np.float64)
            )
        first = [int(np.argmax(blocks == number)) for number in range(int(blocks.max(initial=-1)) + 1)]
        parts = [self.cast(numbers, np.float32)]
        if first:
            marked = self.node("IsNaN", self.node("Gather", x, self.constant(first, np.int64), axis=1))
            parts.append(self.cast(marked, np.float32))
        return self.beside(parts)


def predict_in(graph: Graph, learner: Learner, task: Task, weights: Weights, x: str) -> str:
    """What a learner with these weights predicts of rows, as float32."""
    if CONSTANT in weights:
        raise DataError(
            "the model always says the same class, for all its rows were of one; there is nothing to export"
        )
    if any("/" in name for name in weights):
        raise DataError("the model predicts several numbers per row, which cannot be written as ONNX")
    found = next((draw for kinds, draw in _DRAWN if isinstance(learner, kinds)), None)
    if found is None:
        name = type(learner).__name__
        raise DataError(f"a model of type {name} cannot be written as ONNX; use Best, NetModel, LinearModel or trees")
    return graph.cast(found(graph, learner, task, apart(weights), graph.without_gaps(weights, x)), np.float32)


def _linear(graph: Graph, _: Any, task: Task, weights: Weights, x: str) -> str:
    wide = graph.cast(x, np.float64)
    outputs = graph.affine(wide, weights["coefficients"], weights["intercept"], np.float64)
    if task.kind == "multiclass":
        return graph.node("Softmax", outputs, axis=1)
    first = graph.node("Squeeze", outputs, graph.constant([1], np.int64))
    return graph.node("Sigmoid", first) if task.kind == "binary" else first


def _trees(graph: Graph, _: Any, task: Task, weights: Weights, x: str) -> str:
    sums = graph.sums_of_trees(weights, x)
    first = graph.constant([1], np.int64)
    if not task.of_classes:
        logged = task.kind == "regression" and weights["logit"][0]
        return graph.node("Squeeze", graph.node("Exp", sums) if logged else sums, first)
    if weights["logit"][0]:
        sums = graph.node("Sigmoid", sums) if task.kind == "binary" else graph.node("Softmax", sums, axis=1)
    sums = graph.node("Clip", sums, graph.constant(0), graph.constant(1))
    if task.kind == "binary":
        return graph.node("Squeeze", sums, first)
    total = graph.node("ReduceSum", sums, first, keepdims=1)
    some = graph.node("Greater", total, graph.constant(0))
    shares = graph.node("Div", sums, graph.node("Where", some, total, graph.constant(1)))
    return graph.node("Where", some, shares, graph.constant(1 / task.outputs))


def _net(graph: Graph, learner: Any, task: Task, weights: Weights, x: str) -> str:
    scale = scale_in(task, weights)
    layers = {name: values for name, values in weights.items() if name not in scale}
    form = learner.form(graph_shape(layers))
    module = load(form.build(graph_shape(layers), task.outputs), layers)
    return graph.as_prediction(task, graph.net(module, x), scale)


def graph_shape(layers: Weights) -> tuple[int, ...]:
    """The shape of the rows that a fully connected net takes, by its first weights."""
    first = next(values for name, values in layers.items() if name.endswith("weight"))
    if first.ndim != 2:
        raise DataError("a net for images cannot be written as ONNX as a head; use trees or Mlp, or export the encoder")
    return (int(first.shape[1]),)


def _mixture(graph: Graph, learner: Any, task: Task, weights: Weights, x: str) -> str:
    chosen = chosen_in(weights, learner) if isinstance(learner, Best) else learner
    parts = []
    for place, member in enumerate(() if chosen is None else chosen.members):
        own = {name.partition(".")[2]: values for name, values in weights.items() if name.startswith(f"{place}.")}
        seen = graph.first_columns(x, member.columns) if member.columns else x
        said = graph.cast(_candidate(graph, member.candidate, task, own, seen), np.float64)
        parts.append(graph.node("Mul", said, graph.constant(member.share, np.float64)))
    return parts[0] if len(parts) == 1 else graph.node("Sum", *parts)


def _candidate(graph: Graph, one: Any, task: Task, weights: Weights, x: str) -> str:
    if isinstance(one, TreesCandidate):
        return _trees(graph, one.trees, task, weights, x)
    if isinstance(one, LinearCandidate):
        return _linear(graph, one, task, weights, graph.filled(weights, x))
    layers = {name: values for name, values in weights.items() if name not in FILL}
    return _net(graph, _Form(one), task, layers, graph.filled(weights, x, FARTHEST))


class _Form:
    """The form of a net that `Best` chose."""

    def __init__(self, one: NetCandidate) -> None:
        self._net = Mlp(hidden=one.hidden)

    def form(self, shape: tuple[int, ...]) -> Mlp:
        return self._net


def _tree_model(graph: Graph, learner: Any, task: Task, weights: Weights, x: str) -> str:
    return _trees(graph, learner.trees, task, weights, x)


_DRAWN: tuple[tuple[Any, Callable[[Graph, Any, Task, Weights, str], str]], ...] = (
    (Best | Mixture, _mixture),
    (TreeModel, _tree_model),
    (Boosted | Forest, _trees),
    (LinearModel | Logistic, _linear),
    (NetModel | Network, _net),
)


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

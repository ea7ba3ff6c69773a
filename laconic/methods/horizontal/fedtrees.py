"""FedTrees: parties send small boosted trees once, and the server adds them up, corrected for who holds which class.

Each party boosts trees on its own rows. Their sum is the logarithm of the odds of a class among *that party's* rows, so
the server takes each party's own odds off, adds those of all rows, and takes the mean over parties: exact if parties
differ only in how often classes come (Saerens, Latinne, Decaestecker 2002: Adjusting the outputs of a classifier to new
a priori probabilities). A party counts as much as it knows of a class and of its opposite: by the harmonic mean of its
rows of both. The final model is one list of trees; nobody is asked again.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec import UNSET

from laconic.core.capabilities import Exported
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.errors import WireError
from laconic.learn.models.supervised import CONSTANT, check_model, fit_models, predict_model
from laconic.learn.trees.dense_trees import MISSING, Boosted
from laconic.methods.families.rows import computes_alone, labelled
from laconic.tables.task import Task
from laconic.values import Array, Weights, check_least, flat


class FedTrees(Method, frozen=True):
    """Boosted trees of all parties, added up with each class's share put right.

    Attributes:
        trees: what each party grows. Fewer and shallower trees say less of single rows, and cost fewer bytes.
        least_rows: a party with fewer rows sends nothing: its leaves would be about few rows each.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    uses: ClassVar[tuple[str, ...]] = ("train",)

    trees: Boosted = Boosted(trees=100, depth=4, lr=0.4)
    least_rows: int = 50

    rounds = 1  # Trees come in one exchange.

    def __post_init__(self) -> None:
        """Refuse fewer rows than none."""
        check_least(0, least_rows=self.least_rows)

    def fit_opening(self) -> Opening:
        """One question, which parties may answer before it is asked."""
        return Opening((Ask.known(self.give_trees),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take the trees and add them up; absent parties, and those with few rows, are not in the model."""
        hub.memory["shape"] = list(hub.data.shape)
        answers = peers.tolerant.ask(self.give_trees)
        hub.memory["sent"] = {name: [self._read(hub, name, answer)] for name, answer in answers.items() if answer}
        self._put_together(hub)
        yield

    def members(self, hub: Party) -> dict[str, int]:
        """Whose trees are in the model, and of how many rows."""
        return {name: int(sum(one["counts"].sum() for one in sent)) for name, sent in hub.memory["sent"].items()}

    def merge_in(self, hub: Party, peers: Peers) -> None:
        """Ask parties for trees of their training rows, and add them to those that are there."""
        for name, answer in peers.ask(self.give_trees).items():
            if not answer:
                raise ValueError(
                    f"{name} sent no trees: it has fewer than least_rows = {self.least_rows} rows, to which leaves "
                    "would point; let it bring more rows at once"
                )
            before = hub.memory["sent"].get(name, [])
            hub.memory["sent"] = {**hub.memory["sent"], name: [*before, self._read(hub, name, answer)]}
        self._put_together(hub)

    def take_out(self, hub: Party, name: str) -> None:
        """Drop a party's trees; those of the others stay as they are, and are added up anew."""
        hub.memory["sent"] = {one: sent for one, sent in hub.memory["sent"].items() if one != name}
        self._put_together(hub)

    def _put_together(self, hub: Party) -> None:
        """The model of all trees at hand."""
        sent = [one for parts in hub.memory["sent"].values() for one in parts]
        if not sent:
            raise ValueError(f"no party has {max(self.least_rows, 1)} rows to learn from; lower least_rows")
        grown = [one for one in sent if CONSTANT not in one["trees"]]
        counts = np.array([one["counts"] for one in sent])
        if grown:
            trees, own = [one["trees"] for one in grown], [one["counts"] for one in grown]
            hub.memory["model"] = _add_up(task_of(hub), trees, own, counts)
        else:
            hub.memory["model"] = {CONSTANT: self._only_known(hub, sent, counts)}

    def _only_known(self, hub: Party, sent: list[dict[str, Any]], counts: Array) -> Array:
        """What is known where nobody has rows of two classes, or of two numbers: the usual class, or the mean."""
        if task_of(hub).kind == "regression":
            numbers = [float(one["trees"][CONSTANT][0]) for one in sent]
            return np.array([np.average(numbers, weights=counts[:, 0])])
        return np.array([counts.sum(axis=0).argmax()])

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """The model, at whoever has it."""
        return computes_alone(party, self.trees)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask the trees."""
        return predict_model(self.trees, task_of(hub), hub.memory["model"], hub.data.part(rows)[0])

    @step(
        takes=None,
        gives="boosted trees grown on its rows, and how many rows of each class it has; a leaf says how the labels of "
        "the few rows in it lean, and each threshold is a number from a cell of its rows, or from public rows where "
        "there are some",
    )
    def give_trees(self, party: Party) -> dict[str, Any]:
        """Grow trees on this party's rows; nothing if they are too few."""
        x, y = labelled(party, "train")
        if len(y) < max(self.least_rows, 1):
            return {}
        task = task_of(party)
        opened = party.data.part("public")[0] if "public" in party.data.cuts else x[:0]
        rounded = round_down(x, opened, self.trees.bins) if len(opened) else x
        (model,) = fit_models(self.trees, task, [(rounded, y)], party.rng)
        counts = [len(y)] if task.kind == "regression" else np.bincount(y.astype(np.int64), minlength=len(task.classes))
        return {"trees": model, "counts": np.asarray(counts, dtype=np.int64)}

    def _read(self, hub: Party, name: str, answer: Any) -> dict[str, Any]:
        """A party's trees, checked to be as many and as deep as asked for, and its rows of each class."""
        task = task_of(hub)
        parts = answer if isinstance(answer, dict) else {}
        # Kept from training: a server that was saved has no columns of its own.
        shape, counts = tuple(hub.memory.get("shape", hub.data.shape)), parts.get("counts")
        model = check_model(self.trees, task, parts.get("trees"), shape, name)
        each = task.outputs if task.kind == "multiclass" else 1
        if CONSTANT not in model and model["leaf"].shape != (each * self.trees.trees, 2**self.trees.depth):
            raise WireError(
                f"{name} sent trees of other number or depth than asked for; check that its plan is the same"
            )
        wanted = (1,) if task.kind == "regression" else (len(task.classes),)
        if not isinstance(counts, np.ndarray) or counts.dtype.kind not in "iu" or counts.shape != wanted:
            raise WireError(f"{name} did not say how many rows of each class it has; check that its plan is the same")
        if counts.min() < 0 or counts.sum() == 0:
            raise WireError(f"{name} says that it has {counts.tolist()} rows of the classes, and sends trees")
        return {"trees": model, "counts": counts.astype(np.float64)}


def round_down(x: Array, opened: Array, bins: int) -> Array:
    """Each cell as the greatest quantile of its column among public rows that is not above it.

    Trees grown on such rows have public numbers for thresholds, and ask the same of the cells themselves.
    """
    cells, public = flat(x).astype(np.float32), flat(opened).astype(np.float32)
    rounded = np.empty_like(cells)
    for column in range(cells.shape[1]):
        # Of the values that occur, so that a column of few values keeps them all.
        values = np.unique(public[:, column])
        if len(values) > bins:
            values = np.unique(np.quantile(public[:, column], np.linspace(0, 1, bins), method="lower"))
        place = np.searchsorted(values, cells[:, column], side="right")
        # Below all public numbers there is one more bin; how far below is not said.
        below = values[0] - max(1.0, abs(float(values[0])))
        rounded[:, column] = np.concatenate([[below], values])[place]
    return rounded.reshape(x.shape)


def _add_up(task: Task, models: list[Weights], owned: list[Array], counts: Array) -> Weights:
    """All parties' trees as one model.

    Args:
        models: trees of each party that has some.
        owned: these parties' rows of each class.
        counts: the same for all parties, also those whose rows are all of one class.
    """
    weights, base = _shares(task, np.array(owned), counts, np.array([model["base"] for model in models]))
    parts = {name: [model[name] for model in models] for name in ("column", "threshold", "output")}
    added = {name: np.concatenate(values) for name, values in parts.items()}
    leaves = [model["leaf"] * own[model["output"]][:, None] for model, own in zip(models, weights, strict=True)]
    added["leaf"] = np.concatenate(leaves).astype(np.float32)
    if any(MISSING in model for model in models):
        goes = [model.get(MISSING, np.zeros(model["column"].shape, dtype=np.uint8)) for model in models]
        added[MISSING] = np.concatenate(goes)
    return added | {"base": base.astype(np.float32), "logit": models[0]["logit"]}


def _shares(task: Task, owned: Array, counts: Array, bases: Array) -> tuple[Array, Array]:
    """How much each party's trees count for each output, (parties, outputs), and where the sum of all starts."""
    if task.kind == "regression":
        weights = owned / owned.sum(axis=0)
        if task.by_log and task.scale is not UNSET:
            # Parties' trees begin at the logarithm of their own mean; all together, at that of all parties' rows.
            return weights, np.log([task.scale.mean])
        return weights, (weights * bases).sum(axis=0)
    # A binary model has one output, for the second class.
    wanted = slice(1, None) if task.kind == "binary" else slice(None)
    rest = owned.sum(axis=1, keepdims=True) - owned
    known = (2 / (1 / (owned + 0.5) + 1 / (rest + 0.5)))[:, wanted]
    weights = known / known.sum(axis=0)
    mine, everybody = _log_odds(task, owned)[:, wanted], _log_odds(task, counts.sum(axis=0)[None])[:, wanted]
    return weights, everybody[0] - (weights * mine).sum(axis=0)


def _log_odds(task: Task, counts: Array) -> Array:
    """The logarithm of each class's share, or of two classes the odds of each, as trees of these rows learn them."""
    share = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
    return np.asarray(np.log(share / (1 - share)) if task.kind == "binary" else np.log(share))

"""Parties that learn by themselves, guided once by the label holder: what one-shot and few-shot VFL share."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from torch import nn

from laconic.core.capabilities import Kept
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, Step, step
from laconic.learn.models.best import Best
from laconic.learn.models.learners import AnyHead, AnyLearner, as_fitted
from laconic.learn.models.supervised import Learner, apart, fit_top, predict_top
from laconic.learn.nets.nets import (
    LINEAR,
    AnyExtractor,
    Join,
    Mlp,
    PartLayer,
    SummedHeads,
    add_up,
    class_head,
    load,
    to_array,
    to_tensor,
)
from laconic.learn.train import losses as heads
from laconic.learn.train.semisupervised import AnyLocal, begin, body_of, default_extractor, default_local
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.methods.families import split as split_learning
from laconic.methods.families.contributions import Check
from laconic.methods.families.rows import labelled, note_tried, own_rows, with_own_rows
from laconic.methods.families.split import Precision, Split, first_weights
from laconic.privacy.mechanisms.outputs import RandomisedResponse
from laconic.tables.table import PAIRED
from laconic.values import Array, Rng, Settings, Weights, flat


class Gradients(Settings, frozen=True):
    """Parties send numbers for the shared rows; back come gradients of the loss, which parties cluster.

    What crosses serves to distinguish classes and nothing else, so that one byte per number will do, each way.

    Attributes:
        numbers: how many of a row's numbers cross, each way. Fewer than a party's net puts out will do, and say less
            about its columns. None takes half as many as there are classes, and at least four, if the net puts out so
            many; the paper sends all.
    """

    numbers: int | None = None

    rounds: ClassVar[int] = 2
    """Two uploads, one download between them."""

    def __post_init__(self) -> None:
        """Refuse to distinguish classes by nothing."""
        if self.numbers is not None and self.numbers < 1:
            raise ValueError(f"numbers must be 1 or more, not {self.numbers}; None suits the classes")

    def teach(self, method: "Guided", hub: Party, peers: Peers, codes: Array, classes: int) -> dict[str, Any]:
        """Have all parties learn; what each sends afterwards. Who is late or lost is left out."""
        numbers = peers.tolerant.ask(method.begin_and_send, count=self.numbers or max(4, -(-classes // 2)))
        gradients = first_gradients(numbers, codes, classes, hub.rng)
        questions = {
            name: {"gradients": method.cover(in_bytes(values, axis=1)), "classes": classes}
            for name, values in gradients.items()
        }
        return peers.tolerant.ask_each(method.learn_from_gradients, questions)

    def asks(self, method: "Guided") -> tuple[Ask, ...]:
        """What parties are asked; how many numbers is known beforehand only if `numbers` is set."""
        begin = method.begin_and_send
        first = Ask.later(begin) if self.numbers is None else Ask.known(begin, count=self.numbers)
        return first, Ask.later(method.learn_from_gradients)


class SendLabels(Settings, frozen=True):
    """Parties are sent the labels of the shared rows, one byte each."""

    rounds: ClassVar[int] = 1
    """One download and one upload."""

    def teach(self, method: "Guided", hub: Party, peers: Peers, codes: Array, classes: int) -> dict[str, Any]:
        """Have all parties learn; what each sends afterwards. Who is late or lost is left out."""
        labels = codes.astype(np.uint8 if classes <= 256 else np.uint16)
        return peers.tolerant.ask(method.learn_from_labels, labels=method.cover(labels), classes=classes)

    def asks(self, method: "Guided") -> tuple[Ask, ...]:
        """What parties are asked."""
        return (Ask.later(method.learn_from_labels),)


AnyGuide: TypeAlias = Gradients | SendLabels


def in_bins(numbers: Array, most: int) -> tuple[Array, int]:
    """Numbers as classes, about equally many in each, and how many classes there are; fewer where numbers are tied."""
    different = np.unique(numbers)
    if len(different) < 2:
        raise ValueError(
            f"all {len(numbers)} shared rows have the same label, {different[0]:g}, so that there is nothing to learn; "
            "share more rows"
        )
    edges = np.quantile(numbers, np.linspace(0, 1, most + 1)[1:-1])
    # A bin begins at its edge: below one at the least number, which many rows may have, there would be nothing.
    least, above = different[:2]
    edges = np.unique(np.where(edges <= least, above, edges))
    return np.searchsorted(edges, numbers, side="right"), len(edges) + 1


def in_bytes(values: Array, axis: int | None = None) -> Array:
    """Numbers as whole ones from -127 to 127, the largest of all, or of each row with `axis` 1, at an end.

    How large they were before is lost: what is made of them must not depend on it.
    """
    largest = np.abs(values).max(axis=axis, keepdims=True, initial=1e-30)
    found: Array = np.rint(values * (127.0 / largest)).astype(np.int8)
    return found


def first_gradients(numbers: Mapping[str, Array], codes: Array, classes: int, rng: Rng) -> dict[str, Array]:
    """How the summed loss of an untrained linear classifier changes with each party's numbers.

    Args:
        numbers: each party's numbers for the same rows, as bytes.
        codes: the rows' classes.
        classes: how many there are.
        rng: draws the classifier's weights anew: those of a trained one distinguish classes less well.
    """
    width = sum(block.shape[1] for block in numbers.values())
    weights = {name: rng.uniform(-1, 1, (block.shape[1], classes)) / width**0.5 for name, block in numbers.items()}
    products = (block.astype(np.float64) / 127.0 @ weights[name] for name, block in numbers.items())
    logits = sum(products, np.zeros((len(codes), classes)))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    wrong = odds / odds.sum(axis=1, keepdims=True) - np.eye(classes)[codes]
    return {name: wrong @ weights[name].T for name in numbers}


def numbered(codes: Array) -> tuple[Array, int]:
    """Class codes from 0 without gaps, and how many there are."""
    present, numbered = np.unique(codes, return_inverse=True)
    if len(present) < 2:
        raise ValueError(
            f"all {len(codes)} shared rows are sent as one class, so that there is nothing to learn; share more rows"
        )
    return numbered, len(present)


GRADIENTS = (
    "gradients of the loss at its numbers for each shared row, from which labels can be read: in our measurements "
    "all of them at the first exchange, and 97 % or more, on average over parties, after training"
)
NUMBERS = "a few numbers for each shared row, made by a net of its own, from which columns can be guessed"
NUMBERS_AND_HEAD = f"{NUMBERS}; if class heads are added up, also its own, learnt from all its rows"
_HEAD = "class head"


class Guided(Method, frozen=True):
    """Abstract: every party learns an extractor from few labelled and many unlabelled rows; the label holder a head.

    A label holder with columns of its own is one more party, without a wire between. A party keeps its extractor in
    `net`, the same with its class head in `local`, and the classes it was sent or found in `codes`.

    Attributes:
        net: each party's extractor, or several; None takes one that suits its data.
        width: how many numbers an extractor puts out for a row.
        local: how a party learns by itself; None takes what suits its data.
        guide: what tells parties the classes to learn: gradients, or the labels themselves.
        labels: randomised response applied to labels before anything derived from them is sent; None disables it.
        bins: for regression, how many classes labels are put into while parties learn, about equally many rows in each;
            fewer where labels are tied.
        head: the label holder's model of all parties' numbers: a net; a learner such as trees, which sees its own
            columns as they are; or the parties' own class heads, added up. None takes `Best()`, which tries linear
            models, trees and nets, and a linear net for images or with `more`.
        trainer: how a net as head is trained; with patience, parties send numbers for validation rows too.
        more: go on by split learning over many exchanges, trained like this; None stops here.
        precision: how exactly numbers are sent that the label holder learns from.
        check: what the label holder looks for in what parties sent, before its head learns from it.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "valid", "own", PAIRED)

    net: AnyExtractor | None = None
    width: int = 32
    local: AnyLocal | None = None
    guide: AnyGuide = Gradients()
    labels: RandomisedResponse | None = None
    bins: int = 8
    head: Mlp | AnyHead | SummedHeads | None = None
    trainer: Sgd = Sgd(epochs=100, batch=64, lr=3e-3, decay="cosine", weight_decay=1e-3)
    more: Sgd | None = None
    precision: Precision = "float16"
    check: Check = Check()

    # For `more`: the steps of split learning.
    exchange, learn = split_learning.exchange, split_learning.learn
    give_outputs, keep, go_back = split_learning.give_outputs, split_learning.keep, split_learning.go_back

    def __post_init__(self) -> None:
        """Refuse widths and bins that separate nothing, numbers that are not there, and labels that `more` reveals."""
        if self.width < 1 or self.bins < 2:
            raise ValueError(f"width must be 1 or more and bins 2 or more, not {self.width} and {self.bins}")
        if isinstance(self.guide, Gradients) and (self.guide.numbers or 0) > self.width:
            raise ValueError(
                f"guide=Gradients(numbers={self.guide.numbers}) asks for more numbers per row than the {self.width} "
                "that an extractor puts out; ask for fewer, or raise width"
            )
        if isinstance(self.head, Learner) and self.more is not None:
            raise ValueError(
                f"head = {type(self.head).__name__} is not trained by gradients that more could use (trees have no "
                "gradients): leave out more, or use a net as head, such as Mlp()"
            )
        if self.labels is not None and self.more is not None:
            raise ValueError(
                "labels=RandomisedResponse(...) covers what guides parties, but more=Sgd(...) sends gradients made "
                "from the true labels of every batch; leave out either labels or more"
            )

    @abstractmethod
    def learn_from_gradients(self, party: Party, gradients: Array, classes: int) -> dict[str, Array]:
        """A step: learn classes that gradients of the shared rows reveal, and send numbers."""

    @abstractmethod
    def learn_from_labels(self, party: Party, labels: Array, classes: int) -> dict[str, Array]:
        """A step: learn these classes of the shared rows, and send numbers."""

    @step(
        takes=None,
        gives="a few numbers for each shared row, made from its columns by a net whose first weights it alone knows",
    )
    def begin_and_send(self, party: Party, count: int) -> Array:
        """Draw the first weights, known to this party alone, and send the first few numbers of each shared row."""
        party.memory["net"] = first_weights(self.bottom(party), party)
        return in_bytes(self.numbers(party, "train")[:, :count].astype(np.float32))

    def released_codes(self, hub: Party) -> tuple[Array, int]:
        """The classes that parties are to learn, after randomised response if any, numbered from 0, and how many occur.

        Parties learn nothing of a class that no shared row has, and would have to split another one to find it.
        """
        codes, classes = self._classes_of(hub)
        return numbered(codes if self.labels is None else self.labels.randomise(codes, classes, hub))

    def true_codes(self, hub: Party) -> tuple[Array, int]:
        """The same without randomised response: for what never leaves the label holder in any form."""
        return numbered(self._classes_of(hub)[0])

    def _classes_of(self, hub: Party) -> tuple[Array, int]:
        """The true classes of the shared rows, and how many there could be."""
        task, y = task_of(hub), labelled(hub, "train")[1]
        if task.kind != "regression":
            return y.astype(np.int64), len(task.classes) if task.kind == "multiclass" else 2
        if isinstance(self.head, SummedHeads):
            raise ValueError(
                "head=SummedHeads() adds up what parties say of classes, but the label is a number; use a net as head, "
                "such as Mlp(), or turn the label into classes first"
            )
        if self.labels is not None:
            raise ValueError(
                "labels=RandomisedResponse(...) covers classes, but the label is a number: its bins depend on all "
                "labels; leave labels out, or turn the label into classes first"
            )
        return in_bins(y, self.bins)

    def cover(self, value: Array) -> Any:
        """What was derived from released labels alone, under their noise if they bear any."""
        return value if self.labels is None else self.labels.cover(value)

    def learn_codes(self, party: Party, codes: Array, classes: int) -> None:
        """Learn from the shared rows with these classes, and from own rows without."""
        if "net" not in party.memory:
            party.memory["net"] = first_weights(self.bottom(party), party)
        net, shape = self.extractor(party), party.data.shape
        body = {f"body.{name}": values for name, values in party.memory["net"].items()}
        start = begin(net, shape, self.width, classes, party.rng) | body
        party.memory["codes"] = np.asarray(codes, dtype=np.int64)
        self.learn_rows(party, start, party.data.part("train")[0], party.memory["codes"], own_rows(party))

    def learn_rows(self, party: Party, start: Weights, x: Array, codes: Array, unlabelled: Array) -> None:
        """Learn from labelled and unlabelled rows, from the given weights on."""
        local = self.local or default_local(party.data.shape)
        found = local.fit(start, self.extractor(party), self.width, x, codes, unlabelled, party.rng)
        party.memory["local"], party.memory["net"] = found, body_of(found)

    def numbers(self, party: Party, rows: str) -> Array:
        """The rows of a cut through the extractor, unchanged and in evaluation mode, as they are sent."""
        return self.numbers_of(party, own_rows(party) if rows == "own" else party.data.part(rows)[0])

    def numbers_of(self, party: Party, x: Array) -> Array:
        """Prepared rows through the extractor."""
        if len(x) == 0:
            return self.sent(np.zeros((0, self.width)))
        return self.sent(to_array(evaluate(load(self.bottom(party), party.memory["net"]), [to_tensor(x)])))

    def sent(self, values: Array) -> Array:
        """Numbers as exactly as they are sent."""
        return values.astype(self.precision)

    def shared_numbers(self, party: Party) -> dict[str, Array]:
        """What the label holder's head comes from: training rows, validation rows if it looks at them, class heads.

        Also rows that the party shares with the label holder, but not with everybody.
        """
        head = {_HEAD: self.sent(class_head(party.memory["local"]))} if isinstance(self.head, SummedHeads) else {}
        pairs = (PAIRED,) if self._takes_gaps and len(party.data.cuts.get(PAIRED, ())) else ()
        return {rows: self.numbers(party, rows) for rows in (*self._cuts, *pairs)} | head

    @property
    def _takes_gaps(self) -> bool:
        """Whether the head learns from rows that not all parties have; class heads that are added up learn nothing."""
        return self.head.takes_gaps if isinstance(self.head, Learner) else not isinstance(self.head, SummedHeads)

    @property
    def _cuts(self) -> tuple[str, ...]:
        """What the label holder's head looks at."""
        looks = self.trainer.patience is not None and isinstance(self.head, Mlp | None)
        return ("train", "valid") if looks else ("train",)

    def refuse_nothing(self, hub: Party, peers: Peers, received: Mapping[str, Any]) -> None:
        """End where nobody answered and the label holder has no columns of its own."""
        if not hub.data.columns and not received:
            raise ValueError(
                f"{hub.name} has no columns of its own, and none of {', '.join(peers.names) or 'no parties'} answered: "
                "there is nothing to learn from"
            )

    def sifted(self, hub: Party, received: Mapping[str, Any]) -> dict[str, Any]:
        """What counts of what parties sent."""
        own = {cut: hub.data.part(cut)[0] for cut in self._cuts} if hub.data.columns else {}
        return self.check.sift(hub, received, own, {cut: labelled(hub, cut)[1] for cut in self._cuts})

    def train_head(self, hub: Party, received: Mapping[str, Mapping[str, Array]]) -> None:
        """Fit the label holder's head to all parties' numbers and the true labels, which go nowhere."""
        hub.memory["received"] = {name: block["train"] for name, block in received.items()}
        hub.memory["means"] = {name: block.mean(axis=0) for name, block in hub.memory["received"].items()}
        model = self.model_of(hub)
        hub.memory["paired"] = {name: block[PAIRED] for name, block in received.items() if PAIRED in block}
        if isinstance(model, Learner):
            own = [flat(hub.data.part("train")[0])] if hub.data.columns else []
            shared = [*own, *hub.memory["received"].values()]
            both, y, groups = with_own_rows(hub, shared, received, learns=self._takes_gaps, own=flat)
            columns, judged = own[0].shape[1] if own else 0, len(hub.data.cut("train"))
            hub.memory["model"] = model.fit_all(
                task_of(hub), _beside(both), y, hub.rng, judged=judged, groups=groups, own=columns
            )
            note_tried(hub)
            return
        blocks = ({hub.name: self.shared_numbers(hub)} if hub.data.columns else {}) | dict(received)
        fitted = self._fit_head(hub, blocks)
        hub.memory["scale"] = {name: values for name, values in fitted.items() if name in (heads.MEAN, heads.SD)}
        head = {f"head.{name}": values for name, values in fitted.items() if name not in hub.memory["scale"]}
        own = hub.memory["net"] if hub.data.columns else {}
        hub.memory["model"] = {f"own.{name}": values for name, values in own.items()} | head

    def go_on(self, hub: Party, peers: Peers, received: Mapping[str, Mapping[str, Array]]) -> Iterator[None]:
        """Split learning with those who sent numbers; their mean rows keep up with what they send meanwhile."""
        latest = {name: block["train"].astype(np.float32) for name, block in received.items()}
        hub.memory["means"] = {name: values.mean(axis=0) for name, values in latest.items()}

        def note(rows: Array, outputs: Mapping[str, Array]) -> None:
            for name, values in outputs.items():
                hub.memory["means"][name] += (values - latest[name][rows]).sum(axis=0) / len(latest[name])
                latest[name][rows] = values

        yield from split_learning.train_together(self, hub, peers.only(tuple(received)), note)

    def _fit_head(self, hub: Party, blocks: Mapping[str, Mapping[str, Array]]) -> Weights:
        """A model of all parties' numbers: trained, or put together from their class heads."""
        task = task_of(hub)
        if isinstance(self.head, SummedHeads):
            parts = [PartLayer(block["train"], block[_HEAD]) for block in blocks.values()]
            return add_up(task, parts, labelled(hub, "train")[1])
        sent = {name: block for name, block in blocks.items() if name != hub.name}
        shared = [block["train"] for block in blocks.values()]
        both, y, _ = with_own_rows(hub, shared, sent, own=lambda x: self.numbers_of(hub, x))
        joined = {"train": _beside(both)} | {
            rows: _beside([block[rows] for block in blocks.values()]) for rows in self._cuts if rows != "train"
        }
        valid = ([joined["valid"]], labelled(hub, "valid")[1]) if "valid" in joined else None
        # A party that is lost counts as its mean row for all models here, so that a net need not keep what fills gaps.
        return apart(fit_top(self.form, task, [joined["train"]], y, self.trainer, hub.rng, valid=valid))

    @property
    def form(self) -> Mlp | AnyHead:
        """The form of models that learn from parties' numbers alone: linear where no other one is set."""
        return LINEAR if isinstance(self.head, SummedHeads | Best | None) else self.head

    def model_of(self, hub: Party) -> Mlp | AnyHead:
        """The label holder's model: of its own columns and received numbers, or a net of numbers alone."""
        if self.head is not None:
            return self.head if isinstance(self.head, Learner) else self.form
        return self.form if len(hub.data.shape) == 3 or self.more is not None else Best()

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the rows through every party's extractor, then through the head.

        Who is lost counts as its mean row, or as a gap for a learner that learnt from gaps.
        """
        means, count = hub.memory["means"], len(hub.data.cut(rows))
        if hub.memory.get("outside") and isinstance(self.model_of(hub), Learner):
            means = {name: np.full_like(mean, np.nan) for name, mean in means.items()}
        found = peers.only(tuple(means)).tolerant.ask(self.give_outputs, rows=rows)
        return self.predictions_from(
            hub, {name: found.get(name, np.tile(mean, (count, 1))) for name, mean in means.items()}, rows
        )

    def predict_opening(self, rows: str) -> Opening:
        """Parties need the name of the cut alone."""
        return Opening((Ask.known(self.give_outputs, rows=rows),), then="ends")

    def predictions_from(self, hub: Party, outputs: Mapping[str, Array], rows: str) -> Array:
        """Predictions from what parties sent for the rows of a cut."""
        model = self.model_of(hub)
        if not isinstance(model, Learner):
            return split_learning.predict_from_outputs(self.split, hub, outputs, rows)
        x = self._columns_beside(hub, list(outputs.values()), rows)
        return predict_top(model, task_of(hub), hub.memory["model"], [x])

    def answers_at_hand(self, hub: Party) -> Kept:
        """What parties sent about rows that not all share, as answers to `give_outputs`: nobody is asked about these.

        Shared rows are asked for again: what was sent of them may lack validation rows.
        """
        paired = hub.memory.get("paired", {})
        return {name: {"give_outputs": {PAIRED: numbers}} for name, numbers in paired.items()}

    def stored_parts(self, hub: Party, places: Array) -> dict[str, Array]:
        """Each party's numbers for these places in cut "train"; where trees see them, the hub's own columns."""
        split_learning.refuse_changed_nets(self.more)
        return {name: values[places] for name, values in self._all_parts(hub).items()}

    def predict_from(self, hub: Party, parts: Mapping[str, Array], places: Array) -> Array:
        """Predictions for these places from some parties' parts; a party left out counts as its mean row."""
        blocks = [
            parts[name] if name in parts else np.tile(values.mean(axis=0), (len(places), 1))
            for name, values in self._all_parts(hub).items()
        ]
        model, scale = hub.memory["model"], hub.memory.get("scale", {})
        top = {name.removeprefix("head."): values for name, values in model.items() if not name.startswith("own.")}
        return predict_top(self.model_of(hub), task_of(hub), top | scale, [_beside(blocks)])

    def head_norms(self, hub: Party, ask: Callable[[Step], dict[str, Any]]) -> dict[str, float]:
        """The length of the weights by which each party's numbers enter the hub's head; none if it is no net."""
        if isinstance(self.model_of(hub), Learner):
            return {}
        names = [*([hub.name] if hub.data.columns else []), *hub.memory["received"]]
        return heads.lengths_by_block(hub.memory["model"]["head.1.weight"], dict.fromkeys(names, self.width))

    def head_as_fitted(self, hub: Party) -> AnyLearner | None:
        """The learner of the label holder's model as it was chosen; None for a net."""
        return as_fitted(self.model_of(hub), hub.memory["model"])

    def _all_parts(self, hub: Party) -> dict[str, Array]:
        """What the hub's head learnt from, by party: its own part first."""
        received: dict[str, Array] = hub.memory["received"]
        if not hub.data.columns:
            return received
        x = hub.data.part("train")[0]
        own = flat(x) if isinstance(self.model_of(hub), Learner) else self.numbers(hub, "train")
        return {hub.name: own} | received

    def bottom(self, party: Party) -> nn.Module:
        """A party's extractor."""
        return self.extractor(party).build(party.data.shape, self.width)

    def top(self, hub: Party, width: int) -> nn.Module:
        """The label holder's own extractor, if it has columns, and its head."""
        if isinstance(self.form, Learner):
            raise ValueError("only a net can be trained by gradients; use one as head, such as Mlp()")
        own = self.bottom(hub) if hub.data.columns else None
        inputs = width + (self.width if hub.data.columns else 0)
        return Join(own, self.form.build((inputs,), task_of(hub).outputs))

    @property
    def split(self) -> Split:
        """How learning goes on with `more`: all extractors, and the label holder's head."""
        return Split(self.bottom, self.top, self.more or Sgd(), self.precision)

    def _columns_beside(self, hub: Party, received: list[Array], rows: str) -> Array:
        """The label holder's own columns as they are, and all numbers received."""
        x = hub.data.part(rows)[0]
        return _beside([flat(x), *received] if hub.data.columns else received)

    def extractor(self, party: Party) -> AnyExtractor:
        """The form of a party's extractor."""
        return self.net or default_extractor(party.data.shape)


def _beside(blocks: list[Array]) -> Array:
    return np.concatenate(blocks, axis=1).astype(np.float32)

"""FedOnce: each guest learns, without labels, to put its rows into a few numbers, and sends those once.

The label holder then trains its own model on its columns and what it received. Wu, Li, He: Practical Vertical Federated
Learning with Unsupervised Representation Learning (IEEE Transactions on Big Data, 2022).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np
from torch import nn

from laconic.core.capabilities import Exported
from laconic.core.ledger import Noise
from laconic.core.method import LABELLED, Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, Step, step
from laconic.errors import PlanError, Refused
from laconic.learn.encoders.encoder import most_ranks
from laconic.learn.encoders.learnt import AnyEncoder, BestEncoder
from laconic.learn.models.best import Best
from laconic.learn.models.learners import AnyHead, AnyLearner, NetModel, as_fitted
from laconic.learn.models.supervised import GAPS, Learner, fit_top, predict_top
from laconic.learn.nets.nets import Cnn, Joint, Mlp, load
from laconic.learn.train import losses as heads
from laconic.learn.train.sgd import Sgd
from laconic.methods.families import split as split_learning
from laconic.methods.families.contributions import Check
from laconic.methods.families.rows import (
    labelled,
    note_tried,
    refuse_noise,
    with_own_rows,
)
from laconic.methods.families.split import Precision, Split
from laconic.privacy.budget import Budget
from laconic.privacy.encoders import PrivateEncoder, PublicProjection
from laconic.privacy.mechanisms.outputs import COUPLED, ClippedGaussian, Perturb
from laconic.privacy.private_sgd import DpSgd
from laconic.privacy.row_releases import write_model
from laconic.tables.table import PAIRED
from laconic.tables.task import Task
from laconic.values import Array, check_least

_GIVES = (
    "a few numbers for each row, made from its columns. By default the hub can read up to eight of the columns from "
    "them, by rank (all, if there are no more), beside sums or learnt numbers of all. Encoder Pca sends sums alone, "
    "from which columns can be guessed. Reasons of predictions show how far these numbers moved each prediction"
)


_USUAL = Sgd(epochs=100, patience=10)
"""How the label holder trains a net if nothing else is said, on fewer rows than `_MANY`."""

_MANY, _AT_MANY = 100_000, Sgd(epochs=100, batch=1024, lr=3e-3, decay="plateau", patience=6)
"""From so many rows on it trains so, by batches twice as large for four times the rows: see decision 68."""


def usual_trainer(rows: int) -> Sgd:
    """How the label holder trains a net on so many rows if nothing else is said."""
    if rows < _MANY:
        return _USUAL
    times = 2 ** (((rows // _MANY).bit_length() - 1) // 2)
    return msgspec.structs.replace(_AT_MANY, batch=_AT_MANY.batch * times, lr=_AT_MANY.lr * times**0.5)


_PRIVATE = DpSgd(epochs=20, batch=1024, lr=2.0)
_PRIVATE_HEAD = Joint(head=Mlp(hidden=(32,)))
"""How, and what, the label holder trains if nothing else is said and a budget must be kept."""


_BESIDE = (heads.MEAN, heads.SD, GAPS)
"""What a net's weights come with: the label's scale, and what takes the place of gaps."""


def _inputs(hub: Party, blocks: list[Array]) -> list[Array]:
    """What the host's model takes: its columns, if it has any, and all guests' numbers side by side."""
    own, sent = (blocks[:1], blocks[1:]) if hub.data.columns else ([], blocks)
    rows = len(blocks[0]) if blocks else 0
    return [*own, np.concatenate([np.zeros((rows, 0), np.float32), *sent], axis=1)]


def _checked_by(task: Task, y: Array) -> Array:
    """What numbers that guests send are checked against: classes, numbers, or whether the event came."""
    strata = task.strata(y)
    return y if strata is None else strata


class FedOnce(Method, frozen=True):
    """One exchange: parties send learnt representations, the label holder learns from them.

    A party that is late or lost is left out of the model while fitting. While predicting, its numbers are missing: a
    gap for `Best` and trees, means for other models that learnt from gaps, and zeros for those that never saw one. The
    label holder also learns from all its labelled rows outside the overlap, with the numbers of those parties that have
    them; not with `DpSgd`, whose price is that of the shared rows.

    Attributes:
        encoder: how each party puts a row into numbers.
        row_bytes: the most that a party sends for a row where `encoder.dim` is left out, which takes as few numbers
            as keep nearly all of the party's variance; images, of hundreds of pixels, get twice as much.
        head: the label holder's model of its columns and all numbers received. None takes `Best()`, which tries linear
            models, trees and nets, and a net where the label holder has images, or `trainer` or `more` ask for one.
        trainer: how the label holder trains a net; None takes at most 100 epochs that end early, with larger batches
            from 100,000 rows on, if a net is trained.
        precision: how exactly numbers are sent.
        noise: noise on every representation sent; None for none. `ClippedGaussian` has an epsilon, `Perturb` has none.
        more: go on from the one-shot model by split learning over many exchanges, trained like this; None stops
            after the one exchange.
        check: what the label holder looks for in what parties sent, before it counts.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "valid", PAIRED, LABELLED)
    tasks: ClassVar[tuple[str, ...]] = (*Method.tasks, "survival")

    precision: Precision = "float32"
    encoder: AnyEncoder | PrivateEncoder = BestEncoder()
    row_bytes: int = 64
    head: Joint | AnyHead | None = None
    trainer: Sgd | DpSgd | None = None
    noise: Perturb | ClippedGaussian | None = None
    more: Sgd | None = None
    check: Check = Check()

    # For `more`: the steps of split learning.
    exchange, learn = split_learning.exchange, split_learning.learn
    give_outputs, keep, go_back = split_learning.give_outputs, split_learning.keep, split_learning.go_back

    def __post_init__(self) -> None:
        """Refuse noise together with further exchanges, and models without gradients where these are needed."""
        check_least(4, row_bytes=self.row_bytes)
        if isinstance(self.head, Learner) and (self.more is not None or isinstance(self.trainer, DpSgd)):
            raise ValueError(
                f"head = {type(self.head).__name__} is not trained by gradients that more or DpSgd could use (trees "
                "have no gradients): leave out more and DpSgd, or use a net as head, such as Joint()"
            )
        if self.noise is not None and self.more is not None:
            raise ValueError("noise covers the one exchange only; leave out either noise or more")
        if self.check.leave_out and isinstance(self.trainer, DpSgd):
            raise ValueError(
                "check.leave_out decides by the true labels, which the noise of trainer = DpSgd does not cover; say "
                "leave_out = false, and leave a party out by hand if the result names it"
            )

    @property
    def long_products(self) -> bool:  # type: ignore[override]  # by its settings
        """Guests work side by side in the one exchange; batches of what may follow are short."""
        return self.more is None

    @property
    def rounds(self) -> int | None:
        """One exchange, unless asked for more."""
        return 1 if self.more is None else None

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Algorithm 1: guests first, then the host."""
        # Before guests work side by side: of two threads that import the same, one may get half a module.
        import scipy.special  # noqa: F401
        import xgboost  # noqa: F401

        received = self._sifted(hub, peers.tolerant.ask(self.learn_and_send))
        hub.memory["guests"] = {name: answer["train"].shape[1] for name, answer in received.items()}
        hub.memory["received"] = received
        shared = {
            cut: self._blocks(hub, {name: received[name][cut] for name in received}, hub.data.part(cut)[0])
            for cut in self._cuts
        }
        rows, learns = len(hub.data.cut("train")), self._takes_gaps
        blocks, y, groups = with_own_rows(hub, shared["train"], received, learns=learns)
        inputs = _inputs(hub, blocks)
        valid = (_inputs(hub, shared["valid"]), labelled(hub, "valid")[1]) if "valid" in shared else None
        trainer = self.trainer or usual_trainer(len(y))
        hub.memory["model"] = fit_top(
            self._model(hub), task_of(hub), inputs, y, trainer, hub.rng, valid=valid, judged=rows, groups=groups
        )
        note_tried(hub)
        write_model(
            hub, "fit", "the label holder's model, if it is published", hub.memory["model"], self._on_head(rows)
        )
        yield
        if self.more is not None:
            yield from self._go_on(hub, peers.only(tuple(received)))

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Algorithm 2: guests send their numbers, the host predicts."""
        received = peers.only(tuple(hub.memory["guests"])).tolerant.ask(self.represent, rows=rows)
        return self._predictions(hub, received, hub.data.part(rows)[0])

    def fit_opening(self) -> Opening:
        """The one exchange brings nothing; how training goes on depends on the host's rows."""
        return Opening((Ask.known(self.learn_and_send),), then="ends" if self.more is None else "yields")

    def predict_opening(self, rows: str) -> Opening:
        """Guests need the name of the cut alone."""
        return Opening((Ask.known(self.represent, rows=rows),), then="ends")

    @step(takes=None, gives=_GIVES)
    def learn_and_send(self, party: Party) -> dict[str, Any]:
        """Learn an encoder from the training rows; send those, and all others that the head looks at."""
        rows, encoder = len(party.data.cut("train")), self.encoder
        # What noise costs is known for all rows, and not for a sample of them.
        x = party.data.sample("train", encoder.most_rows if encoder.noise(rows) is None else None, party.rng)
        net = encoder.sized(x, self._most(x)).fit(x, party.rng)
        # Split learning goes on from here, and sums of columns alone would hold it back.
        party.memory["net"] = self.encoder.able_to_learn(net, x.shape[1:], party.rng) if self.more else net
        party.memory["learnt from"] = rows
        noises = self.encoder.noise(rows)
        write_model(party, "learn_and_send", "its encoder, if it is published", party.memory["net"], noises)
        pairs = (PAIRED,) if self._takes_gaps and len(party.data.cuts.get(PAIRED, ())) else ()
        return {rows: self.represent(party, rows) for rows in (*self._cuts, *pairs)}

    @step(takes=None, gives=_GIVES)
    def represent(self, party: Party, rows: str) -> Any:
        """Put the rows of a cut through the encoder."""
        net = party.memory["net"]
        sent = party.data.mapped(rows, lambda x: self.encoder.encode(net, x).astype(self.precision))
        if self.noise is None:
            return sent
        return self.noise.put_on_rows(sent, party, rows, self.encoder.noise(party.memory["learnt from"]))

    @property
    def split(self) -> Split:
        """How training goes on after the one exchange: guests' encoders as nets, and the host's model."""
        if self.more is None:
            raise Refused("by this method's settings nothing follows the one exchange, whose noise would cover no more")

        def bottom(party: Party) -> nn.Module:
            return self.encoder.build(party.data.shape, party.memory["net"])

        return Split(bottom, self._top, self.more, self.precision)

    def within(self, budget: Budget, rows: int, hub: str, guests: tuple[str, ...]) -> "FedOnce":
        """FedOnce-L1: the same with as little noise as keeps a budget.

        Encoder and trainer left as they usually are become private ones; others that cannot be private are refused.

        Args:
            budget: what all released models together may cost anyone.
            rows: how many training rows there are.
            hub: the label holder's name, by which the budget may give it a share of its own.
            guests: the others' names.
        """
        # Of the sound guests this did best at equal epsilon: `studies/fedonce_privacy.py`.
        encoder = PublicProjection() if self.encoder in (BestEncoder(), BestEncoder(dim=0)) else self.encoder
        trainer = _PRIVATE if self.trainer in (None, _USUAL) else self.trainer
        can_be = self.more is None and not isinstance(self.head, Learner)
        if not can_be or not isinstance(encoder, PrivateEncoder) or not isinstance(trainer, DpSgd):
            raise PlanError(
                "budget.epsilon needs noise wherever FedOnce learns: use trainer.type = DpSgd, an encoder of type "
                "DpPca, Codebook, DpNat or PublicProjection, a net as head (no trees, no Best), and leave out more"
            )
        demands = {name: encoder.demand(rows) for name in guests} | {hub: trainer.demand(rows)}
        if isinstance(self.noise, ClippedGaussian):
            demands |= {f"{name} sending": self.noise.demand() for name in guests}
        sigma = budget.multipliers({name: demand for name, demand in demands.items() if demand is not None})
        # All guests share one setting of their encoder: the most careful one.
        at_guests = max((sigma[name] for name in guests if name in sigma), default=0.0)
        sending = max((sigma.get(f"{name} sending", 0.0) for name in guests), default=0.0)
        return msgspec.structs.replace(
            self,
            head=self.head or _PRIVATE_HEAD,
            encoder=encoder.with_sigma(at_guests),
            trainer=trainer.with_sigma(sigma[hub]),
            noise=self.noise.with_sigma(sending) if isinstance(self.noise, ClippedGaussian) else self.noise,
        )

    def answers_at_hand(self, hub: Party) -> dict[str, dict[str, dict[str, Array]]]:
        """What guests sent while fitting, as answers to `represent`: by guest, step and cut, pairs among them."""
        sent = hub.memory["received"]
        cuts = (*self._cuts, PAIRED)
        return {name: {"represent": {cut: sent[name][cut] for cut in cuts if cut in sent[name]}} for name in sent}

    def take_in(self, peers: Peers) -> dict[str, dict[str, dict[str, Array]]]:
        """One exchange with guests that join later, in the form of `answers_at_hand`; nobody else is asked."""
        answers: dict[str, dict[str, Array]] = peers.ask(self.learn_and_send)
        sent = {name: {cut: cuts[cut] for cut in self._cuts} for name, cuts in answers.items()}
        if "valid" not in self._cuts:
            # Most models look at no validation rows, but heads that are refitted later are judged by them.
            valid = peers.ask(self.represent, rows="valid")
            sent = {name: cuts | {"valid": valid[name]} for name, cuts in sent.items()}
        return {name: {"represent": cuts} for name, cuts in sent.items()}

    def stored_parts(self, hub: Party, places: Array) -> dict[str, Array]:
        """What each guest sent for these places in cut "train", and the host's own columns if it has any."""
        split_learning.refuse_changed_nets(self.more)
        own = {hub.name: hub.data.part("train")[0][places]} if hub.data.columns else {}
        return own | {name: answer["train"][places] for name, answer in hub.memory["received"].items()}

    def predict_from(self, hub: Party, parts: Mapping[str, Array], places: Array) -> Array:
        """Predictions from some parties' parts; a guest left out is missing, the host's columns are their means."""
        x = parts.get(hub.name)
        if x is None:
            mean = hub.data.part("train")[0].mean(axis=0, dtype=np.float64).astype(np.float32)
            x = np.repeat(mean[None], len(places), axis=0)
        return self._predictions(hub, {name: parts[name] for name in hub.memory["guests"] if name in parts}, x)

    def head_norms(self, hub: Party, ask: Callable[[Step], dict[str, Any]]) -> dict[str, float]:
        """The length of the weights by which each party's numbers enter the host's model; none if it is no net."""
        if isinstance(self._model(hub), Learner):
            return {}
        first, guests = hub.memory["model"]["head.1.weight"], hub.memory["guests"]
        own = {hub.name: first.shape[1] - sum(guests.values())} if hub.data.columns else {}
        return heads.lengths_by_block(first, own | guests)

    def head_as_fitted(self, hub: Party) -> AnyLearner | None:
        """The learner of the host's model as it was chosen; None for a private net, or one with layers for images."""
        model, trainer = self._model(hub), self.trainer or usual_trainer(len(hub.data.cut("train")))
        if isinstance(model, Joint) and model.own is None and isinstance(trainer, Sgd):
            # Own columns pass as they are, so that the joint net is one net of all numbers side by side.
            return NetModel(net=model.head, trainer=trainer)
        return as_fitted(model, hub.memory["model"])

    def expected_noise(self, rows: int, hub: str, guests: tuple[str, ...]) -> dict[str, tuple[Noise, ...]]:
        """The noise on each party's model, and on what guests send, which is known before anything runs."""
        learnt = self.encoder.noise(rows)
        # Each cut is sent once and is of other people, so that one of them is what anyone pays.
        sent = (self.noise.words(learnt),) if isinstance(self.noise, ClippedGaussian) else ()
        return {hub: self._on_head(rows) or ()} | dict.fromkeys(guests, (learnt or ()) + sent)

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """A guest's encoder, or the host's model of its columns and what guests sent."""
        if "guests" not in party.memory:
            refuse_noise(self.noise)
            net = load(self.encoder.build(party.data.shape, party.memory["net"]), party.memory["net"])
            return Exported(net, {}, {party.name: party.data.shape}, self.precision)
        weights, guests, model = party.memory["model"], party.memory["guests"], self._model(party)
        own = {party.name: party.data.shape} if party.data.columns else {}
        inputs = own | {name: (width,) for name, width in guests.items()}
        if isinstance(model, Learner):
            return Exported(model, weights, inputs)
        scale = {name: values for name, values in weights.items() if name in _BESIDE}
        top = self._top(party, sum(guests.values()))
        layers = {name: values for name, values in weights.items() if name not in scale}
        return Exported(load(top, layers), scale | party.memory.get("scale", {}), inputs)

    def _sifted(self, hub: Party, sent: Mapping[str, Any]) -> dict[str, Any]:
        """What counts of what guests sent."""
        own = {cut: hub.data.part(cut)[0] for cut in self._cuts} if hub.data.columns else {}
        labels = {cut: _checked_by(task_of(hub), labelled(hub, cut)[1]) for cut in self._cuts}
        return self.check.sift(hub, sent, own, labels, noised=self.noise is not None)

    def _on_head(self, rows: int) -> tuple[Noise, ...] | None:
        """The noise under which the host learns; proven only if what guests send moves with its own row alone."""
        noises, learnt = (self.trainer or _USUAL).noise(rows), self.encoder.noise(rows)
        if noises is None or (learnt is not None and all(noise.proven for noise in learnt)):
            return noises
        return tuple(msgspec.structs.replace(one, proven=False, caveat=f"NOT PROVEN: {COUPLED}") for one in noises)

    def _go_on(self, hub: Party, peers: Peers) -> Iterator[None]:
        """The published extension: the one-shot model is where split learning starts."""
        scale = {name: values for name, values in hub.memory["model"].items() if name in _BESIDE}
        hub.memory["scale"] = scale
        hub.memory["model"] = {name: values for name, values in hub.memory["model"].items() if name not in scale}
        yield from split_learning.train_together(self, hub, peers)

    def _blocks(self, hub: Party, received: Mapping[str, Array], x: Array) -> list[Array]:
        """The host's columns, if it has any, and each guest's numbers; gaps, or zeros, for one that is not there."""
        missing = np.float32(np.nan if self._takes_gaps else 0)
        blocks = [
            received[name].astype(np.float32, copy=False) if name in received else np.full((len(x), width), missing)
            for name, width in hub.memory["guests"].items()
        ]
        return [x, *blocks] if hub.data.columns else blocks

    def _predictions(self, hub: Party, received: Mapping[str, Array], x: Array) -> Array:
        model = hub.memory["model"] | hub.memory.get("scale", {})
        return predict_top(self._model(hub), task_of(hub), model, _inputs(hub, self._blocks(hub, received, x)))

    def _most(self, x: Array) -> int:
        """The most numbers that stand for one of these rows where the encoder does not say how many."""
        return max(1, self.row_bytes * (2 if x.ndim == 4 else 1) // np.dtype(self.precision).itemsize)

    @property
    def laid_open(self) -> int:
        """How many columns of its table a guest sends by rank at most, which the host can read so."""
        if not isinstance(self.encoder, BestEncoder) or self.encoder.dim == 0:
            return 0
        return most_ranks(self.encoder.dim or self._most(np.empty((0, 0))))

    @property
    def _cuts(self) -> tuple[str, ...]:
        return self.head.cuts if isinstance(self.head, Learner) else ("train", "valid")

    @property
    def _takes_gaps(self) -> bool:
        """Whether the host's model learns from rows that not all guests have."""
        return self.head.takes_gaps if isinstance(self.head, Learner) else not isinstance(self.trainer, DpSgd)

    def _model(self, hub: Party) -> Joint | AnyHead:
        if self.head is not None:
            return self.head
        has_images = len(hub.data.shape) == 3
        if not has_images and self.trainer is None and self.more is None:
            return Best()
        own = Cnn(hidden=(), final="relu") if has_images else None
        return Joint(own=own, width=128, head=Mlp(hidden=(64,)))

    def _top(self, hub: Party, width: int) -> nn.Module:
        """The host's model as a net, for its own columns and so many numbers of guests."""
        shapes, model = [hub.data.shape, (width,)] if hub.data.columns else [(width,)], self._model(hub)
        if isinstance(model, Learner):
            raise ValueError("only a net can be trained by gradients; use one as head, such as Joint()")
        return model.model(shapes, task_of(hub).outputs)

"""RAP: every party mixes its columns by a secret random matrix and sends them once; a server learns from them alone.

The label holder hides its labels too, and decodes what the server predicts. Zhang et al.: RAP: Random Projection is
What You Need for Vertical Federated Learning. This is obfuscation, not privacy: `laconic.audit.rap_attacks` undoes it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, Script, step
from laconic.learn.encoders.rap import (
    AnyMatrix,
    Orthogonal,
    draw_label_secret,
    draw_secret,
    hidden_classes,
    hidden_task,
    hide_labels,
    project,
    reveal_labels,
)
from laconic.learn.models.best import Best, what_was_tried
from laconic.learn.models.learners import AnyLearner
from laconic.methods.families.contributions import Check
from laconic.methods.families.rows import (
    groups_at,
    labelled,
    labels_at,
    note_outside,
    note_tried,
    own_labelled,
    side_by_side,
)
from laconic.methods.families.split import Precision
from laconic.privacy.mechanisms.gaussian import LocalGaussian
from laconic.threads import limit_threads
from laconic.values import Array, Rng, Weights, flat

Secrets: TypeAlias = Literal["seed", "system"]
"""Where secrets come from: the party's seed, so that a run can be repeated, or the operating system.

Whoever knows the seed can draw the same secrets. A simulation's is no secret; a party that sits apart has its own.
"""

GIVES = (
    "its columns of the rows asked for, mixed by one secret matrix: distances between rows are kept, as many known "
    "rows as columns undo it for all rows, and statistics alone undo much of it"
)
"""What a data owner has to know of such a release."""


def projected(party: Party, rows: str, matrix: AnyMatrix, secrets: Secrets) -> Array:
    """The rows of a cut, mixed; the secret is drawn once, as a second matrix on the same rows would give more away."""
    if "projection" not in party.memory:
        table = party.data
        party.memory["projection"] = draw_secret(table.x, table.cut("train"), matrix, secret_rng(party, secrets))
    return project(party.memory["projection"], party.data.x, party.data.cut(rows), party.data.keys)


def secret_rng(party: Party, secrets: Secrets) -> Rng:
    """What secrets are drawn from."""
    return party.rng if secrets == "seed" else np.random.default_rng()


_LABELS = (
    "; from the label holder also its labels, two codes per class or mixed with a pseudo label, which can be undone"
)


class Rap(Method, frozen=True):
    """One upload of mixed columns and hidden labels; the server trains without asking again.

    Attributes:
        matrix: how columns are mixed: a rotation, or a Gaussian matrix as published.
        learner: the model that is trained; `Best()` tries linear models, trees and nets.
        trains: who trains. With `label holder`, the server hands the mixed columns on to it and no label leaves it; it
            then learns from all labels that it has. A server learns from shared rows alone: it has no labels but those
            that are sent to it, and more would give away people whom no other party knows.
        numbers: for a numeric label, one model predicts both hidden numbers, or two models one each, as published.
        noise: noise on every mixed row, for a stated epsilon; None for none.
        precision: how exactly mixed columns are sent.
        secrets: where matrices, codes and pseudo values come from.
        check: what a server that trains looks for in mixed columns, before they count.
    """

    server: ClassVar[bool] = True

    matrix: AnyMatrix = Orthogonal()
    learner: AnyLearner = Best()
    trains: Literal["server", "label holder"] = "server"
    numbers: Literal["one model", "two models"] = "one model"
    noise: LocalGaussian | None = None
    precision: Precision = "float32"
    secrets: Secrets = "seed"
    check: Check = Check()

    def __post_init__(self) -> None:
        """Refuse to leave parties out where the server has nothing to judge them by."""
        if self.check.leave_out and self.trains == "label holder":
            raise ValueError(
                "check.leave_out needs labels at the server, hidden ones will do, but trains = 'label holder' keeps "
                "them; say trains = 'server' or leave_out = false"
            )

    @property
    def rounds(self) -> int:
        """One upload each; a label holder that trains is handed the columns in a second exchange."""
        return 1 if self.trains == "server" else 2

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Algorithm 1, steps 1 to 3."""
        sent = peers.ask(self.send)
        holder = _holder(sent)
        hub.memory["holder"] = holder
        if self.trains == "server":
            sent = self._sifted(hub, sent)
        columns = {cut: _joined(answer["columns"].get(cut) for answer in sent.values()) for cut in self.learner.cuts}
        if self.trains == "server":
            label = sent[holder]["label"]
            hub.memory["classes"] = label["classes"]
            hub.memory["models"] = self._train(columns, label, hub.rng)
            hub.memory["tried"] = what_was_tried(hub.memory["models"])
        else:
            said = peers.only((holder,)).ask(self.learn, columns=columns)[holder]
            hub.memory["tried"] = said["tried"]
            if said["outside"] is not None:
                hub.memory["outside"] = {holder: said["outside"]} if said["outside"] else {}
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Algorithm 1, step 4: parties transform, the server predicts, the label holder decodes."""
        holder, without = hub.memory["holder"], hub.memory.get("without", ())
        kept = peers.only(tuple(name for name in peers.names if name not in without))
        columns = _joined(kept.ask(self.transform, rows=rows).values())
        only = peers.only((holder,))
        if self.trains == "label holder":
            return np.asarray(only.ask(self.apply, rows=rows, columns=columns)[holder])
        task = hidden_task(hub.memory["classes"])
        found = [self.learner.predict(task, model, columns) for model in hub.memory["models"]]
        hidden = np.column_stack(found).astype(np.float32)
        return np.asarray(only.ask(self.decode, hidden=hidden)[holder])

    def fit_opening(self) -> Opening:
        """One upload; whatever else is asked, is asked of the label holder alone."""
        return Opening((Ask.known(self.send),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """As for fitting."""
        return Opening((Ask.known(self.transform, rows=rows),), then="ends")

    @step(takes=None, gives=GIVES + _LABELS)
    def send(self, party: Party) -> dict[str, Any]:
        """The one upload: training rows, and validation rows if the learner looks at them."""
        answer: dict[str, Any] = {"columns": {}}
        if self._gives_columns(party):
            answer["columns"] = {cut: self._mixed(party, cut) for cut in self.learner.cuts}
        if party.data.task is not None:
            answer["label"] = self._hidden_labels(party) if self.trains == "server" else {}
        return answer

    @step(takes=None, gives=GIVES)
    def transform(self, party: Party, rows: str) -> Any:
        """The rows of a cut, mixed as those sent before; None from a party that has no columns to send."""
        return self._mixed(party, rows) if self._gives_columns(party) else None

    @step(
        takes="the server's predictions of hidden labels",
        gives="its predictions, decoded: in a test they go back to be scored, and tell the server what codes mean",
    )
    def decode(self, party: Party, hidden: Array) -> Array:
        """Turn predictions of hidden labels into predictions of labels."""
        return reveal_labels(task_of(party), party.memory["label secret"], hidden)

    @step(
        takes="all other parties' mixed columns of the rows to learn from",
        gives="which models it tried, how these did on rows held out, and from how many further rows it learnt",
        by_row=False,
    )
    def learn(self, party: Party, columns: dict[str, Array]) -> dict[str, Any]:
        """Train at the label holder, on its own columns and the mixed ones of the others.

        It also learns from all its labelled rows outside the overlap, in which the others' columns are missing.
        """
        cuts = {cut: (self._beside(party, cut, columns[cut]), labelled(party, cut)[1]) for cut in self.learner.cuts}
        (x, y), at = cuts["train"], own_labelled(party)
        at = at if self.learner.takes_gaps and party.data.columns else at[:0]
        own = np.full((len(at), *x.shape[1:]), np.nan, np.float32)
        if len(at):
            own[:, : np.prod(party.data.shape)] = flat(party.data.x[at])
        x, y, judged = np.concatenate([x, own]), np.concatenate([y, labels_at(party, at).astype(y.dtype)]), len(y)
        width = party.data.x.shape[1] if party.data.columns and x.ndim == 2 else 0
        party.memory["model"] = self.learner.fit_all(
            task_of(party), x, y, party.rng, cuts.get("valid"), judged, groups_at(party, at), width
        )
        note_outside(party, at)
        note_tried(party)
        outside = party.memory.get("outside")
        return {
            "tried": party.memory["tried"],
            "outside": None if outside is None else outside.get(party.name, 0),
        }

    @step(takes="all other parties' mixed columns of the rows asked for", gives="its predictions for those rows")
    def apply(self, party: Party, rows: str, columns: Array) -> Array:
        """Predict at the label holder that has trained."""
        return self.learner.predict(task_of(party), party.memory["model"], self._beside(party, rows, columns))

    def _sifted(self, hub: Party, sent: Mapping[str, Any]) -> dict[str, Any]:
        """What counts of what was sent; the label holder's own columns are what others are judged by."""
        holder = hub.memory["holder"]
        label, own = sent[holder]["label"], sent[holder]["columns"]
        others = {name: one["columns"] for name, one in sent.items() if name != holder and one["columns"]}
        labels = {cut: label[cut] for cut in self.learner.cuts}
        kept = self.check.sift(hub, others, own, labels, noised=self.noise is not None)
        hub.memory["without"] = [name for name in others if name not in kept]
        return {name: one for name, one in sent.items() if name not in hub.memory["without"]}

    def _gives_columns(self, party: Party) -> bool:
        at_home = self.trains == "label holder" and party.data.task is not None
        return bool(party.data.columns) and not at_home

    def _mixed(self, party: Party, rows: str) -> Any:
        mixed = projected(party, rows, self.matrix, self.secrets).astype(self.precision, copy=False)
        return mixed if self.noise is None else self.noise.put_on(mixed, party, rows)

    def _hidden_labels(self, party: Party) -> dict[str, Any]:
        task, rng = task_of(party), secret_rng(party, self.secrets)
        secret = draw_label_secret(task, labelled(party, "train")[1], self.matrix, rng)
        party.memory["label secret"] = secret
        hidden = {cut: hide_labels(task, secret, labelled(party, cut)[1], rng) for cut in self.learner.cuts}
        return {**hidden, "classes": hidden_classes(task)}

    def _train(self, columns: dict[str, Array], label: dict[str, Any], rng: Rng) -> list[Weights]:
        """One model of the hidden label, or one for each of its two numbers."""
        task = hidden_task(label["classes"])
        apart = task.kind == "regression" and self.numbers == "two models"
        models = []
        for part in ([0], [1]) if apart else ([0, 1],):
            y = {cut: _part(label[cut], part) for cut in self.learner.cuts}
            valid = (columns["valid"], y["valid"]) if "valid" in y else None
            models.append(self.learner.fit(task, columns["train"], y["train"], rng, valid))
        return models

    @staticmethod
    def _beside(party: Party, rows: str, columns: Array) -> Array:
        return side_by_side([party.data.part(rows)[0], columns]) if party.data.columns else columns


def _holder(sent: Mapping[str, Mapping[str, Any]]) -> str:
    holders = [name for name, answer in sent.items() if "label" in answer]
    if len(holders) != 1:
        raise ValueError(
            f"one party must hold the labels, but {' and '.join(holders) or 'none'} of {', '.join(sent)} do"
        )
    return holders[0]


def _joined(blocks: Any) -> Array:
    """What the parties that have columns sent, side by side."""
    return side_by_side([block.astype(np.float32, copy=False) for block in blocks if block is not None])


def _part(hidden: Array, part: list[int]) -> Array:
    """Codes as they are; of hidden numbers the ones named, a single one without its second axis."""
    if hidden.ndim == 1:
        return hidden
    return hidden[:, part[0]] if len(part) == 1 else hidden


class MixedRows(Script, frozen=True):
    """Collects all parties' mixed rows at a server.

    Attributes:
        matrix: how columns are mixed.
        secrets: where matrices come from.
    """

    matrix: AnyMatrix = Orthogonal()
    secrets: Secrets = "seed"

    def gather(self, peers: Peers, rows: str) -> Array:
        """Everybody's mixed columns of a cut, side by side."""
        sent = peers.ask(self.give_mixed, rows=rows).values()
        return side_by_side([block for block in sent if block is not None])

    @step(takes=None, gives=GIVES)
    def give_mixed(self, party: Party, rows: str) -> Array | None:
        """The rows of a cut, mixed; None from a party without columns."""
        return projected(party, rows, self.matrix, self.secrets) if party.data.columns else None


def cluster(script: MixedRows, hub: Party, peers: Peers, rows: str, groups: int) -> Array:
    """The group, from 0, of each row of a cut: k-means."""
    from sklearn.cluster import KMeans

    model = KMeans(groups, n_init=5, random_state=int(hub.rng.integers(2**31)))
    with limit_threads():
        return np.asarray(model.fit_predict(script.gather(peers, rows)))


def nearest(script: MixedRows, peers: Peers, asked: str, among: str, count: int) -> tuple[Array, Array]:
    """For each row of cut `asked`, its `count` nearest rows of cut `among`: their places and distances."""
    from sklearn.neighbors import NearestNeighbors

    with limit_threads():
        finder = NearestNeighbors(n_neighbors=count).fit(script.gather(peers, among))
        distances, places = finder.kneighbors(script.gather(peers, asked))
    return np.asarray(places), np.asarray(distances)


def strangeness(script: MixedRows, peers: Peers, asked: str, among: str, count: int = 10) -> Array:
    """How far each row of cut `asked` is from its `count`-th nearest row of cut `among`: high for anomalies."""
    return np.asarray(nearest(script, peers, asked, among, count)[1][:, -1])

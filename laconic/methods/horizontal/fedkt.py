"""FedKT: parties' models label public rows, and a model of those labels is all that travels.

Li, He, Song: Practical One-Shot Federated Learning for Cross-Silo Setting (2021). Each party parts its rows into a
few shards, trains a teacher on each, lets them vote on public rows, and trains a student on the winners; it does so
for several partitions and sends its students. The server lets all students vote on the public rows, a party's votes
counting only where its students agree, and trains the final model on the winners. Any classifier will do.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import step
from laconic.errors import WireError
from laconic.learn.models.learner import CONSTANT, Shard, check_model, classes_of, fit_models, predict_model
from laconic.learn.models.learners import AnyClassifier, Network
from laconic.learn.models.supervised import mean_of
from laconic.learn.train.semisupervised import count_consistent, count_votes, fall_back, winners
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.averaged import Local, check_exchanges, collect, first_model, improve
from laconic.methods.families.rows import labelled
from laconic.privacy.mechanisms.votes import L0, Level, VotePrice, note_model, under_noise
from laconic.values import Array, Settings, Weights


class Prox(Settings, frozen=True):
    """Going on from FedKT's model with FedProx: FedKT-Prox.

    Attributes:
        exchanges: how often models go out and come back.
        trainer: how a party trains in each exchange.
        mu: weight of half the squared distance from the last average.
    """

    exchanges: int = 10
    trainer: Sgd = Sgd(epochs=10, batch=32)
    mu: float = 0.01

    def __post_init__(self) -> None:
        """Refuse to exchange nothing and to push parties away."""
        check_exchanges(self.exchanges)
        if self.mu < 0:
            raise ValueError(f"mu must be 0 or more, not {self.mu}")


class FedKt(Method, frozen=True):
    """Teachers vote on public rows, students learn the winners and travel, and the server does the same with them.

    Attributes:
        model: what students and the final model are.
        teacher: what teachers are; None for the same.
        partitions: how many students each party makes, each from another partition of all its rows (s in the paper).
        teachers: into how many shards a partition cuts the rows (t in the paper).
        queries: the share of the public rows whose labels are asked for: of the server's votes, or at `L2` of each
            partition's. Each answer costs privacy; without noise all rows may be asked for.
        level: who is trusted, and so where noise is put.
        more: go on from the final model with FedProx; None stops after the one exchange.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")
    uses: ClassVar[tuple[str, ...]] = ("train", "public")

    model: AnyClassifier = Network()
    teacher: AnyClassifier | None = None
    partitions: int = 2
    teachers: int = 5
    queries: float = 1.0
    level: Level = L0()
    more: Prox | None = None

    improve = improve  # For `more`.

    def __post_init__(self) -> None:
        """Refuse counts and shares that leave nothing to vote on, and promises that going on would break."""
        if min(self.partitions, self.teachers) < 1:
            raise ValueError(f"partitions and teachers must be 1 or more, not {self.partitions} and {self.teachers}")
        if not 0 < self.queries <= 1:
            raise ValueError(f"queries is a share of the public rows above 0 and up to 1, not {self.queries}")
        if self.more is not None and not isinstance(self.model, Network):
            raise ValueError(f"only nets can be averaged, not {type(self.model).__name__}; use model=Network(...)")
        if self.more is not None and self.level != L0():
            raise ValueError("going on with FedProx sends models without noise; use level=L0() or more=None")

    @property
    def rounds(self) -> int:
        """Students come in one exchange; FedProx adds its own."""
        return 1 + (0 if self.more is None else self.more.exchanges)

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take the students, let them vote on public rows, and learn the winners; absent parties do not vote."""
        seed = int(hub.rng.integers(2**31))
        answers = peers.tolerant.ask(self.give_students, seed=seed)
        x = hub.data.part("public")[0]
        groups = [
            classes_of(self.model, task_of(hub), students, x)
            for name, answer in answers.items()
            if (students := self._read(hub, name, answer))
        ]
        if not groups:
            raise ValueError("no party has any rows to learn from; deal the rows anew")
        # Where students are protected already, labelling more rows with them costs nothing.
        rows = self._asked(len(x), seed) if self.level.at_parties() is None else np.arange(len(x))
        labels = self._elect(hub, [votes[:, rows] for votes in groups])
        hub.memory["model"] = fit_models(self.model, task_of(hub), [(x[rows], labels)], hub.rng)[0]
        yield
        if self.more is not None:
            if CONSTANT in hub.memory["model"]:
                hub.memory["model"] = first_model(self.local, hub)
            for _ in range(self.more.exchanges):
                hub.memory["model"] = mean_of(*collect(self, hub, peers))
                yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask the final model."""
        return predict_model(self.model, task_of(hub), hub.memory["model"], hub.data.part(rows)[0])

    @step(takes=None, gives="its student models, trained on public rows as models of its own rows label them")
    def give_students(self, party: Party, seed: int) -> Any:
        """Train teachers on shards of this party's rows, let them label public rows, and train students on that."""
        x = party.data.part("public")[0]
        shards, sizes = self._shards(party)
        guard, kind, task = self.level.at_parties(), self.teacher or self.model, task_of(party)
        teachers = fit_models(kind, task, shards, party.rng)
        if not teachers:
            return {"students": []}
        asked = x if guard is None else x[self._asked(len(x), seed)]
        votes = np.split(classes_of(kind, task, teachers, asked), np.cumsum(sizes)[:-1])
        counts = [count_votes(one, len(task.classes)) for one in votes]
        labels = [winners(one, party.rng) if guard is None else guard.winners(one, party.rng) for one in counts]
        students = fit_models(self.model, task, [(asked, one) for one in labels], party.rng)
        if guard is None:
            return {"students": students}
        # A row is in one shard of every partition, so all partitions' answers add up; the price stays with the party.
        party.memory["price"] = _plain(guard.price(np.concatenate(counts), moved=1))
        answers = self.partitions * len(asked)
        return under_noise(students, guard.words(answers, 1, "one row of this party, replaced by another"))

    @property
    def local(self) -> Local:
        """What FedProx goes on with."""
        more = self.more or Prox()
        return Local(self.model.net if isinstance(self.model, Network) else None, more.trainer, more.mu)

    def _shards(self, party: Party) -> tuple[list[Shard], list[int]]:
        """The rows of every teacher, and how many teachers each partition has: fewer where rows are too few."""
        x, y = labelled(party, "train")
        parts = [
            [(x[rows], y[rows]) for rows in np.array_split(party.rng.permutation(len(y)), self.teachers) if len(rows)]
            for _ in range(self.partitions)
        ]
        return [shard for part in parts for shard in part], [len(part) for part in parts]

    def _elect(self, hub: Party, groups: list[Array]) -> Array:
        """The class of each row by consistent votes, under noise where the level wants it."""
        counts = count_consistent(groups, len(task_of(hub).classes))
        guard = self.level.at_server()
        if guard is None:
            return winners(fall_back(counts, groups), hub.rng)
        # No falling back here: which rows nobody agreed on is itself a secret, so noise alone decides them.
        hub.memory["price"] = _plain(guard.price(counts, moved=self.partitions))
        unit = "all rows of one party, replaced by others"
        note_model(hub, guard.words(len(counts), self.partitions, unit), len(counts))
        return guard.winners(counts, hub.rng)

    def _asked(self, rows: int, seed: int) -> Array:
        """The public rows whose labels are asked for: the same at every party that knows the seed."""
        count = max(1, round(self.queries * rows))
        return np.sort(np.random.default_rng(seed).permutation(rows)[:count])

    def _read(self, hub: Party, name: str, answer: Any) -> list[Weights]:
        """A party's students, each checked to be a model and nothing else; none from a party without rows."""
        students = answer.get("students") if isinstance(answer, dict) else None
        if not isinstance(students, list) or len(students) not in (0, self.partitions):
            raise WireError(
                f"{name} did not send {self.partitions} students, nor none; check that its plan is the same"
            )
        return [check_model(self.model, task_of(hub), one, hub.data.shape, name) for one in students]


def _plain(price: VotePrice) -> dict[str, float]:
    return {"independent": price.independent, "dependent": price.dependent, "delta": price.delta}

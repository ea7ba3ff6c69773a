"""FedKT: parties' models label public rows, and a model of those labels is all that travels.

Li, He, Song: Practical One-Shot Federated Learning for Cross-Silo Setting (2021). Each party parts its rows into a
few shards, trains a teacher on each, lets them vote on public rows, and trains a student on the winners; it does so
for several partitions and sends its students. The server lets all students vote on the public rows, a party's votes
counting only where its students agree, and trains the final model on the winners. Any classifier will do.

Of numbers, models' means are learnt in place of winners; there is no noise for these, so `L0` alone will do.

Beyond the paper: votes count by rows and are cut at the classes' shares of all rows (`PooledShares`, the default where
these counts may be asked for; as published: `Majority`), noisy votes are smoothed before they are learnt
(`NoisyVotes.smooth`), and a privacy budget decides noise and number of labels.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import sqrt
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from msgspec.structs import replace

from laconic.core.capabilities import Exported
from laconic.core.ledger import Noise
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.errors import PlanError, Refused, WireError
from laconic.learn.models.aggregation import (
    count_consistent,
    count_votes,
    cut_at_shares,
    fall_back,
    winners,
)
from laconic.learn.models.learners import AnyClassifier, Network
from laconic.learn.models.supervised import (
    CONSTANT,
    Shard,
    check_model,
    classes_of,
    fit_models,
    mean_of,
    numbers_of,
    predict_model,
)
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.averaged import Local, check_exchanges, collect, first_model, improve
from laconic.methods.families.rows import computes_alone, labelled
from laconic.methods.families.sums import SecureSums, agree_keys, confirm_present, share_secrets, unmask
from laconic.privacy.accounting import Events, events_of, together
from laconic.privacy.budget import Budget
from laconic.privacy.mechanisms.gaussian import mu_of
from laconic.privacy.mechanisms.sums import note_final_model
from laconic.privacy.mechanisms.votes import (
    L0,
    L1,
    L2,
    WARNING,
    Election,
    GaussianVotes,
    Level,
    NoisyVotes,
    VotePrice,
    note_model,
    under_noise,
)
from laconic.tables.task import Task
from laconic.values import Array, Rng, Settings, Weights


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


class Majority(Settings, frozen=True):
    """As published: every party counts the same, and the class with the most votes has the row."""


class PooledShares(Settings, frozen=True):
    """Parties count by their rows, and each class wins as often as it is among all parties' rows.

    Of numbers, the mean over parties is by their rows.

    Parties send how many rows of each class they have, which a party can get wrong on purpose; use `Majority` where
    that is to be feared. At `L2` these counts bear noise like one more vote. At `L1` it is refused: noise that hides
    all rows of a party would leave nothing of the counts.
    """


class ServerShares(Settings, frozen=True):
    """Each class wins as often as it is among labelled rows that the server has itself, cut "valid".

    Nothing more crosses, and at `L1` it costs nothing; every party counts the same.
    """


AnyCount: TypeAlias = Majority | PooledShares | ServerShares

_PARTY = "all rows of one party, replaced by others"
_ROW = "one row of this party, replaced by another"
_NOISE_PER_VOTER = 0.4
"""Where a budget decides: how much noise is on a count, as a share of the voters; more labels mean more noise."""
_LEAST_LABELS = 50
_ROWS_PER_TEACHER = 20
_MOST_TEACHERS = 25


class FedKt(Method, frozen=True):
    """Teachers vote on public rows, students learn the winners and travel, and the server does the same with them.

    Attributes:
        model: what students and the final model are.
        teacher: what teachers are; None for the same.
        partitions: how many students each party makes, each from another partition of all its rows (s in the paper).
        teachers: into how many shards a partition cuts the rows (t in the paper).
        queries: the share of the public rows whose labels are asked for: of the server's votes, or at `L2` of each
            partition's. Each answer costs privacy; without noise all rows may be asked for.
        labels: the most public rows whose labels are asked for, in rows; None for no limit but `queries`.
        level: who is trusted, and so where noise is put.
        sums: add parties' votes up under masks, at `L1`: the server then sees no student and nobody's votes, but the
            totals alone, and these under noise to which each party adds a share. None has it see every student.
        count: how votes decide; None for `PooledShares`, or `Majority` at `L1` and under the Laplace noise of `L2`.
        more: go on from the final model with FedProx; None stops after the one exchange.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    uses: ClassVar[tuple[str, ...]] = ("train", "public")
    long_training: ClassVar[bool] = True

    model: AnyClassifier = Network()
    teacher: AnyClassifier | None = None
    partitions: int = 2
    teachers: int = 5
    queries: float = 1.0
    labels: int | None = None
    level: Level = L0()
    count: AnyCount | None = None
    more: Prox | None = None
    sums: SecureSums | None = None

    improve = improve  # For `more`.
    agree_keys, share_secrets = agree_keys, share_secrets
    confirm_present, unmask = confirm_present, unmask

    def __post_init__(self) -> None:
        """Refuse counts and shares that leave nothing to vote on, and promises that going on would break."""
        if min(self.partitions, self.teachers) < 1:
            raise ValueError(f"partitions and teachers must be 1 or more, not {self.partitions} and {self.teachers}")
        if not 0 < self.queries <= 1:
            raise ValueError(f"queries is a share of the public rows above 0 and up to 1, not {self.queries}")
        if self.labels is not None and self.labels < 1:
            raise ValueError(f"labels is a number of public rows, 1 or more, not {self.labels}")
        if isinstance(self.count, PooledShares) and isinstance(self.level, L1):
            raise ValueError("parties' counts of classes bear no noise at L1; use count=ServerShares() or Majority()")
        if self.more is not None and not isinstance(self.model, Network):
            raise ValueError(f"only nets can be averaged, not {type(self.model).__name__}; use model=Network(...)")
        if self.more is not None and self.level != L0():
            raise ValueError("going on with FedProx sends models without noise; use level=L0() or more=None")
        if self.sums is not None and not (isinstance(self.level, L1) and _summable(self.level)):
            raise ValueError(
                "under secure sums parties put shares of Gaussian noise on their votes, and nobody sees which rows "
                "voters are sure of; use level = L1 with level.noise.type = GaussianVotes and no level.noise.sure"
            )

    @property
    def rounds(self) -> int:
        """Students come in one exchange; FedProx adds its own, and a secure sum takes more questions."""
        return 1 + (0 if self.more is None else self.more.exchanges) if self.sums is None else self.sums.questions

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take the students, let them vote on public rows, and learn the winners; absent parties do not vote."""
        seed = int(hub.rng.integers(2**31))
        # Public rows and students stay with the server, so that a party can leave without anybody being asked.
        hub.memory["public"] = hub.data.part("public")[0]
        if self.sums is not None and isinstance(self.level, L1):
            self._learn_totals(hub, self.sums, self.level, peers, seed)
            yield
            return
        answers = peers.tolerant.ask(self.give_students, seed=seed)
        hub.memory["sent"] = {name: one for name, answer in answers.items() if (one := self._read(hub, name, answer))}
        self._conclude(hub, seed)
        yield
        if self.more is not None:
            if CONSTANT in hub.memory["model"]:
                hub.memory["model"] = first_model(self.local, hub)
            for _ in range(self.more.exchanges):
                models, numbers = collect(self, hub, peers)
                hub.memory["model"] = mean_of(list(models.values()), list(numbers.values()))
                yield

    def _learn_totals(self, hub: Party, sums: SecureSums, level: L1, peers: Peers, seed: int) -> None:
        """The final model of noisy totals of all parties' votes, of which the server sees nothing else."""
        x, task = _public_rows(hub), task_of(hub)
        asked = self._asked(len(x), seed)
        like = {"votes": np.zeros((len(asked), len(task.classes)))}
        total = sums.over(self, peers, self.give_votes, like, seed=seed)
        hub.memory["voted"] = list(total.parties)
        # Each adds a share of the noise: together more than is needed, the more of them are honest and there.
        spread = level.noise.spread * sqrt(len(total.parties) / sums.honest(total.agreed))
        scores = level.decide(total.parts["votes"], x[asked], x, spread)
        rows, labels = x if level.smooth else x[asked], self._decide(hub, scores, np.zeros((1, len(task.classes))))
        hub.memory["model"] = fit_models(self.model, task, [(rows, labels)], hub.rng)[0]
        price = level.price(np.zeros((len(asked), len(task.classes))), moved=self.partitions)
        hub.memory["price"] = _plain(replace(price, dependent=None))  # Which rows were clear, nobody saw.
        note_final_model(hub, hub.memory["model"], self._in_sum(level, len(asked)))

    def _in_sum(self, level: L1, answers: int) -> Noise:
        return level.words_in_sum(answers, self.partitions, _PARTY)

    def _conclude(self, hub: Party, seed: int) -> None:
        """The final model of all students at hand."""
        x, task, sent = _public_rows(hub), task_of(hub), list(hub.memory["sent"].values())
        if not sent:
            raise ValueError("no party has any rows to learn from; deal the rows anew")
        groups, counts = [one["students"] for one in sent], np.array([one["counts"] for one in sent])
        asked = self._asked(len(x), seed)
        if task.kind == "regression":
            rows, labels = asked, self._mean_numbers(task, groups, counts, x[asked])
        else:
            votes = [classes_of(self.model, task, students, x) for students in groups]
            rows, labels = self._elect(hub, votes, counts, asked)
        hub.memory["model"] = fit_models(self.model, task, [(x[rows], labels)], hub.rng)[0]

    def members(self, hub: Party) -> dict[str, int]:
        """Whose students vote; with how many rows each made them, the server does not know."""
        return dict.fromkeys(hub.memory.get("sent", hub.memory.get("voted", ())), 0)

    def merge_in(self, hub: Party, peers: Peers) -> None:
        """Give parties public rows if they have none, ask them for students, and let these vote with the others."""
        self._refuse_changed("join")
        again = [name for name in peers.names if name in hub.memory["sent"]]
        if again:
            raise ValueError(
                f"{again[0]} has sent students of all its rows; let it be forgotten and join again with its new rows"
            )
        if "public" not in hub.data.cuts:
            peers.ask(self.take_public, rows=hub.memory["public"])
        elif not np.array_equal(hub.data.part("public")[0], hub.memory["public"]):
            raise ValueError("the public rows are not those that students have voted on; bring these back")
        seed = self._begin_again(hub)
        for name, answer in peers.ask(self.give_students, seed=seed).items():
            read = self._read(hub, name, answer)
            if read is None:
                raise ValueError(f"{name} has no rows to learn from, and sent no students")
            hub.memory["sent"] = {**hub.memory["sent"], name: read}
        self._conclude(hub, seed)

    def take_out(self, hub: Party, name: str) -> None:
        """Drop a party's students, and let the others vote again: as if it had never sent any."""
        self._refuse_changed("leave")
        hub.memory["sent"] = {one: sent for one, sent in hub.memory["sent"].items() if one != name}
        self._conclude(hub, self._begin_again(hub))

    def _begin_again(self, hub: Party) -> int:
        """The randomness that the run began with, and the seed that it asked with."""
        hub.turn("fit", 0)
        return int(hub.rng.integers(2**31))

    def _refuse_changed(self, verb: str) -> None:
        """Refuse where students alone do not say what the model would be without, or with, a party."""
        if self.more is not None:
            raise ValueError(
                f"the model went on with FedProx (more), for which every party trained what others had made, so nobody "
                f"can {verb} afterwards; train again with the parties that are to be in it"
            )
        if isinstance(self.level, L1):
            raise ValueError(
                "at L1 votes bear noise that was paid for once, and another vote, without a party or with one more, "
                f"costs as much again; to {verb}, train again"
            )
        if isinstance(self.count, ServerShares):
            raise ValueError(
                "count=ServerShares() needs the server's own labelled rows, which no saved model has; to "
                f"{verb}, train again"
            )

    @step(takes="the public rows, which everybody may see", gives=None)
    def take_public(self, party: Party, rows: Array) -> None:
        """Keep the public rows that a party which joins later lacks."""
        party.memory["public"] = rows

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """The model, at whoever has it."""
        return computes_alone(party, self.model)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask the final model."""
        return predict_model(self.model, task_of(hub), hub.memory["model"], hub.data.part(rows)[0])

    def fit_opening(self) -> Opening:
        """One question, whose seed follows from the hub's randomness; FedProx and secure sums ask by what came back."""
        return self._opening(Ask.later(self.give_students))

    def fit_opening_from(self, rng: Rng) -> Opening:
        """The same question with its seed."""
        return self._opening(Ask.known(self.give_students, seed=int(rng.integers(2**31))))

    def _opening(self, asked: Ask) -> Opening:
        if self.sums is not None:
            return Opening((Ask.known(self.agree_keys),))
        return Opening((asked,), then="ends" if self.more is None else "yields")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

    @step(
        takes=None,
        gives="for the public rows asked about, which class all its student models agree on, a vote of each",
        by_row=False,
    )
    def give_votes(self, party: Party, seed: int) -> Any:
        """Train students as for `give_students`, and vote by them, under a share of the noise and under masks."""
        sums, level, task, x = self.sums, self.level, task_of(party), _public_rows(party)
        if sums is None or not isinstance(level, L1):
            raise Refused("this method's settings name no secure sums of votes, so that none are sent")
        self._refuse_numbers(task)
        asked = self._asked(len(x), seed)
        votes = np.zeros((len(asked), len(task.classes)))
        if len(party.data.cut("train")):
            teachers, sizes = self._teachers(party)
            counts = self._teachers_say(party, teachers, sizes, np.arange(len(x)))
            learnt = [(x, winners(one, party.rng)) for one in counts]
            students = fit_models(self.model, task, learnt, party.rng)
            said = classes_of(self.model, task, students, x[asked])
            votes = count_consistent([said], len(task.classes)).astype(np.float64)
        words = self._in_sum(level, len(asked))
        return sums.hide(party, level.share_of(votes, party.rng, sums.noise_share(party), words))

    @step(
        takes=None,
        gives="its student models, trained on public rows as models of its own rows label them, and how many rows of "
        "each class it has, where votes are cut at classes' shares, or how many rows, where these count",
    )
    def give_students(self, party: Party, seed: int) -> Any:
        """Train teachers on shards of this party's rows, let them label public rows, and train students on that."""
        if self.sums is not None:
            raise Refused(f"by this method's settings {party.name} gives votes alone, under masks, and no students")
        x, task, guard = _public_rows(party), task_of(party), self.level.at_parties()
        teachers, sizes = self._teachers(party)
        if not teachers:
            return {"students": []}
        if task.kind == "regression":
            return self._students_of_numbers(party, teachers, sizes)
        asked = np.arange(len(x)) if guard is None else self._asked(len(x), seed)
        counts = self._teachers_say(party, teachers, sizes, asked)
        own = np.bincount(labelled(party, "train")[1].astype(np.int64), minlength=len(task.classes))
        if guard is None:
            labels = [winners(one, party.rng) for one in counts]
            return self._answer(fit_models(self.model, task, [(x, one) for one in labels], party.rng), own)
        most = self._most(len(x))
        answered = [
            guard.answer(one, Election(voters, most, x[asked], x), party.rng)
            for one, voters in zip(counts, sizes, strict=True)
        ]
        learnt = [(x if guard.smooth else x[asked[at]], winners(said, party.rng)) for at, said in answered]
        students = fit_models(self.model, task, learnt, party.rng)
        # A row is in one shard of every partition, so all partitions' answers add up; the price stays with the party.
        released = np.concatenate([one[at] for one, (at, _) in zip(counts, answered, strict=True)])
        answers = len(counts) * most + self._by_share
        party.memory["price"] = _plain(guard.price(_padded(released, answers), moved=1))
        answer = self._answer(students, guard.noisy(own, party.rng) if self._by_share else own)
        return under_noise(answer, guard.words(answers, 1, _ROW))

    def _teachers(self, party: Party) -> tuple[list[Weights], list[int]]:
        """Teachers of this party's shards, and how many each partition has."""
        shards, sizes = self._shards(party)
        return fit_models(self.teacher or self.model, task_of(party), shards, party.rng), sizes

    def _teachers_say(self, party: Party, teachers: list[Weights], sizes: list[int], asked: Array) -> list[Array]:
        """How many teachers of each partition vote for each class of the public rows asked about."""
        x, task = _public_rows(party), task_of(party)
        votes = np.split(classes_of(self.teacher or self.model, task, teachers, x[asked]), np.cumsum(sizes)[:-1])
        return [count_votes(one, len(task.classes)) for one in votes]

    def _refuse_numbers(self, task: Task) -> None:
        if self.level != L0() and task.kind == "regression":
            raise ValueError(
                f"label {task.label!r} is a number, and {type(self.level).__name__} puts noise on votes for "
                "classes; use level=L0(), FedAvg with trainer=DpSgd(...), or Analytic with privacy"
            )

    def _students_of_numbers(self, party: Party, teachers: list[Weights], sizes: list[int]) -> dict[str, Any]:
        """Students of the mean of each partition's teachers; noise there is none for, as numbers have no bound."""
        self._refuse_numbers(task_of(party))
        x, task, kind = _public_rows(party), task_of(party), self.teacher or self.model
        ends = np.cumsum([0, *sizes])
        parts = [teachers[start:end] for start, end in pairwise(ends)]
        learnt = [(x, numbers_of(kind, task, part, x)) for part in parts]
        return self._answer(fit_models(self.model, task, learnt, party.rng), np.array([len(party.data.cut("train"))]))

    def _mean_numbers(self, task: Task, groups: list[list[Weights]], counts: Array, x: Array) -> Array:
        """The mean over parties of what each one's students say, by their rows where these are asked for."""
        numbers = [numbers_of(self.model, task, students, x) for students in groups]
        known = self._by_share and _all_known(counts)
        return np.asarray(np.average(numbers, axis=0, weights=counts[:, 0] if known else None))

    def within(self, budget: Budget, rows: int, hub: str, guests: tuple[str, ...]) -> "FedKt":
        """The same with labels asked for and noise that keep a budget.

        Without a level it is `L2`, which covers all that leaves a party, with one partition of as many teachers as
        the least party's rows allow. A level that is set stays; at `L1` the budget is for the final model.

        Args:
            budget: what may be lost. At `L2`, people who are at all parties lose at each.
            rows: how many rows the party with the fewest has.
            hub: the server's name.
            guests: the parties' names.
        """
        teachers = min(_MOST_TEACHERS, max(5, rows // _ROWS_PER_TEACHER))
        free = self.level == L0() and self.more is None
        method = replace(self, level=L2(), partitions=1, teachers=teachers) if free else self
        level = method.level
        noise = level.noise if isinstance(level, NoisyVotes) else None
        if not isinstance(level, NoisyVotes) or not isinstance(noise, GaussianVotes):
            raise PlanError(
                "budget.epsilon needs Gaussian noise on votes: use level.noise.type = GaussianVotes, no more"
            )
        at_server = level.at_server() is not None
        voters = len(guests) if at_server else method.teachers
        copies = len(guests) if budget.people == "shared" and (self.sums is not None or not at_server) else 1
        answers = (mu_of(budget.epsilon, budget.delta) * _NOISE_PER_VOTER * voters) ** 2 / 2 / copies
        labels = self.labels or max(_LEAST_LABELS, int(answers / (1 if at_server else method.partitions)))

        def with_noise(sigma: float) -> FedKt:
            noisy = replace(level, noise=replace(noise, sigma=sigma), delta=budget.delta)
            return replace(method, level=noisy, labels=labels)

        def events(sigma: float) -> Events:
            found = with_noise(sigma).expected_noise(rows, hub, guests)
            once = together({str(at): events_of(one) for at, one in enumerate(next(iter(found.values())))})
            return {event: copies * count for event, count in once.items()}

        return with_noise(budget.least_noise(events))

    def expected_noise(self, rows: int, hub: str, guests: tuple[str, ...]) -> dict[str, tuple[Noise, ...]]:
        """The noise on the final model (`L1`) or on each party's students (`L2`), for as many labels as may be."""
        if self.level == L0():
            return {}
        if self.labels is None:
            raise PlanError("what FedKt costs depends on how many public rows are asked about: set method.labels")
        if isinstance(self.level, L1) and self.sums is not None:
            return dict.fromkeys(guests, (self._in_sum(self.level, self.labels),))
        if isinstance(self.level, L1):
            return {hub: (self.level.words(self.labels, self.partitions, _PARTY),)}
        guard = self.level.at_parties()
        answers = self.partitions * self.labels + self._by_share
        return {} if guard is None else dict.fromkeys(guests, (guard.words(answers, 1, _ROW),))

    updates: ClassVar[None] = None
    """Going on with FedProx, the server sees each model, as it saw each student before, and without noise."""

    @property
    def local(self) -> Local:
        """What FedProx goes on with."""
        if self.more is None:
            raise Refused("this method's settings do not go on with FedProx, so that no model leaves by itself")
        return Local(self.model.net if isinstance(self.model, Network) else None, self.more.trainer, self.more.mu)

    def _shards(self, party: Party) -> tuple[list[Shard], list[int]]:
        """The rows of every teacher, and how many teachers each partition has: fewer where rows are too few."""
        x, y = labelled(party, "train")
        parts = [
            [(x[rows], y[rows]) for rows in np.array_split(party.rng.permutation(len(y)), self.teachers) if len(rows)]
            for _ in range(self.partitions)
        ]
        return [shard for part in parts for shard in part], [len(part) for part in parts]

    @property
    def _by_share(self) -> bool:
        """Whether parties' counts of classes are asked for."""
        if self.count is not None:
            return isinstance(self.count, PooledShares)
        return isinstance(self.level, L0) or (
            isinstance(self.level, L2) and isinstance(self.level.noise, GaussianVotes)
        )

    def _elect(self, hub: Party, groups: list[Array], counts: Array, asked: Array) -> tuple[Array, Array]:
        """The public rows that get a label, and the class of each, under noise where the level wants it.

        Args:
            groups: each party's votes, of shape (students, rows).
            counts: each party's rows of each class; zeros if they were not asked for.
            asked: the rows that a noisy election may ask about.
        """
        x, classes = _public_rows(hub), len(task_of(hub).classes)
        everything = np.arange(len(x))
        if isinstance(self.level, L1):
            # No falling back here: which rows nobody agreed on is itself a secret, so noise alone decides them.
            votes, most = count_consistent([one[:, asked] for one in groups], classes), self._most(len(x))
            election = Election(self.partitions * len(groups), most, x[asked], x)
            places, scores = self.level.answer(votes, election, hub.rng)
            hub.memory["price"] = _plain(self.level.price(_padded(votes[places], most), moved=self.partitions))
            note_model(hub, self.level.words(most, self.partitions, _PARTY), most)
            return everything if self.level.smooth else asked[places], self._decide(hub, scores, counts)
        # Where students are protected already, labelling more rows with them costs nothing.
        rows = asked if self.level == L0() else everything
        groups = [votes[:, rows] for votes in groups]
        weights = np.maximum(counts, 0).sum(axis=1) if self._by_share and _all_known(counts) else None
        return rows, self._decide(hub, fall_back(count_consistent(groups, classes, weights), groups), counts)

    def _decide(self, hub: Party, scores: Array, counts: Array) -> Array:
        """The class of each row: by the most votes, or so that classes come as often as they should."""
        if isinstance(self.count, ServerShares):
            return cut_at_shares(scores, _own_shares(hub), hub.rng)
        shares = np.maximum(counts, 0).sum(axis=0)
        if not self._by_share or not _all_known(counts) or shares.sum() == 0:
            return winners(scores, hub.rng)
        return cut_at_shares(scores, shares, hub.rng)

    def _answer(self, students: list[Weights], counts: Array) -> dict[str, Any]:
        return {"students": students, "counts": counts} if self._by_share else {"students": students}

    def _asked(self, rows: int, seed: int) -> Array:
        """The public rows put to the vote: the same at every party that knows the seed."""
        guard, most = self.level.at_parties() or self.level.at_server(), self._most(rows)
        count = most if guard is None else guard.tested(most)
        return np.sort(np.random.default_rng(seed).permutation(rows)[:count])

    def _most(self, rows: int) -> int:
        """How many public rows may get a label."""
        return min(max(1, round(self.queries * rows)), self.labels or rows)

    def _read(self, hub: Party, name: str, answer: Any) -> dict[str, Any] | None:
        """A party's students, each checked to be a model and nothing else, and its rows of each class.

        A party without rows sends no students: None; counts that are not asked for are zeros.
        """
        task = task_of(hub)
        students = answer.get("students") if isinstance(answer, dict) else None
        if not isinstance(students, list) or len(students) not in (0, self.partitions):
            raise WireError(
                f"{name} did not send {self.partitions} students, nor none; check that its plan is the same"
            )
        shape = _public_rows(hub).shape[1:]
        models = [check_model(self.model, task, one, shape, name) for one in students]
        if not models:
            return None
        nothing = np.zeros(max(1, len(task.classes)))
        counts = _check_counts(answer.get("counts"), nothing.shape, name) if self._by_share else nothing
        return {"students": models, "counts": counts}


def _summable(level: L1) -> bool:
    """Whether shares of a level's noise add up to it, and no true count is looked at."""
    return isinstance(level.noise, GaussianVotes) and level.noise.sure is None


def _public_rows(party: Party) -> Array:
    """The public rows: among the party's own, or as they came to a party that joined later."""
    if "public" not in party.data.cuts and "public" in party.memory:
        return np.asarray(party.memory["public"])
    return party.data.part("public")[0]


def _all_known(counts: Array) -> bool:
    """Whether every party said how many rows it has; not so in models saved when this was not asked by default."""
    return bool(counts.any(axis=1).all())


def _own_shares(hub: Party) -> Array:
    """How often each class comes among the server's own labelled rows."""
    if not len(hub.data.cuts.get("valid", ())):
        raise ValueError(f"{hub.name} has no labelled rows of its own (cut valid); set data.valid, or count=Majority()")
    return np.bincount(labelled(hub, "valid")[1].astype(np.int64), minlength=len(task_of(hub).classes))


def _check_counts(counts: object, shape: tuple[int, ...], sender: str) -> Array:
    """How many rows of each class a party says it has; noise may have made some of them negative."""
    if not isinstance(counts, np.ndarray) or counts.dtype.kind not in "iuf" or counts.shape != shape:
        raise WireError(f"{sender} did not say how many rows of each class it has; check that its plan is the same")
    if not np.isfinite(counts).all() or (counts.dtype.kind != "f" and counts.min() < 0):
        raise WireError(f"{sender} says that it has {counts.tolist()} rows of the classes, which nobody can have")
    return counts.astype(np.float64)


def _padded(counts: Array, answers: int) -> Array:
    """The counts and as many rows of zeros as there might have been more answers: how many there are is no secret."""
    return np.concatenate([counts, np.zeros((answers - len(counts), counts.shape[1]), counts.dtype)])


def _plain(price: VotePrice) -> dict[str, Any]:
    """A price as plain values, for the memory of whoever worked it out."""
    found = {"independent": price.independent, "delta": price.delta}
    return found if price.dependent is None else found | {"dependent": price.dependent, "warning": WARNING}

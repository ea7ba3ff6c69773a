"""Averaging: every party trains the same net on its own rows, and the server averages what comes back.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized
Data (2017). A method takes part by a property `local`, which says what parties train, and by the step `improve`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import msgspec
import numpy as np

from laconic.core.capabilities import Exported
from laconic.core.ledger import Noise, Noised, unwrap
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening, Step, step
from laconic.errors import PlanError, Refused
from laconic.learn.models.aggregation import AnyAverage, AnyServerStep, Mean, TakeAverage
from laconic.learn.models.learners import Network
from laconic.learn.models.supervised import check_model, fit_from
from laconic.learn.nets.nets import Net, default_net, make, weights_of
from laconic.learn.train.losses import agreed_scale
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.model_checks import ModelCheck, mark_of, read_marks
from laconic.methods.families.rows import computes_alone, labelled
from laconic.methods.families.sums import (
    SecureSums,
    Summed,
    agree_keys,
    confirm_present,
    share_secrets,
    take_keys,
    unmask,
)
from laconic.privacy.budget import Budget
from laconic.privacy.mechanisms.sums import GaussianUpdates, made_from_noised, note_final_model, under_training_noise
from laconic.privacy.private_sgd import DpSgd
from laconic.values import Array, Weights, check_above_zero, check_least


class Local(NamedTuple):
    """What parties train, and how: the net, the trainer, and how strongly they are pulled back to the average."""

    net: Net | None
    trainer: Sgd | DpSgd
    pull: float = 0.0

    def net_for(self, party: Party) -> Net:
        """The net for a party's rows: the same for all, as their rows have the same columns."""
        return self.net or default_net(party.data.shape)


class Averages(Protocol):
    """A method that can average parties' nets."""

    @property
    def local(self) -> Local:
        """What parties train, and how."""

    @property
    def sums(self) -> SecureSums | None:
        """How models are added up; None if the server sees each."""

    @property
    def updates(self) -> GaussianUpdates | None:
        """The noise on what all rows of a party change; None for none."""

    improve: Step


class Judging(Averages, Protocol):
    """Such a method whose parties may judge each other's models."""

    @property
    def check(self) -> ModelCheck | None:
        """What is looked for in models; None for nothing."""


@step(
    takes="the average of all parties' models, from which rows may be guessed at",
    gives="its model, trained on its rows, from which rows may be guessed at, and how many rows it has",
)
def improve(method: Averages, party: Party, model: Weights) -> Any:
    """Train the average on this party's rows."""
    net, trainer, pull = method.local.net_for(party), method.local.trainer, method.local.pull
    rows = labelled(party, "train")
    trained = fit_from(net, task_of(party), model, rows, trainer, party.rng, pull=pull)
    return guarded(method, party, len(rows[1]), {"model": model}, {"model": trained})


def guarded(method: Averages, party: Party, rows: int, starts: dict[str, Weights], ends: dict[str, Weights]) -> Any:
    """What a party ends with and how many rows it has, under the noise and the masks that the settings name.

    For a secure sum it is times the rows, as the server cannot weigh it. With noise on updates parties count the same.
    """
    sums, updates = method.sums, method.updates
    if updates is not None:
        share = 1.0 if sums is None else sums.noise_share(party)
        given: Any = updates.release(party, starts, ends, share)
        rows = 1
    else:
        given = under_training_noise(method.local.trainer, rows, ends)
    models: dict[str, Weights] = unwrap(given)[0]

    def again(value: Any) -> Any:
        return replace(given, value=value) if isinstance(given, Noised) else value

    if sums is None:
        return {name: again(model) for name, model in models.items()} | {"rows": rows}
    weighed = again({name: _times(model, rows) for name, model in models.items()} | {"rows": rows})
    return sums.hide(party, weighed, often=True)


def mean_over(
    sums: SecureSums,
    method: Summed,
    hub: Party,
    peers: Peers,
    question: Step,
    like: dict[str, Weights],
    **payload: Any,
) -> dict[str, Weights]:
    """The means of parties' models, weighted by rows, from one secure sum; `like` names them and their shapes."""
    kept = hub.memory.setdefault("sums", {}) if sums.keys == "once" else {}
    total = sums.over_several(method, peers, question, {**like, "rows": 0.0}, kept, payload)
    rows = round(total.parts["rows"])
    if rows < 1:
        raise ValueError("no party has any rows to learn from; deal the rows anew")
    return {
        part: {name: (values / rows).astype(like[part][name].dtype) for name, values in total.parts[part].items()}
        for part in like
    }


@step(
    takes="every party's model of the first exchange, from which rows may be guessed at",
    gives="how well each of these models ranks its rows by class: a number per model",
)
def judge(method: Judging, party: Party, models: list[Weights]) -> Array:
    """Mark models by this party's rows, which none but its own has seen; nothing if all are of one class."""
    if method.check is None or not method.check.judged:
        raise Refused("by this method's settings parties judge no models: no mask and no noise covers marks")
    x, y = labelled(party, "train")
    form = Network(net=method.local.net_for(party))
    marks = [mark_of(task_of(party), form.predict(task_of(party), model, x), y) for model in models] if len(y) else []
    return np.array([one for one in marks if one is not None], dtype=np.float64)


def refuse_single_models(name: str, average: AnyAverage, check: ModelCheck | None) -> None:
    """Refuse what looks at each party's model by itself where the server sees nothing but their sum."""
    if average != Mean():
        raise ValueError(
            f"{type(average).__name__} compares parties' models with each other, and under secure sums the server sees "
            f"nothing but the sum of all; use average=Mean(), or leave out sums of {name}"
        )
    if check is not None:
        raise ValueError(
            "check looks at each party's model, and under secure sums the server sees nothing but their sum; leave out "
            f"check, or sums of {name}"
        )


def first_model(local: Local, hub: Party) -> Weights:
    """Random weights, where all parties start from."""
    agreed_scale(task_of(hub))  # Of numbers there must be one; better to know before anybody is asked.
    module = make(local.net_for(hub), hub.data.shape, task_of(hub).outputs, hub.rng)
    return {name: values.copy() for name, values in weights_of(module).items()}


def noise_of(method: Averages) -> Noise | None:
    """The noise under which parties send what they learnt; its count follows from each party's rows."""
    if method.updates is not None:
        return method.updates.words()
    noises = method.local.trainer.noise(1)
    return noises[0] if noises else None


def collect(method: Averages, hub: Party, peers: Peers) -> tuple[dict[str, Weights], dict[str, float]]:
    """Parties' models after one more training of `hub.memory["model"]`, and how many rows each party has."""
    answers = peers.ask(method.improve, model=made_from_noised(hub.memory["model"], noise_of(method)))
    form = Network(net=method.local.net_for(hub))
    models = {
        name: check_model(form, task_of(hub), one["model"], hub.data.shape, name) for name, one in answers.items()
    }
    return models, {name: float(one["rows"]) for name, one in answers.items()}


def _times(model: Weights, rows: int) -> Weights:
    return {name: values.astype(np.float64) * rows for name, values in model.items()}


def check_exchanges(exchanges: int) -> None:
    """Refuse a number of exchanges below 1."""
    if exchanges < 1:
        raise ValueError(f"exchanges must be 1 or more, not {exchanges}")


class Averaging(Method, frozen=True):
    """Abstract: a method that averages parties' nets, once per exchange; the average is in `hub.memory["model"]`.

    Attributes:
        net: the form of all nets; None takes a small net that suits the rows.
        trainer: how a party trains in each exchange.
        exchanges: how often models go out and come back.
        average: how one model is made of all: the mean, or one that bad parties cannot drag away (`Median`,
            `TrimmedMean`, `Krum`).
        update: how far the server goes towards that average: all the way, or by `Adam` or `Yogi` steps of its own,
            which need many exchanges.
        check: what the server looks for in each party's model before it counts; None looks at nothing.
        sums: add models up under masks, so that the server sees their sum alone; None lets it see each model.
        updates: noise that hides all rows of a party, on what its model changed in each exchange; None for none. For
            noise that hides single rows, use `trainer=DpSgd(...)`.
        cohort: how many parties are asked in an exchange, drawn anew for each by the run's seed; None asks all.
        least: how many of those asked must answer; late and lost ones are then left out of the exchange, and asked
            again in the next. None wants all of them (under `sums`, as many as these need).
        deadline: after how many seconds a party counts as lost; None for as long as the runtime waits.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    net: Net | None = None
    trainer: Sgd | DpSgd = Sgd(epochs=10, batch=32)
    exchanges: int = 1
    average: AnyAverage = Mean()
    update: AnyServerStep = TakeAverage()
    check: ModelCheck | None = None
    sums: SecureSums | None = None
    updates: GaussianUpdates | None = None
    cohort: int | None = None
    least: int | None = None
    deadline: float | None = None

    improve = improve
    judge = judge
    agree_keys, share_secrets, take_keys = agree_keys, share_secrets, take_keys
    confirm_present, unmask = confirm_present, unmask

    def __post_init__(self) -> None:
        """Refuse to exchange nothing, and to look at single models where only their sum is seen."""
        check_exchanges(self.exchanges)
        check_least(1, cohort=self.cohort)
        if self.least is not None and not 1 <= self.least <= (self.cohort or self.least):
            raise ValueError(f"least is a number of parties from 1 to the cohort of {self.cohort}, not {self.least}")
        if self.deadline is not None:
            check_above_zero(deadline=self.deadline)
        if self.updates is not None and isinstance(self.trainer, DpSgd):
            raise ValueError(
                "noise is put on single rows (trainer=DpSgd) or on all rows of a party (updates), not both"
            )
        if self.sums is not None:
            refuse_single_models(type(self).__name__, self.average, self.check)
            if self.sums.keys == "once" and self.cohort is not None:
                raise ValueError("sums.keys = once has all parties in every sum; use keys = each for a cohort")
        if self.check is not None and self.check.judged and (self.updates or isinstance(self.trainer, DpSgd)):
            raise ValueError(
                "check.judged sends marks of parties' rows that no noise covers; leave it out, or the noise (updates, "
                "trainer=DpSgd)"
            )

    @property
    def rounds(self) -> int:
        """Models go out and come back, once more if parties judge them; a secure sum takes more questions."""
        judged = 0 if self.check is None else self.check.exchanges
        return (self.exchanges if self.sums is None else self.sums.waits(self.exchanges)) + judged

    @property
    def local(self) -> Local:
        """Nothing but the loss of a party's own rows."""
        return Local(self.net, self.trainer)

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Send out the average, take back what parties made of it, and average again, from random weights on."""
        hub.memory["model"] = first_model(self.local, hub)
        for _ in range(self.exchanges):
            self.advance(hub, self.exchange(hub, self.cohort_of(hub, peers)))
            yield
        note_final_model(hub, hub.memory["model"], noise_of(self))

    def cohort_of(self, hub: Party, peers: Peers) -> Peers:
        """Whom this exchange asks; the result lists them if they are not all."""
        asked = peers.within(self.deadline) if self.least is None else peers.within(self.deadline).tolerant
        if self.cohort is None or self.cohort >= len(peers.names):
            return asked
        drawn = hub.rng.choice(len(peers.names), self.cohort, replace=False)
        names = tuple(peers.names[at] for at in sorted(drawn))
        hub.memory["cohorts"] = [*hub.memory.get("cohorts", ()), list(names)]
        return asked.only(names)

    def exchange(self, hub: Party, peers: Peers) -> Weights:
        """One model from all parties' after one more training, seen one by one or as a sum."""
        if self.sums is None:
            trusted = self.trusted(hub, peers)
            models, rows = collect(self, hub, trusted)
            kept = self.sift(hub, trusted, models)
            self.refuse_few(len(kept))
            return self.merge(hub, list(kept.values()), [rows[name] for name in kept])
        model = hub.memory["model"]
        sent = made_from_noised(model, noise_of(self))
        return mean_over(self.sums, self, hub, peers, self.improve, {"model": model}, model=sent)["model"]

    def trusted(self, hub: Party, peers: Peers) -> Peers:
        """The peers that have not been left out."""
        return peers if self.check is None else self.check.trusted(hub, peers)

    def sift(self, hub: Party, peers: Peers, models: dict[str, Weights]) -> dict[str, Weights]:
        """The models that count; parties judge them first if the check asks for it."""
        if self.check is None or not self.check.wants_marks(hub, models):
            return models if self.check is None else self.check.sift(hub, models)
        answers = peers.ask(self.judge, models=list(models.values()))
        marks = {name: read_marks(name, list(models), said) for name, said in answers.items()}
        return self.check.sift(hub, models, marks)

    def refuse_few(self, answered: int) -> None:
        """End the run if fewer parties answered than the settings want."""
        if answered < (self.least or 0):
            raise ValueError(
                f"{answered} parties answered in time, and least = {self.least}; start those that are lost again, "
                "raise deadline, or lower least"
            )

    def within(self, budget: Budget, rows: int, hub: str, guests: tuple[str, ...]) -> Self:
        """The same with as little noise as keeps a budget: on updates, or in the steps of `DpSgd`."""
        if self.updates is not None:
            wanted = dict.fromkeys(guests, self.updates.demand(self.exchanges))
            sigma = max(budget.multipliers(wanted).values())
            return msgspec.structs.replace(self, updates=self.updates.with_sigma(sigma))
        if isinstance(self.trainer, DpSgd):
            once = self.trainer.demand(rows)
            wanted = dict.fromkeys(guests, once._replace(answers=once.answers * self.exchanges))
            sigma = max(budget.multipliers(wanted).values())
            return msgspec.structs.replace(self, trainer=self.trainer.with_sigma(sigma))
        raise PlanError(
            "budget.epsilon needs noise: method.trainer.type = DpSgd hides single rows, method.updates.clip = 1.0 "
            "hides all rows of a party"
        )

    def expected_noise(self, rows: int, hub: str, guests: tuple[str, ...]) -> dict[str, tuple[Noise, ...]]:
        """The noise on what each party sends, in all exchanges."""
        noises = (self.updates.words(),) if self.updates is not None else self.trainer.noise(rows) or ()
        return dict.fromkeys(guests, noises * self.exchanges) if noises else {}

    def advance(self, hub: Party, average: Weights) -> None:
        """Make the average, or a step towards it, the model that goes out next."""
        hub.memory["model"] = self.update.advance(hub.memory, hub.memory["model"], average)

    def merge(self, hub: Party, models: list[Weights], shares: list[float]) -> Weights:
        """One model from all parties': as usual their mean, weighted by rows."""
        return self.average.combine(models, shares)

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """The average, at whoever has it."""
        return computes_alone(party, Network(net=self.net))

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the server's rows through the average."""
        return Network(net=self.net).predict(task_of(hub), hub.memory["model"], hub.data.part(rows)[0])

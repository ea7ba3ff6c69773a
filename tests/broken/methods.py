"""Methods that each break one clause of the contract; `check_method` must find every one."""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import numpy as np

from laconic import Method
from laconic.core import Ask, Opening, Party, Peers, step, task_of
from laconic.learn import fit_linear, predict_linear
from laconic.values import Array

SMUGGLED: dict[str, Any] = {}


class Sound(Method, frozen=True):
    """A small method that keeps the contract: random sums of columns, and a linear model."""

    size: int = 6

    @property
    def rounds(self) -> int | None:
        return 1

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        x = self.gather(hub, peers, "train")
        hub.memory["model"] = fit_linear(task_of(hub), x, hub.data.part("train")[1], 1.0)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        return predict_linear(task_of(hub), hub.memory["model"], self.gather(hub, peers, rows))

    def gather(self, hub: Party, peers: Peers, rows: str) -> Array:
        return np.concatenate([hub.data.part(rows)[0], *peers.ask(self.mix, rows=rows).values()], axis=1)

    @step(takes=None, gives="random sums of its columns")
    def mix(self, party: Party, rows: str) -> Array:
        x = party.data.part(rows)[0]
        if "map" not in party.memory:
            party.memory["map"] = party.rng.normal(size=(x.shape[1], self.size))
        return (x @ party.memory["map"]).astype(np.float32)


class SmugglesState(Sound, frozen=True):
    """Keeps its matrix in a global instead of the party's memory."""

    @step(takes=None, gives="random sums of its columns")
    def mix(self, party: Party, rows: str) -> Array:
        x = party.data.part(rows)[0]
        found = SMUGGLED.setdefault(f"{party.name}{x.shape}", party.rng.normal(size=(x.shape[1], self.size)))
        if rows == "train":
            SMUGGLED[party.name] = found
        return (x @ SMUGGLED.get(party.name, found)).astype(np.float32)


class LeansOnArrival(Sound, frozen=True):
    """Puts columns side by side in the order in which answers come."""

    def gather(self, hub: Party, peers: Peers, rows: str) -> Array:
        questions = {name: {"rows": rows} for name in peers.names}
        came = [values for _, values in peers.as_ready(self.mix, questions)]
        return np.concatenate([hub.data.part(rows)[0], came[0] * 3.0, *came[1:]], axis=1)


class GivesUndeclared(Sound, frozen=True):
    """Says that a step gives nothing, and gives."""

    @step(takes=None, gives=None)
    def mix(self, party: Party, rows: str) -> Array:
        return party.data.part(rows)[0]


class TurnsRows(Sound, frozen=True):
    """Answers with a column for each row asked for, and does not say so."""

    def gather(self, hub: Party, peers: Peers, rows: str) -> Array:
        turned = [values.T for values in peers.ask(self.mix, rows=rows).values()]
        return np.concatenate([hub.data.part(rows)[0], *turned], axis=1)

    @step(takes=None, gives="random sums of its columns")
    def mix(self, party: Party, rows: str) -> Array:
        return Sound.mix(self, party, rows).T


class SaysAnotherType(Sound, frozen=True):
    """Says that it answers with text, and gives numbers."""

    @step(takes=None, gives="random sums of its columns")
    def mix(self, party: Party, rows: str) -> str:  # type: ignore[override]
        return Sound.mix(self, party, rows)  # type: ignore[return-value]


class BreaksRounds(Sound, frozen=True):
    """Promises one round and takes two."""

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        self.gather(hub, peers, "valid")
        yield from super().fit(hub, peers)


class LeaksColumns(Sound, frozen=True):
    """Says `sums` and sends the columns themselves, shuffled and among others."""

    @step(takes=None, gives="random sums of its columns")
    def mix(self, party: Party, rows: str) -> Array:
        x = party.data.part(rows)[0]
        return np.concatenate([x[:, ::-1], x @ np.ones((x.shape[1], 2), np.float32)], axis=1)


class ChangesItself(Sound, frozen=True):
    """Writes to its own settings while fitting."""

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        yield from super().fit(hub, peers)
        msgspec.structs.force_setattr(self, "size", self.size + 1)


class LearnsFromLooks(Sound, frozen=True):
    """Counts how often it was looked at, and lets that change its predictions."""

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        hub.memory["looks"] = hub.memory.get("looks", 0) + 1
        return super().predict(hub, peers, rows) * (1.0 - 0.01 * hub.memory["looks"])


class RemembersObjects(Sound, frozen=True):
    """Keeps something in memory that no file could hold."""

    @step(takes=None, gives="random sums of its columns")
    def mix(self, party: Party, rows: str) -> Array:
        party.memory["thing"] = object()
        return party.data.part(rows)[0] @ np.ones((party.data.shape[0], 3), np.float32)


class SendsLabels(Sound, frozen=True):
    """Tells its peers every label and calls it a hint."""

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        peers.ask(self.hint, values=hub.data.part("train")[1])
        hub.memory["model"] = fit_linear(task_of(hub), *self.own(hub), 1.0)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        return predict_linear(task_of(hub), hub.memory["model"], hub.data.part(rows)[0])

    def own(self, hub: Party) -> tuple[Array, Any]:
        return hub.data.part("train")

    @step(takes="a hint", gives=None)
    def hint(self, party: Party, values: Array) -> None:
        party.memory["hint"] = values


class Guesses(Sound, frozen=True):
    """Predicts by chance."""

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        return np.random.default_rng(1).random(len(hub.data.part(rows)[0]))


class ForgetsRows(Sound, frozen=True):
    """Predicts all rows but one."""

    tasks: ClassVar[tuple[str, ...]] = ("binary",)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        return super().predict(hub, peers, rows)[1:]


class NeedsOldRows(Sound, frozen=True):
    """Goes back to the training rows when it predicts: rows that come later have none beside them."""

    tasks: ClassVar[tuple[str, ...]] = ("binary",)

    @step(takes=None, gives="random sums of its columns")
    def mix(self, party: Party, rows: str) -> Array:
        spread = party.data.part("train")[0].std()
        return np.asarray(super().mix(party, rows) / spread, dtype=np.float32)


class Declares(Sound, frozen=True):
    """As sound, and says beforehand what it asks."""

    def fit_opening(self) -> Opening:
        return self.predict_opening("train")

    def predict_opening(self, rows: str) -> Opening:
        return Opening((Ask.known(self.mix, rows=rows),), then="ends")


class OpensWithOtherRows(Declares, frozen=True):
    """Declares a question about other rows than it asks for."""

    def fit_opening(self) -> Opening:
        return self.predict_opening("valid")


class OpensTooMuch(Declares, frozen=True):
    """Declares a question that never comes."""

    def predict_opening(self, rows: str) -> Opening:
        return Opening((Ask.known(self.mix, rows=rows), Ask.later(self.mix)), then="ends")


class EndsTooSoon(Declares, frozen=True):
    """Declares that one question is all, and asks another to predict."""

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        self.gather(hub, peers, rows)
        return super().predict(hub, peers, rows)


class YieldsAgain(Declares, frozen=True):
    """Declares to end after its question, and can be looked at twice."""

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        yield from super().fit(hub, peers)
        yield


class OpensByLabels(Declares, frozen=True):
    """Asks with the number of classes, and declares what that is where there are two."""

    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        peers.ask(self.note_classes, count=len(task_of(hub).classes))
        yield from super().fit(hub, peers)

    @property
    def rounds(self) -> int | None:
        return 2

    def fit_opening(self) -> Opening:
        return Opening((Ask.known(self.note_classes, count=2), *super().fit_opening().asks), then="ends")

    @step(takes=None, gives=None)
    def note_classes(self, party: Party, count: int) -> None:
        party.memory["classes"] = count

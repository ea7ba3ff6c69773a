"""The model comes home: parties with other rows get the final model from the server, and predict by themselves."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
import numpy as np

from laconic.align.alignment import Align
from laconic.core.ledger import digest_of
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Script, step
from laconic.core.traffic import WireLog
from laconic.core.wire import encode
from laconic.deploy.one_run import Home, HomeScores
from laconic.deploy.transports.rpc_messages import find_script, name_script
from laconic.errors import PlanError, Refused, WireError
from laconic.methods.families.rows import labels_of
from laconic.privacy.row_releases import as_released
from laconic.tables.columns import Column, Recipe
from laconic.tables.table import Table
from laconic.tables.task import Task, metrics
from laconic.values import Array

MODEL = "final model"
"""Where a party remembers the model that came home; the hub's ledger calls a model under noise so, too."""

HELD_OUT = "test"
"""The cut that a party scores the model on."""


SIGNED = "signature of the final model"
"""Where a party remembers what the server signed of it; zeros where the server has no key, as in one process."""

SIGNATURE = 64
"""Bytes of a signature."""

Sign: TypeAlias = Callable[[bytes], bytes]
"""Signs some bytes as the server."""


ScriptKind: TypeAlias = Literal["align", "method", "home"]
"""Whose step is asked: of the way to match rows or columns, of the method, or of how the model comes home."""


def script_kind(script: Script) -> ScriptKind:
    """Whose steps a script has."""
    if isinstance(script, Homecoming):
        return "home"
    return "align" if isinstance(script, Align) else "method"


class HomeScore(msgspec.Struct, frozen=True):
    """How good the model is on the rows that one party held out; no metrics if it held out none."""

    rows: int
    metrics: dict[str, float]


class Homecoming(Script, frozen=True):
    """Gives parties the final model of a method, so that each can predict its own rows.

    Attributes:
        method: where the method's class is, and its settings.
    """

    method: dict[str, str]

    @classmethod
    def of(cls, method: Method) -> "Homecoming":
        """How the model of a method comes home."""
        return cls(name_script(method))

    @property
    def script(self) -> Method:
        """The method itself."""
        found = find_script(self.method)
        if not isinstance(found, Method):
            raise TypeError(f"{self.method['class']} is no method")
        return found

    @property
    def allowed_as(self) -> str:
        """Whoever takes part in a method may have its model."""
        return self.method["class"]

    def deliver(
        self, hub: Party, peers: Peers, model: dict[str, Any], sign: Sign | None = None
    ) -> dict[str, HomeScore]:
        """Send the model to all peers that are there; returns how good each finds it on rows that it held out."""
        signed = bytes(SIGNATURE) if sign is None else sign(model_text(self.script, model, hub.data))
        # Signed and model are one value: what noise covers the model, it covers what was signed of it.
        released = as_released(hub, MODEL, {"model": model, "signature": signed.hex()})
        answers = peers.speaking(self).tolerant.ask(self.take_model, signed=released)
        return {name: _read(name, answer) for name, answer in answers.items()}

    @step(
        takes="the final model, made from what all parties sent, from which rows may be guessed at, and the server's "
        "signature of it",
        gives="how good the model is on the rows that it held out for this, and how many these are",
    )
    def take_model(self, party: Party, signed: dict[str, Any]) -> Any:
        """Keep the model, and score it on this party's own rows."""
        model = signed["model"]
        if MODEL in party.memory and encode(party.memory[MODEL]) != encode(model):
            # Scores of many models would tell whose rows were held out.
            raise Refused(f"{party.name} has a final model of this run already, and takes no other; begin a new run")
        party.memory[MODEL], party.memory[SIGNED] = model, signed["signature"]
        if not len(party.data.cuts.get(HELD_OUT, ())):
            return msgspec.to_builtins(HomeScore(0, {}))
        method, allowed = self.script, self.method["class"]
        y, learnt = party.data.part(HELD_OUT)[1], labels_of(party, "train")
        # As where one party has all labels: errors of numbers are scaled by the range of training labels.
        spread = float(np.ptp(learnt)) if learnt.dtype.kind == "f" and len(learnt) else 0.0
        try:
            found = predict_at_home(method, party.name, party.data, model, HELD_OUT)
        except (ValueError, KeyError, TypeError, RuntimeError) as problem:
            raise Refused(
                f"the model that came home to {party.name} is of another plan or of other columns: {allowed} cannot "
                "predict its rows with it",
                f" ({problem})",
            ) from problem
        return msgspec.to_builtins(HomeScore(len(found), metrics(task_of(party), np.asarray(y), found, spread or 1.0)))


class Described(Protocol):
    """What says how a model's rows are read and prepared, and what it predicts: a table, or a saved part."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its raw columns."""

    @property
    def recipe(self) -> Recipe | None:
        """How they are prepared."""

    @property
    def task(self) -> Task | None:
        """What is predicted."""


def model_text(method: Method, model: Mapping[str, Any], described: Described) -> bytes:
    """What the server signs: a digest of the model as it crosses, and of what its numbers mean.

    Every party writes numbers and dates in its own way, so that this is not signed.
    """
    columns = [msgspec.structs.replace(one, written=msgspec.UNSET) for one in described.columns]
    means = msgspec.json.encode([type(method).__name__, method, columns, described.recipe, described.task])
    whole = blake2b(encode(dict(model)), digest_size=32)
    whole.update(blake2b(means).digest())
    return b"laconic model 2\0" + whole.digest()


def bring_home(method: Method, sign: Sign | None = None, only: Sequence[str] | None = None) -> Home:
    """How a run ends where only the parties have rows to score the model on: it comes home, and they score it.

    Args:
        only: who gets the model; None for every party.
    """

    def deliver(hub: Party, peers: Peers) -> HomeScores:
        model = final_model(method, hub)
        if model is None:
            raise PlanError(f"{type(method).__name__} has no model that parties could score; {_REMEDY}")
        named = peers if only is None else peers.only(tuple(name for name in peers.names if name in only))
        found = Homecoming.of(method).deliver(hub, named, model, sign)
        each = {name: (one.rows, one.metrics) for name, one in found.items()}
        return HomeScores(each, digest_of(encode(model)))

    return deliver


def refuse_homeless(method: Method) -> None:
    """Refuse a method whose model cannot come home, for parties that hold all the rows to score it on."""
    if not method.predicts_from:
        raise PlanError(f"{type(method).__name__} keeps a model at each party and has none that comes home; {_REMEDY}")


_REMEDY = "give the tables themselves in one place (--files a.csv b.csv --label COLUMN), or use another method"


def final_model(method: Method, hub: Party) -> dict[str, Any] | None:
    """What the hub predicts from, which parties can predict from as well; None if it has to ask them."""
    keys = method.predicts_from if method.kind == "horizontal" else ()
    there = {key: hub.memory[key] for key in keys if key in hub.memory}
    return there if there and len(there) == len(keys) else None


def predict_at_home(method: Method, name: str, rows: Table, model: Mapping[str, Any], cut: str) -> Array:
    """Predictions for a party's own rows, by a model that came home; nobody is asked."""
    party = Party(name, rows, 0, dict(model))
    party.turn("final", 0)
    return np.asarray(method.predict(party, Peers(method, party, _Nobody(), WireLog(), ()), cut))


class _Nobody:
    """A carrier that reaches nobody."""

    names: tuple[str, ...] = ()

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Any:
        return iter(())

    def ledgers(self) -> dict[str, Any]:
        return {}


def _read(name: str, answer: Any) -> HomeScore:
    try:
        return msgspec.convert(answer, HomeScore)
    except msgspec.ValidationError as problem:
        raise WireError(f"{name} did not say how good the model is: {problem}") from problem

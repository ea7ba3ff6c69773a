"""A model that keeps apart what each party added goes on between machines: a party joins, or the others get it anew.

It is a run like any other: by the same channel, held to the parties' rules, with accounts, ledgers and a journal. But
the columns are those that the model was trained with, only who joins is asked what its rows add, and everybody who is
there and in the plan gets the new model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from laconic.align.alignment import ALIGNMENT, Align
from laconic.align.schema import AgreedColumns, same_everywhere
from laconic.atomic_files import make_private_folder, read_sealed, write_sealed
from laconic.core.capabilities import Mergeable
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Step
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.result import Result
from laconic.deploy.session import Session
from laconic.errors import DataError, PlanError, StepError
from laconic.methods.families.rows import ROWS_IN_ALL
from laconic.tables.columns import Recipe
from laconic.tables.task import Task
from laconic.values import Array

_FILE, _START = "growth", "start"

INFORMED = "informed"
"""In what is known of the columns: who was informed of them."""


class Growth(msgspec.Struct, frozen=True):
    """What changes in a model.

    Attributes:
        joins: who adds its rows. without: who is not asked anything, because it left.
    """

    joins: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class GrowingModel:
    """A trained model that a run begins with, and what changes in it."""

    growth: Growth
    kept: Party

    def session(self, session: Session) -> Session:
        """What the plan settles, for those who are asked."""
        refuse_growth(session, self.growth, self.kept)
        return with_names(session, [one for one in session.names if one not in self.growth.without])

    def hub(self, fresh: Party) -> Party:
        """The server as the run begins: with what the model is made of."""
        memory = {name: value for name, value in self.kept.memory.items() if name != ALIGNMENT}
        return Party(fresh.name, fresh.data, fresh.seed, memory)

    def align(self, within: Align) -> Align:
        """How parties prepare their columns: as the model was trained."""
        return _AsTrained(within=within, recipe=self.kept.data.recipe, task=task_of(self.kept), joins=self.growth.joins)

    def method(self, within: Method) -> Method:
        """Asks who joins, and nobody else."""
        return _Joining(within=within, joins=self.growth.joins)

    def record(self, result: Result, within: Method) -> Result:
        """The result as one of the model's method, with who joined and who left."""
        facts = {"joined": list(self.growth.joins), "left": list(self.growth.without)}
        return msgspec.structs.replace(result, method=msgspec.to_builtins(within), data=result.data | facts)


def with_names(session: Session, names: Sequence[str]) -> Session:
    """A session of these parties and the hub alone."""
    return replace(session, names=tuple(one for one in session.names if one in names or one == session.hub))


def write_growth(folder: Path, growth: Growth, hub: Party) -> None:
    """Put what a run begins with into its folder: the server, with its columns and what the model is made of."""
    make_private_folder(folder)
    PartyFolder(folder / _START).begin(hub)
    write_sealed(folder / _FILE, msgspec.json.encode(growth))


def read_growth(folder: Path) -> GrowingModel | None:
    """What a run in this folder begins with; None for a run that trains a model."""
    if not (folder / _FILE).exists():
        return None
    growth = msgspec.json.decode(read_sealed(folder / _FILE), type=Growth)
    return GrowingModel(growth, PartyFolder(folder / _START).load())


def growing(method: Method) -> Mergeable:
    """The method, if parties can join and leave its models."""
    if not isinstance(method, Mergeable):
        raise PlanError(
            f"{type(method).__name__} lets nobody join or leave later, as every party trained what others had made; "
            "train again with everybody who is to be in the model"
        )
    return method


def refuse_growth(session: Session, growth: Growth, kept: Party) -> None:
    """Refuse a plan that is not the model's, a method that cannot grow, and parties that cannot join.

    Args:
        kept: the server with what the model is made of.
    """
    method = growing(session.method)
    strangers = [one for one in (*growth.joins, *growth.without) if one not in session.names or one == session.hub]
    if growth.joins and strangers:
        raise PlanError(
            f"{strangers[0]} is no party of the plan ({', '.join(session.names[1:])}); name it in data.files of a plan "
            "with the same method and seed (--plan FILE), which it and everybody who is to get the model agree to"
        )
    members = method.members(kept)
    again = [one for one in growth.joins if one in members]
    if again:
        raise DataError(f"{again[0]} is in the model already; it can join again once it is forgotten")


class _AsTrained(Align, frozen=True):
    """Tells parties the columns of a model, as they were agreed on when it was trained; none says what it has."""

    within: Any
    recipe: Recipe
    task: Task
    joins: tuple[str, ...]

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        within, agreed = self.within, self._agreed(hub)
        known = isinstance(within, AgreedColumns)
        question: Step = within.keep_columns if known else within.take_prepared
        own = question(hub, **agreed)
        if (hub.data.recipe.parts, hub.data.task) != (self.recipe.parts, self.task):
            raise DataError(
                "the schema is not the one that the model was trained with; bring that back, or train again with "
                "everybody"
            )
        asked = peers.speaking(within)
        others = tuple(name for name in peers.names if name not in self.joins)
        answers = asked.only(self.joins).ask(question, **agreed) if self.joins else {}
        # Whoever is away now is away until the end: the model is of no use without its columns.
        answers |= asked.only(others).tolerant.ask(question, **agreed)
        if known:
            same_everywhere(hub, own, answers)
        return {"columns": len(hub.data.columns), "classes": list(self.task.classes), INFORMED: list(answers)}

    def _agreed(self, hub: Party) -> dict[str, Any]:
        """What is said to parties; nothing where all have the schema."""
        if isinstance(self.within, AgreedColumns):
            return {}
        rows = int(hub.memory.get(ROWS_IN_ALL, 0))
        return {"recipe": msgspec.to_builtins(self.recipe), "task": msgspec.to_builtins(self.task), "rows": rows}

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        return str(self.within.confirm(hub, peers.speaking(self.within)))


class _Joining(Method, frozen=True):
    """The server's side of a method, from a model that is there: only who joins is asked."""

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"

    within: Any
    joins: tuple[str, ...]

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take what those who join add, and make the model anew."""
        if self.joins:
            try:
                self.within.merge_in(hub, peers.speaking(self.within).only(self.joins))
            except (ValueError, StepError) as problem:
                raise DataError(str(problem)) from problem
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask the model."""
        return np.asarray(self.within.predict(hub, peers.speaking(self.within), rows))

"""Agree on columns and classes: what parties with other rows need before they can learn one model together."""

from hashlib import blake2b
from math import sqrt
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from laconic.align.alignment import Align, is_aligned, note_alignment, refuse_changed
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.core.wire import encode
from laconic.data.schema_agreement import (
    LEAST,
    SUMS,
    Lacking,
    add_sums,
    agree_columns,
    agree_task,
    recipe_from,
    recode,
    refuse_other_scale,
    refuse_other_units,
    released_columns,
    shown_task,
    sums_of,
)
from laconic.errors import DataError, WireError
from laconic.methods.families.rows import ROWS_IN_ALL
from laconic.methods.families.sums import SecureSums, agree_keys, confirm_present, share_secrets, unmask
from laconic.privacy.mechanisms.columns import ColumnBounds, GaussianColumns, Linear, add_up
from laconic.tables.columns import Column, Recipe
from laconic.tables.table import comparable
from laconic.tables.task import Task
from laconic.values import Array, Rng

T = TypeVar("T")


class SameColumns(Align, frozen=True):
    """Every party's columns, levels and classes come to mean the same, and columns are prepared in the same way.

    With public rows, which all have, columns are prepared by these: parties name their classes and nothing else.
    Without, parties also name their columns and levels, and give sums of their columns. Rows stay where they are.

    Attributes:
        lacking: what becomes of a column that a party lacks: `missing` counts its cells as missing there, `drop` has
            nobody use it. Unset refuses, and names party and column.
        units: `any` lets a column be hundreds of times larger at one party than at the others. Unset refuses that.
            With noise or masks nobody can compare: cells beyond the bounds then count as the bounds.
        by: how columns are prepared: by `public` rows or by `sums`. Unset is by public rows if the hub has some.
        noise: noise on the sums, of columns and of a label of numbers, with an epsilon. It does not cover the names of
            columns, levels and classes. None for none.
        sums: add the sums up under masks, so that the hub sees those of all parties together alone; None lets it see
            each party's.
        bounds: with noise or masks, between which numbers cells and labels are taken to be.
    """

    lacking: Lacking | UnsetType = UNSET
    units: Literal["any"] | UnsetType = UNSET
    by: Literal["public", "sums"] | UnsetType = UNSET
    noise: GaussianColumns | None = None
    sums: SecureSums | None = None
    bounds: ColumnBounds = ColumnBounds()

    agree_keys, share_secrets = agree_keys, share_secrets
    confirm_present, unmask = confirm_present, unmask

    @property
    def declares_all(self) -> bool:
        """Noise and masks take further questions, by what parties say first."""
        return not self.guarded

    @property
    def guarded(self) -> bool:
        """Whether sums leave parties under noise or masks only."""
        return self.noise is not None or self.sums is not None

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        """Agree, send everybody what was agreed on, and count it."""
        public = self._by_public(hub)
        if self.guarded:
            agreed = self._guard(hub, peers, public=public)
        elif public:
            answers = peers.ask(self.show_classes)
            task = _scaled(agree_task({name: _read(name, answer, Task) for name, answer in answers.items()}))
            agreed = {"task": msgspec.to_builtins(task)}
        else:
            agreed = self._add_up(peers.ask(self.show_columns))
        take = self.take_classes if public else self.take_columns
        peers.ask(take, **agreed)
        take(hub, **agreed)
        return {"columns": len(hub.data.columns), "classes": list(task_of(hub).classes)}

    def match_opening(self, rng: Rng, *, server: bool) -> Opening:
        """What parties show first follows from the plan; what they take depends on everybody's."""
        if self.guarded:
            return Opening((Ask.known(self.show_names),))
        if self.by is UNSET:
            return Opening()
        show, take = (
            (self.show_classes, self.take_classes) if self.by == "public" else (self.show_columns, self.take_columns)
        )
        return Opening((Ask.known(show), Ask.later(take)), then="ends")

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        """The fingerprint of what was agreed on, which must be the same at all parties.

        Raises:
            DataError: a party prepares its columns otherwise, or its data changed; says which.
        """
        return same_everywhere(hub, self.show_fingerprint(hub), peers.tolerant.ask(self.show_fingerprint))

    @step(
        takes=None,
        gives="the names of the classes among its labels; of numbers, how many training rows have one, their mean and "
        "spread",
    )
    def show_classes(self, party: Party) -> Any:
        """What this party predicts, with its own classes, or the mean and spread of its numbers."""
        return msgspec.to_builtins(shown_task(party.data, task_of(party)))

    @step(
        takes="the names of the classes among all parties' labels; of numbers, their mean and spread over all parties",
        gives=None,
    )
    def take_classes(self, party: Party, task: Any) -> None:
        """Code labels by the classes of all parties."""
        agreed, asked = _read("the hub", task, Task), _digest(task)
        if not is_aligned(party, asked):
            party.data = recode(party.data, party.data.columns, agreed, party.data.recipe)
            note_alignment(party, asked)

    @step(
        takes=None,
        gives="the names of its columns, of their levels and of its classes; and for each column how many training "
        "rows there are and how many know it, and of numbers, the label among them, the mean, the spread and how many "
        "are 0. Levels and "
        f"columns that fewer than {LEAST} of its rows have are left out",
    )
    def show_columns(self, party: Party) -> dict[str, Any]:
        """Say which columns and classes there are here, and give sums of the columns, and of a label of numbers."""
        return {
            "task": msgspec.to_builtins(shown_task(party.data, task_of(party))),
            "columns": msgspec.to_builtins(released_columns(party.data)),
            "sums": sums_of(party.data),
        }

    @step(
        takes="the names of the levels and classes of all parties, and for each column, of all their rows together, "
        "how many know it, the mean, the spread and how many are 0; of a label of numbers, mean and spread too",
        gives=None,
    )
    def take_columns(self, party: Party, task: Any, columns: Any, sums: Array) -> None:
        """Code and prepare columns, and code labels, as all parties do."""
        agreed = _read("the hub", columns, tuple[Column, ...])
        sums = _checked("the hub", sums, len(agreed))
        recipe = recipe_from(agreed, sums)
        party.memory[ROWS_IN_ALL] = int(sums[:, 0].max(initial=0))
        asked = _digest([task, columns, sums])
        if not is_aligned(party, asked):
            lacking = self.lacking or None
            party.data = recode(party.data, agreed, _read("the hub", task, Task), recipe, lacking=lacking)
            note_alignment(party, asked)

    @step(
        takes="how columns are prepared in a model that there is already: the names of levels and classes; for each "
        "column, of all rows that the model learnt from, mean and spread; how many these rows are",
        gives=None,
    )
    def take_prepared(self, party: Party, recipe: Any, task: Any, rows: int) -> None:
        """Code and prepare columns, and code labels, as those did who trained the model that this party joins or gets.

        A level that they did not have counts as no level that the model knows; a class that they did not have, a column
        that lacks, and a column in another unit are refused.
        """
        known = _read("the hub", recipe, Recipe)
        if rows:
            party.memory[ROWS_IN_ALL] = int(rows)
        asked = _digest([recipe, task, rows])
        if not is_aligned(party, asked):
            agreed, own = _read("the hub", task, Task), party.data
            if own.columns:
                agree_columns({"the model": known.columns, party.name: own.columns}, lacking=self.lacking or None)
            if own.task is not None:
                agree_task({"the model": agreed, party.name: own.task})
            party.data = recode(own, known.columns, agreed, known, lacking=self.lacking or None)
            if self.units is UNSET and len(party.data.cuts.get("train", ())):
                refuse_other_scale(party.data, trained=True)
            note_alignment(party, asked)

    @step(
        takes=None,
        gives="the names of its columns, of their levels and of its classes. Levels that fewer than "
        f"{LEAST} of its rows have are left out",
        by_row=False,
    )
    def show_names(self, party: Party) -> dict[str, Any]:
        """Say which columns and classes there are here, and nothing else."""
        columns = () if self._by_public(party) else released_columns(party.data)
        task = msgspec.structs.replace(task_of(party), scale=UNSET)
        return {"task": msgspec.to_builtins(task), "columns": msgspec.to_builtins(columns)}

    @step(
        takes="the names of the columns and levels of all parties",
        gives="how many training rows there are; for each column, and a label of numbers, how many know it; of numbers "
        "the sum and the sum of squares, cut at the bounds that the plan says; and of columns how many cells are 0",
        by_row=False,
    )
    def give_sums(self, party: Party, columns: Any) -> Any:
        """Sums of the columns agreed on, and of a label of numbers, under noise, masks or both."""
        agreed, label = _read("the hub", columns, tuple[Column, ...]), _number(task_of(party))
        found = self.bounds.sums(party.data, agreed, label)
        given: Any = found.plain()
        if self.noise is not None:
            share = 1.0 if self.sums is None else self.sums.noise_share(party)
            given = self.noise.release(found, self.bounds.sensitivity(agreed, label), party, share)
        return given if self.sums is None else self.sums.hide(party, given)

    @step(
        takes=None, gives="a digest of what all parties agreed on: columns, how they are prepared, classes, public rows"
    )
    def show_fingerprint(self, party: Party) -> str:
        """The digest, if the party's data is what it was when columns were agreed on."""
        return columns_fingerprint(party)

    def _by_public(self, party: Party) -> bool:
        return self.by == "public" or (self.by is UNSET and "public" in party.data.cuts)

    def _guard(self, hub: Party, peers: Peers, *, public: bool) -> dict[str, Any]:
        """What all parties said, as one, if their sums are to be seen under noise, or as the sum of all, alone."""
        tasks, columns = {}, {}
        for name, answer in peers.ask(self.show_names).items():
            said = answer if isinstance(answer, dict) else {}
            tasks[name] = _read(name, said.get("task"), Task)
            columns[name] = _read(name, said.get("columns"), tuple[Column, ...])
        task = agree_task(tasks)
        agreed = () if public else agree_columns(columns, lacking=self.lacking or None)
        label = _number(task)
        if public and label is None:
            return {"task": msgspec.to_builtins(task)}
        total, count = self._total(peers, {"columns": msgspec.to_builtins(agreed)}, len(agreed))
        sensitivity = self.bounds.sensitivity(agreed, label)
        noise = 0.0 if self.noise is None else self.noise.scale(sensitivity) * sqrt(count)
        if label is not None:
            scale = self.bounds.scale(total, label, noise)
            task = _scaled(msgspec.structs.replace(task, scale=UNSET if scale is None else scale))
        if public:
            return {"task": msgspec.to_builtins(task)}
        sums = self.bounds.moments(total, agreed, noise)
        return {"task": msgspec.to_builtins(task), "columns": msgspec.to_builtins(agreed), "sums": sums}

    def _total(self, peers: Peers, asked: dict[str, Any], columns: int) -> tuple[Linear, float]:
        """The sums over all parties, and how many times the noise that one release needs is on them."""
        like = Linear(0.0, np.zeros((columns, 4)), np.zeros(3)).plain()
        if self.sums is not None:
            found = self.sums.over(self, peers, self.give_sums, like, **asked)
            # Each adds a share of the noise: all together more than is needed, the more of them are honest and there.
            return Linear(**found.parts), len(found.parties) / self.sums.honest(found.agreed)
        answers = peers.ask(self.give_sums, **asked)
        return add_up({name: _linear(name, answer, like) for name, answer in answers.items()}), len(answers)

    def _add_up(self, answers: dict[str, Any]) -> dict[str, Any]:
        """What all parties said, as one; columns are in the order of the first party."""
        tasks, columns, sums = {}, {}, {}
        for name, answer in answers.items():
            said = answer if isinstance(answer, dict) else {}
            tasks[name] = _read(name, said.get("task"), Task)
            columns[name] = _read(name, said.get("columns"), tuple[Column, ...])
            sums[name] = _checked(name, said.get("sums"), len(columns[name]))
        agreed = agree_columns(columns, lacking=self.lacking or None)
        ordered = {name: _ordered(sums[name], columns[name], agreed) for name in columns}
        if self.units is UNSET:
            refuse_other_units(agreed, ordered)
        return {
            "task": msgspec.to_builtins(_scaled(agree_task(tasks))),
            "columns": msgspec.to_builtins(agreed),
            "sums": add_sums(list(ordered.values())),
        }


class AgreedColumns(Align, frozen=True):
    """Columns, scales and classes are known to all beforehand; parties only confirm that they are the same."""

    @property
    def declares_all(self) -> bool:
        """One question."""
        return True

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        """Have everybody compare what it has with what the others have."""
        same_everywhere(hub, self.keep_columns(hub), peers.tolerant.ask(self.keep_columns))
        return {"columns": len(hub.data.columns), "classes": list(task_of(hub).classes)}

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        """The fingerprint of what is known to all, which must be the same at all parties."""
        return same_everywhere(hub, self.show_fingerprint(hub), peers.tolerant.ask(self.show_fingerprint))

    def match_opening(self, rng: Rng, *, server: bool) -> Opening:
        """One question that depends on nobody's rows."""
        return Opening((Ask.known(self.keep_columns),), then="ends")

    @step(takes=None, gives="a digest of what all parties know: columns, how they are prepared, classes")
    def keep_columns(self, party: Party) -> str:
        """Note what the data is now, and give the digest."""
        if not is_aligned(party, _AS_KNOWN):
            note_alignment(party, _AS_KNOWN)
        return columns_fingerprint(party)

    @step(takes=None, gives="a digest of what all parties know: columns, how they are prepared, classes")
    def show_fingerprint(self, party: Party) -> str:
        """The digest, if the party's data is what it was when the run began."""
        return columns_fingerprint(party)


_AS_KNOWN = "as known to all"


def columns_fingerprint(party: Party) -> str:
    """A digest of columns, how they are prepared, classes and public rows; changed data is an error."""
    refuse_changed(party)
    table = party.data
    whole = blake2b(msgspec.json.encode([table.recipe, table.task]), digest_size=16, person=b"laconic columns")
    whole.update(comparable(table.raw[table.cuts.get("public", np.empty(0, dtype=np.int64))]).tobytes())
    return whole.hexdigest()


def same_everywhere(hub: Party, own: str, found: dict[str, str]) -> str:
    """The hub's fingerprint, if everybody has the same."""
    other = [name for name, one in found.items() if one != own]
    if other:
        raise DataError(
            f"{other[0]} does not have the columns, classes or public rows that {hub.name} has: their fingerprints "
            f"are {found[other[0]][:8]} and {own[:8]}; give all the same public rows or schema, and agree again"
        )
    return own


def _scaled(task: Task) -> Task:
    """What all parties predict; numbers must have a scale."""
    if not task.of_classes and task.scale is UNSET:
        raise DataError(
            f"no party has {LEAST} training rows with a {task.label!r}, of fewer of which none says mean and spread; "
            "give more rows"
        )
    return task


def _ordered(sums: Array, columns: tuple[Column, ...], agreed: tuple[Column, ...]) -> Array:
    """A party's sums in the order agreed on; of a column that it lacks, only how many rows it has."""
    places = {one.name: at for at, one in enumerate(columns)}
    found = np.zeros((len(agreed), len(SUMS)))
    found[:, 0] = sums[:, 0].max(initial=0)
    for at, one in enumerate(agreed):
        if one.name in places:
            found[at] = sums[places[one.name]]
    return found


def _digest(asked: Any) -> str:
    return blake2b(encode(asked), digest_size=16).hexdigest()


def _read(name: str, plain: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as problem:
        raise WireError(f"{name} did not send columns or classes as they must be: {problem}") from problem


def _checked(name: str, sums: Any, columns: int) -> Array:
    fits = isinstance(sums, np.ndarray) and sums.dtype == np.float64 and sums.shape == (columns, len(SUMS))
    if not fits or not np.isfinite(sums).all() or (sums[:, [0, 1, 3, 4]] < 0).any():
        raise WireError(f"{name} did not send {len(SUMS)} sums for each of {columns} columns; compare the two plans")
    return np.asarray(sums)


def _number(task: Task) -> str | None:
    """The name of the label if it is a number."""
    return None if task.of_classes else task.label


def _linear(name: str, answer: Any, like: dict[str, Any]) -> Linear:
    """A party's sums, checked to be numbers and as many as there must be."""
    parts = answer if isinstance(answer, dict) and answer.keys() == like.keys() else {}
    if not parts or any(np.shape(one) != np.shape(like[part]) for part, one in parts.items()):
        raise WireError(f"{name} did not send sums of columns as they must be; compare the two plans")
    columns, label = (np.asarray(parts[part], dtype=np.float64) for part in ("columns", "label"))
    if not np.isfinite([float(parts["rows"]), *columns.ravel(), *label]).all():
        raise WireError(f"{name} sent sums of columns that are no numbers; compare the two plans")
    return Linear(float(parts["rows"]), columns, label)

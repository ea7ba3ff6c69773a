"""A party's part of a model: what it needs to answer questions about new rows, and nothing of another party's."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from laconic.core.ledger import Entry, Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.data.schema import OwnData
from laconic.errors import DataError
from laconic.inference.absent import Answers, AnyAbsent, Store
from laconic.inference.bundle_files import PartState, folder_name, has_state, read_folder, read_uses, write_folder
from laconic.moved import with_current_names
from laconic.shown import figure, html_table, metric_name
from laconic.tables.columns import Column, Recipe
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Weights


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a party is asked at each prediction.

    Attributes:
        step: the question. gives, takes: in the step's words, what crosses; None for nothing made from rows.
        bytes_up: of its answer, for each row. bytes_down: of the question, for each row.
        bytes_fixed: both ways, whatever the number of rows.
        needed: whether the method itself cannot predict without this party.
    """

    party: str
    step: str
    gives: str | None
    takes: str | None
    bytes_up: float
    bytes_down: float
    bytes_fixed: float
    needed: bool


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """How good predictions are expected to be when only some parties are there.

    Attributes:
        present: the parties, beside the hub, that answer.
        answer: how the others are made up for.
        metric, value: the headline figure on validation rows; None where there is no answer.
        rows: how many validation rows it was measured on.
    """

    present: tuple[str, ...]
    answer: str
    metric: str
    value: float | None
    rows: int


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed on saving.

    Attributes:
        hub: who predicts. label: what.
        asked: what parties are asked.
        kept: whether the hub keeps parties' answers, and so can predict those rows, and refit, without asking.
        rows: for how many rows it does.
        bytes: what had to cross for that; 0 where the hub had the answers from training.
        expected: for each pattern of presence and each way to make up for the absent.
    """

    method: str
    hub: str
    label: str
    asked: tuple[Asked, ...]
    kept: bool
    rows: int
    bytes: int
    expected: tuple[Expected, ...]

    def __repr__(self) -> str:
        everybody = next((one for one in self.expected if one.answer == "all" and one.value is not None), None)
        score = "" if everybody is None else f"; {metric_name(everybody.metric)} {figure(everybody.value or 0.0)}"
        asks = ", ".join(dict.fromkeys(one.party for one in self.asked)) or "nobody"
        return f"<Card of {self.method}: {self.hub} predicts {self.label} and asks {asks}{score}>"

    def _repr_html_(self) -> str:
        lines = [
            (
                ", ".join(one.present) or "nobody",
                one.answer,
                metric_name(one.metric),
                "no answer" if one.value is None else figure(one.value),
            )
            for one in self.expected
        ]
        asked = "; ".join(f"{one.party}: {one.gives or 'nothing made from rows'}" for one in self.asked)
        title = f"{self.hub} predicts {self.label} ({self.method})"
        below = f"Asked at each prediction: {asked}" if asked else "Nobody is asked."
        return html_table(title, (f"there beside {self.hub}", "answered by", "metric", "expected"), lines, below)


_FROM = "from-"
_FREE = 62  # bits of a seed


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a part says of itself.

    Attributes:
        party: whose part it is. hub: who predicts: the party itself, if the model came home to it. peers: who is asked,
            in order.
        method: the settings that the model was trained with.
        seed: for the randomness of its answers, mixed with how often it was used.
        id: the column that says who a row is about; empty if there is none, and rows are counted from 1.
        columns, recipe: how raw rows are read and prepared; None if the party has no rows.
        task: what is predicted; None at a party that does not hold the label.
        steps: at the hub, the questions whose answers can be kept; None if the method has to ask anew each time. At
            another party, the questions that it answers.
        head: at the hub, what predicts instead of the method, after parties or rows came or went; None for the method.
        data: how the party's own file says that ids are written and files are read, without where its rows are; None if
            the model was trained on tables.
        made_by: the server that made the model and sent it; empty for a part that is as its party made it.
        people: how many of the party's rows the training used; 0 if that is not known.
        saved: when the part was first saved, in UTC; empty if that is not known.
    """

    party: str
    hub: str
    peers: tuple[str, ...]
    method: dict[str, Any]
    seed: int
    id: str
    columns: tuple[Column, ...]
    recipe: Recipe | None
    task: Task | None
    steps: tuple[str, ...] | None = None
    head: AnyAbsent | None = None
    data: OwnData | None = None
    made_by: str = ""
    people: int = 0
    saved: str = ""


@dataclass(frozen=True)
class Part:
    """One party's part of a model.

    Attributes:
        memory: what the party remembers. ledger: what it gave away.
        store: at the hub, what it keeps of others' answers; None elsewhere, or if it keeps nothing.
        heads: at the hub, models fitted for parties being absent, by name.
        card: at the hub, who can predict what.
        texts: further files, such as the plan.
        path: where it was loaded from; None if it was not.
        used: of a part that is in no folder, when it was used.
    """

    about: About
    memory: dict[str, Any]
    ledger: Ledger
    store: Store | None = None
    heads: dict[str, Weights] = field(default_factory=dict)
    card: Card | None = None
    texts: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    used: list[str] = field(default_factory=list)

    def method(self, kind: type[Method] | None = None) -> Method:
        """The method with its settings; `kind` is its class, for one that no installed package offers."""
        from laconic.methods.registry import methods, unusable

        name = self.about.method["type"]
        known = methods().get(name) if kind is None else kind
        if known is None:
            usual = f"no package that is installed offers that; install the one that does, or give method={name}"
            raise DataError(f"the model was trained by {name}: {unusable().get(name, usual)}")
        settings: Method = msgspec.convert(with_current_names(self.about.method), known)
        return settings

    def party(self, rows: Table, uses: int | None = None) -> Party:
        """The party as it was when it was loaded, with these rows; its randomness is fresh for each counted use."""
        if uses is None:
            uses = len(self.used) if self.path is None else read_uses(self.path)
        seed = self.about.seed
        # The same noise on other rows would show their difference; the first use is as before saving.
        if uses:
            seed = int(np.random.default_rng([seed, uses]).integers(2**_FREE))
        return Party(self.about.party, rows, seed, dict(self.memory), Ledger(self.ledger.entries))

    def use(self, rows: Table) -> "PartInUse":
        """The party with these rows, ready to answer; counts as one more use."""
        if self.path is None:
            raise DataError(
                f"the part of {self.about.party} is in no folder, so what it releases would be lost; save it"
            )
        state = PartState(self.path)
        state.begin(self.memory, self.ledger)
        return PartInUse(self.party(rows, state.count_use()), state)

    def note_releases(self, entries: tuple[Entry, ...]) -> None:
        """Keep what the party released beside its answers, such as the ids that a hub asks about."""
        if entries and self.path is not None:
            PartState(self.path).add_releases(self.memory, self.ledger, entries)
            return
        for entry in entries:
            self.ledger.write(entry)

    def note_use(self) -> None:
        """Count one more use of the part to predict."""
        if self.path is not None:
            PartState(self.path).count_use()


@dataclass(frozen=True)
class PartInUse:
    """A party that answers from its part of a model, and the state that it shares with other processes."""

    party: Party
    state: PartState


def save_part(folder: Path, part: Part, record: Callable[[dict[str, str]], dict[str, str]] | None = None) -> Path:
    """Write one party's part to where it was, or to a folder within `folder` that is named after it.

    `record` is as for `write_folder`.
    """
    values: dict[str, Any] = {
        "about": msgspec.to_builtins(part.about),
        "memory": part.memory,
        "ledger": list(msgspec.to_builtins(part.ledger.entries)),
    }
    if part.store is not None:
        values["own"] = part.store.to_plain()
        for name, answers in part.store.answers.items():
            kept = {"party": name, "ids": list(answers.ids), "steps": answers.steps}
            values[f"{_FROM}{folder_name(name)}"] = kept
    if part.about.party == part.about.hub and not part.about.made_by:
        values["heads"] = part.heads
        values["card"] = msgspec.to_builtins(part.card)
    path = part.path or folder / folder_name(part.about.party)
    write_folder(path, values, part.texts, record)
    return path


def load_part(path: Path) -> Part:
    """Read back what `save_part` wrote; a DataError names the file that cannot be read, and says what to do."""
    values = read_folder(path)
    try:
        about = msgspec.convert(values["about"], About)
        ledger = Ledger(tuple(msgspec.convert(values["ledger"], list[Entry])))
        card = msgspec.convert(values.get("card"), Card | None)
        store = _store(values)
    except (msgspec.ValidationError, KeyError, TypeError) as problem:
        raise DataError(f"{path} does not hold what a part of a model holds: {problem}; save it again") from problem
    kept = PartState(path).load() if has_state(path) else None
    memory, ledger = kept or (values["memory"], ledger)
    further = [file for kind in ("*.toml", "*.jsonl") for file in path.glob(kind)]
    texts = {file.name: file.read_text(encoding="utf-8") for file in further}
    return Part(about, memory, ledger, store, values.get("heads", {}), card, texts, path)


def _store(values: dict[str, Any]) -> Store | None:
    if "own" not in values:
        return None
    kept = [value for name, value in values.items() if name.startswith(_FROM)]
    answers = {one["party"]: Answers(tuple(one["ids"]), one["steps"]) for one in kept}
    order = values["about"]["peers"]
    table = Table.from_plain(values["own"]["table"])
    return Store(table, values["own"]["y"], {name: answers[name] for name in order if name in answers})

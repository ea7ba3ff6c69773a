"""Several parties' tables, which of them asks the questions, and whether their rows already correspond."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from laconic.errors import DataError
from laconic.shown import counted, html_table
from laconic.tables.table import TOGETHER, Table
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from laconic.data.readers.aloud import FileReading

HELD_OUT = 0.2
"""Share of the rows kept for the final score where nothing else is said, both on the command line and in Python.

A fifth: of a few hundred rows, as own files often have, a tenth would leave so few that two methods could not be
distinguished, and every plan, model card and comparison made so far says a fifth.
"""


@dataclass(frozen=True, kw_only=True)
class Federation:
    """The tables of all parties, for a simulation or a trial on one machine.

    Attributes:
        name: of the data, for reports.
        tables: by party, in a fixed order.
        hub: the party that runs the script; in a vertical federation the one with the labels.
        aligned: whether row i of a cut is the same person at every party; if not, ids must be matched first.
        kind: `vertical` parties have other columns of the same people, `horizontal` ones other people.
        facts: how the federation was made, as plain values for reports.
        test: share of the shared rows kept for the final score, where rows are still to be matched.
        valid: share of the others that methods may use to stop early, where rows are still to be matched.
        id: the column that says who a row is about, in tables and files; empty if there is none.
        readings: of own files, what each column is and what looks odd, by party; in no result, as it quotes cells.
    """

    name: str
    tables: dict[str, Table]
    hub: str
    aligned: bool
    kind: Literal["vertical", "horizontal"] = "vertical"
    facts: dict[str, object] = field(default_factory=dict)
    test: float = HELD_OUT
    valid: float = 0.1
    id: str = "id"
    readings: "Mapping[str, FileReading]" = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.hub not in self.tables:
            raise DataError(f"the hub {self.hub!r} is not a party; the parties are {', '.join(self.tables)}")
        if self.tables[self.hub].y is None and not self.at_home:
            raise DataError(f"the hub {self.hub!r} has no labels; give it the label column")
        if self.aligned and self.kind == "vertical":
            for cut in TOGETHER:
                self._check_lengths(cut)
                self._check_order(cut)

    def __repr__(self) -> str:
        named = ", ".join(f"{name} {counted(table.rows, 'row')}" for name, table in self.tables.items())
        return f"<Federation {self.name}, {self.kind}: {named}; {self.hub} predicts {self.task.label}>"

    def _repr_html_(self) -> str:
        lines = [
            (name, f"{table.rows:,}", len(table.columns), "hub" if name == self.hub else "party")
            for name, table in self.tables.items()
        ]
        title = f"{self.name}: a {self.kind} federation that predicts {self.task.label} ({self.task.kind})"
        return html_table(title, ("party", "rows", "columns", "role"), lines, " ".join(self.notes))

    @property
    def at_home(self) -> bool:
        """Whether parties with other people hold all rows to score on, and the hub none, as between real sites."""
        # A hub with rows to choose by scores trials itself: only the test rows are gone there.
        return self.kind == "horizontal" and not {"test", "valid"} & set(self.tables[self.hub].cuts)

    @property
    def home(self) -> tuple[str, ...] | None:
        """Which parties get the final model, where the plan names some; None for every one."""
        named = self.facts.get("home")
        return tuple(map(str, named)) if isinstance(named, list) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided when the tables were read, and should be looked at."""
        found = self.facts.get("notes") or ()
        return tuple(map(str, found)) if isinstance(found, list | tuple) else ()

    @property
    def task(self) -> Task:
        """What is to be predicted."""
        task = self.tables[self.hub].task
        if task is None and self.at_home:  # Parties are still to agree on it, and each has its own until then.
            task = next((table.task for table in self.tables.values() if table.task is not None), None)
        if task is None:
            raise DataError(f"the hub {self.hub!r} has no task; give its table one")
        return task

    @property
    def names(self) -> tuple[str, ...]:
        """All parties, in order."""
        return tuple(self.tables)

    @property
    def peers(self) -> tuple[str, ...]:
        """All parties but the hub, in order."""
        return tuple(name for name in self.tables if name != self.hub)

    def labels(self, cut: str) -> Array:
        """The labels of a cut's rows, which only the hub has."""
        labels = self.tables[self.hub].part(cut)[1]
        if labels is None:
            raise DataError(f"rows of cut {cut!r} have no labels at the hub {self.hub!r}")
        return labels

    def _check_lengths(self, cut: str) -> None:
        lengths = {name: len(table.cuts[cut]) for name, table in self.tables.items() if cut in table.cuts}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name} {count}" for name, count in lengths.items())
            raise DataError(f"cut {cut!r} has different numbers of rows at the parties ({counts}); match their ids")

    def _check_order(self, cut: str) -> None:
        """Rows known by ids must be in the same order everywhere, or a model would learn from strangers."""
        known = {
            name: table.keys[table.cuts[cut]]
            for name, table in self.tables.items()
            if table.ids is not None and cut in table.cuts
        }
        first, *others = known or [""]
        for other in others:
            differs = known[first] != known[other]
            if differs.any():
                row = int(differs.argmax())
                raise DataError(
                    f"{first} and {other} do not hold the same rows in the same order: row {row + 1} of cut {cut!r} is "
                    f"{known[first][row]} at {first} and {known[other][row]} at {other}; match their ids first "
                    "(aligned=False)"
                )

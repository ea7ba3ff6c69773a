"""What parties with other rows must agree on: which columns there are, what they are, their levels, and the classes."""

from collections.abc import Mapping, Sequence

import numpy as np

from laconic.core.columns import MOST_LEVELS, Column, Recipe
from laconic.core.errors import DataError
from laconic.core.table import Table
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.data.labels import rank


def agree_names(names: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The columns that all parties have, in the order of the first.

    Raises:
        DataError: a party lacks a column that another has; says who, and which.
    """
    first, *others = names
    for other in others:
        for has, lacks in ((first, other), (other, first)):
            missing = [name for name in names[has] if name not in names[lacks]]
            instead = [name for name in names[lacks] if name not in names[has]]
            if missing:
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                only = f", but {', '.join(map(repr, instead[:3]))} that {has!r} has not" if instead else ""
                raise DataError(
                    f"party {lacks!r} has no column {missing[0]!r}{more}, which {has!r} has{only}; rename it, leave it "
                    f"out at all parties, or add it at {lacks!r} with empty cells if nothing is known"
                )
    return tuple(names[first])


def agree_columns(columns: Mapping[str, Sequence[Column]]) -> tuple[Column, ...]:
    """The columns of all parties, matched by name, each with the levels of any party.

    Raises:
        DataError: parties have other columns, or one of another kind, or write levels differently; or too many levels.
    """
    named = {party: {column.name: column for column in some} for party, some in columns.items()}
    agreed = []
    for name in agree_names({party: list(some) for party, some in named.items()}):
        one = {party: some[name] for party, some in named.items()}
        refuse_other_kinds(name, {party: column.kind for party, column in one.items()})
        levels = {party: column.levels for party, column in one.items()}
        _refuse_spellings(f"column {name!r}", levels)
        union = tuple(sorted({level for some in levels.values() for level in some}))
        if len(union) > MOST_LEVELS:
            raise DataError(
                f"column {name!r} has {len(union)} levels at all parties together, such as {', '.join(union[:3])}; at "
                f"most {MOST_LEVELS} can be agreed on by naming them. Leave it out at all parties, join levels, or "
                "give public rows (--public FILE), whose most frequent levels are then used and none is named"
            )
        agreed.append(Column(name, next(iter(one.values())).kind, union))
    return tuple(agreed)


def refuse_other_kinds(name: str, kinds: Mapping[str, str]) -> None:
    """Refuse a column that is of one kind at one party and of another elsewhere."""
    words = {"numeric": "numbers", "categorical": "text", "date": "dates"}
    first, *others = kinds
    for other in others:
        if kinds[other] != kinds[first]:
            raise DataError(
                f"column {name!r} holds {words[kinds[first]]} at {first!r} and {words[kinds[other]]} at {other!r}; "
                f"write it alike at all parties, or say kinds={{{name!r}: 'categorical'}} "
                f"(--set data.kinds.{name}=categorical) if it holds names everywhere"
            )


def agree_task(tasks: Mapping[str, Task]) -> Task:
    """What is predicted at all parties: the classes of any of them, in the order of their numbers or of the alphabet.

    Raises:
        DataError: labels are classes at one party and a quantity at another, or are written differently, or all alike.
    """
    of_numbers = [party for party, task in tasks.items() if task.kind == "regression"]
    of_classes = [party for party in tasks if party not in of_numbers]
    label = next(iter(tasks.values())).label
    if of_numbers and of_classes:
        raise DataError(
            f"label {label!r} looks like a quantity at {of_numbers[0]!r} and like classes "
            f"({', '.join(tasks[of_classes[0]].classes[:5])}) at {of_classes[0]!r}; say which it is with "
            "task=Task(kind=...) (--set data.task=multiclass), or correct the column"
        )
    if of_numbers:
        return Task(kind="regression", label=label)
    given = {party: task.classes for party, task in tasks.items()}
    _refuse_spellings(f"label {label!r}", given)
    orders = set(given.values())
    union = tuple(sorted({one for some in given.values() for one in some}, key=rank))
    classes = orders.pop() if len(orders) == 1 else union
    if len(classes) < 2:
        raise DataError(
            f"label {label!r}: found only {', '.join(map(repr, classes))} at all parties; at least two different "
            "labels are needed to learn, so add rows or choose another label"
        )
    return Task(kind="binary" if len(classes) == 2 else "multiclass", classes=classes, label=label)


def recode(table: Table, columns: Sequence[Column], task: Task, recipe: Recipe) -> Table:
    """The same rows with their columns, levels and classes as agreed, prepared by the recipe that all have.

    A level that is not among those agreed on gets the next code after them, which no recipe knows.

    Raises:
        DataError: the table has other columns, or a class that is not among those agreed on.
    """
    places = {column.name: at for at, column in enumerate(table.columns)}
    if places.keys() != {column.name for column in columns}:
        raise DataError(
            f"party {table.party!r} was told of other columns than it has ({', '.join(list(places)[:20])}); agree on "
            "the columns with all parties again"
        )
    raw = np.empty((table.rows, len(columns)))
    for at, column in enumerate(columns):
        cells = table.raw[:, places[column.name]]
        known = table.columns[places[column.name]].levels
        raw[:, at] = _recode_levels(cells, known, column.levels) if column.kind == "categorical" else cells
    return Table(
        raw,
        columns,
        ids=table.ids,
        y=None if table.y is None or table.task is None else recode_labels(table.y, table.task, task, table.party),
        task=task,
        cuts=table.cuts,
        party=table.party,
        recipe=recipe,
    )


def recode_labels(y: Array, before: Task, after: Task, party: str) -> Array:
    """Codes of a party's own classes as codes of those agreed on; a row without a label stays one.

    Raises:
        DataError: a class is not among those agreed on.
    """
    if after.kind == "regression":
        return y
    codes = {name: code for code, name in enumerate(after.classes)}
    strange = [name for name in before.classes if name not in codes]
    if strange:
        raise DataError(
            f"party {party!r}, label {after.label!r}: its class {strange[0]!r} is not among the classes it was told "
            f"({', '.join(after.classes[:20])}); agree on the classes with all parties again"
        )
    new = np.array([*(codes[name] for name in before.classes), -1])  # The last is of rows without a label: -1.
    return np.asarray(new[y.astype(np.int64)])


def _recode_levels(cells: Array, before: Sequence[str], after: Sequence[str]) -> Array:
    codes = {level: code for code, level in enumerate(after)}
    new = np.array([*(codes.get(level, len(after)) for level in before), len(after)], dtype=np.float64)
    there = ~np.isnan(cells)
    found = cells.copy()
    found[there] = new[np.minimum(cells[there].astype(np.int64), len(before))]
    return found


def _refuse_spellings(what: str, found: Mapping[str, Sequence[str]]) -> None:
    """Refuse words that differ in case only, each at another party: they are meant to be the same."""
    own = {party: set(words) for party, words in found.items()}
    seen: dict[str, tuple[str, str]] = {}
    for party, words in found.items():
        for word in words:
            other, at = seen.setdefault(word.casefold(), (word, party))
            if other != word and not any({other, word} <= some for some in own.values()):
                raise DataError(
                    f"{what}: found {other!r} at {at!r} and {word!r} at {party!r}, which differ in case only; write "
                    "them alike at all parties"
                )

"""What parties with other rows must agree on: which columns there are, what they are, their levels, and the classes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from laconic.data.labels import rank, same_class
from laconic.data.readers.cells import fold
from laconic.data.readers.columns import LEFT_OUT, Look, Tally, name_rows
from laconic.data.schema import ColumnKind, SaidKind, plain_kind
from laconic.errors import DataError
from laconic.tables.columns import (
    MOST_LEVELS,
    SQUARABLE,
    Column,
    Level,
    Missing,
    Part,
    Recipe,
    Scaled,
    date_parts,
)
from laconic.tables.table import Table
from laconic.tables.task import LabelScale, Task
from laconic.values import Array

Lacking: TypeAlias = Literal["missing", "drop"]
"""What becomes of a column that a party lacks: its cells count as missing there, or nobody uses the column."""


def agree_names(names: Mapping[str, Sequence[str]], lacking: Lacking | None = None) -> tuple[str, ...]:
    """The columns that all parties have, in the order of the first; `lacking` says what to do if one lacks some."""
    first, *others = names
    if lacking is not None:
        union = tuple(dict.fromkeys(name for some in names.values() for name in some))
        kept = union if lacking == "missing" else tuple(name for name in names[first] if _at_all(name, names))
        if not kept:
            raise DataError(f"no column is at every party ({', '.join(names)}); rename columns that mean the same")
        return kept
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


def _at_all(name: str, names: Mapping[str, Sequence[str]]) -> bool:
    return all(name in some for some in names.values())


def agree_columns(
    columns: Mapping[str, Sequence[Column]], notes: list[str] | None = None, lacking: Lacking | None = None
) -> tuple[Column, ...]:
    """The columns of all parties, matched by name, each with the levels of any party.

    Levels that differ in case only are one, written as the first party does. Of more than `MOST_LEVELS` levels, those
    that most parties have are kept, and of these the first in the alphabet: how frequent they are, nobody says. What
    was decided and should be looked at is added to the notes.
    """
    said = [] if notes is None else notes
    named = {party: {column.name: column for column in some} for party, some in columns.items()}
    agreed = []
    for name in agree_names({party: list(some) for party, some in named.items()}, lacking):
        one = {party: some[name] for party, some in named.items() if name in some}
        refuse_other_kinds(name, {party: column.kind for party, column in one.items()})
        levels = {party: column.levels for party, column in one.items()}
        spelled = _one_spelling(f"column {name!r}", levels, fold, said)
        union = tuple(sorted(set(spelled.values())))
        if len(union) > MOST_LEVELS:
            holders = Counter(spelled[level] for some in levels.values() for level in some)
            union = tuple(sorted(sorted(union, key=lambda level: (-holders[level], level))[:MOST_LEVELS]))
            said.append(
                f"column {name!r}: {len(set(spelled.values()))} levels at all parties together, of which "
                f"{MOST_LEVELS} are used; leave it out, join levels, or give public rows (--public FILE), whose most "
                "frequent levels are then used"
            )
        dated = all(column.prepare == "date" for column in one.values())
        agreed.append(Column(name, next(iter(one.values())).kind, union, "date" if dated else "usual"))
    return tuple(agreed)


def refuse_other_kinds(name: str, kinds: Mapping[str, str]) -> None:
    """Refuse a column that is of one kind at one party and of another elsewhere."""
    words = {"numeric": "numbers", "categorical": "text", "date": "dates"}
    first, *others = kinds
    for other in others:
        if kinds[other] != kinds[first]:
            raise DataError(
                f"column {name!r} holds {words[kinds[first]]} at {first!r} and {words[kinds[other]]} at {other!r}; "
                f"write it in the same way at all parties, or say kinds={{{name!r}: 'categorical'}} "
                f"(--set data.kinds.{name}=categorical) if it holds names everywhere"
            )


def agree_task(tasks: Mapping[str, Task], notes: list[str] | None = None) -> Task:
    """What is predicted at all parties: the classes of any of them, in the order of their numbers or of the alphabet.

    Classes that differ in case only, or are the same number, are one, written as the first party does; this is noted.
    """
    of_numbers = [party for party, task in tasks.items() if not task.of_classes]
    of_classes = [party for party in tasks if party not in of_numbers]
    label = next(iter(tasks.values())).label
    if of_numbers and of_classes:
        raise DataError(
            f"label {label!r} looks like a quantity at {of_numbers[0]!r} and like classes "
            f"({', '.join(tasks[of_classes[0]].classes[:5])}) at {of_classes[0]!r}; say which it is with "
            "task=Task(kind=...) (--set data.task=multiclass), or correct the column"
        )
    if of_numbers:
        first = tasks[of_numbers[0]]
        different = next((party for party in of_numbers if _kind_of(tasks[party]) != _kind_of(first)), None)
        if different is not None:
            raise DataError(
                f"label {label!r} is {_kind_of(first)} at {of_numbers[0]!r} and {_kind_of(tasks[different])} at "
                f"{different!r}; say the same label, event and task at all parties"
            )
        counted = [party for party in tasks if tasks[party].counts is True]
        if counted and len(counted) < len(tasks):
            other = next(party for party in tasks if party not in counted)
            raise DataError(
                f"label {label!r} is a count at {counted[0]!r} and a quantity at {other!r}; say task = counts at all "
                "parties, or at none"
            )
        scale = _agreed_scale([task.scale for task in tasks.values()])
        return msgspec.structs.replace(first, scale=scale)
    given = {party: task.classes for party, task in tasks.items()}
    spelled = _one_spelling(f"label {label!r}", given, same_class, [] if notes is None else notes)
    orders = set(given.values())
    union = tuple(sorted(set(spelled.values()), key=rank))
    classes = orders.pop() if len(orders) == 1 else union
    if len(classes) < 2:
        raise DataError(
            f"label {label!r}: found only {', '.join(map(repr, classes))} at all parties; at least two different "
            "labels are needed to learn, so add rows or choose another label"
        )
    return Task(kind="binary" if len(classes) == 2 else "multiclass", classes=classes, label=label)


def _kind_of(task: Task) -> str:
    """What a label that is no class is, in words."""
    return "a number" if task.event is UNSET else f"the time to an event (column {task.event!r})"


def shown_task(table: Table, task: Task) -> Task:
    """What a party predicts, for the others: of numbers with mean and spread, if enough training rows have a label."""
    if task.of_classes or table.y is None:
        return task
    known = task.amounts(table.y[table.cut("train")].astype(np.float64))
    known = known[np.isfinite(known)]
    if len(known) < LEAST:
        return msgspec.structs.replace(task, scale=UNSET)
    # Whole numbers that are all the same have no spread; 1 stands for it, as where one party learns alone.
    spread = float(known.std()) if known.min() < known.max() else 1.0
    return msgspec.structs.replace(task, scale=LabelScale(float(known.mean()), spread, len(known)))


def _agreed_scale(scales: Sequence[LabelScale | UnsetType]) -> LabelScale | UnsetType:
    """The mean and spread of all parties' numbers together; unset if none said its own."""
    parts = [one for one in scales if one is not UNSET]
    if not parts:
        return UNSET
    rows, means, spreads = (np.array(values, dtype=np.float64) for values in zip(*map(_in_order, parts), strict=True))
    mean = float(np.average(means, weights=rows))
    spread = float(np.sqrt(np.average(spreads**2 + (means - mean) ** 2, weights=rows)))
    return LabelScale(mean, spread if spread > 0 else 1.0)


def _in_order(one: LabelScale) -> tuple[int, float, float]:
    return max(1, one.rows), one.mean, one.spread


def recode(
    table: Table, columns: Sequence[Column], task: Task, recipe: Recipe, *, lacking: Lacking | None = None
) -> Table:
    """The same rows with their columns, levels and classes as agreed, prepared by the recipe that all have.

    A level that is not among those agreed on gets the next code after them, which no recipe knows. A server without
    rows takes the columns over. With `lacking`, the party may lack some of the columns, or have others too.
    """
    if not table.rows and not table.columns:
        return table.changed(raw=np.empty((0, len(columns))), columns=tuple(columns), task=task, recipe=recipe)
    own = {column.name: column.written for column in table.columns}
    if lacking is None and own.keys() != {column.name for column in columns}:
        raise DataError(
            f"party {table.party!r} was sent other columns than it has ({', '.join(list(own)[:20])}); agree on the "
            "columns with all parties again"
        )
    columns = tuple(msgspec.structs.replace(column, written=own.get(column.name, msgspec.UNSET)) for column in columns)
    y = None if table.y is None or table.task is None else recode_labels(table.y, table.task, task, table.party)
    raw = recode_cells(table.raw, table.columns, columns)
    return table.changed(raw=raw, columns=columns, y=y, task=task, recipe=recipe)


def recode_labels(y: Array, before: Task, after: Task, party: str) -> Array:
    """Codes of a party's own classes as codes of those agreed on; a row without a label stays one."""
    if not after.of_classes:
        return y
    codes = {same_class(name): code for code, name in enumerate(after.classes)}
    strange = [name for name in before.classes if same_class(name) not in codes]
    if strange:
        raise DataError(
            f"party {party!r}, label {after.label!r}: its class {strange[0]!r} is not among the classes agreed on "
            f"({', '.join(after.classes[:20])}); agree on the classes with all parties again"
        )
    # The last is the code of rows without a label, -1.
    new = np.array([*(codes[same_class(name)] for name in before.classes), -1])
    return np.asarray(new[y.astype(np.int64)])


def recode_cells(raw: Array, columns: Sequence[Column], wanted: Sequence[Column]) -> Array:
    """Cells of the wanted columns, in their order and coded by their levels; any other level gets the next code.

    Cells of a column that is not there are missing.
    """
    places = {column.name: at for at, column in enumerate(columns)}
    recoded = np.full((len(raw), len(wanted)), np.nan)
    for at, column in enumerate(wanted):
        if column.name not in places:
            continue
        recoded[:, at] = raw[:, places[column.name]]
        if column.kind == "categorical":
            codes = {fold(level): code for code, level in enumerate(column.levels)}
            other = len(column.levels)
            levels = columns[places[column.name]].levels
            new = np.array([*(codes.get(fold(level), other) for level in levels), other], dtype=np.float64)
            there = ~np.isnan(recoded[:, at])
            recoded[there, at] = new[np.minimum(recoded[there, at].astype(np.int64), len(levels))]
    return recoded


def _one_spelling(
    what: str, found: Mapping[str, Sequence[str]], key: Callable[[str], str], notes: list[str]
) -> dict[str, str]:
    """For each word how it is written at all parties: as by the first that has it."""
    first: dict[str, tuple[str, str]] = {}
    spelled: dict[str, str] = {}
    for party, words in found.items():
        for word in words:
            now, at = first.setdefault(key(word), (word, party))
            spelled[word] = now
            if word != now:
                notes.append(f"{what}: {word!r} at {party} is taken as {now!r}, as {at} writes it")
    return spelled


LEAST = 5
"""A level, or a column, that fewer training rows than this have is not released: it could reveal single people."""

SUMS = ("rows", "known", "mean", "squares", "zeros")
"""What is released of a column: how many rows, how many know it, their mean, the squares about it, how many are 0."""

_HALF = 0.5


def sums_of(table: Table) -> Array:
    """The numbers of `SUMS` for each column of a party's training rows; zeros for a column not to be released."""
    rows = table.raw[table.cut("train")]
    found = [_sums(column, rows[:, at]) for at, column in enumerate(table.columns)]
    return np.array(found, dtype=np.float64).reshape(-1, len(SUMS))


def released_columns(table: Table) -> tuple[Column, ...]:
    """The columns of a party, with those of their levels that enough of its training rows have."""
    rows = table.raw[table.cut("train")]
    return tuple(
        msgspec.structs.replace(column, levels=_common(column, rows[:, at]), written=msgspec.UNSET)
        for at, column in enumerate(table.columns)
    )


def add_sums(parts: Sequence[Array]) -> Array:
    """The same numbers for all parties' rows together.

    Means and squares about them are put together two parties at a time, which loses no digits to large numbers.
    """
    total = parts[0].copy()
    for part in parts[1:]:
        rows, known, mean, squares, zeros = part.T
        both = total[:, 1] + known
        share = np.divide(known, both, out=np.zeros_like(both), where=both > 0)
        away = mean - total[:, 2]
        total[:, 3] += squares + away**2 * total[:, 1] * share
        total[:, 2] += away * share
        total[:, [0, 1, 4]] += np.stack([rows, known, zeros], axis=1)
    return total


_OTHER_UNIT = 300.0
"""How many times larger or smaller a column may be at one party than at the others."""
_ENOUGH = 20


def refuse_other_units(columns: Sequence[Column], sums: Mapping[str, Array]) -> None:
    """Refuse a column of numbers that is hundreds of times larger, or smaller, at one party than at the others.

    Args:
        sums: as `sums_of` gives them, by party, in the order of the columns.
    """
    for at, column in enumerate(columns):
        sizes = {party: size for party, own in sums.items() if (size := _size_of(column, own[at])) > 0}
        usual = float(np.quantile(list(sizes.values()), 0.5, method="lower")) if sizes else 0.0
        for party, size in sizes.items():
            if not usual / _OTHER_UNIT < size < usual * _OTHER_UNIT:
                raise DataError(
                    f"column {column.name!r} is about {size:.3g} at {party!r} and {usual:.3g} at the others, as if in "
                    "another unit. Write it in the same unit at all parties, or say data.agree.units = 'any' if it is "
                    "right (--set data.agree.type=SameColumns --set data.agree.units=any)"
                )


def _size_of(column: Column, sums: Array) -> float:
    """How large a party's numbers are; 0 if they are too few to tell, or all the same."""
    _, known, mean, squares, _ = sums.tolist()
    if column.kind == "categorical" or column.prepare == "date" or known < _ENOUGH or not squares > 0:
        return 0.0
    return float(np.hypot(mean, np.sqrt(squares / known)))


def refuse_other_scale(table: Table, *, trained: bool = False) -> None:
    """Refuse rows that lie hundreds of scales away from what public rows, or a schema, say of a column.

    Args:
        trained: the columns are prepared as in a model that is there, not by public rows or a schema.
    """
    rows = table.raw[table.cut("train")]
    said = "that the model was trained with" if trained else "that the public rows or the schema have"
    also = "" if trained else ", or correct the public rows or the schema"
    for part in table.recipe.parts:
        cells = rows[:, part.source][~np.isnan(rows[:, part.source])]
        if isinstance(part, Scaled) and len(cells) >= _ENOUGH:
            away = float(np.median(np.abs(cells - part.centre))) / part.scale
            if away > _OTHER_UNIT:
                raise DataError(
                    f"party {table.party!r}, column {part.name!r}: half of its rows are {away:,.0f} or more spreads "
                    f"({part.scale:.3g}) away from the mean ({part.centre:.3g}) {said}, as if in another unit. Write "
                    f"it in the same unit{also}"
                )


def recipe_from(columns: Sequence[Column], sums: Array) -> Recipe:
    """How all parties prepare their columns: numbers by the mean and the spread over all rows, a flag for each level.

    A flag is centred by one over the number of levels, as parties do not release how frequent each is.
    """
    parts = tuple(part for at, column in enumerate(columns) for part in _parts(column, at, sums[at]))
    if not parts:
        raise DataError(
            f"no column varies among the training rows of all parties. A column that fewer than {LEAST} rows of a "
            "party have is not released, so give more rows, or public rows (--public FILE) to prepare columns by"
        )
    return Recipe(columns=tuple(columns), parts=parts)


def _sums(column: Column, cells: Array) -> tuple[float, ...]:
    known = cells[~np.isnan(cells)]
    if len(known) < LEAST:
        return (0.0,) * len(SUMS)
    if column.kind == "categorical":
        return float(len(cells)), float(len(known)), 0.0, 0.0, 0.0
    known = np.clip(known, -SQUARABLE, SQUARABLE)
    # A constant is its own mean: rounding can part a large one from the mean of its copies.
    mean = float(known[0] if known.min() == known.max() else known.mean())
    return float(len(cells)), float(len(known)), mean, float(((known - mean) ** 2).sum()), float((known == 0).sum())


def _common(column: Column, cells: Array) -> tuple[str, ...]:
    if column.kind != "categorical":
        return ()
    codes = cells[~np.isnan(cells)].astype(np.int64)
    times = np.bincount(codes, minlength=len(column.levels))
    return tuple(level for level, count in zip(column.levels, times, strict=False) if count >= LEAST)


def _parts(column: Column, source: int, sums: Array) -> Iterator[Part]:
    rows, known, mean, squares, zeros = sums.tolist()
    if known == 0:
        return
    if column.kind == "categorical":
        if len(column.levels) > 1 or known < rows:
            for code, level in enumerate(column.levels):
                share = 1 / len(column.levels)
                yield Level(name=f"{column.name}={level}", source=source, code=code, share=share)
    elif squares > 0:
        scale = float(np.sqrt(squares / known))
        if zeros > _HALF * known:
            # Decision 6, for the value 0: half the usual distance of the other cells from it.
            scale = max(scale, _HALF * float(np.sqrt((squares + known * mean**2) / (known - zeros))))
        yield Scaled(name=column.name, source=source, centre=mean, scale=scale)
        if column.prepare == "date":
            yield from date_parts(column.name, source, None)
    if known < rows:
        yield Missing(name=f"{column.name} is missing", source=source, share=1 - known / rows)


def common_kinds(
    looks: Mapping[str, Mapping[str, Look]], names: Sequence[str], said: Mapping[str, SaidKind], notes: list[str]
) -> dict[str, ColumnKind]:
    """What each column is at all parties, as said or as the cells show, but for those that only name rows."""
    found: dict[str, ColumnKind] = {}
    for name in names:
        if name in said:
            found[name] = plain_kind(said[name])
            continue
        there = {party: some[name] for party, some in looks.items() if not some[name].empty and _knows(some[name])}
        kind = _common_kind(name, there)
        if kind == "categorical" and name_rows(there.values()):
            notes.append(f"column {name!r}: {LEFT_OUT}")
        else:
            found[name] = kind
    return found


def _knows(look: Look) -> bool:
    return look.fixed is not None or look.values is not None or look.tally.known > 0


def _common_kind(name: str, looks: Mapping[str, Look]) -> ColumnKind:
    kinds = {party: look.kind for party, look in looks.items()}
    if len(set(kinds.values())) <= 1:
        return next(iter(kinds.values()), "numeric")
    tallies = {party: look.tally for party, look in looks.items()}
    pure = {party: kinds[party] for party, one in tallies.items() if max(one.numbers, one.dates) in (0, one.known)}
    if pure:
        refuse_other_kinds(name, pure)
    return Tally(*map(sum, zip(*tallies.values(), strict=True))).kind

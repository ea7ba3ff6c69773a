"""Cells of saved study results by name: `SECTION > ROW > COLUMN` of the Markdown tables that studies write.

A name may begin with the file it is in (`rap_tables/tables.md > ...`, from `studies/results`, or any path of the
repository). SECTION is a heading, whole or its beginning; ROW the first cell of a row, or its first cells joined by
` & `, `*` for any; COLUMN a column's heading, whole or its beginning, and `#2` after it for the second number in the
cell. Without a COLUMN, the second column is meant.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
NUMBER = r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "cos": lambda degrees: math.cos(math.radians(degrees)),
}


class FigureError(ValueError):
    """A figure that is not in the results, or a name of one that cannot be read."""


@dataclass(frozen=True)
class Grid:
    """One table of a results file, under its heading."""

    section: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def value_of(formula: str, file: str | None) -> float:
    """The number that a formula stands for: a cell's name, or names in [brackets] joined by + - * / min max abs.

    A formula that begins with `=` needs no cells: it is worked out as it stands, with exp, sqrt and cos (of degrees).
    """
    formula = formula.strip()
    worked_out = formula.startswith("=")
    if "[" not in formula and not worked_out:
        return _number(formula, file)
    found: dict[str, float] = {}

    def keep(match: re.Match[str]) -> str:
        names = []
        for value in _numbers(match[1], file):
            names.append(f"cell{len(found)}")
            found[names[-1]] = value
        return ", ".join(names)

    spelt = re.sub(r"\[([^\[\]]*)\]", keep, formula.removeprefix("="))
    try:
        return _work_out(ast.parse(spelt.strip(), mode="eval").body, found)
    except SyntaxError as problem:
        raise FigureError(f"cannot read the formula {formula!r}: write [cell] + - * / [cell]") from problem


def text_of(name: str, file: str | None) -> str:
    """A cell as it is written, or, for a ROW of `*`, the whole table with the COLUMNS named (joined by ` & `)."""
    grid, row, column = _find(name, file)
    if row == "*":
        places = [_place(grid, one) for one in column.split(" & ")] if column else list(range(len(grid.header)))
        lines = [grid.header, ("---",) * len(grid.header), *grid.rows]
        return "\n".join("| " + " | ".join(line[place] for place in places) + " |" for line in lines)
    return _cell(grid, row, column.partition(" #")[0])


def numbers_in(text: str) -> list[float]:
    """All numbers of a text, in order."""
    return [float(found.replace(",", "")) for found in re.findall(NUMBER, text)]


def like(sample: str, values: Sequence[float]) -> str:
    """Numbers written with as many decimals, and with thousands apart, as those of a sample: `0.00`, `0,000 ± 0`."""
    spelt = re.findall(NUMBER, sample)
    commas = any("," in one for one in spelt)
    shown = []
    for one, value in zip(spelt, values, strict=False):
        digits = len(one.partition(".")[2])
        shown.append(f"{value:{',' if commas else ''}.{digits}f}")
    return " ± ".join(shown)


def names_of(number: str) -> Iterator[str]:
    """The names of all cells of saved results that hold a number, when written with as many decimals."""
    folder = ROOT / "studies" / "results"
    for path in sorted(folder.rglob("*.md")):
        for grid, row in ((one, row) for one in read_grids(path) for row in one.rows):
            for heading, cell in zip(grid.header, row, strict=False):
                if number in [like(number, [found]) for found in numbers_in(cell)]:
                    file = path.relative_to(folder)
                    yield f"{file} > {grid.section} > {_shortest(grid, row)} > {heading} = {cell}"


@cache
def read_grids(path: Path) -> tuple[Grid, ...]:
    """All tables of a Markdown file."""
    section, grids, lines = "", [], [*path.read_text(encoding="utf-8").splitlines(), ""]
    table: list[tuple[str, ...]] = []
    for line in lines:
        if line.startswith("|"):
            table.append(tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))))
            continue
        if len(table) > 2:
            grids.append(Grid(section, table[0], tuple(table[2:])))
        table = []
        if line.startswith("#"):
            section = line.lstrip("#").strip()
    return tuple(grids)


def path_of(file: str) -> Path:
    """The results file of that name: under `studies/results`, or a path of the repository."""
    for path in (ROOT / "studies" / "results" / file, ROOT / file):
        if path.is_file():
            return path
    raise FigureError(f"there is no results file {file!r}, neither in studies/results nor in the repository")


def _number(name: str, file: str | None) -> float:
    found = _numbers(name, file)
    if len(found) > 1:
        raise FigureError(f"{len(found)} rows are meant by {name!r}; add further cells, joined by ' & '")
    return found[0]


def _numbers(name: str, file: str | None) -> list[float]:
    """The number in the cell of each row that the name fits: one, or several for `min` and `max`."""
    grid, row, column = _find(name, file)
    heading, _, place = column.partition(" #")
    found, wanted = [], int(place or 1)
    for line in _rows(grid, row):
        cell = line[_place(grid, heading) if heading else 1]
        if wanted > len(numbers_in(cell)):
            raise FigureError(f"{name!r} has no number {wanted}: the cell is {cell!r}")
        found.append(numbers_in(cell)[wanted - 1])
    return found


def _find(name: str, file: str | None) -> tuple[Grid, str, str]:
    """The one table that a name means, and its ROW and COLUMN."""
    parts = [" ".join(part.split()) for part in name.split(">")]
    if parts[0].endswith(".md"):
        file, parts = parts[0], parts[1:]
    if file is None:
        raise FigureError(f"{name!r} names no results file, and no `<!-- figures from FILE.md -->` stands above it")
    if len(parts) not in (2, 3):
        raise FigureError(f"{name!r} is not SECTION > ROW > COLUMN")
    section, row, column = (*parts, "")[:3]
    grids = read_grids(path_of(file))
    known = list(dict.fromkeys(grid.section for grid in grids))
    heading = _choose(section, known, f"section of {file}") if section else None
    there = [grid for grid in grids if heading is None or grid.section == heading]
    fitting = [grid for grid in there if row == "*" or _rows(grid, row)]
    if not fitting:
        rows = [" & ".join(line[:2]) for grid in there for line in grid.rows]
        firsts = [line[0] for grid in there for line in grid.rows]
        near = get_close_matches(row, list(dict.fromkeys([*firsts, *rows])), n=5, cutoff=0.3)
        raise FigureError(f"no row {row!r} under {section!r} of {file}; near it: {near or rows[:8]}")
    return fitting[0], row, column


def _cell(grid: Grid, row: str, column: str) -> str:
    found = _rows(grid, row)
    if len(found) > 1:
        raise FigureError(f"{len(found)} rows of {grid.section!r} are {row!r}; add further cells, joined by ' & '")
    return found[0][_place(grid, column) if column else 1]


def _rows(grid: Grid, row: str) -> list[tuple[str, ...]]:
    wanted = row.split(" & ")
    return [line for line in grid.rows if all(want in ("*", cell) for want, cell in zip(wanted, line, strict=False))]


def _shortest(grid: Grid, row: tuple[str, ...]) -> str:
    """The fewest first cells that no other row begins with."""
    names = [" & ".join(row[:count]) for count in range(1, len(row) + 1)]
    return next((name for name in names if len(_rows(grid, name)) == 1), names[-1])


def _place(grid: Grid, column: str) -> int:
    return grid.header.index(_choose(column, grid.header, f"column under {grid.section!r}"))


def _choose(word: str, known: Sequence[str], what: str) -> str:
    """The one of the known texts that is the word, or that alone begins with it."""
    if word in known:
        return word
    fitting = [one for one in known if one.startswith(word)]
    if len(fitting) != 1:
        raise FigureError(f"{'no' if not fitting else 'more than one'} {what} is {word!r}: {list(fitting or known)}")
    return fitting[0]


def _work_out(node: ast.expr, cells: dict[str, float]) -> float:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_work_out(left, cells), _work_out(right, cells))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_work_out(operand, cells)
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_work_out(arg, cells) for arg in args))
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name) if name in cells:
            return cells[name]
    raise FigureError(f"cannot work out {ast.unparse(node)!r}: use [cell], numbers, + - * /, min, max, abs")

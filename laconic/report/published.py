"""A paper's table again: its presets run with several seeds, and our figures beside the paper's."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laconic.deploy.execute import execute
from laconic.deploy.result import Result, code_digest
from laconic.deploy.tuning import OnResult, compare_plans
from laconic.errors import PlanError
from laconic.plan.plan import Plan
from laconic.plan.published import Line
from laconic.plan.text import change_plan, to_plain
from laconic.tables.task import LOWER_IS_BETTER
from laconic.values import Listener

QUICK_EPOCHS = 2
"""So many epochs show that a table runs; its figures then say nothing."""

_SHARES = ("accuracy",)
"""Metrics that papers print in percent."""


def lines_on(lines: Sequence[Line], data: str | None, *, quick: bool = False) -> list[Line]:
    """The lines on one data set, or all; with few epochs if it is to be quick."""
    named = list(dict.fromkeys(line.plan.data.name for line in lines))
    if data is not None and data not in named:
        raise PlanError(f"this table has no rows on {data}; it has: {', '.join(map(str, named))}")
    kept = [line for line in lines if data in (None, line.plan.data.name)]
    return [msgspec.structs.replace(line, plan=_quick(line.plan)) for line in kept] if quick else kept


def run_published(
    lines: Sequence[Line],
    seeds: Sequence[int],
    path: Path,
    listener: Listener | None = None,
    on_result: OnResult = lambda *_: None,
) -> list[list[Result]]:
    """Run each line with every seed, and keep each result in the file as it comes; what is in it is not run again."""
    found = []
    for place, line in enumerate(lines):
        if listener is not None:
            listener("rows of the table", place, len(lines))
        found.append(compare_plans([line.plan], seeds, path, run=as_published, listener=listener, on_result=on_result))
    return found


def show_published(title: str, lines: Sequence[Line], results: Sequence[Sequence[Result]]) -> RenderableType:
    """The table: our mean over seeds, the paper's figure, and by how much ours is better (+) or worse (-)."""
    shown: list[RenderableType] = [Text(title, "bold")]
    rows = list(zip(lines, results, strict=True))
    for name, metric in dict.fromkeys((line.plan.data.name, line.row.metric) for line in lines):
        table = Table(title=f"{name}, {metric}{' in %' if metric in _SHARES else ''}", title_justify="left")
        for column in ("arm", "ours", "paper", "better by", "preset", "code"):
            table.add_column(column, justify="right" if column in ("ours", "paper", "better by") else "left")
        here = [(line, runs) for line, runs in rows if (line.plan.data.name, line.row.metric) == (name, metric)]
        for line, runs in here:
            table.add_row(*cells(line, runs))
        shown += ["", table, f"seeds {', '.join(str(run.seed) for run in here[0][1])}"]
    if any(_is_old(line, runs) for line, runs in rows):
        shown.append(Text("* by other code than is installed now; remove the file to run it again", "yellow"))
    return Group(*shown)


def cells(line: Line, runs: Sequence[Result]) -> tuple[str, ...]:
    """A line of the table: arm, ours, the paper's, by how much ours is better, the preset, and a digest of the code."""
    metric = line.row.metric
    times, digits = (100, 2) if metric in _SHARES else (1, 4)
    values = [run.metrics[metric] * times for run in runs]
    ours = statistics.fmean(values)
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    paper, better = "", ""
    if line.paper is not None:
        sign = -1 if metric in LOWER_IS_BETTER else 1
        paper, better = f"{line.paper * times:.{digits}f}", f"{sign * (ours - line.paper * times):+.{digits}f}"
    preset = line.row.preset.removeprefix(f"{line.plan.data.name}-") + (", changed" if line.row.set else "")
    code = runs[0].versions.get("code", "")[:8] + ("*" if _is_old(line, runs) else "")
    return line.arm, f"{ours:.{digits}f}{spread}", paper, better, preset, code


def _is_old(line: Line, runs: Sequence[Result]) -> bool:
    return any(run.versions.get("code") != code_digest(line.plan.method) for run in runs)


def as_published(plan: Plan, *, listener: Listener | None, weigh: bool) -> Result:
    """Without finding out how much each party matters (`weigh`), which papers do not ask."""
    del weigh
    return execute(plan, listener=listener)


def _quick(plan: Plan) -> Plan:
    plain = to_plain(plan)
    trained = [f"method.{name}" for name in ("encoder", "encoder.trainer", "trainer")]
    changes = list[tuple[str, object]]()
    for path in trained:
        part = plain
        for key in path.split("."):
            part = part.get(key) or {}
        changes += [(f"{path}.epochs", QUICK_EPOCHS)] if "epochs" in part else []
    return change_plan(plain, changes)

"""How much of a party's columns its open releases show: rebuilt by someone who knows one row in a hundred."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from laconic.audit.widths import Rebuilt, rebuild
from laconic.core.result import Leakage, RebuiltColumn, Result
from laconic.core.wire import decode, decode_question
from laconic.deploy.execute import OnRead, execute_and_keep, weighed
from laconic.deploy.simulation import FittedRun
from laconic.deploy.transports.inprocess import Recorder
from laconic.errors import PlanError
from laconic.plan.plan import Plan
from laconic.tables.quality import bins_of
from laconic.values import Array, Listener, track

_SHARE = 0.01
_LEAST = 10
"""Rows that the attacker knows at least: from fewer it learns nothing, and the small figure would comfort wrongly."""

_MOST = 5_000
"""Rows that are attacked at most, drawn at random."""

_SHOWN = 3
"""Columns of each party that are shown before and after."""


def execute_measured(
    plan: Plan, *, listener: Listener | None = None, weigh: bool = False, on_read: OnRead = lambda _: None
) -> Result:
    """As `laconic.deploy.execute.execute`, with how well columns can be rebuilt from what left in the open."""
    if plan.method.kind != "vertical":
        raise PlanError(f"--leakage rebuilds columns from rows sent, which {type(plan.method).__name__} does not send")
    recorder = Recorder()
    fitted = execute_and_keep(plan, listener=listener, on_read=on_read, recorder=recorder)
    found = measure_leakage(fitted, recorder)
    return msgspec.structs.replace(weighed(plan, fitted) if weigh else fitted.result, leakage=found)


def measure_leakage(fitted: FittedRun, recorder: Recorder) -> tuple[Leakage, ...]:
    """Rebuild each party's columns from what it sent, row by row and without noise, in a run that was listened to.

    Of each party and step the largest answer counts. The attacker knows one row in a hundred in full, ten at least, and
    the best of a linear model, a net and trees counts, column by column.
    """
    open_steps = {(one.party, one.step) for one in fitted.result.releases if one.label == "open"}
    sent: dict[tuple[str, str], tuple[str, Array]] = {}
    for (party, _, _, question), (_, _, _, answer) in zip(
        recorder.crossings[::2], recorder.crossings[1::2], strict=True
    ):
        asked = decode_question(question)
        cut = asked.payload.get("rows")
        if (party, asked.step) not in open_steps or cut not in fitted.federation.tables[party].cuts:
            continue
        values = _by_row(decode(answer), len(fitted.federation.tables[party].cuts[cut]))
        known = sent.get((party, asked.step))
        if values is not None and (known is None or len(known[1]) < len(values)):
            sent[party, asked.step] = (str(cut), values)
    pairs = list(sent.items())
    return tuple(_rebuild(fitted, *pairs[place]) for place in track(len(pairs), "leakage"))


def _rebuild(fitted: FittedRun, who: tuple[str, str], what: tuple[str, Array]) -> Leakage:
    (party, step), (cut, values) = who, what
    rng = np.random.default_rng([fitted.result.seed, 0x1EAC])
    columns = fitted.federation.tables[party].part(cut)[0]
    some = rng.permutation(len(values))[:_MOST]
    known = min(max(_LEAST, round(_SHARE * len(values))), len(some) // 2)
    found = rebuild(values[some], columns[some], known, rng)
    r2 = found.r2[found.varies]
    mean, best = (float(r2.mean()), float(r2.max())) if r2.size else (0.0, 0.0)
    shown = _best_columns(found, fitted.federation.tables[party].recipe.names)
    return Leakage(party=party, step=step, rows=len(values), known=known, mean=mean, best=best, columns=shown)


def _best_columns(found: Rebuilt, names: Sequence[str]) -> tuple[RebuiltColumn, ...]:
    """The columns that come out best, in bins of rows; none of images."""
    if len(names) != len(found.r2):
        return ()
    order = [place for place in np.argsort(-found.r2, kind="stable") if found.varies[place]][:_SHOWN]
    cells = ((names[at], float(found.r2[at]), found.truth[:, at], found.guess[:, at]) for at in order)
    return tuple(
        RebuiltColumn(name=name, r2=float(f"{r2:.4g}"), bins=bins_of(guess, true, by=true))
        for name, r2, true, guess in cells
    )


def _by_row(answer: Any, rows: int) -> Array | None:
    """The numbers of an answer that are about rows, side by side; None if there are none."""
    values = answer.values() if isinstance(answer, dict) else [answer]
    found = [
        one.reshape(rows, -1).astype(np.float64)
        for one in values
        if isinstance(one, np.ndarray) and one.ndim and len(one) == rows and np.issubdtype(one.dtype, np.number)
    ]
    return np.concatenate(found, axis=1) if found and rows > 2 * _LEAST else None

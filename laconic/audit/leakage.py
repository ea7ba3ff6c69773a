"""How much of a party's columns its open releases show, rebuilt by someone who knows one row in a hundred.

Widths side by side: what each number of numbers per row is worth, costs, and gives away, before one is chosen.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from laconic.align.alignment import ExactMatch
from laconic.audit.attacks import AnyAttacker, LinearAttacker, MlpAttacker, TreesAttacker
from laconic.core.wire import decode, decode_question, read_heading
from laconic.data.federation import Federation
from laconic.deploy.execute import FittedRun, OnRead, execute_and_keep, matched, train, weighed
from laconic.deploy.result import Leakage, RebuiltColumn, Result
from laconic.deploy.transports.inprocess import Recorder
from laconic.errors import PlanError
from laconic.learn.nets.nets import Joint
from laconic.methods.baselines.solo import Solo
from laconic.methods.vertical.fedonce import FedOnce
from laconic.plan.plan import Plan
from laconic.tables.task import Score, bins_of
from laconic.threads import limit_threads
from laconic.values import Array, Listener, Rng, track

WIDTHS = (4, 8, 16)
_FEWEST = 20
"""Fewer validation rows than this say nothing, neither of a score nor of an attack."""

_ATTACKERS: tuple[AnyAttacker, ...] = (LinearAttacker(), MlpAttacker(), TreesAttacker())


class Width(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one width.

    Attributes:
        words: the width in words.
        numbers: how many numbers stand for a row, by party; none where the label holder is alone.
        row_bytes: the most that a party sends for a row.
        score: on the validation rows.
        rebuilt: by party, the mean over its columns of R2, the share of a column's variance, that someone finds who
            knows some rows in full.
    """

    words: str
    numbers: dict[str, int]
    row_bytes: int
    score: Score
    rebuilt: dict[str, float]

    @property
    def mean_rebuilt(self) -> float:
        """The mean over parties."""
        return float(np.mean(list(self.rebuilt.values()))) if self.rebuilt else 0.0


@limit_threads()
def compare_widths(
    method: FedOnce,
    federation: Federation,
    *,
    seed: int = 0,
    known: int = 100,
    widths: tuple[int, ...] = WIDTHS,
    align: ExactMatch = ExactMatch(),  # noqa: B008 (frozen)
    each: Callable[[Width], None] = lambda _: None,
) -> tuple[Width, ...]:
    """Run FedOnce with several widths, score on validation rows, and rebuild each party's columns from what it sent.

    First comes the label holder alone, if it has columns, with the same kind of model; then the widths, then all
    columns, then the width that the method takes itself.

    Args:
        known: how many validation rows an attacker knows in full, at most half of them.
        align: how rows are matched if they do not correspond yet.
        each: called with each width as it is measured, for whoever may not wait for all.
    """
    if method.more is not None:
        raise PlanError("widths are compared after one exchange; leave out more")
    ready = matched(method, federation, seed=seed, align=align)
    if len(ready.tables[ready.hub].cut("valid")) < _FEWEST:
        raise PlanError(
            f"widths are compared on validation rows, of which there are fewer than {_FEWEST}; raise data.valid"
        )
    most = max(int(np.prod(ready.tables[name].shape)) for name in ready.peers)
    chosen = {str(width): width for width in widths if width < most} | {f"all ({most})": most}
    arms = {words: _with_width(method, width) for words, width in chosen.items()} | {"as it is set": method}
    found = [_alone(method, ready, seed)] if ready.tables[ready.hub].columns else []
    for one in found:
        each(one)
    for place in track(len(arms), "widths"):
        words, arm = list(arms.items())[place]
        found.append(_measure(words, arm, ready, seed, known))
        each(found[-1])
    return tuple(found)


@limit_threads()
def rebuild_columns(
    sent: Array, columns: Array, known: int, rng: Rng, attackers: tuple[AnyAttacker, ...] = _ATTACKERS
) -> Array:
    """R2 of each column that varies, by the attacker that did best on it, who knows `known` rows in full.

    Args:
        sent: what was sent for each row.
        columns: the party's columns as its models see them, for the same rows.
        known: how many rows the attackers know.
        rng: decides which rows those are.
    """
    found = rebuild(sent, columns, known, rng, attackers)
    return found.r2[found.varies]


class Rebuilt(NamedTuple):
    """What attackers make of a party's columns: R2 of each, whether it varies, and its cells before and after."""

    r2: Array
    varies: Array
    truth: Array
    guess: Array


def rebuild(
    sent: Array, columns: Array, known: int, rng: Rng, attackers: tuple[AnyAttacker, ...] = _ATTACKERS
) -> Rebuilt:
    """As `rebuild_columns`, with the rows that the attackers did not know, before and after."""
    truth, sent = (np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in (columns, sent))
    order = rng.permutation(len(sent))
    inside, outside = order[:known], order[known:]
    sent = (sent - sent[inside].mean(axis=0)) / (sent[inside].std(axis=0) + 1e-9)
    around = ((truth[outside] - truth[inside].mean(axis=0)) ** 2).sum(axis=0)
    best = np.zeros(truth.shape[1])
    shown = np.broadcast_to(truth[inside].mean(axis=0), truth[outside].shape).copy()
    for attacker in attackers:
        guess = attacker.guess(sent[inside], truth[inside], sent[outside], rng)
        errors = ((guess - truth[outside]) ** 2).sum(axis=0)
        reached = 1 - errors / np.where(around > 0, around, np.inf)
        shown[:, reached > best] = np.asarray(guess)[:, reached > best]
        best = np.maximum(best, reached)
    return Rebuilt(np.asarray(best), np.asarray(around > 0), truth[outside], shown)


def _with_width(method: FedOnce, width: int) -> FedOnce:
    return msgspec.structs.replace(method, encoder=msgspec.structs.replace(method.encoder, dim=width))


def _alone(method: FedOnce, federation: Federation, seed: int) -> Width:
    model = None if isinstance(method.head, Joint) else method.head
    fitted = train(Solo(model=model), federation, seed=seed, rows="valid")
    return Width(words="alone", numbers={}, row_bytes=0, score=fitted.result.score, rebuilt={})


def _measure(words: str, method: FedOnce, federation: Federation, seed: int, known: int) -> Width:
    recorder, rng = Recorder(), np.random.default_rng([seed, 0x51DE])
    fitted = train(method, federation, seed=seed, runtime=recorder, rows="valid")
    pairs = zip(recorder.crossings[::2], recorder.crossings[1::2], strict=True)
    sent: dict[str, Any] = {
        party: decode(answer)
        for (party, _, _, question), (_, _, _, answer) in pairs
        if read_heading(question).phase == "final"
    }
    rebuilt = {}
    for party, numbers in sent.items():
        x = federation.tables[party].part("valid")[0]
        found = rebuild_columns(numbers, x, min(known, len(x) // 2), rng)
        rebuilt[party] = float(found.mean()) if found.size else 0.0
    return Width(
        words=words,
        numbers={party: numbers.shape[1] for party, numbers in sent.items()},
        row_bytes=max(numbers.shape[1] * numbers.itemsize for numbers in sent.values()),
        score=fitted.result.score,
        rebuilt=rebuilt,
    )


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

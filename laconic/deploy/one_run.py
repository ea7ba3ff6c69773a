"""Run a method: align, fit, look, predict, and write down what happened."""

import math
from collections.abc import Callable, Mapping
from importlib.metadata import version
from platform import python_version
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from laconic import __version__
from laconic.align.alignment import Align
from laconic.core.capabilities import ManyModels
from laconic.core.ledger import Entry, Ledger, digest_of
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.traffic import WireLog
from laconic.deploy.result import Absence, Look, PartyTraffic, Release, Result
from laconic.errors import BudgetSpent, DataError
from laconic.methods.families.contributions import Contribution
from laconic.tables.task import ROOTS, Quality, Score, Task, Tried, headline, metrics, quality_of, resample
from laconic.threads import limit_threads
from laconic.values import Array, Listener


class HomeScores(NamedTuple):
    """How parties scored a model that came home to them, each on rows that it held out.

    Attributes:
        each: how many rows each scored, and every metric.
        model: a digest of the model.
    """

    each: dict[str, tuple[int, dict[str, float]]]
    model: str


Home: TypeAlias = Callable[[Party, Peers], HomeScores]
"""Sends the final model to all parties, which score it."""


def run(
    method: Method,
    hub: Party,
    peers: Peers,
    *,
    align: Align | None = None,
    max_bytes: float = math.inf,
    look_every: int | None = None,
    rows: str = "test",
    judge: Party | None = None,
    data: dict[str, Any] | None = None,
    listener: Listener | None = None,
    home: Home | None = None,
) -> Result:
    """Fit a method and score it on held-out rows.

    Args:
        align: makes rows correspond first; None when they do already.
        max_bytes: fitting stops at the last yield before this many bytes would have crossed.
        look_every: look at the model after every so many yields; None never looks before the end.
        rows: the cut to score on.
        judge: the party whose labels score the predictions; None is the hub. Its labels never reach the method.
        data: facts about the data, for the record.
        listener: called with progress.
        home: scores the model at the parties, where nobody else has rows to score it on; the score is their mean by
            rows. None scores predictions of the judge's rows.
    """
    log, judge, stopped = peers.log, judge or hub, "finished"
    facts = dict(data or {}) | {"uses": list(method.uses)}
    curve: list[Look] = []
    with limit_threads():
        if align is not None:
            facts |= _match(align, hub, peers, judge)
        _refuse_no_rows(judge, rows)
        log.phase = "fit"
        hub.turn("fit", 0)
        with log.during("fit"):
            before, expected = 0, method.rounds
            for turn, _ in enumerate(method.fit(hub, peers)):
                spent = log.bytes["fit"]
                _refuse_overspent(method, spent, max_bytes)
                if listener is not None:
                    listener("fitting", turn + 1, expected)
                if look_every is not None and turn % look_every == 0:
                    curve.append(_look(method, hub, peers, judge, rows, len(curve)))
                if spent + (spent - before) > max_bytes:  # The next stretch would pass the budget.
                    stopped = "byte budget"
                    break
                before = spent
        if align is not None:
            with log.during("align"):
                align.confirm(hub, peers.speaking(align))
        with log.during("final"):
            hub.turn("final", 0)
            if home is None:
                scored = _scored_here(method, judge, rows, predictions_of(method, hub, peers, rows))
            else:
                scored = _scored_at_home(task_of(hub), home(hub, peers))
                facts["scored"] = scored.rows
        _tell_score(log, headline(task_of(judge), scored.metrics), final=True)
        return _record(method, hub, peers, judge, scored, facts, tuple(curve), stopped)


def predictions_of(method: Method, hub: Party, peers: Peers, rows: str) -> dict[str, Array]:
    """The predictions to score: the method's, under an empty name, or those of each party's own model."""
    if isinstance(method, ManyModels):
        return method.predict_each(hub, peers, rows)
    return {"": method.predict(hub, peers, rows)}


def _as_one(method: Method, predictions: Mapping[str, Array]) -> Array:
    return method.as_one(predictions) if isinstance(method, ManyModels) else predictions[""]


def mean_metrics(each: Mapping[str, dict[str, float]]) -> dict[str, float]:
    """The mean of every metric over models that were scored on the same rows."""
    return {name: float(np.mean([one[name] for one in each.values()])) for name in next(iter(each.values()))}


def cover_words(entry: Entry) -> str:
    """What protects a release, and what that does not cover, in words."""
    if entry.noise is not None:
        return entry.noise.caveat
    return f"cryptographic: hides {entry.hides}" if entry.hides else _COVER[entry.label]


_COVER = {
    "open": "open release: not protected",
    "cryptographic": "cryptographic: its receiver learns the sum over parties, which is not protected, and no more",
    "no rows": "nothing to protect: it is not about rows",
}


def releases_of(hub: Party, ledgers: Mapping[str, Ledger]) -> tuple[Release, ...]:
    """All that left the parties, for the record."""
    found: list[Release] = []
    for party, to, ledger in ((hub.name, "peers", hub.ledger), *((name, "hub", one) for name, one in ledgers.items())):
        for entry in ledger.entries:
            said = {"party": party, "to": entry.to or to, "covered": cover_words(entry)}
            found.append(Release(**msgspec.structs.asdict(entry) | said))
    return tuple(found)


def _record(
    method: Method,
    hub: Party,
    peers: Peers,
    judge: Party,
    scored: "_Scored",
    facts: dict[str, Any],
    curve: tuple[Look, ...],
    stopped: str,
) -> Result:
    log, ledgers = peers.log, peers.ledgers()
    return Result(
        method=msgspec.to_builtins(method),
        data=facts | {name: hub.memory[name] for name in ("outside", "cohorts") if name in hub.memory},
        parties=(hub.name, *peers.names),
        hub=hub.name,
        seed=hub.seed,
        task=task_of(judge),
        score=headline(task_of(judge), scored.metrics),
        metrics=scored.metrics,
        align=log.traffic("align"),
        fit=log.traffic("fit"),
        look=log.traffic("look"),
        final=log.traffic("final"),
        curve=curve,
        releases=releases_of(hub, ledgers),
        statements={name: one.statement for name, one in ledgers.items() if one.statement is not None},
        wire=_by_party(log),
        absences=_absences(log),
        predictions=scored.digest,
        stopped=stopped,
        versions=_versions(),
        by_party=scored.by_party,
        resampled=scored.resampled,
        quality=scored.quality,
        contributions=msgspec.convert(hub.memory.get("contributions", ()), tuple[Contribution, ...]),
        tried=msgspec.convert(hub.memory.get("tried", ()), tuple[Tried, ...]),
    )


class _Scored(NamedTuple):
    """What a result says of how good the model is; `rows` by party where each scored it on its own."""

    metrics: dict[str, float]
    digest: str
    by_party: dict[str, dict[str, float]]
    resampled: tuple[float, ...] = ()
    rows: dict[str, int] | None = None
    quality: Quality | None = None


def _scored_here(method: Method, judge: Party, rows: str, predictions: Mapping[str, Array]) -> _Scored:
    each = _score(judge, rows, predictions)
    digest = digest_of(_as_one(method, predictions).tobytes())
    y = judge.data.part(rows)[1]
    shape = quality_of(task_of(judge), y, predictions[""]) if "" in each and y is not None else None
    resampled = _resampled(judge, rows, predictions)
    return _Scored(mean_metrics(each), digest, {} if "" in each else each, resampled, quality=shape)


def _scored_at_home(task: Task, found: HomeScores) -> _Scored:
    """The mean over parties by how many rows each scored; of one who scored none, nothing.

    Of squared errors the root of the mean is taken, as if all rows were in one place. A party whose rows are all of one
    class has no AUC, and is left out of the mean of that alone.
    """
    counts = {name: rows for name, (rows, _) in found.each.items()}
    each = {name: values for name, (rows, values) in found.each.items() if rows}
    if not each:
        raise DataError(
            f"no party held out a row of {task.label!r} to score the model on; raise data.test, or give more rows"
        )
    values: dict[str, float] = {}
    for name in dict.fromkeys(name for one in each.values() for name in one):
        there = {party: one[name] for party, one in each.items() if name in one}
        power = 2 if name in ROOTS else 1
        mean = np.average([value**power for value in there.values()], weights=[counts[party] for party in there])
        values[name] = float(mean ** (1 / power))
    return _Scored(values, found.model, each, rows=counts)


def _match(align: Align, hub: Party, peers: Peers, judge: Party) -> dict[str, Any]:
    """Make rows correspond; returns the facts about it, for the record."""
    with peers.log.during("align"):
        # As the label holder would: a server holds out the same rows, so that methods can be compared.
        hub.turn("align", 0, judge.name)
        found = align.match(hub, peers.speaking(align))
        found["cuts"] = {name: len(judge.data.cuts.get(name, ())) for name in ("train", "valid", "test")}
        found["labels"] = {"party": judge.name, "columns": len(judge.data.columns)}
        return {"alignment": found, "fingerprint": align.confirm(hub, peers.speaking(align))}


def _refuse_overspent(method: Method, spent: int, max_bytes: float) -> None:
    if spent > max_bytes:
        raise BudgetSpent(
            f"{type(method).__name__} had sent {spent:,} bytes before it could be used, over the budget of "
            f"{max_bytes:,.0f}; raise the budget or send less (a smaller dimension, precision float16)"
        )


def _look(method: Method, hub: Party, peers: Peers, judge: Party, rows: str, number: int) -> Look:
    """Score the model as it is now; its randomness and traffic are its own, so looking never changes learning."""
    rng, phase = hub.rng, hub.phase
    with peers.log.during("look"):
        hub.turn("look", number)
        values = mean_metrics(_score(judge, rows, predictions_of(method, hub, peers, rows)))
    hub.rng, hub.phase = rng, phase
    score, log = headline(task_of(judge), values), peers.log
    _tell_score(log, score, final=False)
    return Look(bytes=log.bytes["fit"], rounds=log.rounds["fit"], score=score, metrics=values)


def _tell_score(log: WireLog, score: Score, *, final: bool) -> None:
    if log.watcher is not None:
        log.watcher.scored(score.metric, score.value, final=final)


def _score(judge: Party, rows: str, predictions: Mapping[str, Array]) -> dict[str, dict[str, float]]:
    y = judge.data.part(rows)[1]
    if y is None:
        raise ValueError(f"{judge.name} has no labels for its rows {rows!r} to score with")
    known = judge.data.part("train")[1] if "train" in judge.data.cuts else y
    # Errors of numbers are scaled by the range of training labels; a server has none, and takes the rows scored on.
    spread = float(np.ptp(known)) or 1.0 if known is not None and known.dtype.kind == "f" else 1.0
    return {name: metrics(task_of(judge), y, one, spread) for name, one in predictions.items()}


def _resampled(judge: Party, rows: str, predictions: Mapping[str, Array]) -> tuple[float, ...]:
    """The headline figure on resamples of the rows scored on: of the mean over models, where there are several."""
    y = judge.data.part(rows)[1]
    if y is None:
        return ()
    each = [resample(task_of(judge), y, one) for one in predictions.values()]
    # Seven digits are more than the spread needs, and keep the record short.
    return tuple(float(f"{value:.7g}") for value in np.mean(each, axis=0).tolist())


def _refuse_no_rows(judge: Party, rows: str) -> None:
    """Refuse, before fitting, to score on no rows."""
    cuts = judge.data.cuts
    if judge.data.y is not None and rows in cuts and not len(cuts[rows]):
        count = sum(len(cuts.get(name, ())) for name in ("train", "valid", "test"))
        raise DataError(
            f"party {judge.name!r}: of {count} rows, 0 are to be scored on (cut {rows!r}), so that there is no score; "
            "share more rows, or raise data.test"
        )


def _absences(log: WireLog) -> tuple[Absence, ...]:
    missing = [one for one in log.crossings if one.up is None]
    return tuple(Absence(phase=one.phase, round=one.round, step=one.step, party=one.party) for one in missing)


def _by_party(log: WireLog) -> tuple[PartyTraffic, ...]:
    sums: dict[tuple[str, str, str], list[int]] = {}
    for crossing in log.crossings:
        total = sums.setdefault((crossing.phase, crossing.step, crossing.party), [0, 0, 0])
        total[0] += 1
        total[1] += crossing.up or 0
        total[2] += crossing.down
    return tuple(
        PartyTraffic(phase=phase, step=step, party=party, times=times, bytes_up=up, bytes_down=down)
        for (phase, step, party), (times, up, down) in sums.items()
    )


def _versions() -> dict[str, str]:
    ours = {"python": python_version(), "laconic": __version__}
    return ours | {name: version(name) for name in ("numpy", "torch", "msgspec")}

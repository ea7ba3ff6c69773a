"""Find a method's settings on validation rows, within an allowance that is the same for every arm of a comparison.

Trials are run on tables from which the test rows have been taken out, so that nothing can be chosen on them. What is
tried follows from the names of the settings (`COMMON`), and from `tuning` of a method that has one (`Tunable`). The
first trial is of the settings as they were given; the others are drawn by the seed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import inf, prod
from pathlib import Path
from time import process_time
from typing import Any, Protocol

import msgspec
import numpy as np

from laconic import __version__
from laconic.core.capabilities import Tunable
from laconic.core.method import Method
from laconic.data.federation import Federation
from laconic.deploy.execute import OnRead, align_of, execute, matched, parties_of, train
from laconic.deploy.result import Job, Record, Result, Tuning, code_digest, name_of, read_records, run_jobs
from laconic.errors import DataError, LaconicError, PlanError
from laconic.methods.baselines.centralised import Centralised
from laconic.methods.baselines.solo import Solo
from laconic.methods.horizontal.pooled_rows import PooledRows
from laconic.methods.horizontal.solo_rows import SoloRows
from laconic.plan.plan import Plan
from laconic.plan.runtime import InProcess
from laconic.plan.text import change_plan, to_plain
from laconic.tables.table import digest
from laconic.tables.task import Score
from laconic.threads import limit_threads
from laconic.values import Listener, Settings, check_above_zero, check_least, listening

Changes = dict[str, Any]
"""Settings of a method to change, by dotted keys as `--set` takes them, without the word `method`."""

MOST_EPOCHS, PATIENCE = 400, 10
"""The stopping rule of every net that looks at validation rows: by these alone, with epochs enough to get there."""

_APART = ("check", "match", "noise", "privacy", "labels", "cipher", "socket")
"""What protects or checks rows is no means to a better score, and is left as it is."""


class Allowance(Settings, frozen=True, tag=False):
    """What every arm may spend on finding its settings, with each seed.

    Attributes:
        trials: how many settings are tried; the first are those given.
        seconds: processor seconds for all trials together. The first trial is always finished; another one that is
            under way when they end does not count.
    """

    trials: int = 12
    seconds: float = 300.0

    def __post_init__(self) -> None:
        check_least(1, trials=self.trials)
        check_above_zero(seconds=self.seconds)


def _times(*factors: float) -> Callable[[Any], tuple[Any, ...]]:
    """The own value times each factor; whole numbers stay whole, and 1 at least."""

    def tried(own: Any) -> tuple[Any, ...]:
        if isinstance(own, int):
            return tuple(dict.fromkeys(max(1, round(own * factor)) for factor in factors))
        return tuple(float(f"{own * factor:.3g}") for factor in factors)

    return tried


COMMON: Mapping[str, Callable[[Any], tuple[Any, ...]]] = {
    "lr": _times(1, 1 / 3, 3, 10),
    "epochs": _times(1, 3),
    "trees": _times(1, 3),
    "depth": lambda own: (own, max(1, own - 2), own + 2),
    "width": _times(1, 2, 4),
    "dim": lambda own: tuple(dict.fromkeys((own, 8, 16))),
    "hidden": lambda own: tuple(dict.fromkeys((tuple(own), (128,), (80, 80, 50)))),
    "penalty": _times(1, 0.1, 10),
    "mu": _times(1, 0.1, 10),
    "rho": _times(1, 0.3, 3),
    "local_steps": _times(1, 3),
}
"""Values to try for a setting of this name, wherever a method has it, from the value that was given; that one first."""

EFFORT = ("epochs", "trees")
"""Settings of which more is more work: who does best with the most that was tried may do better with still more."""

WHERE_NONE: Mapping[str, tuple[Any, ...]] = {
    "net": (None, {"type": "Mlp", "hidden": [128]}, {"type": "Mlp", "hidden": [80, 80, 50]}),
    "dim": (None, 8, 16),
}
"""Values to try for a setting of this name that is left to what suits. Nets are for columns, not for images."""


def space_of(plan: Plan, *, images: bool = False) -> dict[str, tuple[Any, ...]]:
    """The settings of a plan's method that are tried, by dotted key, each with its values, the given one first."""
    plain = to_plain(plan)["method"]
    space = dict(_found_in(plain, images=images))
    space |= dict(plan.method.tuning()) if isinstance(plan.method, Tunable) else {}
    fitting = {key: tuple(one for one in values if _fits(plan, {key: one})) for key, values in space.items()}
    return {key: values for key, values in fitting.items() if len(values) > 1}


def _found_in(plain: Mapping[str, Any], path: str = "", *, images: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    stops = plain.get("patience") is not None
    for name, value in plain.items():
        key = f"{path}{name}"
        if name in _APART:
            continue
        if isinstance(value, dict):
            yield from _found_in(value, f"{key}.", images=images)
        elif value is None and name in WHERE_NONE and not (images and name == "net"):
            yield key, WHERE_NONE[name]
        elif name in COMMON and _is_number(value) and not (stops and name == "epochs"):
            yield key, COMMON[name](value)


def _is_number(value: object) -> bool:
    """Whether it is one, or the widths of a net's layers."""
    return (isinstance(value, int | float) and not isinstance(value, bool)) or isinstance(value, tuple | list)


def _fits(plan: Plan, changes: Changes) -> bool:
    try:
        changed(plan, changes)
    except (LaconicError, ValueError):
        return False
    return True


def changed(plan: Plan, changes: Changes) -> Plan:
    """The plan with these settings of its method."""
    return change_plan(to_plain(plan), [(f"method.{key}", value) for key, value in changes.items()])


def with_stopping_rule(plan: Plan) -> Plan:
    """The plan with the same stopping rule for every net of its method that looks at validation rows."""

    def paths(plain: Mapping[str, Any], path: str = "") -> Iterator[str]:
        if plain.get("patience") is not None:
            yield path
        for name, value in plain.items():
            if isinstance(value, dict):
                yield from paths(value, f"{path}{name}.")

    found = list(paths(to_plain(plan)["method"]))
    return changed(
        plan, {f"{one}{name}": n for one in found for name, n in (("epochs", MOST_EPOCHS), ("patience", PATIENCE))}
    )


def candidates(space: Mapping[str, tuple[Any, ...]], trials: int, seed: int) -> list[Changes]:
    """What to try, in order: nothing changed first, then settings drawn by the seed, none of them twice."""
    shape = tuple(len(values) for values in space.values())
    others = 1 + np.random.default_rng([seed, 26]).permutation(prod(shape) - 1)[: trials - 1]
    drawn = [np.unravel_index(int(place), shape) if shape else () for place in (0, *others.tolist())]
    return [
        {key: values[at] for (key, values), at in zip(space.items(), places, strict=True) if at > 0} for places in drawn
    ]


def trial_federation(plan: Plan) -> Federation:
    """The parties of a plan without their test rows, and with rows to choose by: cut "valid".

    Raises:
        PlanError: there are no rows to choose by.
    """
    federation = parties_of(plan, choosing=True)
    if federation.kind == "vertical" and not federation.aligned:
        federation = matched(plan.method, federation, seed=plan.seed, align=align_of(plan))
    federation = replace(federation, tables={name: one.without("test") for name, one in federation.tables.items()})
    if not len(federation.tables[federation.hub].cuts.get("valid", ())):
        raise PlanError(
            f"{federation.name} has no validation rows to choose settings by; raise data.valid, or leave out tuning"
        )
    return federation


class _OutOfTimeError(Exception):
    """The allowance ended in the middle of a trial."""


def tune(
    plan: Plan,
    allowance: Allowance,
    results: Path,
    facts: Record | None = None,
    *,
    federation: Federation | None = None,
    listener: Listener | None = None,
) -> tuple[Plan, Tuning]:
    """Find settings for a plan's method; gives the plan with them, and how they were found.

    Args:
        allowance: what may be spent on it.
        results: a file of JSON lines, where each trial is kept; those that are in it are not run again.
        facts: further values to know a trial by.
        federation: parties without test rows; None for those of the plan.
        listener: hears of progress.

    Raises:
        PlanError: the plan puts noise on what is released: trials would be released too, and none is priced.
    """
    refuse_priced(plan)
    base = with_stopping_rule(plan)
    rows = federation or trial_federation(base)
    space = space_of(base, images=any(table.raw.ndim == 4 for table in rows.tables.values()))
    order, tried, spent, capped = candidates(space, allowance.trials, plan.seed), list[_Trial](), 0.0, ""
    for changes in order:
        left = allowance.seconds - spent if tried else inf
        if left <= 0:
            capped = "its seconds ended"
            break
        try:
            tried.append(_Trial(changes, _recorded(changed(base, changes), rows, left, results, facts, listener)))
        except _OutOfTimeError:
            capped = "its seconds ended"
            break
        spent += tried[-1].record["processor_seconds"]
        if listener is not None:
            listener("trials", len(tried), len(order))
    best = max((one for one in tried if one.score is not None), key=lambda one: one.goodness)
    found = Tuning(
        given=msgspec.to_builtins(plan.method),
        trials_allowed=allowance.trials,
        seconds_allowed=allowance.seconds,
        trials=len(tried),
        of=prod(len(values) for values in space.values()),
        seconds=round(spent, 2),
        bytes=sum(one.record["bytes"] for one in tried),
        chosen=msgspec.to_builtins(best.changes),
        valid=Score(**best.record["score"]),
        capped=capped or _still_improving(best, tried, space),
    )
    return changed(base, best.changes), found


class _Trial(msgspec.Struct, frozen=True):
    changes: Changes
    record: Record

    @property
    def score(self) -> Score | None:
        """None if the settings could not be used."""
        return Score(**self.record["score"]) if self.record["score"] else None

    @property
    def goodness(self) -> float:
        return -inf if self.score is None else self.score.goodness


def refuse_priced(plan: Plan) -> None:
    """Refuse to choose by trials where noise has a price: each trial is a release of its own, and its rows are read."""
    if plan.budget.epsilon is not None:
        raise PlanError(
            f"budget.epsilon = {plan.budget.epsilon:g} is for one run, but tuning makes several and chooses by rows "
            "that no noise covers; leave out the budget, or the tuning"
        )


def _recorded(
    plan: Plan, rows: Federation, seconds: float, results: Path, facts: Record | None, listener: Listener | None
) -> Record:
    key = {"trial": to_plain(plan)} | (facts or {})
    job = Job(key, lambda: _try(plan, rows, seconds, listener), code_digest(plan.method))
    # What other code tried says nothing of this code's settings.
    return run_jobs([job], results, renew=True)[0]


def _try(plan: Plan, rows: Federation, seconds: float, listener: Listener | None) -> Record:
    """Score one choice of settings on validation rows; without a score if the settings cannot be used."""
    with _watched(seconds, listener) as watch:
        try:
            result = _run(plan, rows, watch)
        except (LaconicError, ValueError) as problem:
            if seconds == inf:  # The settings as given must work.
                raise
            return {"score": None, "problem": str(problem), "bytes": 0, "processor_seconds": watch.spent}
    if result.releases and any(one.noise is not None and one.noise.multiplier is not None for one in result.releases):
        raise PlanError(
            f"{type(plan.method).__name__} puts priced noise on what it releases, and every trial would be one more "
            "release; leave out the noise, or the tuning"
        )
    found = {"metric": result.score.metric, "value": result.score.value}
    used = {"bytes": result.fit.bytes, "processor_seconds": watch.spent, "used_all_epochs": watch.used_all_epochs}
    return {"score": found, **used}


def _run(plan: Plan, rows: Federation, watch: "_Watch") -> Result:
    with limit_threads(1):
        return train(
            plan.method,
            rows,
            seed=plan.seed,
            runtime=InProcess(workers=1),
            align=None if rows.aligned else align_of(plan),
            max_bytes=plan.budget.byte_limit,
            rows="valid",
            device=plan.device,
            listener=watch,
        ).result


class _Watch:
    """Hears of progress, passes it on, and ends the trial when its processor seconds are over."""

    def __init__(self, seconds: float, listener: Listener | None) -> None:
        self.began, self.seconds, self.listener = process_time(), seconds, listener
        self.used_all_epochs = False

    @property
    def spent(self) -> float:
        return round(process_time() - self.began, 3)

    def __call__(self, what: str, done: int, of: int | None) -> None:
        self.used_all_epochs |= of == MOST_EPOCHS == done
        if self.listener is not None:
            self.listener(what, done, of)
        if self.spent > self.seconds:
            raise _OutOfTimeError


@contextmanager
def _watched(seconds: float, listener: Listener | None) -> Iterator[_Watch]:
    watch = _Watch(seconds, listener)
    with listening(watch):
        yield watch


def _still_improving(best: _Trial, tried: list[_Trial], space: Mapping[str, tuple[Any, ...]]) -> str:
    """Why an arm might do better with a greater allowance; empty if nothing shows it."""
    if best.record["used_all_epochs"]:
        return f"still improving after {MOST_EPOCHS} epochs"
    for key, value in best.changes.items():
        if key.rpartition(".")[2] in EFFORT and value == max(space[key]):
            return f"best with the most tried of {key}"
    is_last = best is tried[-1] and len(tried) > 1
    return "the last trial was the best" if is_last and len(tried) < prod(map(len, space.values())) else ""


def read_results(path: Path) -> list[Result]:
    """The results in a file: one JSON object, or JSON lines."""
    if path.is_dir():
        raise DataError(
            f"{path} is a folder, not a result file; a saved model has no result in it: give the file that "
            "`laconic run --save FILE` or `laconic compare` wrote"
        )
    if not path.is_file():
        raise DataError(
            f"there is no result file {path}; make one with: laconic run FedOnce --data digits --save {path}"
        )
    if path.suffix == ".toml":
        raise DataError(f"{path} is a plan, and nothing has left yet; run it: laconic run {path} --save run.json")
    reason: Exception = ValueError("no line of it is a run")
    try:
        return [Result.from_json(path.read_bytes())]
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        if path.suffix == ".json":
            reason = problem
    try:
        found = [result_of(record) for record in read_records(path) if is_run(record)]
    except (msgspec.ValidationError, UnicodeDecodeError) as problem:
        found, reason = [], problem
    if not found:
        raise DataError(
            f"{path} holds no result ({reason}); give files that `laconic run --save` or `laconic compare` wrote"
        )
    return found


def is_run(record: object) -> bool:
    """Whether a line of a file is a run that `laconic compare` kept."""
    return isinstance(record, dict) and "key" in record and "result" in record


def is_kept(record: object) -> bool:
    """Whether `laconic compare` wrote a line: a run, or a trial that chose settings for one."""
    return is_run(record) or (isinstance(record, dict) and "trial" in record.get("key", {}))


def result_of(record: Record) -> Result:
    """The result in such a line."""
    return msgspec.convert(record["result"], Result)


class Run(Protocol):
    """Runs one plan."""

    __name__: str

    def __call__(self, plan: Plan, *, listener: Listener | None, weigh: bool) -> Result:
        """The result; `weigh` asks for how much each party matters too."""


OnResult = Callable[[Result | None, int, int], object]
YARDSTICKS: dict[str, tuple[type[Method], type[Method]]] = {
    "vertical": (Solo, Centralised),
    "horizontal": (SoloRows, PooledRows),
}
"""By kind of federation: a party alone, and everything pooled."""


def compare_plans(
    plans: Sequence[Plan],
    seeds: Sequence[int],
    path: Path,
    *,
    tune: Allowance | None = None,
    run: Run | None = None,
    listener: Listener | None = None,
    on_result: OnResult = lambda *_: None,
    on_read: OnRead = lambda _: None,
) -> list[Result]:
    """Run every plan with every seed, on the same rows for the same seed, and keep each result as it comes.

    Args:
        plans: what to compare; all on the same data.
        seeds: for all randomness, and for which rows are held out.
        path: a file of JSON lines. Runs that are in it already are not run again, unless they were on rows of own files
            that have changed since: then it is refused. Each holds a digest of the code that made it, as
            `versions["code"]` of the result.
        tune: what each plan may spend on finding its settings on validation rows, the same for all; None takes settings
            as they are given. Trials are kept in the file as well.
        run: runs one plan; None is `laconic.deploy.execute.execute`. Its name is kept with the results.
        listener: hears of progress within a run.
        on_result: called with each result, how many are there now, and of how many; at first with None for the result.
        on_read: called once with the parties of own files, before anything is learnt.

    Returns:
        All results, those of the first seed first.
    """
    refuse_unlike(plans)
    if tune is not None:
        for plan in plans:
            refuse_priced(plan)
    rows = _digest_of_files(plans[0], on_read)
    found_how = _AsGiven() if tune is None else _Tuned(tune, path)
    every = [
        _job(plan, seed, rows, listener, found_how, run, weigh=seed == seeds[0]) for seed in seeds for plan in plans
    ]
    jobs = list({name_of(job.key): job for job in every}.values())
    done = _there_already(jobs, path)
    on_result(None, done, len(jobs))

    def tell(_: Job, record: Record) -> None:
        nonlocal done
        done += 1
        on_result(result_of(record), done, len(jobs))

    return [result_of(record) for record in run_jobs(jobs, path, tell)]


def refuse_unlike(plans: Sequence[Plan]) -> None:
    """Refuse plans that cannot share their splits."""
    by_kind = {plan.method.kind: type(plan.method).__name__ for plan in plans}
    if len(by_kind) > 1:
        raise PlanError(
            f"{by_kind['vertical']} is for parties with other columns and {by_kind['horizontal']} for parties with "
            "other rows: they cannot share a split; compare them apart"
        )
    other = next((plan for plan in plans if plan.data != plans[0].data), None)
    if other is not None:
        raise PlanError(
            f"{type(plans[0].method).__name__} and {type(other.method).__name__} are on different data, or dealt "
            "differently; give all plans the same [data]"
        )


def _there_already(jobs: Sequence[Job], path: Path) -> int:
    records = read_records(path)
    if path.exists() and path.stat().st_size > 0 and not any(map(is_kept, records)):
        raise PlanError(f"{path} is not a file of compared runs, and would be spoilt; choose another with --save")
    keys = [record["key"] for record in records if is_run(record)]
    _refuse_changed(jobs[0].key, keys, path)
    there = {name_of(key) for key in keys}
    return sum(name_of(job.key) in there for job in jobs)


def _refuse_changed(wanted: Record, keys: Sequence[Record], path: Path) -> None:
    """Refuse a file that holds runs on the same files with other contents: one table of both would mean nothing."""
    if "rows" not in wanted:
        return
    files = name_of(wanted["plan"]["data"]["files"])
    if any(name_of(key["plan"]["data"]["files"]) == files and key.get("rows") != wanted["rows"] for key in keys):
        raise PlanError(
            f"{path} holds runs on other contents of the same files: they changed since; remove it to run all again, "
            "or choose another with --save"
        )


def _digest_of_files(plan: Plan, on_read: OnRead) -> str | None:
    """A digest of all that the parties' own files hold, as read; None for a public data set, which stays as it is."""
    if plan.data.name is not None:
        return None
    whole = blake2b(digest_size=16, person=b"laconic files")
    federation = parties_of(plan)
    on_read(federation)
    for name, table in federation.tables.items():
        whole.update(msgspec.json.encode([name, digest(table), table.keys.tolist(), table.task]))
    return whole.hexdigest()


@dataclass(frozen=True)
class _AsGiven:
    """Settings are taken as they are."""

    key: Record = field(default_factory=dict)

    def settle(self, plan: Plan, key: Record, listener: Listener | None) -> tuple[Plan, Tuning | None]:
        return plan, None


@dataclass(frozen=True)
class _Tuned:
    """Settings are found within an allowance."""

    allowance: Allowance
    path: Path

    @property
    def key(self) -> Record:
        return {"tune": msgspec.to_builtins(self.allowance)}

    def settle(self, plan: Plan, key: Record, listener: Listener | None) -> tuple[Plan, Tuning | None]:
        return tune(plan, self.allowance, self.path, key, listener=listener)


def _job(
    plan: Plan,
    seed: int,
    rows: str | None,
    listener: Listener | None,
    how: _AsGiven | _Tuned,
    run: Run | None,
    *,
    weigh: bool,
) -> Job:
    plan = msgspec.structs.replace(plan, seed=seed)
    known_by = {"laconic": __version__} | ({} if rows is None else {"rows": rows})
    known_by |= {} if run is None else {"run": run.__name__}
    code = code_digest(plan.method)

    def measure() -> Record:
        settled, tuning = how.settle(plan, known_by, listener)
        result = (run or execute)(settled, listener=listener, weigh=weigh)
        result = msgspec.structs.replace(result, tuning=tuning, versions=result.versions | {"code": code})
        # Through its text, so that a run just made and one read back are the same.
        return {"result": msgspec.json.decode(result.to_json())}

    return Job({"plan": to_plain(plan), **known_by, **how.key}, measure, code)

"""Several methods on the same splits, kept as JSON lines: what is done stays done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import msgspec

from laconic import __version__
from laconic.core.method import Method
from laconic.deploy.execute import OnRead, execute, parties_of
from laconic.deploy.result import Job, Record, Result, Tuning, code_digest, name_of, read_records, run_jobs
from laconic.deploy.tuning import Allowance, refuse_priced
from laconic.deploy.tuning import tune as find_settings
from laconic.errors import DataError, PlanError
from laconic.methods.baselines.centralised import Centralised
from laconic.methods.baselines.solo import Solo
from laconic.methods.horizontal.pooled_rows import PooledRows
from laconic.methods.horizontal.solo_rows import SoloRows
from laconic.plan.plan import Plan
from laconic.plan.text import to_plain
from laconic.tables.table import digest
from laconic.values import Listener


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
        return find_settings(plan, self.allowance, self.path, key, listener=listener)


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

"""Several methods on the same splits, kept as JSON lines: what is done stays done."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import msgspec

from laconic.core.align import digest
from laconic.core.errors import PlanError
from laconic.core.method import Method
from laconic.core.result import Result
from laconic.core.values import Listener
from laconic.jobs import Job, Record, name_of, read_records, run_jobs
from laconic.methods.baselines.centralised import Centralised
from laconic.methods.baselines.solo import Solo
from laconic.methods.horizontal.pooled_rows import PooledRows
from laconic.methods.horizontal.solo_rows import SoloRows
from laconic.plan.execute import execute, parties_of
from laconic.plan.shape import Plan
from laconic.plan.text import to_plain
from laconic.saved import is_run, result_of

Told = Callable[[Result | None, int, int], object]
YARDSTICKS: dict[str, tuple[type[Method], type[Method]]] = {
    "vertical": (Solo, Centralised),
    "horizontal": (SoloRows, PooledRows),
}
"""By kind of federation: a party alone, and everything pooled."""


def compare(
    plans: Sequence[Plan],
    seeds: Sequence[int],
    path: Path,
    *,
    listener: Listener | None = None,
    told: Told = lambda *_: None,
) -> list[Result]:
    """Run every plan with every seed, on the same rows for the same seed, and keep each result as it comes.

    Args:
        plans: what to compare; all on the same data.
        seeds: all chance, and which rows are held out, comes from them.
        path: a file of JSON lines. Runs that are in it already are not run again, unless they were on rows of own files
            that have changed since: then it is refused.
        listener: told of progress within a run.
        told: told of each result, how many are there now, and of how many; at the start with None for the result.

    Returns:
        All results, those of the first seed first.
    """
    refuse_unlike(plans)
    rows = _digest_of_files(plans[0])
    every = [_job(plan, seed, rows, listener, weigh=seed == seeds[0]) for seed in seeds for plan in plans]
    jobs = list({name_of(job.key): job for job in every}.values())
    done = _there_already(jobs, path)
    told(None, done, len(jobs))

    def tell(_: Job, record: Record) -> None:
        nonlocal done
        done += 1
        told(result_of(record), done, len(jobs))

    return [result_of(record) for record in run_jobs(jobs, path, tell)]


def refuse_unlike(plans: Sequence[Plan]) -> None:
    """Refuse plans that cannot share their splits.

    Raises:
        PlanError: the plans are on different data, or some deal columns among parties and others rows.
    """
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
    if path.exists() and path.stat().st_size > 0 and not any(is_run(record) for record in records):
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


def _digest_of_files(plan: Plan) -> str | None:
    """A digest of all that the parties' own files hold, as read; None for a public data set, which stays as it is."""
    if plan.data.name is not None:
        return None
    whole = blake2b(digest_size=16, person=b"laconic files")
    for name, table in parties_of(plan).tables.items():
        whole.update(msgspec.json.encode([name, digest(table), table.keys.tolist(), table.task]))
    return whole.hexdigest()


def _job(plan: Plan, seed: int, rows: str | None, listener: Listener | None, *, weigh: bool) -> Job:
    plan = msgspec.structs.replace(plan, seed=seed)
    key = {"plan": to_plain(plan), "laconic": version("laconic")} | ({} if rows is None else {"rows": rows})

    def measure() -> Record:
        # Through its text, so that a run just made and one read back are the same.
        return {"result": msgspec.json.decode(execute(plan, listener=listener, weigh=weigh).to_json())}

    return Job(key, measure)

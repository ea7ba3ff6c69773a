"""What every study shares: jobs that resume where they stopped, and tables with mean and spread."""

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

import laconic.deploy.result
from laconic import Federation, Method, simulate
from laconic.data import Dataset
from laconic.deploy import Allowance, code_digest
from laconic.deploy.execute import execute
from laconic.deploy.result import Job, Record, name_of, read_records
from laconic.deploy.tuning import tune
from laconic.plan import Plan

__all__ = [
    "Job",
    "Record",
    "arguments",
    "effort_table",
    "markdown",
    "mean_spread",
    "only_on",
    "read_records",
    "run_jobs",
    "some_rows",
    "tuned_job",
    "unequal_tables",
    "write_whole",
]

Deal = Callable[[bool], Federation]
"""The parties of an arm: with rows to choose by and without test rows if asked so, else as they are scored."""


def arguments(about: str, default_out: str, *, renews: bool = False, parts: Sequence[str] = ()) -> argparse.Namespace:
    """The options of every study, `--quick`, `--out` and `--only`; `--renew` and `--part` for those that have them."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="small sizes and one seed, in two minutes at most")
    parser.add_argument("--out", type=Path, default=None, help=f"folder for results (default: {default_out})")
    parser.add_argument("--only", default=None, help="run the jobs on this data set only; the table shows what is done")
    if renews:
        parser.add_argument("--renew", action="store_true", help="run again what other code has measured")
    if parts:
        parser.add_argument("--part", choices=parts, help="run this part of the study only")
    chosen = parser.parse_args()
    chosen.out = chosen.out or Path(default_out + ("-quick" if chosen.quick else ""))
    chosen.out.mkdir(parents=True, exist_ok=True)
    return chosen


def run_jobs(jobs: Iterable[Job], results: Path, renew: bool = False) -> list[Record]:
    """Run every job not yet in the file `results`, saying what each found; all jobs' records, in order.

    With `renew`, also those whose record was made by other code: of two records with one key, the last counts.
    """

    def tell(job: Job, record: Record) -> None:
        numbers = {key: value for key, value in record.items() if isinstance(value, int | float)}
        print(name_of(job.key), numbers, file=sys.stderr)

    try:
        return laconic.deploy.result.run_jobs(jobs, results, tell, renew=renew)
    except KeyboardInterrupt:
        kept = f"{results} keeps what is done, and the same command goes on from there"
        raise SystemExit(f"\nStopped. {kept if results.exists() else 'Nothing was finished'}.") from None


def tuned_job(
    key: Record,
    plan: Plan,
    allowance: Allowance,
    trials: Path,
    deal: Deal | None = None,
    facts: Record | None = None,
    *,
    metric: str | None = None,
) -> Job:
    """An arm that finds its settings within an allowance, as `laconic compare --tune` does, and is then scored.

    Its record says what it was allowed, tried and chose, and whether it was capped. Every arm of a table has the same
    allowance, and with one seed the same rows.

    Args:
        key: names the arm's table, and the arm by `arm`.
        plan: the arm's settings as given, its data and its seed.
        allowance: what it may spend on its settings.
        trials: where trials are kept, so that a study that was stopped goes on among them.
        deal: the parties, where the plan's data cannot say them.
        facts: what sets such parties apart from others of the same plan.
        metric: the score that is kept; None keeps the one by which settings are chosen.
    """

    def measure() -> Record:
        settled, found = tune(plan, allowance, trials, facts, federation=None if deal is None else deal(True))
        result = execute(settled) if deal is None else simulate(settled.method, deal(False), seed=plan.seed)
        shown = metric or result.score.metric
        return {
            "score": {"metric": shown, "value": result.metrics[shown]},
            "bytes": result.fit.bytes,
            "rounds": result.fit.rounds,
            "allowance": msgspec.to_builtins(allowance),
            "trials": found.trials,
            "spent": found.seconds,
            "chosen": found.chosen,
            "capped": found.capped,
        }

    return Job(key, measure, code_digest(plan.method))


def effort_table(records: Sequence[Record], methods: Mapping[str, Method]) -> str:
    """One table of arms made by `tuned_job`: scores, and what each was allowed, tried and chose with the first seed.

    A star marks an arm that other code has measured than is here now.
    """
    rows = []
    for arm in dict.fromkeys(one["key"]["arm"] for one in records):
        there = [one for one in records if one["key"]["arm"] == arm]
        now = code_digest(methods[arm]) if arm in methods else None
        star = "" if all(one.get("code") == now for one in there) else " *"
        score = f"{mean_spread([one['score']['value'] for one in there])} ({len(there)})"
        megabytes, trials, spent = (
            statistics.fmean(one[part] for one in there) for part in ("bytes", "trials", "spent")
        )
        effort = f"{trials:.1f} in {spent:.0f} s"
        capped = f"{sum(bool(one['capped']) for one in there)} of {len(there)}"
        chosen = ", ".join(f"{key} = {value}" for key, value in there[0]["chosen"].items()) or "as given"
        rows.append((arm + star, score, there[0]["rounds"], f"{megabytes / 1e6:.2f}", effort, capped, chosen))
    ((trials_allowed, seconds_allowed, metric),) = {
        (one["allowance"]["trials"], one["allowance"]["seconds"], one["score"]["metric"]) for one in records
    }
    head = ("arm", f"{metric} (seeds)", "exchanges", "MB", "tried", "capped", "chose, first seed")
    allowed = f"Allowed to each arm and seed: {trials_allowed} trials within {seconds_allowed:g} processor seconds.\n\n"
    return allowed + markdown(head, rows)


_TABLE = ("table", "data", "rows", "parties", "part", "shared", "overlap", "what", "allowed", "host", "hub")
"""What sets tables apart in a record's key; all else sets arms, seeds and settings apart."""


def unequal_tables(records: Iterable[Record]) -> dict[str, str]:
    """Tables whose arms had different allowances, or did not say what they were, each with what is wrong."""
    allowed: dict[str, set[str]] = defaultdict(set)
    for one in records:
        # Trials are on the way to a record; where the paper chose, nobody was allowed anything.
        if "trial" in one["key"] or one["key"].get("run") == "as_published":
            continue
        given = one.get("allowance") or one["key"].get("tune")
        table = {name: value for name, value in one["key"].items() if name in _TABLE}
        allowed[name_of(table)].add("" if given is None else json.dumps(given, sort_keys=True))
    return {
        table: "no allowance said" if "" in found else f"different allowances: {', '.join(sorted(found))}"
        for table, found in allowed.items()
        if found == {""} or len(found) > 1
    }


def only_on(jobs: Iterable[Job], name: str | None, part: str | None = None) -> list[Job]:
    """The jobs on one data set and of one part, its `table`; or all of them."""
    wanted = {"data": name, "table": part}
    return [job for job in jobs if all(value in (None, job.key.get(which)) for which, value in wanted.items())]


def some_rows(dataset: Dataset, rows: int, seed: int = 0) -> Dataset:
    """A data set with at most so many of its rows, drawn by a seed."""
    kept = np.sort(np.random.default_rng(seed).permutation(dataset.rows)[:rows])
    ids = None if dataset.ids is None else dataset.ids[kept]
    return replace(dataset, raw=dataset.raw[kept], y=dataset.y[kept], ids=ids, test=None)


def mean_spread(values: Sequence[float], digits: int = 4) -> str:
    """`mean ± standard deviation`, or the value alone if there is one."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(text)
    part.replace(path)

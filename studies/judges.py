"""Files as other projects ship them, and how we do on them beside what these projects publish.

Each row is a file, or pair of files, in `$LACONIC_DATA/judges` (its README says where each is from), or a set of
scikit-learn's in a setting that a project has published. Beside ours stands the published figure with its source; where
a project publishes none, the row says so, and a model of pooled columns or rows stands in. Nothing is tuned: methods
run as they are by default, but for what the arm's name says.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from laconic import Analytic, Centralised, Cox, Equal, Federation, FedOnce, FedTrees, PooledRows, Solo, deal, load
from laconic import federation as read_federation
from laconic.core import Method
from laconic.data.datasets import data_file
from laconic.deploy import code_digest, simulate
from laconic.learn import Boosted
from laconic.tables import Task, signed_times
from laconic.testing import rows_held_out
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

SEEDS = range(5)
NONE = "none published"
FLAMBY = "FLamby, fed_tcga_brca, its README: 0.842 after 100 rounds of FedAdam; pooled 0.704"
FATE = "FATE compares with a model of pooled columns, in examples/benchmark_quality"


class Arm(NamedTuple):
    """A method, and how it is asked for at a prompt."""

    method: Method
    command: str


class Judge(NamedTuple):
    """One row of the table.

    Attributes:
        metric: what is compared. published: their figure, or None. source: where it is from.
        arms: ours, and yardsticks, by what they are called.
        made: the federation, for a seed.
    """

    metric: str
    published: float | None
    source: str
    arms: dict[str, Arm]
    made: Callable[[int], Federation]
    seeds: Sequence[int] = SEEDS


def _vertical(files: str, key: str, label: str) -> dict[str, Arm]:
    words = f"--files {files} --id {key} --label {label}"
    return {
        "FedOnce": Arm(FedOnce(), f"laconic run FedOnce {words}"),
        "pooled columns": Arm(Centralised(), f"laconic run Centralised {words}"),
        "label holder alone": Arm(Solo(), f"laconic run Solo {words}"),
    }


def _files(names: Sequence[str], key: str, label: str, task: Task | None) -> Federation:
    paths = {name.split(".")[0]: str(data_file(f"judges/{name}")) for name in names}
    return read_federation(paths, id=key, label=label, task=task)


def _of_fate(names: Sequence[str], key: str, label: str, metric: str, task: Task | None = None) -> Judge:
    arms = _vertical(" ".join(names), key, label)
    return Judge(metric, None, FATE, arms, lambda _: _files(names, key, label, task))


def _dealt(name: str, metric: str, published: float, source: str) -> Judge:
    words = f"--data {name} --parties 8"
    arms = {
        "FedOnce": Arm(FedOnce(), f"laconic run FedOnce {words}"),
        "pooled columns": Arm(Centralised(), f"laconic run Centralised {words}"),
        "label holder alone": Arm(Solo(), f"laconic run Solo {words}"),
    }
    return Judge(metric, published, source, arms, lambda seed: deal(load(name), Equal(parties=8), seed=seed, test=0.2))


def regions() -> Federation:
    """TCGA-BRCA by FLamby's six regions and its split."""
    import pandas

    rows = pandas.read_csv(data_file("judges/tcga_brca.csv"))
    rows = rows.merge(pandas.read_csv(data_file("judges/tcga_brca_split.csv")), on="pid")
    names = [name for name in rows.columns if name not in ("pid", "E", "T", "fold", "fold2")]

    def part(some: pandas.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return some[names].to_numpy(float), signed_times(some["T"].to_numpy(float), some["E"].to_numpy())

    parties = {f"region{place}": part(rows[rows["fold2"] == f"train_{place}"]) for place in range(6)}
    task = Task(kind="survival", label="T", event="E")
    return rows_held_out(parties, part(rows[rows["fold"] == "test"]), names, task)


def credit() -> Federation:
    """Default of credit as FATE parts its rows among three parties, with its test file."""
    import pandas

    found = {
        name: pandas.read_csv(data_file(f"judges/default_credit_homo_{name}.csv.gz"))
        for name in ("guest", "host_1", "host_2", "test")
    }
    names = [name for name in found["guest"].columns if name not in ("id", "y")]
    parts = {name: (one[names].to_numpy(float), one["y"].to_numpy()) for name, one in found.items()}
    test = parts.pop("test")
    return rows_held_out(parts, test, names, Task(kind="binary", classes=("0", "1"), label="y"))


_REGIONS = "--files region0.csv ... region5.csv --id pid --label T --event E"
_BANKS = "--files guest.csv host_1.csv host_2.csv --id id --label y"
JUDGES = {
    "TCGA-BRCA": Judge(
        "concordance",
        0.842,
        FLAMBY,
        {
            "Cox": Arm(Cox(), f"laconic run Cox {_REGIONS}"),
            "Cox (all regions)": Arm(Cox(least_rows=0), f"laconic run Cox {_REGIONS} --set method.least_rows=0"),
            "Cox (steps)": Arm(
                Cox(steps=6, least_rows=0), f"laconic run Cox {_REGIONS} --set method.steps=6 --set method.least_rows=0"
            ),
        },
        lambda _: regions(),
        seeds=(0,),
    ),
    "default_credit (rows)": Judge(
        "auc",
        None,
        FATE,
        {
            "Analytic": Arm(Analytic(), f"laconic run Analytic {_BANKS}"),
            "FedTrees": Arm(FedTrees(), f"laconic run FedTrees {_BANKS}"),
            "pooled rows": Arm(PooledRows(model=Boosted(depth=4, lr=0.1)), f"laconic run PooledRows {_BANKS}"),
        },
        lambda _: credit(),
        seeds=(0,),
    ),
    "breast cancer, 8 parties": _dealt("breast_cancer", "accuracy", 0.985, "GAL, its README: 98.5 % accuracy"),
    "diabetes, 8 parties": _dealt("diabetes", "mae", 42.7, "GAL, its README: mean absolute deviation 42.7"),
    "vehicle": _of_fate(("vehicle_scale_hetero_guest.csv", "vehicle_scale_hetero_host.csv"), "id", "y", "accuracy"),
    "motor": _of_fate(
        ("motor_hetero_guest.csv", "motor_hetero_host_1.csv", "motor_hetero_host_2.csv"), "idx", "motor_speed", "rmse"
    ),
    "dvisits": _of_fate(
        ("dvisits_hetero_guest.csv", "dvisits_hetero_host.csv"),
        "id",
        "doctorco",
        "rmse",
        Task(kind="regression", label="doctorco"),
    ),
    "movie_lens": _of_fate(("movie_lens_hetero_guest.csv.gz", "movie_lens_hetero_host.csv.gz"), "id", "label", "auc"),
}


def main() -> None:
    """Run what has not been run yet, and write the table, also when stopped."""
    chosen = arguments(__doc__ or "", "studies/results/judges", renews=True)
    results = chosen.out / "results.jsonl"
    seeds, names = (1, ("TCGA-BRCA", "breast cancer, 8 parties")) if chosen.quick else (len(SEEDS), tuple(JUDGES))
    try:
        run_jobs(only_on(_jobs(names, seeds), chosen.only), results, chosen.renew)
    finally:
        write_whole(chosen.out / "table.md", report(read_records(results)))


def _jobs(names: Sequence[str], most: int) -> Iterator[Job]:
    for name in names:
        for seed in JUDGES[name].seeds[:most]:
            for arm, (method, _) in JUDGES[name].arms.items():
                key = {"data": name, "seed": seed, "arm": arm}
                yield Job(key, partial(measure, name, seed, arm), code_digest(method))


def measure(name: str, seed: int, arm: str) -> Record:
    """What one arm reaches on one file, and what crossed while it learnt."""
    judge = JUDGES[name]
    result = simulate(judge.arms[arm].method, judge.made(seed), seed=seed)
    return {"score": result.metrics[judge.metric], "bytes": result.fit.bytes, "rounds": result.fit.rounds}


def report(records: Sequence[Record]) -> str:
    """The table, with the published figure first."""
    last = {(one["key"]["data"], one["key"]["arm"], one["key"]["seed"]): one for one in records}
    header = ("file", "metric", "theirs", "arm", "ours", "bytes", "rounds", "command")
    found = []
    for name, judge in JUDGES.items():
        for arm, (_, command) in judge.arms.items():
            some = [one for key, one in last.items() if key[:2] == (name, arm)]
            if some:
                theirs = NONE if judge.published is None else f"{judge.published:g}"
                cost = (f"{statistics.fmean(one['bytes'] for one in some):,.0f}", max(one["rounds"] for one in some))
                ours = mean_spread([one["score"] for one in some])
                found.append((name, judge.metric, theirs, arm, ours, *cost, f"`{command}`"))
    sources = markdown(("file", "source of the figure"), [(name, judge.source) for name, judge in JUDGES.items()])
    note = (
        "Mean and standard deviation over five seeds, which part the rows anew. One run where a project fixes the "
        "split: the command there runs the same on rows parted at random.\n"
    )
    return f"# Outside judges\n\n{note}\n## Scores\n\n{markdown(header, found)}\n## Sources\n\n{sources}"


if __name__ == "__main__":
    main()

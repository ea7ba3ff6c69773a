"""FedKT and its rivals at equal effort: each arm finds its settings on the same rows, with one allowance and rule.

Rows are dealt as for FedKT's tables. Every arm has the same number of trials and of processor seconds to choose its
settings on a tenth of the parties' rows; test rows are gone from the trials (`laconic.deploy.tuning`, decision 38).
What is tried follows from the names of its settings, and the first trial is of those given here. Then it learns once
from all rows, and is scored on test rows. Nets of all arms have one form to start from.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from laconic import (
    Analytic,
    FedAdam,
    FedAvg,
    FedDf,
    Federation,
    FedKt,
    FedPft,
    FedProx,
    FedTrees,
    FedYogi,
    Method,
    Pate,
    PooledRows,
    Scaffold,
    SoloRows,
    simulate,
)
from laconic.deploy import Allowance
from laconic.deploy.tuning import tune
from laconic.learn import Mlp, Sgd
from laconic.methods import PooledShares
from laconic.plan import DataPlan, Plan
from studies.fedkt_settings import SETTINGS, Setting
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

SEEDS = range(5)
ALLOWANCE = Allowance(trials=4, seconds=40.0)
NET = Mlp(hidden=(100,))
LOCAL = Sgd(epochs=5, batch=64)
PLAIN = Sgd(epochs=5, batch=64, lr=0.05, optimizer="sgd", weight_decay=0.0)


def main() -> None:
    """Tune and measure what has not been measured yet, then write the table."""
    chosen = arguments(__doc__ or "", "studies/results/fedkt_effort")
    results = chosen.out / "results.jsonl"
    try:
        run_jobs(only_on(_jobs(chosen.out / "trials.jsonl", quick=chosen.quick), chosen.only), results)
    finally:
        write_whole(chosen.out / "table.md", report(read_records(results)))


def _jobs(trials: Path, *, quick: bool) -> Iterator[Job]:
    names = ("Adult",) if quick else ("Adult", "cod-rna")
    for seed in SEEDS[:1] if quick else SEEDS:
        for name in names:
            setting = replace(SETTINGS[name], parties=10) if quick else SETTINGS[name]
            for words, method in _arms(setting).items():
                if not quick or words in ("Analytic", "FedTrees"):
                    key = {"data": name, "method": words, "seed": seed}
                    yield Job(key, _measured(setting, method, seed, trials))


def _arms(setting: Setting) -> dict[str, Method]:
    """What is compared, as each comes; averaging methods also with several exchanges."""
    return {
        "Analytic": Analytic(),
        "FedTrees": FedTrees(),
        "FedPft": FedPft(),
        "FedKt": FedKt(model=setting.model, teacher=setting.teacher, count=PooledShares()),
        "FedAvg": FedAvg(net=NET, trainer=LOCAL, exchanges=1),
        "FedProx": FedProx(net=NET, trainer=LOCAL, exchanges=1),
        "Scaffold": Scaffold(net=NET, trainer=PLAIN, exchanges=1),
        "FedDf": FedDf(net=NET, trainer=LOCAL, exchanges=1),
        "FedAvg, ten exchanges": FedAvg(net=NET, trainer=LOCAL, exchanges=10),
        "FedAdam, ten exchanges": FedAdam(net=NET, trainer=LOCAL, exchanges=10),
        "FedYogi, ten exchanges": FedYogi(net=NET, trainer=LOCAL, exchanges=10),
        "each alone": SoloRows(model=setting.model),
        "Pate, rows pooled": Pate(model=setting.model, teacher=setting.teacher),
        "rows pooled": PooledRows(),
    }


def _measured(setting: Setting, method: Method, seed: int, trials: Path) -> Callable[[], Record]:
    def measure() -> Record:
        chosen, tuning = tune(
            Plan(method=method, data=DataPlan(name=setting.data), seed=seed),
            ALLOWANCE,
            trials,
            {"parties": setting.parties},
            federation=_without_test(setting, seed),
        )
        result = simulate(chosen.method, setting.deal(seed), seed=seed)
        return {
            "accuracy": result.metrics["accuracy"],
            "bytes": result.fit.bytes,
            "rounds": result.fit.rounds,
            "trials": tuning.trials,
            "spent": tuning.seconds,
            "chosen": tuning.chosen,
            "capped": tuning.capped,
        }

    return measure


def _without_test(setting: Setting, seed: int) -> Federation:
    """The parties with rows to choose by, and without those to score on."""
    dealt = setting.deal(seed, valid=0.1)
    return replace(dealt, tables={name: table.without("test") for name, table in dealt.tables.items()})


def report(records: list[Record]) -> str:
    """The table, of what there is so far."""
    rows = []
    for name, method in dict.fromkeys((one["key"]["data"], one["key"]["method"]) for one in records):
        there = [one for one in records if (one["key"]["data"], one["key"]["method"]) == (name, method)]
        score = f"{mean_spread([100 * one['accuracy'] for one in there], 1)} ({len(there)})"
        megabytes, trials, spent = (
            sum(one[part] for one in there) / len(there) for part in ("bytes", "trials", "spent")
        )
        capped = f"{sum(bool(one['capped']) for one in there)} of {len(there)}"
        effort = (f"{trials:.1f}", f"{spent:.0f}", capped)
        rows.append((name, method, there[0]["rounds"], f"{megabytes / 1e6:.2f}", score, *effort))
    head = ("data", "method", "exchanges", "MB", "accuracy", "trials", "their seconds", "capped")
    return (
        "# At equal effort\n\n"
        f"Every arm and seed may try {ALLOWANCE.trials} settings within {ALLOWANCE.seconds:g} processor seconds, on "
        "rows that the server keeps; the last trial may have been cut off. Test accuracy in percent, mean ± standard "
        "deviation over seeds (how many). *Capped* counts seeds where an arm might have gained by more: its seconds "
        "ended, or the greatest or last that it tried was the best.\n\n## Test accuracy\n\n" + markdown(head, rows)
    )


if __name__ == "__main__":
    main()

"""FedKT and its rivals at equal effort: each arm finds its settings on the same rows, with one allowance and rule.

Rows are dealt as for FedKT's tables. Every arm has the same number of trials and of processor seconds to choose its
settings on a tenth of the parties' rows; test rows are gone from the trials (`laconic.deploy.tuning`, decision 38).
What is tried follows from the names of its settings, and the first trial is of those given here. Then it learns once
from all rows, and is scored on test rows. Nets of all arms have one form to start from.
"""

from collections.abc import Iterator
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
)
from laconic.deploy import Allowance
from laconic.learn import Mlp, Sgd
from laconic.methods import PooledShares
from laconic.plan import DataPlan, Plan
from studies.fedkt_settings import SETTINGS, Setting
from studies.harness import (
    Job,
    Record,
    arguments,
    effort_table,
    only_on,
    read_records,
    run_jobs,
    tuned_job,
    write_whole,
)

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
                    yield _job(name, words, setting, method, seed, trials)


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


def _job(name: str, arm: str, setting: Setting, method: Method, seed: int, trials: Path) -> Job:
    def deal(choosing: bool) -> Federation:
        dealt = setting.deal(seed, valid=0.1) if choosing else setting.deal(seed)
        tables = {party: table.without("test") if choosing else table for party, table in dealt.tables.items()}
        return replace(dealt, tables=tables)

    plan = Plan(method=method, data=DataPlan(name=setting.data), seed=seed)
    key, facts = {"data": name, "arm": arm, "seed": seed}, {"parties": setting.parties}
    return tuned_job(key, plan, ALLOWANCE, trials, deal, facts, metric="accuracy")


def report(records: list[Record]) -> str:
    """The tables, of what there is so far."""
    parts = [
        "# At equal effort\n\n"
        "Settings are tried on rows that the server keeps; the last trial may have been cut off. Scores on test rows, "
        "mean ± standard deviation. *Capped* counts seeds where an arm might have gained by more: its seconds ended, "
        "or the greatest or last that it tried was the best. A star marks what other code has measured.\n"
    ]
    for name in dict.fromkeys(one["key"]["data"] for one in records):
        there = [one for one in records if one["key"]["data"] == name]
        parts.append(f"\n## {name}\n\n{effort_table(there, _arms(SETTINGS[name]))}")
    return "".join(parts)


if __name__ == "__main__":
    main()

"""Does the default encoder choose well? What comes beside columns by rank: components, learnt numbers, or as chosen.

A guest chooses without labels (`BestEncoder`). Here the label holder's cross-validated loss on training rows judges the
choice: log loss, or squared error in units of the labels' variance. Test and validation rows are not looked at. All
arms have the same rows, folds and allowance. Tables where no guest sends more than eight numbers are left out: there is
nothing to choose.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np

from laconic import Federation, FedOnce
from laconic.deploy import code_digest
from laconic.deploy.execute import matched
from laconic.learn import Best, BestEncoder
from laconic.learn.encoders.encoder import left_to_trees
from laconic.learn.models.best import tried_of
from laconic.threads import limit_threads
from laconic.values import Array
from studies.harness import Job, Record, arguments, markdown, only_on, read_records, run_jobs, write_whole
from studies.one_exchange import TABLES, UNSEEN

SEEDS = range(5)
ROWS, MOST_NUMBERS = 4_000, 16
DATA = ("superconduct", "ujiindoorloc", "phishing", "covtype", "nycflights13", "adult", "digits")
ARMS = {
    "components": BestEncoder(beside="components"),
    "autoencoder": BestEncoder(beside="autoencoder"),
    "chosen": BestEncoder(),
}
HEAD = Best(seconds=30.0)
LOST = "loses by more than a standard error"


def main() -> None:
    """Run what has not been run yet, and write the table, also when stopped."""
    chosen = arguments(__doc__ or "", "studies/results/encoder_choice", renews=True)
    results = chosen.out / "results.jsonl"
    try:
        run_jobs(only_on(_quick_jobs() if chosen.quick else _jobs(), chosen.only), results, chosen.renew)
    finally:
        write_whole(chosen.out / "table.md", report(read_records(results)))


def _jobs() -> Iterator[Job]:
    for seed in SEEDS:
        for name in DATA:
            yield from _of_table(name, seed, HEAD)


def _quick_jobs() -> Iterator[Job]:
    yield from _of_table("digits", 0, Best(seconds=2.0))


def _of_table(name: str, seed: int, head: Best) -> Iterator[Job]:
    for arm, encoder in ARMS.items():
        key = {"data": name, "rows": ROWS, "seed": seed, "arm": arm}
        yield Job(key, partial(_of_arm, name, seed, encoder, head), code_digest(FedOnce(encoder=encoder)))


def _of_arm(name: str, seed: int, encoder: BestEncoder, head: Best) -> Record:
    return measure(federation_of(name, seed), encoder, head, seed)


def federation_of(name: str, seed: int) -> Federation:
    """The parties of a table with matched rows, of which at most `ROWS` are drawn by the seed."""
    table = (TABLES | UNSEEN)[name]
    federation = replace(table, rows=ROWS).federation(seed)
    return federation if federation.aligned else matched(FedOnce(), federation, seed=seed)


@limit_threads()
def measure(federation: Federation, encoder: BestEncoder, head: Best, seed: int) -> Record:
    """The label holder's loss on folds of the training rows, and what guests took."""
    own, y = federation.tables[federation.hub].part("train")
    numbers, learnt, shares, started = [own], 0, list[float](), time.process_time()
    for place, guest in enumerate(federation.peers):
        x, rng = federation.tables[guest].part("train")[0], np.random.default_rng([seed, place])
        weights = (sized := encoder.sized(x, MOST_NUMBERS)).fit(x, rng)
        learnt += any(one.startswith("learnt.") for one in weights)
        numbers.append(encoder.encode(weights, x))
        if encoder.beside is None:
            by_components, by_learnt = left_to_trees(
                x, min(sized.dim, x.shape[1]), np.random.default_rng([seed, place])
            )
            shares += [by_learnt / by_components] if by_learnt < 1 else []
    took = time.process_time() - started
    beside: Array = np.concatenate(numbers, axis=1)
    tried = tried_of(head.fit(federation.task, beside, np.asarray(y), np.random.default_rng(seed)))
    allowance = {"trials": 1, "seconds_of_choice": head.seconds}
    facts = {"guests": len(federation.peers), "learnt": learnt, "encoding_seconds": round(took, 2), "left": shares}
    return {"loss": min(one.loss for one in tried), **facts, "allowance": allowance}


def report(records: Sequence[Record]) -> str:
    """The table, as Markdown: losses, and how they change against components."""
    rows = []
    for name in DATA:
        arms = {arm: {one["key"]["seed"]: one for one in records if _is(one, name, arm)} for arm in ARMS}
        seeds = sorted(set.intersection(*(set(found) for found in arms.values())))
        if seeds:
            rows.append(_line(name, seeds, arms))
    head = ["data", "seeds", "components", "autoencoder", "chosen", "autoencoder, change in %", "chosen, change in %"]
    return (
        "The label holder's loss by cross-validation on training rows (lower is better), means over seeds, by what "
        f"guests send beside columns by rank; at most {ROWS:,} rows of a table, a fifth of which nobody looks at. A "
        "change is against components, seed by seed, with its standard error; negative is better. `learnt` counts "
        "guests that chose the autoencoder. What learnt numbers leave: what trees do not rebuild of a guest's columns, "
        "in % of the same with components, from the guest with least to the one with most.\n\n"
        + markdown(
            [
                *head,
                "learnt",
                "learnt numbers leave, %",
                "processor seconds per guest",
                "loses by more than a standard error",
            ],
            rows,
        )
    )


def _is(record: Record, name: str, arm: str) -> bool:
    return bool(record["key"]["data"] == name and record["key"]["arm"] == arm)


def _line(name: str, seeds: Sequence[int], arms: dict[str, dict[int, Record]]) -> list[object]:
    losses = {arm: [found[seed]["loss"] for seed in seeds] for arm, found in arms.items()}
    changes = {
        arm: [100 * (one / base - 1) for one, base in zip(losses[arm], losses["components"], strict=True)]
        for arm in ("autoencoder", "chosen")
    }
    took = [arms["chosen"][seed] for seed in seeds]
    learnt, guests = (sum(one[name] for one in took) for name in ("learnt", "guests"))
    left = [share for one in took for share in one.get("left", ())]
    error = _error(changes["chosen"])
    lost = "one seed" if error is None else "yes" if statistics.fmean(changes["chosen"]) > error else "no"
    return [
        name,
        len(seeds),
        *(f"{statistics.fmean(values):.4f}" for values in losses.values()),
        *(_signed(values) for values in changes.values()),
        f"{learnt} of {guests}",
        f"{100 * min(left):.0f} to {100 * max(left):.0f}" if left else "",
        f"{sum(one['encoding_seconds'] for one in took) / guests:.1f}",
        lost,
    ]


def _error(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / sqrt(len(values)) if len(values) > 1 else None


def _signed(values: Sequence[float]) -> str:
    error = _error(values)
    return f"{statistics.fmean(values):+.2f}" + ("" if error is None else f" ± {error:.2f}")


if __name__ == "__main__":
    main()

"""FedKT's Tables 1, 2 and 3, and its curve over many exchanges, in kind: what was claimed, what we measure."""

from collections.abc import Iterator
from dataclasses import replace

from laconic.learn import Forest
from studies.fedkt_paper import PAPER_3, PORTIONS
from studies.fedkt_report import report
from studies.fedkt_runs import budgeted, curves, one_round, portion, private
from studies.fedkt_settings import SETTINGS
from studies.harness import Job, arguments, only_on, read_records, run_jobs, write_whole

SEEDS = range(5)


def main() -> None:
    """Measure what has not been measured yet, then write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/fedkt_tables")
    jobs = _quick() if chosen.quick else _all()
    results = chosen.out / "results.jsonl"
    try:
        run_jobs(only_on(jobs, chosen.only), results)
    finally:
        # A study that is stopped leaves a table of what it has.
        write_whole(chosen.out / "table.md", report(read_records(results)))


def _quick() -> Iterator[Job]:
    """A tenth of the work on Adult: ten parties and small forests."""
    small = replace(SETTINGS["Adult"], parties=10, model=Forest(trees=20, columns=0.6))
    yield from one_round("Adult", 0, small)
    for level in ("L1", "L2"):
        yield from private("Adult", 0, small, level)


def _all() -> Iterator[Job]:
    """What the paper is known for first, for all seeds, so that a study that is stopped has that."""
    for name in PAPER_3:
        for seed in SEEDS:
            yield from one_round(name, seed, SETTINGS[name])
            yield from private(name, seed, SETTINGS[name], "L1")
            yield from budgeted(name, seed, SETTINGS[name])
    for name in PAPER_3:
        for seed in SEEDS:
            yield from private(name, seed, SETTINGS[name], "L2")
            yield from (portion(name, seed, keep, SETTINGS[name]) for keep in PORTIONS[:-1])
    for seed in SEEDS:
        yield from one_round("Fashion-MNIST", seed, SETTINGS["Fashion-MNIST"])
    yield from curves(0, SETTINGS["MNIST"])


if __name__ == "__main__":
    main()

"""What one bad party of four does to a run, and what checks and robust averages save: every kind of badness.

Parties with other columns: FedOnce as usual, with `check.leave_out`, and with the bad party left out by hand. Parties
with other rows: FedAvg with the mean, with three averages that a bad party cannot drag away, and with the bad party
left out by hand. Then honest runs, of which none should lose a party.

Usage: python -m studies.poisoning [--quick] [--out FOLDER] [--only DATA]
"""

from collections.abc import Callable, Iterator

from laconic import Dirichlet, Equal, FedAvg, Federation, FedOnce, Method, OneShot, deal, deal_rows, load, simulate
from laconic.core import Result
from laconic.learn import Krum, Mean, Median, Sgd, TrimmedMean
from laconic.learn.models.averages import AnyAverage
from laconic.methods import Check
from laconic.testing import BadParty, flip_labels, leave_out
from laconic.testing.bad_parties import Badness
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, run_jobs, some_rows, write_whole

_COLUMNS_APART = ("phishing", "credit_default", "adult", "california_housing")
_ROWS_APART = ("phishing", "credit_default", "adult", "digits")
_BAD: tuple[Badness, ...] = ("constant", "scaled", "noisy", "shuffled")
_AVERAGES: dict[str, AnyAverage] = {"mean": Mean(), "median": Median(), "trimmed mean": TrimmedMean(), "Krum": Krum()}
_PARTIES = 4
_ROWS = 4000
_SIFT = Check(leave_out=True)


def main() -> None:
    """Run every job that is not done yet, and write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/poisoning")
    records = run_jobs(only_on(list(_jobs(chosen.quick)), chosen.only), chosen.out / "results.jsonl")
    write_whole(chosen.out / "table.md", _tables(records))
    print((chosen.out / "table.md").read_text())


def _jobs(quick: bool) -> Iterator[Job]:
    for seed in range(1 if quick else 3):
        yield from (_job("columns apart", name, seed, _one_bad_with_columns) for name in _COLUMNS_APART)
        yield from (_job("rows apart", name, seed, _one_bad_with_rows) for name in _ROWS_APART)
    for seed in range(2 if quick else 100):
        yield from (_job("honest FedOnce", name, seed, _honest(FedOnce)) for name in _COLUMNS_APART)
    for seed in range(1 if quick else 10):
        yield from (_job("honest OneShot", name, seed, _honest(OneShot)) for name in _COLUMNS_APART)


def _job(part: str, name: str, seed: int, measure: Callable[[str, int], Record]) -> Job:
    return Job({"part": part, "data": name, "seed": seed}, lambda: measure(name, seed))


def _one_bad_with_columns(name: str, seed: int) -> Record:
    federation = _deal_columns(name, seed)
    bad = federation.peers[seed % len(federation.peers)]
    trainer = Sgd(epochs=30, patience=5)
    usual, sifting = FedOnce(trainer=trainer), FedOnce(trainer=trainer, check=_SIFT)
    record: Record = {
        "honest": _score(simulate(usual, federation, seed=seed)),
        "by hand": _score(simulate(usual, leave_out(federation, bad), seed=seed)),
    }
    for how in _BAD:
        runtime = BadParty(bad, how, seed)
        record[how] = _score(simulate(usual, federation, seed=seed, runtime=runtime))
        sifted = simulate(sifting, federation, seed=seed, runtime=runtime)
        record |= {f"{how}, checked": _score(sifted), f"{how}, found": int(_left_out(sifted) == [bad])}
    return record


def _one_bad_with_rows(name: str, seed: int) -> Record:
    federation = deal_rows(some_rows(load(name), _ROWS, seed), Dirichlet(parties=_PARTIES, beta=5.0), seed=seed)
    bad = [party for party in federation.peers if federation.tables[party].y is not None][seed % _PARTIES]
    record: Record = {"by hand": _score(simulate(_averaging("mean"), leave_out(federation, bad), seed=seed))}
    for average in _AVERAGES:
        method = _averaging(average)
        record[f"honest, {average}"] = _score(simulate(method, federation, seed=seed))
        for how in _BAD:
            poisoned = simulate(method, federation, seed=seed, runtime=BadParty(bad, how, seed))
            record[f"{how}, {average}"] = _score(poisoned)
        record[f"flipped labels, {average}"] = _score(simulate(method, flip_labels(federation, bad), seed=seed))
    return record


def _averaging(average: str) -> FedAvg:
    return FedAvg(trainer=Sgd(epochs=5, batch=32), exchanges=5, average=_AVERAGES[average])


def _honest(kind: type[FedOnce] | type[OneShot]) -> Callable[[str, int], Record]:
    def measure(name: str, seed: int) -> Record:
        # Checks come before the label holder learns: its one epoch is as good as many.
        method: Method = kind(trainer=Sgd(epochs=1), check=_SIFT)
        return {"left out": len(_left_out(simulate(method, _deal_columns(name, seed), seed=seed)))}

    return measure


def _deal_columns(name: str, seed: int) -> Federation:
    return deal(some_rows(load(name), _ROWS, seed), Equal(parties=_PARTIES), seed=seed, test=0.3)


def _left_out(result: Result) -> list[str]:
    return [one.party for one in result.contributions if one.left_out]


def _score(result: Result) -> float:
    """The headline figure; R2 for numbers, so that all are of one kind."""
    return result.metrics["r2"] if result.task.kind == "regression" else result.score.value


def _tables(records: list[Record]) -> str:
    parts = ["# One bad party of four\n", _HEAD]
    for name in _COLUMNS_APART:
        same = _of(records, "columns apart", name)
        parts += [f"\n## Columns apart, {name}, {len(same)} seeds\n\n", _columns_table(same)] if same else []
    for name in _ROWS_APART:
        same = _of(records, "rows apart", name)
        parts += [f"\n## Rows apart, {name}, {len(same)} seeds\n\n", _rows_table(same)] if same else []
    return "".join([*parts, "\n## Honest runs\n\n", _honest_table(records), "\n## In short\n\n", _short_table(records)])


_HEAD = f"""
At most {_ROWS:,} rows of each data set. Scores are AUC for two classes, accuracy for more, R2 for numbers. The bad
party alters all numbers that it sends, while fitting and while predicting: `constant` sends ones, `scaled` minus a
thousand times the true ones, `noisy` noise of the same mean and spread, `shuffled` the right numbers for the wrong rows
(of a model: the rows of each weight matrix), `flipped labels` what it learnt from labels that are all wrong. Of four
models, the median is the trimmed mean.
"""


def _of(records: list[Record], part: str, name: str | None = None) -> list[Record]:
    return [one for one in records if one["key"]["part"] == part and name in (None, one["key"]["data"])]


def _columns_table(same: list[Record]) -> str:
    def cell(name: str) -> str:
        return mean_spread([one[name] for one in same])

    rows = [["honest", cell("honest"), "", "", ""]]
    for how in _BAD:
        gap = max(abs(one[f"{how}, checked"] - one["by hand"]) for one in same)
        found = f"{sum(one[f'{how}, found'] for one in same)} of {len(same)}"
        rows.append([how, cell(how), cell(f"{how}, checked"), f"{gap:.4f}", found])
    rows.append(["left out by hand", cell("by hand"), "", "", ""])
    return markdown(("bad party", "as usual", "check.leave_out", "largest distance from by hand", "found alone"), rows)


def _rows_table(same: list[Record]) -> str:
    rows = [
        [how, *(mean_spread([one[f"{how}, {average}"] for one in same]) for average in _AVERAGES)]
        for how in ("honest", *_BAD, "flipped labels")
    ]
    rows.append(["left out by hand", mean_spread([one["by hand"] for one in same]), *[""] * (len(_AVERAGES) - 1)])
    return markdown(("bad party", *_AVERAGES), rows)


def _honest_table(records: list[Record]) -> str:
    rows = []
    for method in ("FedOnce", "OneShot"):
        same = _of(records, f"honest {method}")
        rows.append([method, len(same), 3 * len(same), sum(one["left out"] for one in same)])
    return markdown(("method", "runs", "honest parties looked at", "left out"), rows)


def _short_table(records: list[Record]) -> str:
    columns, rows = _of(records, "columns apart"), _of(records, "rows apart")
    lines: list[list[object]] = []
    if columns:
        lost = [one["by hand"] - one[how] for one in columns for how in _BAD]
        gaps = [abs(one[f"{how}, checked"] - one["by hand"]) for one in columns for how in _BAD]
        found = sum(one[f"{how}, found"] for one in columns for how in _BAD)
        lines += [
            ["columns apart: most lost by counting a bad party", f"{max(lost):.4f}"],
            ["columns apart: largest distance from by hand, checked", f"{max(gaps):.4f}"],
            ["columns apart: bad parties found", found],
            ["columns apart: bad parties there were", len(gaps)],
        ]
    for average in _AVERAGES if rows else ():
        lost = [one["by hand"] - one[f"{how}, {average}"] for one in rows for how in (*_BAD, "flipped labels")]
        lines.append([f"rows apart: most lost with {average}", f"{max(lost):.4f}"])
    return markdown(("what", "figure"), lines)


if __name__ == "__main__":
    main()

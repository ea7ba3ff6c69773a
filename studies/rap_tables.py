"""RAP next to what the paper compares it with: Tables 1, 3 and 4, Figures 4 to 7, and what its server can find out.

Covertype is the paper's data set CO; superconduct and california_housing stand in for its regression sets, which are
not at hand, as `higgs` is not. Every method has the same split, the same net, batches and epochs, and the same metric
code. Time is processor time of one core, plus the network by the model of `studies.links`.
"""

from collections.abc import Iterator, Sequence

from studies.harness import Job, Record, arguments, markdown, mean_spread, run_jobs, write_whole
from studies.links import ETHERNET, WIDE_AREA, Link
from studies.rap_jobs import encryption_job, pooled_trees_job, score_job
from studies.rap_leakage import leakage_job

PAPER = {
    ("covtype", "Centralised"): "87.67",
    ("covtype", "Single"): "70.59",
    ("covtype", "SplitNN"): "87.62",
    ("covtype", "Rap, Gaussian"): "87.65",
}
"""Table 3, CO, accuracy in percent."""

_REGRESSION = ("california_housing", "superconduct")
_NOISE = tuple(f"{kind}, epsilon {epsilon}" for epsilon in (512, 64, 8) for kind in ("Local DP", "Rap"))
_OTHER = ("Rap, label owner trains", "Rap, boosted trees", "Rap, exact linear")
_LONG = 60
"""Epochs for which time is extrapolated."""


def main() -> None:
    """Run what is not there yet, then write the tables."""
    chosen = arguments(__doc__.splitlines()[0], "studies/results/rap_tables")
    found = run_jobs(_quick() if chosen.quick else _full(), chosen.out / "runs.jsonl")
    records = list({str(record["key"]): record for record in found}.values())  # some runs are in two figures
    scores = [record for record in records if record["key"]["what"] == "score"]
    leaks = [record for record in records if record["key"]["what"] == "leakage"]
    parts = ["# RAP, measured\n", *_score_tables(scores, leaks), _upload_table(scores), *_shape_tables(scores)]
    parts += [_encryption_table(records), *_leakage_tables(leaks)]
    write_whole(chosen.out / "tables.md", "\n".join(parts))
    print((chosen.out / "tables.md").read_text())


def _quick() -> Iterator[Job]:
    rows = 6000
    for data in ("california_housing", "covtype"):
        yield from (score_job(data, method, 0, rows=rows) for method in ("Centralised", "Rap", "Single", "SplitNN"))
        yield leakage_job(data, 0, rows=rows)
    yield score_job("covtype", "Rap", 0, parties=10, singles=3, rows=rows)
    yield score_job("covtype", "Rap, epsilon 64", 0, rows=rows)


def _full() -> Iterator[Job]:
    yield from (score_job("covtype", method, 0) for method in ("Centralised", "Rap", "Rap, Gaussian", "SplitNN"))
    for data in _REGRESSION:
        yield from (score_job(data, method, seed) for seed in (0, 1, 2) for method in ("Centralised", "Rap"))
        yield from (score_job(data, method, 0) for method in ("Rap, Gaussian", "Rap, two models", "Single", "SplitNN"))
        yield leakage_job(data, 0)
    yield from (score_job("covtype", method, seed) for seed in (1, 2) for method in ("Centralised", "Rap"))
    yield leakage_job("covtype", 0)
    yield from _shapes("superconduct")
    yield from (score_job("superconduct", method, 0) for method in (*_NOISE, *_OTHER))
    yield pooled_trees_job("superconduct", 0)
    yield leakage_job("superconduct", 0, epsilon=64.0)
    yield from (encryption_job(data, 0) for data in ("superconduct", "california_housing", "covtype"))
    yield from (score_job("covtype", method, 0) for method in ("Single", "Local DP, epsilon 64", "Rap, epsilon 64"))
    yield from (score_job("covtype", method, 0, model="linear") for method in ("Centralised", "Rap"))
    yield from (score_job("covtype", "Rap", 0, parties=10, singles=singles) for singles in range(6))
    yield from (score_job("covtype", "Rap", 0, parties=parties) for parties in (2, 6, 8))
    yield from (score_job("covtype", method, 0, epochs=_LONG) for method in ("Centralised", "Rap"))


def _shapes(data: str) -> Iterator[Job]:
    """Figures 4 to 7: how many parties, and how many of ten hold one column only."""
    shapes = [(parties, 0) for parties in (2, 4, 6, 8, 10)] + [(10, singles) for singles in (1, 2, 3, 4, 5)]
    for model in ("mlp", "linear"):
        for parties, singles in shapes:
            yield score_job(data, "Rap", 0, parties=parties, singles=singles, model=model)
        yield score_job(data, "Centralised", 0, model=model)


def _score_tables(scores: list[Record], leaks: list[Record]) -> Iterator[str]:
    usual = [r for r in scores if (r["key"]["parties"], r["key"]["singles"], r["key"]["model"]) == (4, 0, "mlp")]
    groups = dict.fromkeys((r["key"]["data"], r["key"]["epochs"]) for r in usual)
    for data, epochs in groups:
        some = [r for r in usual if (r["key"]["data"], r["key"]["epochs"]) == (data, epochs)]
        yield f"## {data}: four parties and a label owner, net of 128, {epochs} epochs ({some[0]['metric']})\n"
        yield markdown(
            ("method", "score", "seeds", "paper", "server recovers", "bytes", "rounds", "processor s", *_time_heads()),
            [_score_row(data, some, method, leaks) for method in dict.fromkeys(r["key"]["method"] for r in some)],
        )


def _score_row(data: str, some: list[Record], method: str, leaks: list[Record]) -> Sequence[object]:
    runs = [r for r in some if r["key"]["method"] == method]
    percent = runs[0]["metric"] == "accuracy"
    score = mean_spread([r["score"] * (100 if percent else 1) for r in runs], 2)
    times = [f"{_seconds(runs[0], link, _LONG):,.0f}" for link in (ETHERNET, WIDE_AREA)]
    shown = f"{runs[0]['bytes']:,}", f"{runs[0]['rounds']:,}", f"{runs[0]['processor_seconds']:.1f}"
    return (method, score, len(runs), PAPER.get((data, method), ""), _recovered(data, method, leaks), *shown, *times)


def _recovered(data: str, method: str, leaks: list[Record]) -> str:
    """Mean correlation of columns found with true ones: from 1000 known rows, and from nothing known."""
    if method == "Centralised":
        return "all: raw columns"
    wanted = float(method.rpartition(" ")[2]) if "epsilon" in method else None
    there = [r for r in leaks if (r["key"]["data"], r["key"]["epsilon"]) == (data, wanted)]
    if not method.startswith("Rap") or not there:
        return ""
    return " / ".join(f"{there[0][f'correlation, {known}']:.3f}" for known in ("1000 known rows", "nothing known"))


def _time_heads() -> Sequence[str]:
    return [f"s for {_LONG} epochs over {link.name}" for link in (ETHERNET, WIDE_AREA)]


def _seconds(run: Record, link: Link, epochs: int) -> float:
    """Processor time and network for so many epochs: split learning pays its traffic anew in each, others once."""
    longer = epochs / run["key"]["epochs"]
    again = longer if run["key"]["method"] == "SplitNN" else 1.0
    return float(run["processor_seconds"] * longer + link.seconds(run["rounds"] * again, run["bytes"] * again))


def _upload_table(scores: list[Record]) -> str:
    rows = []
    for data in dict.fromkeys(r["key"]["data"] for r in scores):
        sent = next(r["bytes_by_party"] for r in scores if (r["key"]["data"], r["key"]["method"]) == (data, "Rap"))
        rows.append((data, ", ".join(f"{party} {count:,}" for party, count in sent.items()), f"{sum(sent.values()):,}"))
    return "## What each party uploads, once (bytes)\n\n" + markdown(("data", "by party", "together"), rows)


def _shape_tables(scores: list[Record]) -> Iterator[str]:
    for data, model in dict.fromkeys((r["key"]["data"], r["key"]["model"]) for r in scores):
        some = [r for r in scores if (r["key"]["data"], r["key"]["model"], r["key"]["seed"]) == (data, model, 0)]
        some = [r for r in some if r["key"]["epochs"] != _LONG and r["key"]["method"] in ("Rap", "Centralised")]
        shapes = dict.fromkeys((r["key"]["parties"], r["key"]["singles"]) for r in some)
        yield f"## {data}, {model}: how many parties (seed 0)\n"
        yield markdown(
            ("parties", "of these with one column", "Rap", "Centralised", "Rap, processor s", "Rap, upload bytes"),
            [_shape_row(some, *shape) for shape in sorted(shapes)],
        )


def _shape_row(some: list[Record], parties: int, singles: int) -> Sequence[object]:
    here = {r["key"]["method"]: r for r in some if (r["key"]["parties"], r["key"]["singles"]) == (parties, singles)}
    shown = [f"{here[method]['score']:.4f}" if method in here else "" for method in ("Rap", "Centralised")]
    rap = here.get("Rap", {"processor_seconds": 0, "bytes": 0})
    return (parties, singles, *shown, f"{rap['processor_seconds']:.1f}", f"{rap['bytes']:,}")


def _encryption_table(records: list[Record]) -> str:
    rows = []
    for record in (record for record in records if record["key"]["what"] == "encryption"):
        all_of_it = [record["numbers"] * record[name] for name in ("encrypt_seconds", "decrypt_seconds", "bytes")]
        rows.append((record["key"]["data"], *(f"{value:,.0f}" for value in all_of_it), f"{record['error']:.0e}"))
    header = ("data", "encrypt s", "decrypt s", "upload bytes", "greatest error")
    return "## Encrypting the training columns (CKKS; a sample, counted up to all rows)\n\n" + markdown(header, rows)


def _leakage_tables(found: list[Record]) -> Iterator[str]:
    if not found:
        return
    names = list(dict.fromkeys(name for r in found for name in r if isinstance(r[name], float) and name != "seconds"))
    rows = []
    for r in found:
        noise = "none" if r["key"]["epsilon"] is None else f"epsilon {r['key']['epsilon']:.0f}"
        rows.append((r["key"]["data"], noise, *(f"{r[name]:.3f}" if name in r else "" for name in names)))
    yield "## What the server finds out (mean over the four parties)\n"
    yield markdown(("data", "noise", *names), rows)


if __name__ == "__main__":
    main()

"""What one bad party of four does to a run, and what checks and robust averages save: every kind of badness.

Parties with other columns: FedOnce, VimSgd and LateFusion as usual, with `check.leave_out`, and with the bad party left
out by hand. Parties with other rows: FedAvg with the mean, with three averages that a bad party cannot drag away, with
the bad party left out by hand, and, as FedProx and Scaffold too, with `check.leave_out` and parties that judge each
other's models. Then honest runs, of which none should lose a party.

Usage: python -m studies.poisoning [--quick] [--out FOLDER] [--only DATA]
"""

from collections.abc import Callable, Iterator

from laconic import (
    Dirichlet,
    Equal,
    FedAvg,
    Federation,
    FedOnce,
    FedProx,
    LateFusion,
    Method,
    OneShot,
    Scaffold,
    VimSgd,
    deal,
    deal_rows,
    load,
    simulate,
)
from laconic.deploy import Result
from laconic.learn import Krum, Mean, Median, Sgd, TrimmedMean
from laconic.learn.models.aggregation import AnyAverage
from laconic.methods import Check, ModelCheck
from laconic.testing import BadParty, flip_labels, leave_out
from laconic.testing.small_federations import Badness
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, run_jobs, some_rows, write_whole

_COLUMNS_APART = ("phishing", "credit_default", "adult", "california_housing")
_ROWS_APART = ("phishing", "credit_default", "adult", "digits")
_BAD: tuple[Badness, ...] = ("constant", "scaled", "noisy", "shuffled")
_AVERAGES: dict[str, AnyAverage] = {"mean": Mean(), "median": Median(), "trimmed mean": TrimmedMean(), "Krum": Krum()}
_PARTIES = 4
_ROWS = 4000
_SIFT, _SIFT_MODELS = Check(leave_out=True), ModelCheck(leave_out=True, judged=True)
_TRAINER, _LOCAL = Sgd(epochs=30, patience=5), Sgd(epochs=5, batch=32)
_ROWS_BAD = (*_BAD, "flipped labels")


def _methods(check: Check | None) -> dict[str, Method]:
    """One method of each family with other columns."""
    return {
        "FedOnce": FedOnce(trainer=_TRAINER, check=check or Check()),
        "VimSgd": VimSgd(epochs=10, check=check),
        "LateFusion": LateFusion(trainer=_TRAINER, check=check),
    }


def main() -> None:
    """Run every job that is not done yet, and write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/poisoning")
    records = run_jobs(only_on(list(_jobs(chosen.quick)), chosen.only), chosen.out / "results.jsonl")
    write_whole(chosen.out / "table.md", _tables(records))
    print((chosen.out / "table.md").read_text())


def _jobs(quick: bool) -> Iterator[Job]:
    # The quick form goes through every part on one set each.
    columns, rows = (_COLUMNS_APART[:1], _ROWS_APART[-1:]) if quick else (_COLUMNS_APART, _ROWS_APART)
    for seed in range(1 if quick else 3):
        for part, kind in _ROWS_CHECKED.items():
            yield from (_job(part, name, seed, _one_bad_checked(kind)) for name in rows)
        for part, method in _PARTS.items():
            yield from (_job(part, name, seed, _one_bad_with_columns(method)) for name in columns)
        yield from (_job("rows apart", name, seed, _one_bad_with_rows) for name in rows)
    for seed in range(1 if quick else 25):
        yield from (_job("honest FedAvg", name, seed, _honest_models) for name in rows)
    for method, (count, honest) in _HONEST.items():
        for seed in range(1 if quick else count):
            yield from (_job(f"honest {method}", name, seed, _honest(honest)) for name in columns)


_PARTS = {"columns apart": "FedOnce", "columns apart, VimSgd": "VimSgd", "columns apart, LateFusion": "LateFusion"}
_ROWS_CHECKED: dict[str, Callable[[ModelCheck], Method]] = {
    "rows apart, checked": lambda check: _averaging("mean", check),
    "rows apart, checked, FedProx": lambda check: FedProx(trainer=_LOCAL, exchanges=5, check=check),
    "rows apart, checked, Scaffold": lambda check: Scaffold(exchanges=5, check=check),
}
_ONCE = Sgd(epochs=1)
"""Checks come before the label holder learns: its one epoch is as good as many."""


_HONEST: dict[str, tuple[int, Method]] = {
    "VimSgd": (25, VimSgd(epochs=1, check=_SIFT)),
    "LateFusion": (25, LateFusion(trainer=_TRAINER, check=_SIFT)),
    "FedOnce": (100, FedOnce(trainer=_ONCE, check=_SIFT)),
    "OneShot": (10, OneShot(trainer=_ONCE, check=_SIFT)),
}
"""How many seeds on each set, and the method."""


def _job(part: str, name: str, seed: int, measure: Callable[[str, int], Record]) -> Job:
    return Job({"part": part, "data": name, "seed": seed}, lambda: measure(name, seed))


def _one_bad_with_columns(method: str) -> Callable[[str, int], Record]:
    usual, sifting = _methods(None)[method], _methods(_SIFT)[method]

    def measure(name: str, seed: int) -> Record:
        federation = _deal_columns(name, seed)
        bad = federation.peers[seed % len(federation.peers)]
        record: Record = {
            "honest": _score(simulate(usual, federation, seed=seed)),
            "by hand": _score(simulate(usual, leave_out(federation, bad), seed=seed)),
        }
        for how in _BAD:
            runtime = BadParty(bad, how, seed)
            record[how] = _score_or_none(usual, federation, seed, runtime)
            sifted = simulate(sifting, federation, seed=seed, runtime=runtime)
            record |= {f"{how}, checked": _score(sifted), f"{how}, found": int(_left_out(sifted) == [bad])}
        return record

    return measure


def _score_or_none(method: Method, federation: Federation, seed: int, runtime: BadParty) -> float | None:
    """A score; None if the bad party drives training to no numbers at all."""
    try:
        return _score(simulate(method, federation, seed=seed, runtime=runtime))
    except ValueError:
        return None


def _one_bad_checked(kind: Callable[[ModelCheck], Method]) -> Callable[[str, int], Record]:
    def measure(name: str, seed: int) -> Record:
        federation, bad = _deal_rows(name, seed)
        method = kind(_SIFT_MODELS)
        # The same settings by hand: who judges takes an exchange more, after which parties draw other numbers.
        by_hand = simulate(method, leave_out(federation, bad), seed=seed)
        record: Record = {"by hand": _score(by_hand), "by hand, left out": len(_left_out(by_hand))}
        for how in _BAD:
            _note(record, how, simulate(method, federation, seed=seed, runtime=BadParty(bad, how, seed)), bad)
        _note(record, "flipped labels", simulate(method, flip_labels(federation, bad), seed=seed), bad)
        return record

    return measure


def _note(record: Record, how: str, sifted: Result, bad: str) -> None:
    record |= {f"{how}, checked": _score(sifted), f"{how}, found": int(_left_out(sifted) == [bad])}


def _honest_models(name: str, seed: int) -> Record:
    result = simulate(_averaging("mean", _SIFT_MODELS), _deal_rows(name, seed)[0], seed=seed)
    return {"left out": len(_left_out(result))}


def _deal_rows(name: str, seed: int) -> tuple[Federation, str]:
    """Parties with other rows, and the bad one of them."""
    federation = deal_rows(some_rows(load(name), _ROWS, seed), Dirichlet(parties=_PARTIES, beta=5.0), seed=seed)
    return federation, [party for party in federation.peers if federation.tables[party].y is not None][seed % _PARTIES]


def _one_bad_with_rows(name: str, seed: int) -> Record:
    federation, bad = _deal_rows(name, seed)
    record: Record = {"by hand": _score(simulate(_averaging("mean"), leave_out(federation, bad), seed=seed))}
    for average in _AVERAGES:
        method = _averaging(average)
        record[f"honest, {average}"] = _score(simulate(method, federation, seed=seed))
        for how in _BAD:
            poisoned = simulate(method, federation, seed=seed, runtime=BadParty(bad, how, seed))
            record[f"{how}, {average}"] = _score(poisoned)
        record[f"flipped labels, {average}"] = _score(simulate(method, flip_labels(federation, bad), seed=seed))
    return record


def _averaging(average: str, check: ModelCheck | None = None) -> FedAvg:
    return FedAvg(trainer=_LOCAL, exchanges=5, average=_AVERAGES[average], check=check)


def _honest(method: Method) -> Callable[[str, int], Record]:
    def measure(name: str, seed: int) -> Record:
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
    for part, method in _PARTS.items():
        words = "" if method == "FedOnce" else f", {method}"
        for name in _COLUMNS_APART:
            same = _of(records, part, name)
            parts += [f"\n## Columns apart, {name}{words}, {len(same)} seeds\n\n", _columns_table(same)] if same else []
    for name in _ROWS_APART:
        same = _of(records, "rows apart", name)
        parts += [f"\n## Rows apart, {name}, {len(same)} seeds\n\n", _rows_table(same)] if same else []
        for part in _ROWS_CHECKED:
            same, kind = _of(records, part, name), part.rpartition("checked, ")[2] if part.count(",") > 1 else "FedAvg"
            words = f"\n## Rows apart, {name}, {kind}, checked, {len(same)} seeds\n\n"
            parts += [words, _checked_table(same)] if same else []
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
        found = [one[name] for one in same if one[name] is not None]
        none = len(same) - len(found)
        return (mean_spread(found) if found else "") + (f" ({none} diverged)" if none else "")

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


def _checked_table(same: list[Record]) -> str:
    rows = []
    for how in _ROWS_BAD:
        gap = max(abs(one[f"{how}, checked"] - one["by hand"]) for one in same)
        found = f"{sum(one[f'{how}, found'] for one in same)} of {len(same)}"
        rows.append([how, mean_spread([one[f"{how}, checked"] for one in same]), f"{gap:.4f}", found])
    rows.append(["left out by hand", mean_spread([one["by hand"] for one in same]), "", ""])
    return markdown(("bad party", "check.leave_out", "largest distance from by hand", "found alone"), rows)


def _honest_table(records: list[Record]) -> str:
    rows = []
    for method in ("FedOnce", "OneShot", "VimSgd", "LateFusion", "FedAvg"):
        same, parties = _of(records, f"honest {method}"), 4 if method == "FedAvg" else 3
        if same:
            rows.append([method, len(same), parties * len(same), sum(one["left out"] for one in same)])
    return markdown(("method", "runs", "honest parties looked at", "left out"), rows)


def _short_table(records: list[Record]) -> str:
    rows = _of(records, "rows apart")
    lines: list[list[object]] = []
    for part in (*_PARTS, *_ROWS_CHECKED):
        kinds = _ROWS_BAD if part in _ROWS_CHECKED else _BAD
        if same := _of(records, part):
            lines += _found_lines(part, same, kinds)
    for average in _AVERAGES if rows else ():
        lost = [one["by hand"] - one[f"{how}, {average}"] for one in rows for how in _ROWS_BAD]
        lines.append([f"rows apart: most lost with {average}", f"{max(lost):.4f}"])
    return markdown(("what", "figure"), lines)


def _found_lines(part: str, same: list[Record], kinds: tuple[str, ...]) -> list[list[object]]:
    """What a bad party cost that counted, how near the check came to leaving it out by hand, and who was found."""
    lost = [one["by hand"] - one[how] for one in same for how in kinds if one.get(how) is not None]
    gaps = [abs(one[f"{how}, checked"] - one["by hand"]) for one in same for how in kinds]
    found = [one[f"{how}, found"] for one in same for how in kinds]
    of_found = max((gap for gap, alone in zip(gaps, found, strict=True) if alone), default=0.0)
    lines: list[list[object]] = [
        [f"{part}: largest distance from by hand" + ("" if "checked" in part else ", checked"), f"{max(gaps):.4f}"],
        [f"{part}: largest distance of bad parties found", f"{of_found:.4f}"],
        [f"{part}: bad parties found", sum(found)],
        [f"{part}: bad parties there were", len(gaps)],
    ]
    most: list[list[object]] = [[f"{part}: most lost by counting a bad party", f"{max(lost):.4f}"]] if lost else []
    return most + lines


if __name__ == "__main__":
    main()

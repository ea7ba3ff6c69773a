"""Analytic on FedKT's data sets: by skew and seed, by bytes, under noise, and what few rows' sums give away.

Settings are chosen on validation rows (a tenth of the parties' rows, which the server keeps) of one draw; the tables
are of test rows. Rows are dealt as for FedKT's tables, by `Dirichlet(balanced=True)`, or equally (`Iid`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec.structs import replace as changed

from laconic import Analytic, Dirichlet, Federation, deal_rows, simulate
from laconic.audit.sums_attacks import rebuild_rows, tell_members
from laconic.data import Iid
from laconic.data.partition.rows import RowCut
from laconic.learn import Columns, Convolutions, Photographs, PublicRows, RandomFourier, RandomRelu, Whitened
from laconic.learn.features import AnyFeatureMap
from laconic.learn.models.least_squares import sum_up, targets_of
from laconic.privacy import Budget, GaussianSums, Pld
from laconic.values import Settings
from studies.fedkt_settings import SETTINGS
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

SEEDS = range(5)
NARROW, WIDE = 600_000, 8_900_000
SKEWS = {"Dirichlet 0.1": 0.1, "Dirichlet 0.5": 0.5, "iid": None}
WHOLE = "Fashion-MNIST, all rows"
DATA = SETTINGS | {WHOLE: replace(SETTINGS["Fashion-MNIST"], every=1)}
PHOTOGRAPHS = Photographs()

CANDIDATES: dict[tuple[str, int], Sequence[AnyFeatureMap]] = {
    ("MNIST", NARROW): [Convolutions(kernel=kernel, grid=grid) for kernel, grid in ((6, 3), (8, 3), (8, 2))],
    ("MNIST", WIDE): [Convolutions(), Convolutions(kernel=8)],
    ("Fashion-MNIST", NARROW): [
        Convolutions(),
        Convolutions(kernel=4),
        Convolutions(kernel=4, filters_from=PHOTOGRAPHS),
        Convolutions(kernel=6, grid=4, filters_from=PHOTOGRAPHS),
    ],
    ("Fashion-MNIST", WIDE): [
        Convolutions(),
        Convolutions(kernel=4, filters_from=PHOTOGRAPHS),
        Convolutions(kernel=4, grid=4, filters_from=PHOTOGRAPHS),
    ],
    ("Adult", NARROW): [
        Columns(),
        RandomRelu(),
        RandomRelu(width=128),
        RandomFourier(),
        RandomFourier(scale=2.0),
    ],
    ("cod-rna", NARROW): [
        Columns(),
        RandomRelu(),
        RandomRelu(width=128),
        RandomFourier(),
        RandomFourier(scale=0.5),
    ],
}
PRIVATE = {"photographs": Whitened(), "public rows": Whitened(by=PublicRows())}
PRIVATE_WIDTHS = (128, 256)


def main() -> None:
    """Measure what has not been measured yet, then write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/analytic_tables")
    results = chosen.out / "results.jsonl"
    try:
        run_jobs(only_on(_quick() if chosen.quick else _choices(), chosen.only), results)
        if not chosen.quick:
            run_jobs(only_on(_tables(_read(results)), chosen.only), results)
    finally:
        write_whole(chosen.out / "table.md", report(_read(results)))


def _read(results: Path) -> list[Record]:
    """Each record with what it is of and what was measured side by side."""
    return [one["key"] | one for one in read_records(results)]


def _quick() -> Iterator[Job]:
    """Adult alone, one draw."""
    yield from (_choice("Adult", NARROW, one) for one in CANDIDATES["Adult", NARROW])


def _choices() -> Iterator[Job]:
    for (name, most), maps in CANDIDATES.items():
        yield from (_choice(name, most, one) for one in maps)
    for name in ("MNIST", WHOLE):
        for source in PRIVATE:
            yield from (_private_choice(name, source, width) for width in PRIVATE_WIDTHS)


def _tables(records: list[Record]) -> Iterator[Job]:
    best = {(name, most): _best(records, name, most) for name, most in CANDIDATES}
    for (name, most), chosen in best.items():
        for seed in SEEDS:
            yield _run(name, most, chosen, "Dirichlet 0.5", seed)
    for (name, most), chosen in best.items():
        for skew in SKEWS:
            yield from (_run(name, most, chosen, skew, seed) for seed in (0, 1) if most == NARROW or seed == 0)
    yield from (_few_rows(name, rows) for name in ("MNIST", "Adult") for rows in (2, 5, 10, 16, 20, 50, 100, 200, 800))
    yield from _by_bytes()
    for epsilon, seeds in ((1.0, SEEDS), (10.0, range(1))):
        for seed in seeds:
            for name in ("MNIST", WHOLE):
                for source in PRIVATE:
                    yield _private(name, source, _best_width(records, name, source), epsilon, seed)


def _deal(name: str, skew: str, seed: int, valid: float = 0.0) -> Federation:
    setting, beta = DATA[name], SKEWS[skew]
    cut: RowCut = Iid(parties=setting.parties)
    if beta is not None:
        # Fifty parties at 0.1: some have no row at all.
        least = 10 if beta >= 0.5 or setting.parties <= 10 else 0
        cut = Dirichlet(parties=setting.parties, beta=beta, balanced=True, least=least)
    return deal_rows(setting.load(), cut, reserve=changed(setting.reserve, valid=valid), seed=seed)


def _method(chosen: AnyFeatureMap, most: int, seed: int) -> Analytic:
    seeded = changed(chosen, seed=seed) if "seed" in chosen.__struct_fields__ else chosen
    return Analytic(features=seeded, most_bytes=most, least_rows=1)


def _choice(name: str, most: int, chosen: AnyFeatureMap) -> Job:
    key = {"table": "choice", "data": name, "most": most, "map": _words(chosen), "seed": 0}
    return Job(key, _measured(name, "Dirichlet 0.5", _method(chosen, most, 0), 0, rows="valid"))


def _run(name: str, most: int, chosen: AnyFeatureMap, skew: str, seed: int) -> Job:
    key = {"table": "skew", "data": name, "most": most, "map": _words(chosen), "skew": skew, "seed": seed}
    return Job(key, _measured(name, skew, _method(chosen, most, seed), seed))


def _private_choice(name: str, source: str, width: int) -> Job:
    key = {"table": "private choice", "data": name, "source": source, "width": width, "epsilon": 1.0, "seed": 0}
    return Job(key, _measured(name, "Dirichlet 0.5", _noised(name, source, width, 1.0, 0), 0, rows="valid"))


def _private(name: str, source: str, width: int, epsilon: float, seed: int) -> Job:
    key = {"table": "private", "data": name, "source": source, "width": width, "epsilon": epsilon, "seed": seed}
    return Job(key, _measured(name, "Dirichlet 0.5", _noised(name, source, width, epsilon, seed), seed))


def _noised(name: str, source: str, width: int, epsilon: float, seed: int) -> Analytic:
    inner = PRIVATE[source].of
    chosen = changed(PRIVATE[source], width=width, of=changed(inner, seed=seed))
    budget = Budget(epsilon=epsilon, delta=1e-5, people="disjoint", accountant=Pld())
    parties = tuple(f"party{number + 1}" for number in range(DATA[name].parties))
    method = Analytic(features=chosen, privacy=GaussianSums(seeded=True))
    return method.within(budget, 0, "server", parties)


def _by_bytes() -> Iterator[Job]:
    """The default map at several sizes; test rows of one draw."""
    for name, sizes in {
        "MNIST": (40_000, 150_000, NARROW, 2_300_000, WIDE),
        "Fashion-MNIST": (40_000, 150_000, NARROW, 2_300_000, WIDE),
        "Adult": (40_000, 150_000, NARROW, 2_300_000),
        "cod-rna": (10_000, 40_000, 150_000, NARROW, 2_300_000),
    }.items():
        for most in sizes:
            key = {"table": "bytes", "data": name, "most": most, "seed": 0}
            yield Job(key, _measured(name, "Dirichlet 0.5", Analytic(most_bytes=most, least_rows=1), 0))


def _measured(name: str, skew: str, method: Analytic, seed: int, rows: str = "test") -> Callable[[], Record]:
    def measure() -> Record:
        federation = _deal(name, skew, seed, valid=0.1 if rows == "valid" else 0.0)
        result = simulate(method, federation, seed=seed, rows=rows)
        return {
            "accuracy": result.metrics["accuracy"],
            "log_loss": result.metrics["log_loss"],
            "bytes": result.fit.bytes_up / len(federation.peers),
            "rounds": result.fit.rounds,
        }

    return measure


def _few_rows(name: str, rows: int) -> Job:
    """Some rows, summed as they are; rebuilt from the sums, and told from as many others; for three draws of rows."""

    def measure() -> Record:
        dataset = DATA[name].load()
        rebuilt, told = [], []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            at = rng.choice(dataset.rows, 2 * rows, replace=False)
            x = dataset.raw[at].reshape(2 * rows, -1).astype(np.float64) / (255 if name == "MNIST" else 1)
            sums = sum_up(x[:rows], targets_of(dataset.task, dataset.y[at[:rows]]), exact=True)
            rebuilt.append(rebuild_rows(sums, x[:rows], rng))
            told.append(tell_members(sums, x[:rows], x[rows:]))
        return {
            "share": float(np.mean([one.success for one in rebuilt])),
            "chance": float(np.mean([one.baseline for one in rebuilt])),
            "told": float(np.mean([one.success for one in told])),
        }

    return Job({"table": "few rows", "data": name, "rows": rows}, measure)


def _words(chosen: AnyFeatureMap) -> str:
    """A map by what sets it apart from its default."""
    usual = dict(zip(chosen.__struct_fields__, chosen.__struct_defaults__, strict=True))
    names = [name for name in chosen.__struct_fields__ if getattr(chosen, name) != usual[name]]
    values = [getattr(chosen, name) for name in names]
    shown = [type(value).__name__ if isinstance(value, Settings) else value for value in values]
    return f"{type(chosen).__name__}({', '.join(f'{name}={value}' for name, value in zip(names, shown, strict=True))})"


def _best(records: list[Record], name: str, most: int) -> AnyFeatureMap:
    """The candidate with the best accuracy on validation rows; the first if none was tried."""
    scores = {one["map"]: one["accuracy"] for one in _of(records, table="choice", data=name, most=most)}
    return max(CANDIDATES[name, most], key=lambda chosen: scores.get(_words(chosen), 0.0))


def _best_width(records: list[Record], name: str, source: str) -> int:
    tried = {one["width"]: one["accuracy"] for one in _of(records, table="private choice", data=name, source=source)}
    return max(PRIVATE_WIDTHS, key=lambda width: tried.get(width, 0.0))


def _of(records: Sequence[Record], **wanted: object) -> list[Record]:
    return [one for one in records if all(one.get(key) == value for key, value in wanted.items())]


def report(records: list[Record]) -> str:
    """All tables, as Markdown."""
    return "\n".join((_skew_table(records), _byte_table(records), _private_table(records), _rest(records)))


def _percent(found: Sequence[Record], key: str = "accuracy") -> str:
    return f"{mean_spread([100 * one[key] for one in found], 1)} ({len(found)})" if found else ""


def _megabytes(found: Sequence[Record]) -> str:
    return f"{np.mean([one['bytes'] for one in found]) / 1e6:.3f}" if found else ""


def _skew_table(records: list[Record]) -> str:
    rows = []
    for name, most in CANDIDATES:
        every = _of(records, table="skew", data=name, most=most)
        for words in dict.fromkeys(one["map"] for one in every):
            mine = _of(every, map=words)
            cells = [_percent(_of(mine, skew=skew)) for skew in SKEWS]
            rows.append([name, f"{most / 1e6:g}", words, *cells, f"{_apart(mine):.2f}", _megabytes(mine)])
    head = ["data", "most MB", "map, chosen on validation rows", *SKEWS, "most apart", "MB a party"]
    return (
        "## Test accuracy in percent, mean and spread over draws (how many), by how classes are dealt\n\n"
        "`most apart` is the greatest difference between two skews of one draw, in points.\n\n" + markdown(head, rows)
    )


def _apart(found: Sequence[Record]) -> float:
    """The greatest difference between skews of one draw, in points."""
    by_seed = [[100 * one["accuracy"] for one in found if one["seed"] == seed] for seed in SEEDS]
    return max((max(one) - min(one) for one in by_seed if len(one) > 1), default=0.0)


def _byte_table(records: list[Record]) -> str:
    rows = [
        [one["data"], f"{one['bytes'] / 1e6:.3f}", f"{100 * one['accuracy']:.1f}", f"{one['log_loss']:.3f}"]
        for one in _of(records, table="bytes")
    ]
    head = ["data", "MB a party", "accuracy", "log loss"]
    return "## Score against bytes: the default map, one draw\n\n" + markdown(head, rows)


def _private_table(records: list[Record]) -> str:
    rows = []
    for name in ("MNIST", WHOLE):
        for source in PRIVATE:
            for epsilon in (1.0, 10.0):
                found = _of(records, table="private", data=name, source=source, epsilon=epsilon)
                if found:
                    cells = [f"{epsilon:g}", _percent(found), str(found[0]["width"]), _megabytes(found)]
                    rows.append([name, source, *cells])
    head = ["data", "whitened by", "epsilon", "accuracy", "features", "MB a party"]
    return (
        "## Noise on every party's sums, delta 1e-5, one row of ten parties\n\nTest accuracy in percent (draws).\n\n"
        + markdown(head, rows)
    )


def _rest(records: list[Record]) -> str:
    few = [
        [one["data"], one["rows"], f"{100 * one['share']:.0f}", f"{100 * one['chance']:.0f}", f"{one['told']:.2f}"]
        for one in _of(records, table="few rows")
    ]
    tried = [
        [one["data"], f"{one['most'] / 1e6:g}", one["map"], f"{100 * one['accuracy']:.1f}", _megabytes([one])]
        for one in _of(records, table="choice")
    ]
    noised = [
        [one["data"], one["source"], one["width"], f"{100 * one['accuracy']:.1f}"]
        for one in _of(records, table="private choice")
    ]
    return (
        "## Rows rebuilt from the sums of few rows\n\n"
        "Percent of rows found to a correlation above 0.9, beside what the mean row gives, and how well rows at hand "
        "are told from others (AUC). Sums of the columns as they are.\n\n"
        + markdown(["data", "rows", "rebuilt", "by the mean row", "told apart"], few)
        + "\n## Candidates on validation rows, one draw\n\n"
        + markdown(["data", "most MB", "map", "accuracy", "MB a party"], tried)
        + "\n## Candidates under noise on validation rows, epsilon 1, one draw\n\n"
        + markdown(["data", "whitened by", "features", "accuracy"], noised)
    )


if __name__ == "__main__":
    main()

"""Analytic on FedKT's data sets and CIFAR-10: by skew and seed, by bytes, under noise, and what few rows give away.

Settings are chosen on validation rows (a tenth of the parties' rows, which the server keeps) of one draw; the tables
are of test rows. Rows are dealt as for FedKT's tables, by `Dirichlet(balanced=True)`, or equally (`Iid`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from msgspec.structs import replace as changed

from laconic import Analytic, Dirichlet, Federation, FedPft, Method, deal_rows, simulate
from laconic.audit.upload_attacks import rebuild_rows, tell_members
from laconic.data import HalfTest, Iid, RandomHoldout
from laconic.data.partition.rows import RowCut
from laconic.learn import Columns, Convolutions, Drawn, Photographs, PublicRows, RandomFourier, RandomRelu, Whitened
from laconic.learn.features import AnyFeatureMap
from laconic.learn.models.least_squares import sum_up, targets_of
from laconic.privacy import Budget, GaussianMoments, GaussianSums, Pld
from laconic.values import Settings
from studies.fedkt_settings import SETTINGS
from studies.harness import (
    Job,
    Record,
    arguments,
    markdown,
    mean_spread,
    only_on,
    read_records,
    run_jobs,
    some_rows,
    write_whole,
)
from studies.remembered_features import remembered

T = TypeVar("T", Analytic, FedPft)
SEEDS = range(5)
NARROW, WIDE = 600_000, 8_900_000
SKEWS = {"Dirichlet 0.1": 0.1, "Dirichlet 0.5": 0.5, "iid": None}
WHOLE = "Fashion-MNIST, all rows"
CIFAR = "CIFAR-10"
DATA = SETTINGS | {
    WHOLE: replace(SETTINGS["Fashion-MNIST"], every=1),
    CIFAR: replace(SETTINGS["MNIST"], data="cifar10"),
}
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
    (CIFAR, WIDE): [Convolutions(filters_from=source) for source in (Drawn(), PHOTOGRAPHS)],
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
PFT = {
    "10 diagonal": FedPft(),
    "1 full": FedPft(components=1, covariance="full"),
    "1 diagonal": FedPft(components=1),
}
PFT_DATA = ("Fashion-MNIST", "Adult", "cod-rna", "MNIST")
WIDTH_SHARES = (0.06, 0.12, 0.25, 0.5, 1.0)


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
    for name in PFT_DATA:
        yield from (_pft(name, form, 0, rows="valid") for form in PFT)


def _tables(records: list[Record]) -> Iterator[Job]:
    best = {(name, most): _best(records, name, most) for name, most in CANDIDATES}
    for (name, most), chosen in best.items():
        for seed in SEEDS:
            yield from (_run(name, most, chosen, skew, seed) for skew in SKEWS)
    yield from (_few_rows(name, rows) for name in ("MNIST", "Adult") for rows in (2, 5, 10, 16, 20, 50, 100, 200, 800))
    yield from _by_bytes()
    yield from _by_width()
    for name in PFT_DATA:
        form = _best_form(records, name)
        yield from (_pft(name, form, seed) for seed in SEEDS)
    for seed in SEEDS:
        yield from _private_runs(records, 1.0, seed)
        yield _noised_pft("MNIST", 1.0, seed)
    yield from _private_runs(records, 10.0, 0)


def _private_runs(records: list[Record], epsilon: float, seed: int) -> Iterator[Job]:
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
    return Analytic(features=remembered(seeded), most_bytes=most, least_rows=1)


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
    inner = changed(PRIVATE[source].of, seed=seed)
    chosen = changed(PRIVATE[source], width=width, of=remembered(inner))
    return _within(Analytic(features=chosen, privacy=GaussianSums(seeded=True)), name, epsilon)


def _within(method: T, name: str, epsilon: float) -> T:
    """The same with the noise that keeps an epsilon for one row."""
    budget = Budget(epsilon=epsilon, delta=1e-5, people="disjoint", accountant=Pld())
    parties = tuple(f"party{number + 1}" for number in range(DATA[name].parties))
    return method.within(budget, 0, "server", parties)


def _pft(name: str, form: str, seed: int, rows: str = "test") -> Job:
    """FedPFT without noise: its mixtures' form is chosen on validation rows, as Analytic's map is."""
    key = {"table": "fedpft" if rows == "test" else "fedpft choice", "data": name, "form": form, "seed": seed}
    images = DATA[name].reserve == HalfTest()
    method = changed(PFT[form], features=changed(Whitened(width=128), of=remembered(Whitened().of)))
    return Job(key, _measured(name, "Dirichlet 0.5", method if images else PFT[form], seed, rows=rows))


def _noised_pft(name: str, epsilon: float, seed: int) -> Job:
    """FedPFT with noise, on the features that Analytic has with noise."""
    inner = remembered(changed(Whitened().of, seed=seed))
    method = FedPft(features=changed(Whitened(width=128), of=inner), privacy=GaussianMoments(seeded=True))
    key = {"table": "private fedpft", "data": name, "epsilon": epsilon, "seed": seed}
    return Job(key, _measured(name, "Dirichlet 0.5", _within(method, name, epsilon), seed))


def _best_form(records: list[Record], name: str) -> str:
    tried = {one["form"]: one["accuracy"] for one in _of(records, table="fedpft choice", data=name)}
    return max(PFT, key=lambda form: tried.get(form, 0.0))


def _by_bytes() -> Iterator[Job]:
    """The default map at several sizes; test rows of one draw."""
    for name, sizes in {
        "MNIST": (40_000, 150_000, NARROW, 2_300_000, WIDE),
        "Fashion-MNIST": (40_000, 150_000, NARROW, 2_300_000, WIDE),
        CIFAR: (40_000, 150_000, NARROW),
        "Adult": (40_000, 150_000, NARROW, 2_300_000),
        "cod-rna": (10_000, 40_000, 150_000, NARROW, 2_300_000),
    }.items():
        for most in sizes:
            key = {"table": "bytes", "data": name, "most": most, "seed": 0}
            yield Job(key, _measured(name, "Dirichlet 0.5", Analytic(most_bytes=most, least_rows=1), 0))


def _by_width() -> Iterator[Job]:
    """Few rows of cod-rna, and features as a share of them: other rows of draws that no other table uses."""
    for rows in (200, 800, 3200):
        for share in WIDTH_SHARES:
            key = {"table": "width", "data": "cod-rna", "rows": rows, "share": share}
            yield Job(key, partial(_few_features, rows, share))


def _few_features(rows: int, share: float) -> Record:
    found = []
    for seed in range(10, 15):
        data = some_rows(DATA["cod-rna"].load(), rows + 4400, seed)
        reserve = RandomHoldout(test=4000 / (rows + 4400), public=400 / (rows + 4400))
        method = Analytic(features=RandomFourier(width=round(share * rows), seed=seed), least_rows=1)
        federation = deal_rows(data, Iid(parties=5), reserve=reserve, seed=seed)
        found.append(simulate(method, federation, seed=seed).metrics)
    return {name: float(np.mean([one[name] for one in found])) for name in ("accuracy", "log_loss")}


def _measured(name: str, skew: str, method: Method, seed: int, rows: str = "test") -> Callable[[], Record]:
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
    tables = (_goal_table, _skew_table, _byte_table, _width_table, _private_table, _pft_table, _rest)
    return "\n".join(table(records) for table in tables)


GOALS: list[tuple[str, dict[str, object], float]] = [
    ("MNIST, 0.6 MB per party", {"table": "skew", "data": "MNIST", "most": NARROW}, 97.2),
    ("MNIST, 9 MB per party", {"table": "skew", "data": "MNIST", "most": WIDE}, 98.2),
    ("Fashion-MNIST, every sixth row, 0.6 MB", {"table": "skew", "data": "Fashion-MNIST", "most": NARROW}, 85.8),
    ("Fashion-MNIST, every sixth row, 9 MB", {"table": "skew", "data": "Fashion-MNIST", "most": WIDE}, 87.8),
    ("Adult", {"table": "skew", "data": "Adult", "most": NARROW}, 84.3),
    ("cod-rna", {"table": "skew", "data": "cod-rna", "most": NARROW}, 94.5),
    ("CIFAR-10, 50,000 images, 9 MB", {"table": "skew", "data": CIFAR, "most": WIDE}, 70.0),
    ("MNIST, epsilon 1", {"table": "private", "data": "MNIST", "epsilon": 1.0, "source": "photographs"}, 92.0),
    (f"{WHOLE}, epsilon 1", {"table": "private", "data": WHOLE, "epsilon": 1.0, "source": "photographs"}, 77.0),
]  # fmt: skip
APART = 0.3
"""The most that skews may be apart, in points."""


def _goal_table(records: list[Record]) -> str:
    rows = []
    for words, wanted, least in GOALS:
        found = _of(records, **wanted)
        if found and wanted["table"] == "skew":
            chosen = _words(_best(records, str(wanted["data"]), int(str(wanted["most"]))))
            found = _of(found, map=chosen)
        if not found:
            rows.append([words, f"{least:g}", "", "0", "", "not run"])
            continue
        mean, apart = 100 * float(np.mean([one["accuracy"] for one in found])), _apart(found)
        draws = len({one["seed"] for one in found})
        met = "met" if mean >= least and (wanted["table"] == "private" or apart < APART) else "missed"
        skew = "" if wanted["table"] == "private" else f"{apart:.2f}"
        rows.append([words, f"{least:g}", f"{mean:.1f}", str(draws), skew, met])
    head = ["goal", "at least", "mean accuracy", "draws", "skews apart", "met or missed"]
    return (
        "## What was asked for\n\n"
        f"Test accuracy in percent over all draws and skews; skews of one draw less than {APART} points apart. With "
        "noise: ten parties, delta 1e-5, one row.\n\n" + markdown(head, rows)
    )


def _width_table(records: list[Record]) -> str:
    rows = []
    for count in (200, 800, 3200):
        found = {one["share"]: one for one in _of(records, table="width", rows=count)}
        rows.append([count, *(f"{found[one]['log_loss']:.3f}" if one in found else "" for one in WIDTH_SHARES)])
    head = ["rows of all parties", *(f"{one:g} of them" for one in WIDTH_SHARES)]
    return (
        "## Log loss by how many features there are, as a share of the rows\n\n"
        "cod-rna, `RandomFourier`, other rows, mean of five draws.\n\n" + markdown(head, rows)
    )


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
    head = ["data", "most MB", "map, chosen on validation rows", *SKEWS, "most apart", "MB per party"]
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
    head = ["data", "MB per party", "accuracy", "log loss"]
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
    head = ["data", "whitened by", "epsilon", "accuracy", "features", "MB per party"]
    return (
        "## Noise on every party's sums, delta 1e-5, one row of ten parties\n\nTest accuracy in percent (draws).\n\n"
        + markdown(head, rows)
    )


def _pft_table(records: list[Record]) -> str:
    rows = []
    for name in PFT_DATA:
        ours, form = _of(records, table="skew", data=name, most=NARROW, skew="Dirichlet 0.5"), _best_form(records, name)
        found = _of(records, table="fedpft", data=name, form=form)
        if found:
            rows.append([name, form, _percent(found), _megabytes(found), _percent(ours), _megabytes(ours)])
    for name in ("MNIST",):
        found = _of(records, table="private fedpft", data=name)
        ours = _of(records, table="private", data=name, source="photographs", epsilon=1.0)
        if found:
            cells = [_percent(found), _megabytes(found), _percent(ours), _megabytes(ours)]
            rows.append([f"{name}, epsilon 1", "1 full", *cells])
    head = ["data", "Gaussians per class, spread", "FedPFT", "MB per party", "Analytic", "its MB"]
    return (
        "## FedPFT beside Analytic, Dirichlet 0.5\n\n"
        "Test accuracy in percent (draws); the form of mixtures is chosen on validation rows of one draw.\n\n"
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
        + markdown(["data", "rows", "rebuilt", "by the mean row", "distinguished"], few)
        + "\n## Candidates on validation rows, one draw\n\n"
        + markdown(["data", "most MB", "map", "accuracy", "MB per party"], tried)
        + "\n## Candidates under noise on validation rows, epsilon 1, one draw\n\n"
        + markdown(["data", "whitened by", "features", "accuracy"], noised)
    )


if __name__ == "__main__":
    main()

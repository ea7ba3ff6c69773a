"""FedOnce-L1: what differential privacy costs, by accountant and by guest, at equal epsilon.

The paper's table 6 (four parties) compares Priv-Baseline with FedOnce-L1; the two differ in the accountant alone. Its
guests' proof does not hold (see docs/privacy.md), so this study adds guests whose proof does, at the same epsilon under
the tightest accountant, and puts beside every score how well attacks did. `--quick` takes a small
data set that needs no files, at epsilon 2.

Usage: python -m studies.fedonce_privacy [--quick] [--out DIR]
"""

from collections.abc import Iterator
from math import inf
from pathlib import Path

import numpy as np

from laconic import train
from laconic.audit import attack_columns, losses_of, threshold_attack
from laconic.deploy import Recorder
from laconic.privacy import AnyAccountant, Event, Moments, Pld, Rdp, SimpleDivision
from studies.fedonce_privacy_arms import (
    ACCOUNTED,
    DELTA,
    PAPER,
    PARTIES,
    PUBLISHED_GUESTS,
    SOUND,
    federation_of,
    method_of,
)
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

NAMES = ("phishing", "credit_default", "covtype", "mnist")
EPSILONS = (2.0, 8.0, 4.0, 6.0, inf)
DEFAULT = "PublicProjection"


def main() -> None:
    """Run what is not yet in the results, and write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/fedonce_privacy")
    jobs = _quick_jobs() if chosen.quick else _jobs()
    run_jobs(only_on(jobs, chosen.only), chosen.out / "results.jsonl")
    write_whole(chosen.out / "table.md", _tables(read_records(chosen.out / "results.jsonl")))
    write_whole(chosen.out / "figure10.md", _figure_10())
    _plot_figure_10(chosen.out / "figure10.svg")


def _quick_jobs() -> Iterator[Job]:
    for arm in (*SOUND, *ACCOUNTED, PUBLISHED_GUESTS):
        yield _job("breast_cancer", arm, 2.0, 0, 0)


def _jobs() -> Iterator[Job]:
    """What the default is chosen by first, then seed by seed, then each party as host."""
    for seed in (0, 1, 2):
        yield from (_job(name, arm, 2.0, 0, seed) for name in NAMES for arm in SOUND if seed == 0 or arm != "Codebook")
        for epsilon in EPSILONS:
            # Without noise the accountants do not differ.
            accounted = ("L1 as published",) if epsilon == inf else tuple(ACCOUNTED)
            yield from (_job(name, arm, epsilon, 0, seed) for name in NAMES for arm in (DEFAULT, *accounted))
        yield from (_job(name, PUBLISHED_GUESTS, 2.0, 0, seed) for name in NAMES)
    for host in (1, 2, 3):
        yield from (_job(name, DEFAULT, epsilon, host, 0) for name in NAMES for epsilon in (2.0, 8.0))
        yield from (_job("phishing", arm, 2.0, host, 0) for arm in ("DpPca", *ACCOUNTED))


def _job(name: str, arm: str, epsilon: float, host: int, seed: int) -> Job:
    key = {"data": name, "arm": arm, "epsilon": "inf" if epsilon == inf else epsilon, "host": host, "seed": seed}
    return Job(key, lambda: _measure(name, arm, epsilon, host, seed))


def _measure(name: str, arm: str, epsilon: float, host: int, seed: int) -> Record:
    federation = federation_of(name, host, seed)
    method = method_of(name, arm, epsilon, federation)
    judge = federation.tables[federation.hub]
    rng = np.random.default_rng(seed)
    recorder = Recorder()
    fitted = train(method, federation, seed=seed, runtime=recorder)
    members, outsiders = losses_of(fitted, "train"), losses_of(fitted, "test")
    attacks = attack_columns(fitted, recorder, 100, rng)
    values = fitted.score("test")
    columns = [one.success for one in attacks if "LinearAttacker" in one.attack]
    return {
        "accuracy": round(values["accuracy"], 4),
        "auc": round(values["auc"], 4) if "auc" in values else None,
        "membership": round(threshold_attack(members, outsiders).success, 4),
        "columns": round(float(np.mean(columns)), 4),
        "sigma_host": _sigma(method.trainer),
        "sigma_guests": _sigma(getattr(method.encoder, "trainer", method.encoder)),
        "rows": len(judge.cut("train")),
    }


def _sigma(settings: object) -> float | None:
    found = getattr(settings, "sigma", None)
    return None if found is None else round(found, 4)


def _tables(records: list[Record]) -> str:
    parts = [
        "# FedOnce-L1 at equal epsilon\n",
        __doc__ or "",
        f"\nFour parties, delta {DELTA:g}; the first is the host; mean ± standard deviation over seeds (n).\n",
    ]
    for name in dict.fromkeys(record["key"]["data"] for record in records):
        own = [record for record in records if record["key"]["data"] == name and record["key"]["host"] == 0]
        parts += [f"\n## {name} ({own[0]['rows']:,} training rows)\n\n", markdown(_HEADER, _lines(name, own))]
    first = [record for record in records if record["key"]["seed"] == 0]
    parts += ["\n## Each party as host, accuracy %, seed 0\n\n", markdown(_HOSTS, _by_host(first))]
    return "".join(parts)


_HOSTS = ("data", "arm", "epsilon", "host 1", "host 2", "host 3", "host 4", "paper")


def _by_host(records: list[Record]) -> Iterator[tuple[object, ...]]:
    """Where all four were host."""
    scores: dict[tuple[str, str, float], dict[int, str]] = {}
    for record in records:
        key = record["key"]
        found = scores.setdefault((key["data"], key["arm"], float(key["epsilon"])), {})
        found[key["host"]] = f"{100 * record['accuracy']:.1f}"
    for (name, arm, epsilon), found in sorted(scores.items()):
        if len(found) == PARTIES:
            paper = PAPER.get((name, arm), {}).get(epsilon, "")
            yield name, arm, f"{epsilon:g}", *(found[host] for host in range(PARTIES)), paper


_HEADER = (
    "arm",
    "epsilon",
    "accuracy %",
    "AUC",
    "membership AUC",
    "columns R2",
    "sigma host",
    "sigma guests",
    "n",
    "paper",
)


def _lines(name: str, records: list[Record]) -> Iterator[tuple[object, ...]]:
    groups: dict[tuple[str, float], list[Record]] = {}
    for record in records:
        groups.setdefault((record["key"]["arm"], float(record["key"]["epsilon"])), []).append(record)
    for (arm, epsilon), same in sorted(groups.items()):
        scores = mean_spread([100 * record["accuracy"] for record in same], 1)
        rest = [_mean(same, key) for key in ("auc", "membership", "columns", "sigma_host", "sigma_guests")]
        yield arm, f"{epsilon:g}", scores, *rest, len(same), PAPER.get((name, arm), {}).get(epsilon, "")


def _mean(records: list[Record], key: str) -> str:
    values = [record[key] for record in records if record[key] is not None]
    return f"{np.mean(values):.3f}" if values else "-"


def _figure_10() -> str:
    """Epsilon over parties: n = 60,000, batches of 128, 50 epochs, sigma 1, delta 1e-5."""
    counts = (1, 2, 4, 10, 30, 100)
    rows = [(type(one).__name__, *(f"{_epsilon(one, count):.4g}" for count in counts)) for one in _ACCOUNTANTS]
    return markdown(("accountant", *(f"k = {count}" for count in counts)), rows)


_ACCOUNTANTS: tuple[AnyAccountant, ...] = (SimpleDivision(), Moments(), Rdp(), Pld())


def _epsilon(accountant: AnyAccountant, parties: int) -> float:
    training = {Event("gaussian", 1.0, 128 / 60_000): 23_437}
    return accountant.epsilon({str(place): training for place in range(parties)}, DELTA)


def _plot_figure_10(path: Path) -> None:
    """The same as a plot, where matplotlib is installed (`pip install 'laconic-fl[plots]'`)."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: figure 10 is written as a table only")
        return
    counts = (1, 2, 4, 7, 10, 20, 40, 70, 100)
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for one in _ACCOUNTANTS:
        axes.plot(counts, [_epsilon(one, count) for count in counts], marker=".", label=type(one).__name__)
    axes.set(xscale="log", yscale="log", xlabel="parties", ylabel="epsilon at delta 1e-5")
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()

"""What one exchange is worth on eleven tables: FedOnce as it comes, beside the label holder at home and all pooled.

Every arm has the same rows, the same metric, the same splits by seed and the same time allowance for choosing its model
(`Best`), by cross-validation on training rows; test rows choose nothing. How columns are parted stands in `TABLES`; the
files of three outside projects are taken as they are. Tables of more rows are drawn down to `MOST_ROWS` (covtype:
60,000), so that a seed of all of them takes minutes. Further tables: those on which nothing of the default was tried;
the same with up to `MORE_ROWS` rows; what is left of the gain when little of the columns may be rebuilt; and few shared
rows with all the hub's labels.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import sqrt

import numpy as np

from laconic import Centralised, Equal, Federation, FedOnce, Method, Result, Solo, deal, from_frames, load, simulate
from laconic.audit import rebuild_columns
from laconic.data import Groups
from laconic.data.datasets import data_file
from laconic.data.partition.columns import Cut
from laconic.deploy import code_digest
from laconic.deploy.execute import matched
from laconic.deploy.result import name_of
from laconic.learn import Best, Pca
from laconic.tables import Score
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

SEEDS = range(5)
MOST_ROWS, MORE_ROWS = 6_000, 20_000
ARMS: dict[str, Callable[[Best | None], Method]] = {
    "home": lambda model: Solo(model=model),
    "FedOnce": lambda model: FedOnce(head=model),
    "pooled": lambda model: Centralised(model=model),
}
"""The arms, each as it comes if no model is given: with `Best()`."""
ASKED, MOST_BYTES = 0.8, 64
WIDTHS, MOST_REBUILT = (16, 12, 8, 6, 4, 3, 2, 1), 0.5
SECTIONS = ("all shared", "unseen", "few shared", "little rebuilt", "more rows")


@dataclass(frozen=True)
class PublicTable:
    """A public data set, how its columns are parted, and how many of its rows are used; the first party has labels.

    `seconds` is what every arm is allowed for choosing its model.
    """

    name: str
    cut: Cut
    rows: int = MOST_ROWS
    seconds: float = 60.0

    def federation(self, seed: int) -> Federation:
        """The parties with rows drawn and split by the seed."""
        return deal(some_rows(load(self.name), self.rows, seed), self.cut, seed=seed)

    @property
    def split(self) -> str:
        """How columns are parted, in words."""
        if isinstance(self.cut, Equal):
            return f"{self.cut.parties} parties, equal shares in the set's order"
        return f"{', '.join(load(self.name).groups)}: its natural groups"


@dataclass(frozen=True)
class OutsideFiles:
    """Files of another project, one per party as they are; the first has the label."""

    files: tuple[str, ...]
    id: str
    label: str
    rows: int = MOST_ROWS
    seconds: float = 60.0

    def federation(self, seed: int) -> Federation:
        """The parties' frames, with rows drawn by the seed where there are more; they are matched by the run."""
        import pandas as pd

        frames = {name.partition(".")[0]: pd.read_csv(data_file(f"judges/{name}")) for name in self.files}
        ids = next(iter(frames.values()))[self.id].to_numpy()
        kept = np.random.default_rng(seed).permutation(ids)[: self.rows]
        some = {name: frame[frame[self.id].isin(kept)] for name, frame in frames.items()}
        return from_frames(some, id=self.id, label=self.label)

    @property
    def split(self) -> str:
        """How columns are parted, in words."""
        return f"{len(self.files)} parties, files as they are"


TABLES: dict[str, PublicTable | OutsideFiles] = {
    "phishing": PublicTable("phishing", Equal(parties=4)),
    "credit_default": PublicTable("credit_default", Equal(parties=3)),
    "superconduct": PublicTable("superconduct", Equal(parties=4)),
    "california_housing": PublicTable("california_housing", Equal(parties=3)),
    "adult": PublicTable("adult", Groups()),
    "nycflights13": PublicTable("nycflights13", Groups()),
    # All 520 columns in one place take longer to try: every arm is allowed more here.
    "ujiindoorloc": PublicTable("ujiindoorloc", Equal(parties=4), seconds=300.0),
    "movie_lens": OutsideFiles(("movie_lens_hetero_guest.csv.gz", "movie_lens_hetero_host.csv.gz"), "id", "label"),
    "motor": OutsideFiles(
        ("motor_hetero_guest.csv", "motor_hetero_host_1.csv", "motor_hetero_host_2.csv"), "idx", "motor_speed"
    ),
    "vehicle": OutsideFiles(("vehicle_scale_hetero_guest.csv", "vehicle_scale_hetero_host.csv"), "id", "y"),
    "covtype": PublicTable("covtype", Groups(), rows=60_000),
}

UNSEEN: dict[str, PublicTable | OutsideFiles] = {
    "dvisits": OutsideFiles(("dvisits_hetero_guest.csv", "dvisits_hetero_host.csv"), "id", "doctorco"),
    "codrna": PublicTable("codrna", Equal(parties=3)),
    "breast_cancer": PublicTable("breast_cancer", Groups()),
    "digits": PublicTable("digits", Groups()),
    "diabetes": PublicTable("diabetes", Groups()),
}
"""Tables on which nothing of the default was tried before it was settled."""

LAST_TEN = (*(f"BILL_AMT{month}" for month in range(3, 7)), *(f"PAY_AMT{month}" for month in range(1, 7)))
FEW = {
    "adult": PublicTable("adult", Groups()),
    "credit_default": PublicTable("credit_default", Equal(parties=2)),
}
"""Tables of which few rows are shared; of credit_default the bank holds the last ten columns."""

SHARED = (250, 1_000)


def main() -> None:
    """Run what has not been run yet, one seed of everything first, and write the tables, also when stopped."""
    chosen = arguments(__doc__ or "", "studies/results/one_exchange", renews=True, parts=SECTIONS)
    results = chosen.out / "results.jsonl"
    try:
        jobs = only_on(_quick_jobs() if chosen.quick else _jobs(), chosen.only, chosen.part)
        run_jobs(jobs, results, chosen.renew)
    finally:
        write_whole(chosen.out / "table.md", report(read_records(results)))


def _jobs() -> Iterator[Job]:
    for seed in SEEDS:
        for name, table in TABLES.items():
            yield from _of_table("all shared", name, table, seed)
        for name, table in UNSEEN.items():
            yield from _of_table("unseen", name, table, seed)
        for name in FEW:
            for shared in SHARED:
                yield from _of_few(name, shared, seed)
    for seed in SEEDS:
        for name, table in TABLES.items():
            yield _little_rebuilt(name, table, seed)
    for seed in SEEDS:
        for name, table in _larger().items():
            yield from _of_table("more rows", name, table, seed)


def _larger() -> dict[str, PublicTable | OutsideFiles]:
    """The tables of which not all rows are used, but for ujiindoorloc, whose pooled columns take too long."""
    small = ("ujiindoorloc", "motor", "vehicle", "covtype")
    return {name: replace(table, rows=MORE_ROWS) for name, table in TABLES.items() if name not in small}


def _quick_jobs() -> Iterator[Job]:
    quick = replace(TABLES["vehicle"], seconds=2.0)
    yield from _of_table("all shared", "vehicle", quick, 0)
    yield _little_rebuilt("vehicle", quick, 0)
    yield from _of_few("credit_default", 250, 0, rows=2_000, seconds=2.0)


def _of_table(section: str, name: str, table: PublicTable | OutsideFiles, seed: int) -> Iterator[Job]:
    dealt = cache(table.federation)  # All arms have the same rows; they are read when the first is run.
    for arm in ARMS:
        key = {"table": section, "data": name, "rows": table.rows, "seed": seed, "arm": arm}
        longer = {} if table.seconds == Best().seconds else {"allowed": table.seconds}
        yield _job(key | longer, dealt, table.seconds)


def _of_few(name: str, shared: int, seed: int, rows: int = MOST_ROWS, seconds: float = 60.0) -> Iterator[Job]:
    dealt = cache(lambda seed: few_shared(name, shared, seed, rows))
    for arm in ("home", "FedOnce"):
        key = {"table": "few shared", "data": name, "rows": rows, "shared": shared, "seed": seed, "arm": arm}
        yield _job(key, dealt, seconds)


def _job(key: Record, dealt: Callable[[int], Federation], seconds: float) -> Job:
    method, seed = ARMS[key["arm"]](None if seconds == Best().seconds else Best(seconds=seconds)), key["seed"]

    def measure() -> Record:
        allowed = {"trials": 1, "seconds_of_choice": seconds}
        return _record(simulate(method, dealt(seed), seed=seed)) | {"allowance": allowed}

    return Job(key, measure, code_digest(method))


def _little_rebuilt(name: str, table: PublicTable | OutsideFiles, seed: int) -> Job:
    """FedOnce with as many components as let no more than half of the columns' variance be rebuilt, or none."""
    key = {"table": "little rebuilt", "data": name, "rows": table.rows, "seed": seed, "arm": "FedOnce"}

    def measure() -> Record:
        federation = table.federation(seed)
        together = federation if federation.aligned else matched(FedOnce(), federation, seed=seed)
        dim, rebuilt = widest(together, seed)
        found = {"dim": dim, "rebuilt": rebuilt, "allowance": {"trials": 1, "seconds_of_choice": table.seconds}}
        if dim == 0:
            return found
        method = FedOnce(encoder=Pca(dim=dim), head=Best(seconds=table.seconds))
        return _record(simulate(method, federation, seed=seed)) | found

    return Job(key, measure, code_digest(FedOnce(encoder=Pca(dim=1), head=Best())))


def widest(federation: Federation, seed: int) -> tuple[int, float]:
    """The most components, 16 to 1, of which the mean R2 of rebuilt columns is at most `MOST_REBUILT`, and that R2.

    0 if one is too many. Measured on validation rows, a hundred of which an attacker knows; no label is looked at.
    """
    rebuilt = 1.0
    for dim in WIDTHS:
        found = []
        for guest in federation.peers:
            table, rng = federation.tables[guest], np.random.default_rng([seed, dim])
            encoder, x = Pca(dim=dim), table.part("valid")[0]
            sent = encoder.encode(encoder.fit(table.part("train")[0], rng), x)
            found.append(float(rebuild_columns(sent, x, min(100, len(x) // 2), rng).mean()))
        rebuilt = statistics.fmean(found)
        if rebuilt <= MOST_REBUILT:
            return dim, rebuilt
    return 0, rebuilt


def _record(result: Result) -> Record:
    cuts = result.data.get("alignment", {}).get("cuts") or result.data["rows"]
    guests = len(result.parties) - 1
    sent = result.fit.bytes_up / (cuts["train"] + cuts["valid"]) / max(guests, 1)
    taken = sorted({_kind(one.model) for one in result.tried if one.share > 0} - {"stack"})
    score = {"metric": result.score.metric, "value": result.score.value}
    return {"score": score, "bytes_a_row": sent, "rows": dict(cuts), "parties": guests + 1, "took": taken}


def _kind(model: str) -> str:
    """What sort of model it is, from its words."""
    return next(kind for kind in ("stack", "trees", "linear", "net") if kind in model)


def few_shared(name: str, shared: int, seed: int, rows: int = MOST_ROWS) -> Federation:
    """Parties that share so many labelled rows, a tenth of them to validate on; the hub has labels for all its rows.

    Test rows are at every party; all other rows are the hub's alone.
    """
    dataset, spec = some_rows(load(name), rows, seed), FEW[name]
    cut: Cut = spec.cut
    if name == "credit_default":
        others = tuple(column.name for column in dataset.columns if column.name not in LAST_TEN)
        cut = Groups(groups={"bank": LAST_TEN, "bureau": others})
    whole = deal(dataset, cut, seed=seed, valid=0.0)
    order = np.random.default_rng([seed, shared]).permutation(len(whole.tables[whole.hub].cut("train")))
    tables = {}
    for party, table in whole.tables.items():
        train, test = table.cut("train"), table.cut("test")
        common, own = train[np.sort(order[:shared])], train[np.sort(order[shared:])]
        every = np.concatenate([common, test, own if party == whole.hub else own[:0]])
        valid, ends = shared // 10, np.cumsum([0, shared, len(test)])
        cuts = {"valid": np.arange(valid), "train": np.arange(valid, shared), "test": np.arange(ends[1], ends[2])}
        cuts |= {"shared": np.arange(ends[2]), "own": np.arange(ends[2], len(every))}
        tables[party] = table.take(every, cuts)
    facts = whole.facts | {"rows": {"train": shared - shared // 10, "valid": shared // 10, "test": len(test)}}
    return replace(whole, tables=tables, facts=facts)


@dataclass(frozen=True)
class Difference:
    """How much better one arm is than another on the same splits: the mean over seeds, and its standard error."""

    mean: float
    error: float | None

    @staticmethod
    def of(better: Sequence[Record], worse: Sequence[Record]) -> "Difference":
        """By seed, for the seeds that both have."""
        by_seed = [{one["key"]["seed"]: _goodness(one) for one in arm} for arm in (better, worse)]
        gains = [by_seed[0][seed] - by_seed[1][seed] for seed in by_seed[0].keys() & by_seed[1].keys()]
        error = statistics.stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else None
        return Difference(statistics.fmean(gains), error)

    def exceeds(self, errors: float) -> bool | None:
        """Whether it is above zero by so many standard errors; None with one seed."""
        return None if self.error is None else self.mean > errors * self.error


def _goodness(record: Record) -> float:
    return Score(**record["score"]).goodness


def report(records: list[Record]) -> str:
    """All tables, as Markdown; of several records with one key, the last counts."""
    records = _longest(list({name_of(one["key"]): one for one in records}.values()))
    of = {name: [one for one in records if one["key"]["table"] == name] for name in SECTIONS}
    usual = max((one["allowance"]["seconds_of_choice"] for one in of["few shared"]), default=Best().seconds)
    at_uji = [one for one in of["all shared"] if one["key"]["data"] == "ujiindoorloc"]
    longest = max((one["allowance"]["seconds_of_choice"] for one in at_uji), default=usual)
    return (
        f"Each arm was allowed one trial, in which `Best(seconds={usual:g})` chose its model on training rows "
        f"(ujiindoorloc: `seconds={longest:g}`, for all arms). At most {MOST_ROWS:,} rows of a "
        "table are used (covtype 60,000), a fifth of them to score on. Mean and standard deviation over the seeds that "
        "are done. `FedOnce less home` is positive where FedOnce is better, with its standard error over seeds. The "
        "share of the gap from home to pooled is asked for (at least 80 %) only where that gap exceeds two standard "
        f"errors; {MOST_BYTES} bytes per row and party are allowed. Code `older` marks records by code that has "
        "changed since.\n\n## All rows shared\n\n"
        + _gains(TABLES, of["all shared"])
        + "\n## Tables not used to choose the default\n\n"
        + _gains(UNSEEN, of["unseen"])
        + f"\n## With up to {MORE_ROWS:,} rows\n\n"
        + _gains(TABLES, of["more rows"])
        + "\n"
        + _rebuilt(of["little rebuilt"], of["all shared"])
        + "\n## Splits\n\n"
        + _splits(TABLES | UNSEEN, of["all shared"] + of["unseen"])
        + "\n"
        + _few_shared(of["few shared"])
    )


def _longest(records: list[Record]) -> list[Record]:
    """Of tables that were run with several allowances, those with the longest that all arms have had for some seed."""
    kept = records
    for name in TABLES:
        some = [one for one in records if one["key"]["data"] == name and one["key"]["table"] == "all shared"]
        by_seconds = {one["allowance"]["seconds_of_choice"]: list[Record]() for one in some}
        for one in some:
            by_seconds[one["allowance"]["seconds_of_choice"]].append(one)
        whole = [
            seconds for seconds, found in by_seconds.items() if all(_arms(found, data=name).get(arm) for arm in ARMS)
        ]
        if whole:
            unused = [one for seconds, found in by_seconds.items() if seconds != max(whole) for one in found]
            kept = [one for one in kept if one not in unused]
    return kept


def _arms(records: Sequence[Record], **wanted: object) -> dict[str, list[Record]]:
    """The records of each arm, for the seeds that all of them have."""
    here = [one for one in records if wanted.items() <= one["key"].items()]
    arms = {arm: [one for one in here if one["key"]["arm"] == arm] for arm in ARMS}
    arms = {arm: some for arm, some in arms.items() if some}
    if not arms:
        return {}
    seeds = set.intersection(*({one["key"]["seed"] for one in some} for some in arms.values()))
    return {arm: [one for one in some if one["key"]["seed"] in seeds] for arm, some in arms.items()}


def _gains(tables: Mapping[str, PublicTable | OutsideFiles], records: Sequence[Record]) -> str:
    lines = []
    for name in tables:
        arms = _arms(records, data=name)
        if len(arms) == len(ARMS) and arms["home"]:
            lines.append(_line(name, tables[name].seconds, arms))
    head = ["data", "metric", "seeds", "home", "FedOnce", "pooled", "FedOnce less home", "share of the gap", "asked"]
    return markdown([*head, "bytes per row and party", "FedOnce took", "code"], lines)


def _splits(tables: Mapping[str, PublicTable | OutsideFiles], records: Sequence[Record]) -> str:
    home = {one["key"]["data"]: one for one in records if one["key"]["arm"] == "home"}
    lines = [(name, tables[name].split, *_sizes(home[name])) for name in tables if name in home]
    return markdown(["data", "columns", "rows to learn from", "rows to score on"], lines)


def _rebuilt(records: Sequence[Record], shared: Sequence[Record]) -> str:
    """The share of the gap that is left with little rebuilt; a seed where nothing may be sent counts as home."""
    lines = []
    for name in TABLES:
        some, arms = [one for one in records if one["key"]["data"] == name], _arms(shared, data=name)
        seeds = {one["key"]["seed"] for one in some} & {one["key"]["seed"] for one in arms.get("pooled", [])}
        if seeds and len(arms) == len(ARMS):
            kept = {arm: [one for one in found if one["key"]["seed"] in seeds] for arm, found in arms.items()}
            home = {one["key"]["seed"]: one for one in kept["home"]}
            some = [one for one in some if one["key"]["seed"] in seeds]
            gain = Difference.of([one if one["dim"] else home[one["key"]["seed"]] for one in some], kept["home"])
            gap = Difference.of(kept["pooled"], kept["home"])
            usual = Difference.of(kept["FedOnce"], kept["home"])
            dims = ", ".join(str(one["dim"] or "none") for one in some)
            r2 = statistics.fmean(one["rebuilt"] for one in some)
            lines.append([name, len(seeds), dims, f"{r2:.2f}", _share(gain, gap), _share(usual, gap), _signed(gain)])
    head = ["data", "seeds", "components, by seed", "mean R2", "share of the gap", "share by default", "less home"]
    return (
        f"## With mean R2 of rebuilt columns at most {MOST_REBUILT:g}\n\n"
        "FedOnce with `Pca` of as many components (16, 12, 8, 6, 4, 3, 2 or 1 for every guest) as keep within it, for "
        "an attacker who knows a hundred rows in full; measured on validation rows, so that no label chooses. `none`: "
        "a single component is too many, and the label holder stays at home.\n\n" + markdown(head, lines)
    )


def _share(gain: Difference, gap: Difference) -> str:
    return f"{100 * gain.mean / gap.mean:.0f} %" if gap.mean > 0 else "no gap"


def _line(name: str, seconds: float, arms: dict[str, list[Record]]) -> list[object]:
    gain, gap = Difference.of(arms["FedOnce"], arms["home"]), Difference.of(arms["pooled"], arms["home"])
    is_asked = {True: "yes", False: "no: the gap is too small", None: "one seed"}[gap.exceeds(2)]
    share = _share(gain, gap)
    sent = statistics.fmean(one["bytes_a_row"] for one in arms["FedOnce"])
    took = "; ".join(dict.fromkeys(" + ".join(one["took"]) for one in arms["FedOnce"]))
    model = None if seconds == Best().seconds else Best(seconds=seconds)
    now = {arm: code_digest(make(model)) for arm, make in ARMS.items()}
    code = "older" if any(one["code"] != now[arm] for arm in arms for one in arms[arm]) else "now"
    metric = arms["home"][0]["score"]["metric"]
    scores = [mean_spread([one["score"]["value"] for one in some]) for some in arms.values()]
    return [name, metric, len(arms["home"]), *scores, _signed(gain), share, is_asked, f"{sent:.0f}", took, code]


def _signed(difference: Difference) -> str:
    return f"{difference.mean:+.4f}" + ("" if difference.error is None else f" ± {difference.error:.4f}")


def _sizes(record: Record) -> tuple[str, str]:
    return f"{record['rows']['train']:,} + {record['rows']['valid']:,}", f"{record['rows']['test']:,}"


def _few_shared(records: Sequence[Record]) -> str:
    rows = []
    for name in FEW:
        for shared in SHARED:
            arms = _arms(records, data=name, shared=shared)
            if len(arms) == 2 and arms["home"]:
                gain = Difference.of(arms["FedOnce"], arms["home"])
                scores = [mean_spread([one["score"]["value"] for one in some]) for some in arms.values()]
                rows.append([name, shared, len(arms["home"]), *scores, _signed(gain)])
    return (
        "## Few rows shared, all the hub's labels\n\n"
        "AUC. All other labelled rows are the hub's alone; a tenth of the shared rows is for validation. Asked: never "
        "below home by more than 0.003, above it by 0.005 or more at 1,000 rows.\n\n"
        + markdown(["data", "shared rows", "seeds", "home", "FedOnce", "FedOnce less home"], rows)
    )


if __name__ == "__main__":
    main()

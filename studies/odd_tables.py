"""Is one exchange ever worse than staying at home? FedOnce as it comes on odd tables, none of which chose a default.

Files as parties may have them: guests of noise, of one column, of categories alone, of numbers with wild outliers or
many gaps; rare classes, heavy tails, few rows. Every arm has the same rows and the same allowance; test rows choose
nothing. Columns that are drawn are drawn anew by the seed.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from typing import TypeAlias

import numpy as np
import pandas as pd
from sklearn import datasets

from laconic import Centralised, Federation, FedOnce, Method, Solo, from_frames, simulate
from laconic.data.datasets import data_file
from laconic.deploy import code_digest
from laconic.deploy.result import name_of
from laconic.tables import Score
from laconic.values import Array, Rng
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

SEEDS = range(5)
ROWS = 2_000
ARMS: dict[str, Callable[[], Method]] = {"home": Solo, "FedOnce": FedOnce, "pooled": Centralised}
Frames: TypeAlias = dict[str, pd.DataFrame]


def _frame(x: Array, stem: str) -> pd.DataFrame:
    return pd.DataFrame(np.asarray(x), columns=[f"{stem}{place}" for place in range(np.shape(x)[1])])


def _noise(rows: int, columns: int, rng: Rng) -> pd.DataFrame:
    return _frame(rng.normal(size=(rows, columns)), "noise")


def _shipped(name: str) -> tuple[Array, Array]:
    found = getattr(datasets, f"load_{name}")()
    return np.asarray(found.data), np.asarray(found.target)


def _some(file: str, rows: int, rng: Rng) -> pd.DataFrame:
    whole = pd.read_parquet(data_file(file))
    return whole.iloc[np.sort(rng.permutation(len(whole))[:rows])].reset_index(drop=True)


def _labelled(own: pd.DataFrame, y: Array | pd.Series, **guests: pd.DataFrame) -> Frames:
    """The label holder's columns and label, and the guests' columns."""
    return {"hub": own.assign(label=np.asarray(y))} | guests


def _two_of_iris(_: Rng) -> Frames:
    x, y = _shipped("iris")
    return _labelled(_frame(x[:, :2], "sepal"), np.array(list("abc"))[y], shop=_frame(x[:, 2:], "petal"))


def _one_column_of_wine(_: Rng) -> Frames:
    x, y = _shipped("wine")
    return _labelled(_frame(x[:, :6], "own"), np.array(list("abc"))[y], shop=_frame(x[:, 6:7], "flavanoid"))


def _noise_beside(name: str, columns: int = 30, rows: int = ROWS) -> Callable[[Rng], Frames]:
    def made(rng: Rng) -> Frames:
        x, y = _shipped(name)
        kept = np.sort(rng.permutation(len(y))[:rows])
        label = y[kept] if name == "diabetes" else np.array([f"c{one}" for one in y[kept]])
        return _labelled(_frame(x[kept], "own"), label, shop=_noise(len(kept), columns, rng))

    return made


def _noise_at_credit(rng: Rng) -> Frames:
    table = _some("credit_default.parquet", ROWS, rng)
    own = table.drop(columns=["ID", "default_payment_next_month"])
    guests = {"shop": _noise(ROWS, 30, rng), "bureau": _noise(ROWS, 30, rng)}
    return _labelled(own, np.where(table["default_payment_next_month"], "yes", "no"), **guests)


def _categories_of_adult(rng: Rng) -> Frames:
    table = _some("adult_train.parquet", ROWS, rng)
    words = table.select_dtypes(exclude="number").columns
    shop = table[words].astype(object).where(table[words].notna(), None)
    own = table.drop(columns=[*words, "income_gt_50k"])
    return _labelled(own, np.where(table["income_gt_50k"], "yes", "no"), shop=shop)


def _many_levels(rng: Rng) -> Frames:
    """A guest's one column has 300 levels, half of the signal."""
    level, own = rng.integers(0, 300, ROWS), rng.normal(size=(ROWS, 5))
    effect = rng.normal(size=300)
    y = own[:, 0] + effect[level] + rng.normal(size=ROWS)
    return _labelled(_frame(own, "own"), y, shop=pd.DataFrame({"postcode": [f"p{one}" for one in level]}))


def _a9a(rng: Rng) -> Frames:
    table = _some("a9a_train.parquet", ROWS, rng)
    names = [name for name in table.columns if name != "label"]
    parts = {"shop": table[names[40:80]], "bureau": table[names[80:]]}
    return _labelled(table[names[:40]], np.where(table["label"] > 0, "yes", "no"), **parts)


def _rare_class(rng: Rng) -> Frames:
    """One row in a hundred is of the class asked for."""
    table = _some("covtype.parquet", 400_000, rng)
    label = table.columns[-1]
    rare, rest = table[table[label] == 4], table[table[label] == 3]
    both = pd.concat([rare.iloc[:40], rest.iloc[:3_960]]).reset_index(drop=True)
    parts = {"roads": both.iloc[:, 5:10], "park": both.iloc[:, 10:-1]}
    return _labelled(both.iloc[:, :5], np.where(both[label] == 4, "yes", "no"), **parts)


def _heavy_tail(rng: Rng) -> Frames:
    """Amounts of which a few are a thousand times the usual one."""
    x = rng.normal(size=(ROWS, 8))
    y = np.exp(1.5 * x[:, 0] + x[:, 4] + 0.5 * x[:, 5] * x[:, 1] + rng.normal(size=ROWS))
    return _labelled(_frame(x[:, :4], "own"), np.round(y, 2), shop=_frame(x[:, 4:], "others"))


def _delays(rng: Rng) -> Frames:
    """Minutes of delay, heavy-tailed, from what the airport and the airline know beforehand."""
    table = _some("nycflights13_flights.parquet", 12_000, rng).dropna(subset=["arr_delay"]).head(ROWS)
    table = table.reset_index(drop=True)
    return _labelled(
        table[["month", "day", "hour"]], table["arr_delay"], airline=table[["carrier", "distance", "dest"]]
    )


def _few_rows(name: str) -> Callable[[Rng], Frames]:
    def made(rng: Rng) -> Frames:
        x, y = _shipped(name)
        kept, half = rng.permutation(len(y))[:100], x.shape[1] // 2
        label = y[kept] if name == "diabetes" else np.array([f"c{one}" for one in y[kept]])
        return _labelled(_frame(x[kept, :half], "own"), label, shop=_frame(x[kept, half:], "others"))

    return made


def _few_rows_of_credit(rng: Rng) -> Frames:
    table = _some("credit_default.parquet", 150, rng)
    names = [name for name in table.columns if name not in ("ID", "default_payment_next_month")]
    label = np.where(table["default_payment_next_month"], "yes", "no")
    return _labelled(table[names[:12]], label, shop=table[names[12:]])


def _both_needed(rng: Rng) -> Frames:
    """What counts is whether a number of the label holder and one of the guest have the same sign."""
    x = rng.normal(size=(ROWS, 6))
    y = (x[:, 0] * x[:, 3] + 0.3 * rng.normal(size=ROWS)) > 0
    return _labelled(_frame(x[:, :3], "own"), np.where(y, "yes", "no"), shop=_frame(x[:, 3:], "others"))


def _wild_numbers(rng: Rng) -> Frames:
    """The guest's numbers have gaps, wild outliers, a constant and an id; one of them matters."""
    x, own = rng.normal(size=(ROWS, 5)), rng.normal(size=(ROWS, 4))
    y = own[:, 0] + 0.7 * x[:, 0] + rng.normal(size=ROWS)
    shop = _frame(x, "others")
    shop[rng.random(shop.shape) < 0.6] = np.nan
    shop.iloc[rng.permutation(ROWS)[:10], 1] = 1e9
    shop["same"], shop["row"] = 1.0, rng.permutation(ROWS) + 100_000
    return _labelled(_frame(own, "own"), y, shop=shop)


def _faint_columns(rng: Rng) -> Frames:
    """A guest of 200 columns that nearly repeat each other; what matters is what little of them differs."""
    base, own = rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, 4))
    wide = base @ rng.normal(size=(3, 200)) + 0.1 * rng.normal(size=(ROWS, 200))
    faint = rng.normal(size=ROWS)
    wide[:, 7] += 0.3 * faint
    y = own[:, 0] + 0.5 * faint + 0.5 * rng.normal(size=ROWS)
    return _labelled(_frame(own, "own"), y, shop=_frame(wide, "others"))


def _signal_at_the_shop(rng: Rng) -> Frames:
    """The label holder has three of the weakest columns, the shop all the others."""
    table = _some("superconduct.parquet", ROWS, rng)
    names, y = table.columns[:-1], table.columns[-1]
    weak = table[names].corrwith(table[y], method="spearman").abs().sort_values(kind="stable").index[:3]
    return _labelled(table[weak], table[y], shop=table[names.difference(weak, sort=False)])


def _few_shared(rng: Rng) -> Frames:
    """All are labelled, and 150 of them are known to the shop."""
    table = _with_ids(_some("credit_default.parquet", ROWS, rng))
    names = [name for name in table.columns if name not in ("ID", "id", "default_payment_next_month")]
    label = np.where(table["default_payment_next_month"], "yes", "no")
    known = np.sort(rng.permutation(ROWS)[:150])
    return _labelled(table[["id", *names[10:]]], label, shop=table[["id", *names[:10]]].iloc[known])


def _mostly_missing(rng: Rng) -> Frames:
    """Nine of ten cells of the guests are empty, and one of their columns always is."""
    table = _some("a9a_train.parquet", ROWS, rng)
    names = [name for name in table.columns if name != "label"]
    parts = {name: table[some].astype(float) for name, some in (("shop", names[30:80]), ("bureau", names[80:]))}
    for frame in parts.values():
        frame[rng.random(frame.shape) < 0.9] = np.nan
        frame["empty"] = np.nan
    return _labelled(table[names[:30]], np.where(table["label"] > 0, "yes", "no"), **parts)


def _tail_numbers(rng: Rng) -> Frames:
    """A guest of words alone: nearly as many aircraft as rows, and a hundred places."""
    table = _some("nycflights13_flights.parquet", 12_000, rng).dropna(subset=["arr_delay"]).head(ROWS)
    table = table.reset_index(drop=True)
    late = np.where(table["arr_delay"] > 15, "late", "not")
    return _labelled(table[["month", "day", "sched_dep_time"]], late, fleet=table[["tailnum", "dest", "flight"]])


def _wild_labels(rng: Rng) -> Frames:
    """One amount in a hundred was written with two noughts too many."""
    table = _some("california_housing.parquet", ROWS, rng)
    y = table["median_house_value"].to_numpy(dtype=float, copy=True)
    y[rng.permutation(ROWS)[: ROWS // 100]] *= 100
    rest = table.drop(columns=["median_house_value"])
    return _labelled(rest.iloc[:, 2:6], y, place=rest.iloc[:, [0, 1]], people=rest.iloc[:, 6:])


def _two_in_a_hundred(rng: Rng) -> Frames:
    """Two rows in a hundred are of the class asked for, and hard to tell."""
    table = _some("credit_default.parquet", 12_000, rng)
    late = table["default_payment_next_month"].to_numpy(dtype=bool)
    kept = np.sort(np.concatenate([np.flatnonzero(late)[:60], np.flatnonzero(~late)[:2_940]]))
    table = table.iloc[kept].reset_index(drop=True)
    names = [name for name in table.columns if name not in ("ID", "default_payment_next_month")]
    parts = {"shop": table[names[8:16]], "bureau": table[names[16:]]}
    return _labelled(table[names[:8]], np.where(late[kept], "yes", "no"), **parts)


def _copies(rng: Rng) -> Frames:
    """The shop knows what the label holder knows, with a little noise, and nothing else."""
    table = _some("codrna_train.parquet", ROWS, rng)
    own = table.iloc[:, :-1].astype(float)
    shop = own + rng.normal(scale=0.1 * own.std().to_numpy(), size=own.shape)
    return _labelled(own, np.where(table.iloc[:, -1] > 0, "yes", "no"), shop=shop)


def _ten_guests(rng: Rng) -> Frames:
    """Ten guests of five places each, thirteen floors to tell apart."""
    table = _some("ujiindoorloc_train.parquet", ROWS, rng)
    heard = table.iloc[:, :520]
    heard = heard.loc[:, (heard != 100).sum() > 20]
    names = heard.columns[rng.permutation(heard.shape[1])]
    label = table["BUILDINGID"].astype(str) + "/" + table["FLOOR"].astype(str)
    parts = {f"guest{place}": heard[names[10 + 5 * place : 15 + 5 * place]] for place in range(10)}
    return _labelled(heard[names[:10]], "floor " + label, **parts)


def _counts(rng: Rng) -> Frames:
    """Classes that are counts: most rows are of the first, and nobody has much to say."""
    x = rng.normal(size=(ROWS, 12))
    y = rng.poisson(np.exp(-1.3 + 0.4 * x[:, 0] + 0.1 * x[:, 7])).clip(max=5)
    return _labelled(_frame(x[:, :6], "own"), np.array([f"{one} visits" for one in y]), shop=_frame(x[:, 6:], "others"))


TABLES: dict[str, Callable[[Rng], Frames]] = {
    "iris, two columns each": _two_of_iris,
    "wine, one column at the guest": _one_column_of_wine,
    "wine, 30 of noise": _noise_beside("wine"),
    "diabetes, 30 of noise": _noise_beside("diabetes"),
    "breast_cancer, 30 of noise": _noise_beside("breast_cancer"),
    "digits, 30 of noise": _noise_beside("digits", rows=600),
    "credit_default, two guests of noise": _noise_at_credit,
    "adult, categories at the guest": _categories_of_adult,
    "300 levels": _many_levels,
    "a9a, three parts": _a9a,
    "covtype, 1 % of a class": _rare_class,
    "heavy tail": _heavy_tail,
    "nycflights13, minutes": _delays,
    "diabetes, 100 rows": _few_rows("diabetes"),
    "breast_cancer, 100 rows": _few_rows("breast_cancer"),
    "wine, 100 rows": _few_rows("wine"),
    "credit_default, 150 rows": _few_rows_of_credit,
    "both needed": _both_needed,
    "gaps and outliers": _wild_numbers,
    "faint columns": _faint_columns,
}
LATER: dict[str, Callable[[Rng], Frames]] = {
    "superconduct, signal at the shop": _signal_at_the_shop,
    "credit_default, 150 of 2,000 shared": _few_shared,
    "a9a, nine of ten cells empty": _mostly_missing,
    "nycflights13, thousands of levels": _tail_numbers,
    "california_housing, wild labels": _wild_labels,
    "credit_default, 2 % of a class": _two_in_a_hundred,
    "codrna, copies at the shop": _copies,
    "ujiindoorloc, ten guests": _ten_guests,
    "counts as classes": _counts,
}
"""Tables made when all defaults had been settled: nothing was chosen by looking at them."""


def main() -> None:
    """Run what has not been run yet, and write the table, also when stopped."""
    chosen = arguments(__doc__ or "", "studies/results/odd_tables", renews=True)
    results = chosen.out / "results.jsonl"
    names = ("iris, two columns each",) if chosen.quick else (*TABLES, *LATER)
    try:
        seeds = range(1) if chosen.quick else SEEDS
        run_jobs(only_on(_jobs(names, seeds), chosen.only), results, chosen.renew)
    finally:
        write_whole(chosen.out / "table.md", report(read_records(results)))


def _jobs(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Job]:
    for seed in seeds:
        for name in names:
            for arm in ARMS:
                yield _job(name, arm, seed)


def _job(name: str, arm: str, seed: int) -> Job:
    method = ARMS[arm]()

    def measure() -> Record:
        result = simulate(method, federation(name, seed), seed=seed)
        took = [one.model for one in result.tried if one.share > 0]
        score = {"metric": result.score.metric, "value": result.score.value}
        return {"score": score, "took": took, "allowance": {"trials": 1, "seconds_of_choice": 60.0}}

    return Job({"data": name, "seed": seed, "arm": arm}, measure, code_digest(method))


def federation(name: str, seed: int) -> Federation:
    """The parties of a table, as drawn by the seed."""
    frames = (TABLES | LATER)[name](np.random.default_rng(seed))
    return from_frames({party: _with_ids(frame) for party, frame in frames.items()}, id="id", label="label")


def _with_ids(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an id for each row, by its place, unless it has ids."""
    ids = [f"p{place:06d}" for place in range(len(frame))]
    return frame if "id" in frame.columns else frame.reset_index(drop=True).assign(id=ids)


def report(records: Sequence[Record]) -> str:
    """The table, as Markdown; of several records with one key, the last counts."""
    rows = []
    for name in TABLES | LATER:
        arms = {arm: {one["key"]["seed"]: one for one in records if _is(one, name, arm)} for arm in ARMS}
        seeds = sorted(set.intersection(*(set(found) for found in arms.values())))
        if seeds:
            rows.append(_line(name, seeds, arms))
    codes = {arm: code_digest(method()) for arm, method in ARMS.items()}
    last = {name_of(one["key"]): one for one in records}.values()
    older = sum(one.get("code") != codes[one["key"]["arm"]] for one in last)
    head = ["table", "metric", "seeds", "home", "FedOnce", "pooled", "FedOnce less home", "below by more than an error"]
    return (
        f"At most {ROWS:,} rows (covtype 4,000), a fifth of them to score on; mean and standard deviation over seeds. "
        "`FedOnce less home` is positive where FedOnce is better, with its standard error over seeds. "
        f"The last {len(LATER)} were made when all defaults had been settled. "
        f"Runs of earlier code: {older:,} of {len(last):,}.\n\n" + markdown(head, rows)
    )


def _is(record: Record, name: str, arm: str) -> bool:
    return bool(record["key"]["data"] == name and record["key"]["arm"] == arm)


def _line(name: str, seeds: Sequence[int], arms: dict[str, dict[int, Record]]) -> list[object]:
    scores = {arm: [Score(**found[seed]["score"]) for seed in seeds] for arm, found in arms.items()}
    gains = [one.goodness - home.goodness for one, home in zip(scores["FedOnce"], scores["home"], strict=True)]
    mean, error = statistics.fmean(gains), statistics.stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else None
    below = "one seed" if error is None else "yes" if mean < -error else "no"
    signed = f"{mean:+.4f}" + ("" if error is None else f" ± {error:.4f}")
    shown = [mean_spread([one.value for one in some]) for some in scores.values()]
    return [name, scores["home"][0].metric, len(seeds), *shown, signed, below]


if __name__ == "__main__":
    main()

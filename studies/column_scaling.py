"""Does our scaling of columns help? Validation rows answer; test rows are not looked at.

Columns most of whose cells share one value (signals seldom heard, rare flags) become huge when divided by their
standard deviation. `laconic.tables.columns` divides them by more. This compares the two on pooled columns with one
small net.
"""

from functools import partial

import msgspec
import numpy as np

from laconic import load
from laconic.data import Dataset
from laconic.data.partition.columns import split
from laconic.learn import Mlp, Sgd, fit_supervised, predict_supervised
from laconic.tables import Recipe, Scaled, apply_recipe, fit_recipe, headline, metrics
from laconic.values import Array
from studies.harness import Job, Record, arguments, markdown, mean_spread, run_jobs, write_whole

SEEDS = (101, 102, 103)


def main() -> None:
    """Measure both scalings and write the table."""
    chosen = arguments(__doc__ or "", "studies/results/column_scaling")
    names = ("phishing",) if chosen.quick else ("ujiindoorloc", "credit_default", "adult", "superconduct", "phishing")
    seeds = SEEDS[:1] if chosen.quick else SEEDS
    jobs = [
        Job({"data": name, "scaling": scaling, "seed": seed}, partial(_measure, name, scaling, seed))
        for name in names
        for scaling in ("standard deviation", "ours")
        for seed in seeds
    ]
    records = run_jobs(jobs, chosen.out / "results.jsonl")
    write_whole(chosen.out / "table.md", _table(records, names))


def _measure(name: str, scaling: str, seed: int) -> Record:
    dataset = load(name)
    cuts = split(dataset.rows, np.random.default_rng(seed), fixed_test=dataset.test)
    recipe = fit_recipe(dataset.raw, dataset.columns, cuts["train"])
    if scaling != "ours":
        recipe = _by_standard_deviation(recipe, dataset, cuts["train"])
    x = apply_recipe(recipe, dataset.raw)
    rng = np.random.default_rng(seed)
    train, valid = cuts["train"], cuts["valid"]
    net, trainer = Mlp(hidden=(50, 50)), Sgd(epochs=10)
    weights = fit_supervised(net, dataset.task, [x[train]], dataset.y[train], trainer, rng)
    found = predict_supervised(net, dataset.task, weights, [x[valid]])
    score = headline(dataset.task, metrics(dataset.task, dataset.y[valid], found))
    return {"metric": score.metric, "value": score.value, "largest": float(np.abs(x).max())}


def _by_standard_deviation(recipe: Recipe, dataset: Dataset, rows: Array) -> Recipe:
    parts = tuple(
        msgspec.structs.replace(part, scale=float(np.nanstd(dataset.raw[rows, part.source])))
        if isinstance(part, Scaled)
        else part
        for part in recipe.parts
    )
    return msgspec.structs.replace(recipe, parts=parts)


def _table(records: list[Record], names: tuple[str, ...]) -> str:
    rows = []
    for name in names:
        for scaling in ("standard deviation", "ours"):
            there = [one for one in records if one["key"]["data"] == name and one["key"]["scaling"] == scaling]
            values = mean_spread([one["value"] for one in there])
            rows.append((name, scaling, there[0]["metric"], values, f"{max(one['largest'] for one in there):.1f}"))
    return markdown(("data", "divided by", "metric on validation rows", "mean ± sd", "largest prepared cell"), rows)


if __name__ == "__main__":
    main()

"""Which encoder should FedOnce use unless told otherwise? Validation rows answer; test rows are not looked at.

The label holder stops its training early by the same validation rows, for every encoder alike.

No encoder came out best everywhere: on phishing and credit_default all are within each other's spread, `Nat` led on
superconduct, `Autoencoder` on california_housing and on a few thousand images. `BestEncoder` takes `Pca` all the same:
it is never far behind, and costs next to nothing where the others must be trained.
"""

from collections.abc import Callable
from dataclasses import replace

from laconic import Equal, FedOnce, deal, load, simulate
from laconic.data import Dataset, Quadrants
from laconic.learn import AnyEncoder, Autoencoder, Nat, Pca, RandomProjection, Sgd, WhitenedPca
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

SEEDS = (10, 11, 12)
TABLES = ("phishing", "credit_default", "superconduct", "california_housing")
IMAGES = ("mnist",)
IMAGE_ROWS = 8_000
METRIC = {"phishing": "accuracy", "credit_default": "auc", "superconduct": "rmse", "california_housing": "rmse"}


def main() -> None:
    """Measure what has not been measured yet, then write the table."""
    chosen = arguments(__doc__ or "", "studies/results/fedonce_encoders")
    tables, images, seeds = (("phishing",), (), SEEDS[:1]) if chosen.quick else (TABLES, IMAGES, SEEDS)
    jobs = [
        Job(
            {"data": name, "encoder": type(encoder).__name__, "dim": encoder.dim, "seed": seed},
            _work(name, encoder, seed),
        )
        for names, dims in ((tables, (4, 8)), (images, (32,)))
        for name in names
        for seed in seeds
        for dim in dims
        for encoder in _encoders(dim)
    ]
    results = chosen.out / "results.jsonl"
    run_jobs(only_on(jobs, chosen.only), results)
    write_whole(chosen.out / "table.md", _table(read_records(results)))


def _encoders(dim: int) -> list[AnyEncoder]:
    return [Pca(dim=dim), WhitenedPca(dim=dim), RandomProjection(dim=dim), Autoencoder(dim=dim), Nat(dim=dim)]


def _work(name: str, encoder: AnyEncoder, seed: int) -> Callable[[], Record]:
    def measure() -> Record:
        images = name in IMAGES
        dataset = _some_rows(load(name)) if images else load(name)
        federation = deal(dataset, Quadrants() if images else Equal(parties=4), seed=seed, test=0.1)
        method = FedOnce(encoder=encoder, trainer=Sgd(epochs=10 if images else 40, patience=5))
        result = simulate(method, federation, seed=seed, rows="valid")
        return {"value": result.metrics[METRIC.get(name, "accuracy")], "fit_seconds": result.fit.seconds}

    return measure


def _some_rows(dataset: Dataset) -> Dataset:
    """The first rows of an image set, none of them from its official test set."""
    kept = slice(0, IMAGE_ROWS)
    return replace(dataset, raw=dataset.raw[kept], y=dataset.y[kept], test=None)


def _table(records: list[Record]) -> str:
    rows = []
    for name, encoder, dim in dict.fromkeys((k["data"], k["encoder"], k["dim"]) for k in (r["key"] for r in records)):
        key = {"data": name, "encoder": encoder, "dim": dim}
        there = [record for record in records if key.items() <= record["key"].items()]
        seconds = mean_spread([record["fit_seconds"] for record in there], 1)
        values = mean_spread([record["value"] for record in there])
        rows.append((name, METRIC.get(name, "accuracy"), encoder, dim, values, len(there), seconds))
    return markdown(("data", "metric on validation rows", "encoder", "dim", "mean ± sd", "seeds", "fit s"), rows)


if __name__ == "__main__":
    main()

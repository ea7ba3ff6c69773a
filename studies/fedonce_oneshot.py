"""FedOnce in one exchange, next to what it is compared with, with four parties on five data sets.

Every method has the same split, the same columns and the same metric code, but not the same effort: no arm is tuned,
and SplitNN has fewer epochs than FedOnce. Nor are these the paper's settings.
"""

from collections.abc import Callable, Iterator

from laconic import Centralised, Equal, Federation, FedOnce, Linear, Method, Result, Solo, SplitNN, deal, load, simulate
from laconic.data import Quadrants
from laconic.learn import AnyEncoder, Autoencoder, BestEncoder, Nat, Pca, RandomProjection, Sgd, WhitenedPca
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

PARTIES = 4
SEEDS = (0, 1, 2)
METRIC = {"phishing": "accuracy", "credit_default": "auc", "ujiindoorloc": "rmse", "superconduct": "rmse"}


def main() -> None:
    """Run what has not been run yet, then write the table."""
    chosen = arguments(__doc__ or "", "studies/results/fedonce_oneshot")
    jobs = list(_quick_jobs() if chosen.quick else _jobs())
    results = chosen.out / "results.jsonl"
    run_jobs(only_on(jobs, chosen.only), results)
    write_whole(chosen.out / "table.md", _tables(read_records(results)))


def _jobs() -> Iterator[Job]:
    """The first party as host with each seed, then every other party of phishing as host once."""
    tables = _encoders(dim=8)
    for seed in SEEDS:
        for name in ("phishing", "credit_default", "superconduct", "ujiindoorloc"):
            yield from _jobs_on(name, 0, seed, encoders=tables, epochs=20)
        yield from _jobs_on("mnist", 0, seed, encoders=_image_encoders() if seed == 0 else {}, epochs=2)
    for hub in range(1, PARTIES):
        yield from _jobs_on("phishing", hub, 0, encoders=tables, epochs=20)


def _quick_jobs() -> Iterator[Job]:
    encoders: dict[str, AnyEncoder] = {"Nat": Nat(dim=4, epochs=2), "WhitenedPca": WhitenedPca(dim=4)}
    yield from _jobs_on("breast_cancer", 0, 0, encoders=encoders, epochs=3)
    yield from _jobs_on("phishing", 0, 0, encoders={"BestEncoder": BestEncoder(dim=8)}, epochs=2)


def _encoders(dim: int) -> dict[str, AnyEncoder]:
    return {
        "Nat": Nat(dim=dim),
        "Pca": Pca(dim=dim),
        "WhitenedPca": WhitenedPca(dim=dim),
        "RandomProjection": RandomProjection(dim=dim),
        "Autoencoder": Autoencoder(dim=dim),
    }


def _image_encoders() -> dict[str, AnyEncoder]:
    """Those that must be trained get few epochs: a guest epoch of convolutions takes long on two cores."""
    few = Nat(dim=16, epochs=3, batch=128), Autoencoder(dim=16, trainer=Sgd(epochs=2))
    return _encoders(dim=16) | {"Nat": few[0], "Autoencoder": few[1]}


def _jobs_on(name: str, hub: int, seed: int, *, encoders: dict[str, AnyEncoder], epochs: int) -> Iterator[Job]:
    """All methods on one split with one host; split learning runs for at most `epochs`."""
    together, more = Sgd(epochs=epochs, patience=5), Sgd(epochs=max(1, epochs // 4), lr=3e-4)
    alone = Sgd(epochs=8 if name == "mnist" else 100, patience=3 if name == "mnist" else 10)
    methods: dict[str, Method] = {"Solo": Solo(trainer=alone), "Linear": Linear()}
    methods |= {"Centralised": Centralised(trainer=alone), "SplitNN": SplitNN(trainer=together)}
    methods |= {"FedOnce, BestEncoder": FedOnce(trainer=alone)}
    methods |= {"FedOnce, BestEncoder, float16": FedOnce(trainer=alone, precision="float16")}
    methods |= {"FedOnce, then many rounds": FedOnce(trainer=alone, more=more)}
    methods |= {f"FedOnce, {label}": FedOnce(encoder=encoder, trainer=alone) for label, encoder in encoders.items()}
    for label, method in methods.items():
        yield Job({"data": name, "hub": hub, "seed": seed, "method": label}, _run(method, name, hub, seed))
    if name == "breast_cancer":  # So few rows that FedOnce sends less than SplitNN does for one batch.
        return
    budget = _run_at_fedonce_bytes(SplitNN(trainer=Sgd(epochs=epochs)), name, hub, seed)
    yield Job({"data": name, "hub": hub, "seed": seed, "method": "SplitNN at FedOnce's bytes"}, budget)


def _run(method: Method, name: str, hub: int, seed: int) -> Callable[[], Record]:
    return lambda: _record(simulate(method, _federation(name, hub, seed), seed=seed))


def _run_at_fedonce_bytes(method: Method, name: str, hub: int, seed: int) -> Callable[[], Record]:
    """SplitNN stopped before it has sent more than FedOnce does in its one exchange."""

    def measure() -> Record:
        federation = _federation(name, hub, seed)
        budget = simulate(FedOnce(trainer=Sgd(epochs=1)), federation, seed=seed).fit.bytes
        return _record(simulate(method, federation, seed=seed, max_bytes=budget))

    return measure


def _federation(name: str, hub: int, seed: int) -> Federation:
    cut = Quadrants() if name == "mnist" else Equal(parties=PARTIES)
    return deal(load(name), cut, hub=hub, seed=seed, test=0.1, valid=0.1)


def _record(result: Result) -> Record:
    wire = {"bytes": result.fit.bytes, "rounds": result.fit.rounds, "fit_seconds": result.fit.seconds}
    return {"metrics": result.metrics, **wire, "rows": result.data["rows"]}


def _tables(records: list[Record]) -> str:
    names = list(dict.fromkeys(record["key"]["data"] for record in records))
    return "\n".join(f"## {name}\n\n{_table(name, records)}" for name in names)


def _table(name: str, records: list[Record]) -> str:
    metric = METRIC.get(name, "accuracy")
    here = [record for record in records if record["key"]["data"] == name]
    rows = []
    for label in dict.fromkeys(record["key"]["method"] for record in here):
        there = [record for record in here if record["key"]["method"] == label]
        hosts = [record for record in there if record["key"]["seed"] == 0]
        seeds = [record for record in there if record["key"]["hub"] == 0]
        values = mean_spread([record["metrics"][metric] for record in seeds])
        each = ", ".join(f"{record['metrics'][metric]:.4f}" for record in hosts)
        cost = f"{seeds[0]['bytes']:,}", seeds[0]["rounds"], f"{seeds[0]['fit_seconds']:.1f}"
        rows.append((label, values, each, *cost))
    scores = f"{metric}, first party as host", "each party as host, seed 0"
    return markdown(("method", *scores, "bytes", "rounds", "fit s"), rows)


if __name__ == "__main__":
    main()

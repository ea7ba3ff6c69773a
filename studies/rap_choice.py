"""How the nets of the RAP study are trained: chosen by Centralised's score on validation rows, never by RAP's.

The study compares RAP with Centralised under the same training. Choosing that training by RAP's score, or by the gap
between the two, would flatter RAP; so what suits Centralised best on validation rows is taken for both.
"""

from collections.abc import Callable

from laconic import Centralised, simulate
from laconic.learn import Sgd
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole
from studies.rap_jobs import NETS
from studies.rap_parties import federation

SEEDS = (10, 11, 12)
CANDIDATES = {
    "covtype": [
        Sgd(epochs=12, batch=1024, lr=3e-3),
        Sgd(epochs=12, batch=1024, lr=3e-3, decay="cosine"),
        Sgd(epochs=12, batch=1024, lr=1e-2),
        Sgd(epochs=12, batch=1024, lr=1e-2, decay="cosine"),
    ],
    "superconduct": [
        Sgd(epochs=30, batch=256, lr=1e-3),
        Sgd(epochs=30, batch=256, lr=1e-3, decay="cosine"),
        Sgd(epochs=30, batch=256, lr=3e-3),
        Sgd(epochs=30, batch=256, lr=3e-3, decay="cosine"),
        Sgd(epochs=30, batch=256, lr=1e-2, decay="cosine"),
    ],
}
CANDIDATES["california_housing"] = CANDIDATES["superconduct"]


def main() -> None:
    """Score every candidate on validation rows and write the table."""
    chosen = arguments(__doc__ or "", "studies/results/rap_choice")
    names = ["california_housing"] if chosen.quick else list(CANDIDATES)
    seeds = SEEDS[:1] if chosen.quick else SEEDS
    jobs = [
        Job(
            {"data": name, "seed": seed, "lr": one.lr, "decay": one.decay, "epochs": one.epochs}, _work(name, one, seed)
        )
        for name in names
        for seed in (seeds[:1] if name == "covtype" else seeds)
        for one in CANDIDATES[name]
    ]
    results = chosen.out / "results.jsonl"
    run_jobs(only_on(jobs, chosen.only), results)
    write_whole(chosen.out / "table.md", _table(read_records(results)))


def _work(name: str, trainer: Sgd, seed: int) -> Callable[[], Record]:
    def measure() -> Record:
        given = federation(name, 4, seed, None, 0)
        result = simulate(Centralised(net=NETS["mlp"], trainer=trainer), given, seed=seed, rows="valid")
        return {"metric": result.score.metric, "value": result.score.value}

    return measure


def _table(records: list[Record]) -> str:
    rows = []
    for name, lr, decay in dict.fromkeys((k["data"], k["lr"], k["decay"]) for k in (r["key"] for r in records)):
        key = {"data": name, "lr": lr, "decay": decay}
        there = [record for record in records if key.items() <= record["key"].items()]
        values = mean_spread([record["value"] for record in there])
        rows.append((name, there[0]["key"]["epochs"], lr, decay, there[0]["metric"], values, len(there)))
    return markdown(
        ("data", "epochs", "learning rate", "decay", "metric on validation rows", "Centralised", "seeds"), rows
    )


if __name__ == "__main__":
    main()

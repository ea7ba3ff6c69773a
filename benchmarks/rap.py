"""How long a party takes to mix a million rows, and how much memory; and what RAP costs in all beside pooled training.

Usage: python -m benchmarks.rap [--rows 1000000] [--columns 28] [--epochs 5]
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from laconic import Centralised, Equal, Method, Rap, deal, simulate
from laconic.core import Party, Question, answer, encode
from laconic.data import Dataset
from laconic.learn import LinearModel, Mlp, NetModel, Orthogonal, Sgd
from laconic.methods.vertical.rap import projected
from laconic.tables import Column, Table, Task


def main() -> None:
    """Print time and memory of one party's part, then total time beside Centralised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--epochs", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        _party(chosen.rows, chosen.columns)
        _total(chosen.rows // 5, chosen.columns, chosen.epochs)


def _party(rows: int, columns: int) -> None:
    party = Party("bank", _table(rows, columns), seed=0)
    table = party.data.x.nbytes
    question = encode(Question("send", "fit", 1, {}))
    whole = Rap(learner=LinearModel())

    def mix() -> object:
        return projected(Party("bank", party.data, seed=0), "train", Orthogonal(), "seed")

    def upload() -> object:
        return answer(whole, Party("bank", party.data, seed=0), question)

    print("| one party, one thread | seconds | processor seconds | peak memory, with the table, in tables |")
    print("|---|---|---|---|")
    for name, work in (("mix all rows", mix), ("mix and encode the upload", upload)):
        seconds, processor = _clock(work)
        print(f"| {name} | {seconds:.2f} | {processor:.2f} | {1 + _peak(work) / table:.2f} |", flush=True)


def _total(rows: int, columns: int, epochs: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    y = (x @ rng.standard_normal(columns) + rng.standard_normal(rows) > 0).astype(np.int64)
    task = Task(kind="binary", classes=("no", "yes"))
    federation = deal(
        Dataset(name="made up", raw=x, columns=_named(columns), y=y, task=task), Equal(parties=4), seed=0, test=0.1
    )
    net, trainer = Mlp(hidden=(128,)), Sgd(epochs=epochs, batch=1024)
    methods: dict[str, Method] = {
        "Centralised": Centralised(net=net, trainer=trainer),
        "Rap": Rap(learner=NetModel(net=net, trainer=trainer)),
    }
    for table in federation.tables.values():
        _ = table.x  # prepared beforehand for both
    simulate(methods["Rap"], federation)
    print(f"\n| {rows:,} rows, four parties, {epochs} epochs | processor seconds, best of three |\n|---|---|")
    best: dict[str, float] = dict.fromkeys(methods, np.inf)
    for _ in range(3):
        for name, method in methods.items():
            started = time.process_time()
            simulate(method, federation)
            best[name] = min(best[name], time.process_time() - started)
    for name, seconds in best.items():
        print(f"| {name} | {seconds:.2f} |")
    print(f"| Rap / Centralised | {best['Rap'] / best['Centralised']:.2f} |")


def _table(rows: int, columns: int) -> Table:
    raw = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    return Table(raw, _named(columns), cuts={"train": np.arange(rows)}, party="bank")


def _named(columns: int) -> tuple[Column, ...]:
    return tuple(Column(f"column {place}") for place in range(columns))


def _clock(work: Callable[[], object]) -> tuple[float, float]:
    times = []
    for _ in range(3):
        started, processor = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - started, time.process_time() - processor))
    return min(times)


def _peak(work: Callable[[], object]) -> float:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


if __name__ == "__main__":
    main()

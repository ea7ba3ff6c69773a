"""What hand-written gradients of dense nets are worth against automatic ones, and what further paths are against them.

A second path is kept only where it is more than 1.3 times as fast for some use of it. All ways of a use are timed in
turns, in one run, by processor time:

    OMP_NUM_THREADS=1 python -m benchmarks.dense_paths [--seconds 3]
"""

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time

import numpy as np
import torch
from torch.nn import functional

from laconic.learn import Mlp, Sgd, fit_supervised, make, weights_of
from laconic.learn.encoders import learnt
from laconic.learn.kernels import compiled_products, widen
from laconic.learn.nets.nets import load
from laconic.learn.train import descent
from laconic.learn.train.descent import DenseNets, fit_dense_nets
from laconic.privacy import DpSgd, SeededRandomness
from laconic.privacy.private_sgd import PrivateStep
from laconic.tables import Task

Ways = dict[str, Callable[[], object]]
AUTOMATIC, BY_HAND, COMPILED, NUMPY = "automatic", "by hand", "compiled", "by numpy"


def main() -> None:
    """Print a table: a line for each use and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each way is timed")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    print("| use | net | rows | automatic, ms | by hand | times as fast | further path | times as fast as by hand |")
    print("|---|---|---|---|---|---|---|---|")
    for columns, hidden, outputs, batch in ((17, (30, 30), 8, 100), (90, (30, 30), 16, 100), (300, (64,), 16, 100)):
        report(
            "Nat, a step", columns, hidden, outputs, batch, noise_as_targets(columns, hidden, outputs, batch), seconds
        )
    for columns, hidden, outputs, rows in ((123, (32,), 1, 50), (30, (64,), 3, 100)):
        report(
            "ten nets, two epochs", columns, hidden, outputs, rows, ten_nets(columns, hidden, outputs, rows), seconds
        )
    for columns, hidden, outputs, batch in ((15, (64,), 8, 128), (56, (128,), 60, 1024)):
        ways = descents(columns, hidden, outputs, batch)
        report("descent, 20 steps", columns, hidden, outputs, batch, ways, seconds)
    for columns, hidden, outputs, batch in ((17, (30, 30), 3, 128), (17, (30, 30), 3, 1024), (196, (128,), 10, 128)):
        report("private step", columns, hidden, outputs, batch, private(columns, hidden, outputs, batch), seconds)


def noise_as_targets(columns: int, hidden: tuple[int, ...], outputs: int, batch: int) -> Ways:
    """One step of `Nat` without the trade of targets."""
    rng = np.random.default_rng(0)
    net, x = Mlp(hidden=hidden, final="tanh"), rng.standard_normal((5000, columns)).astype(np.float32)
    targets, rows = rng.standard_normal((batch, outputs)).astype(np.float32), rng.permutation(5000)[:batch]

    def step(learner: learnt.FlatMlp | learnt._ModuleLearner) -> Callable[[], object]:
        return lambda: learner.learn((learner.outputs(rows) - targets) * np.float32(2 / batch))

    first = weights_of(make(net, (columns,), outputs, rng))
    nets, rows_there = DenseNets(net, [first], Sgd(lr=1e-3, weight_decay=0.0)), torch.tensor(x)

    def by_hand() -> None:
        found = nets.outputs(rows_there.index_select(0, torch.from_numpy(rows)).unsqueeze(0))
        nets.learn((found - torch.from_numpy(targets)) * (2 / batch), 1e-3, (0,))

    module = learnt._ModuleLearner(x, make(net, (columns,), outputs, rng), learnt.Nat())
    numpy = learnt.FlatMlp(x, first, 1e-3)
    return {AUTOMATIC: step(module), BY_HAND: by_hand, NUMPY: step(numpy)}


def ten_nets(columns: int, hidden: tuple[int, ...], outputs: int, rows: int) -> Ways:
    """What a party of FedKT does: ten small nets, by automatic gradients one after the other."""
    rng, net, trainer = np.random.default_rng(0), Mlp(hidden=hidden), Sgd(epochs=2, batch=16)
    kind, classes = ("binary", 2) if outputs == 1 else ("multiclass", outputs)
    task = Task(kind=kind, classes=tuple(map(str, range(classes))))  # type: ignore[arg-type]
    x = rng.standard_normal((10, rows, columns)).astype(np.float32)
    shards = list(zip(x, rng.integers(0, classes, (10, rows)), strict=True))
    return {
        AUTOMATIC: lambda: [fit_supervised(net, task, [x], y, trainer, rng) for x, y in shards],
        BY_HAND: lambda: fit_dense_nets(net, task, shards, trainer, rng.spawn(10)),
    }


def descents(columns: int, hidden: tuple[int, ...], outputs: int, batch: int) -> Ways:
    """What a party of VimAdmm does between two questions."""
    rng, net, rule = np.random.default_rng(0), Mlp(hidden=hidden, final="relu"), descent.Rule(1e-4, 0.9, 1e-4)
    x = rng.standard_normal((batch, columns)).astype(np.float32)
    goals = widen(rng.standard_normal((batch, outputs)).astype(np.float32))
    first = {name: values.copy() for name, values in weights_of(make(net, (columns,), outputs, rng)).items()}

    def by_module() -> descent.ModuleDescent:
        module = load(net.build((columns,), outputs), first)
        return descent.ModuleDescent(module, descent.no_velocity(first), x, turned=True)

    def steps(at_work: descent.Descent) -> Callable[[], object]:
        return lambda: descent.take_steps(at_work, 20, lambda found: (found - goals) / batch, rule)

    automatic, library = by_module(), compiled_products()
    automatic.stages.clear()
    ways = {AUTOMATIC: steps(automatic), BY_HAND: steps(by_module())}
    if library is not None:
        compiled = descent.CompiledDescent(library, "relu", first, descent.no_velocity(first), x)
        ways[COMPILED] = steps(compiled)
    return ways


def private(columns: int, hidden: tuple[int, ...], outputs: int, batch: int) -> Ways:
    """One step of `DpSgd`; automatic gradients are those by every layer's outputs."""
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((batch, columns)), dtype=torch.float32)
    y, settings = torch.tensor(rng.integers(0, outputs, batch)), DpSgd(sigma=1.0, batch=batch)

    def worker() -> PrivateStep:
        module = make(Mlp(hidden=hidden), (columns,), outputs, rng)
        return PrivateStep(settings, module, functional.cross_entropy, 10 * batch, SeededRandomness(rng))

    automatic, by_hand = worker(), worker()
    automatic.gradients.dense = None
    return {AUTOMATIC: lambda: automatic.take([x], y, 0.1), BY_HAND: lambda: by_hand.take([x], y, 0.1)}


def report(
    use: str, columns: int, hidden: tuple[int, ...], outputs: int, rows: int, ways: Ways, seconds: float
) -> None:
    """Time the ways in short turns, and print a line of the table."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    ends = perf_counter() + seconds * len(ways)
    while perf_counter() < ends:
        for name, way in ways.items():
            started, count = process_time(), 0
            while process_time() - started < 0.05:
                way()
                count += 1
            spent[name].append((process_time() - started) / count)
    times = {name: 1000 * median(some) for name, some in spent.items()}
    cells = [use, "-".join(map(str, (columns, *hidden, outputs))), str(rows), f"{times[AUTOMATIC]:.3g}"]
    cells += [f"{times[BY_HAND]:.3g}", f"{times[AUTOMATIC] / times[BY_HAND]:.2f}"]
    for name in times.keys() & {COMPILED, NUMPY}:
        cells += [f"{name} {times[name]:.3g}", f"{times[BY_HAND] / times[name]:.2f}"]
    print("| " + " | ".join(cells + ["-"] * (8 - len(cells))) + " |", flush=True)


if __name__ == "__main__":
    main()

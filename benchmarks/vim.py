"""How fast is VimAdmm, next to a plain loop over parties with automatic gradients; and its z-update, next to L-BFGS-B.

Both are measured in one run, in turns, because a machine is never as quick now as it was a minute ago:

    LACONIC_DATA=... python -m benchmarks.vim [--rounds 53] [--turns 3]
"""

import argparse
import os
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from torch import nn

from laconic import Federation, VimAdmm, deal, load
from laconic.core import Party, Peers, WireLog
from laconic.data import Rows
from laconic.deploy import Forked, InProcess, open_runtime
from laconic.learn import Mlp
from laconic.learn.kernels import compiled_products
from laconic.learn.train.descent import nearest_logits, targets_of
from laconic.tables import Task
from laconic.threads import limit_threads
from laconic.values import Array

METHOD = VimAdmm(epochs=1, batch=1024, lr=0.1, weight_decay=3e-4, net=Mlp(hidden=(128,), final="relu"))


class Spent(NamedTuple):
    """Seconds by the clock, and seconds of processor time, which a busy machine stretches less."""

    clock: float
    processor: float


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=53, help="batches of 1024 rows; 53 are an epoch of MNIST")
    parser.add_argument(
        "--turns", type=int, default=3, help="how often each is measured; the best time, the middle ratio"
    )
    chosen = parser.parse_args()
    rows = min(54_000, chosen.rounds * METHOD.batch)
    federation = deal(load("mnist"), Rows(parties=14), hub=None, overlap=rows, test=0.1)
    ways: dict[str, Callable[[], Spent]] = {
        "ours, one worker": lambda: ours(federation, InProcess(workers=1)),
        "plain loop, one thread": lambda: plain_loop(federation, threads=1),
        "ours, two forked workers": lambda: ours(federation, Forked(workers=2)),
        "plain loop, two threads": lambda: plain_loop(federation, threads=2),
        "ours, two threads": lambda: ours(federation, InProcess(workers=2)),
    }
    turns = [{name: measure() for name, measure in ways.items()} for _ in range(chosen.turns)]
    for name in ways:
        spent = min(turn[name] for turn in turns)
        print(
            f"{chosen.rounds} rounds, 14 parties, {METHOD.local_steps} steps: {name:24} {spent.clock:8.2f} s, "
            f"{spent.processor:8.2f} s of processor"
        )
    for threads in ("one thread", "two threads"):
        times = [turn[f"plain loop, {threads}"].clock / turn["ours, two forked workers"].clock for turn in turns]
        print(f"ours in two forked workers against the plain loop, its products on {threads}: {_spread(times)}")
    times = [turn["plain loop, one thread"].processor / turn["ours, one worker"].processor for turn in turns]
    print(f"processor time of ours against the plain loop, one thread each: {_spread(times)}")
    print("products: " + ("torch's, as nothing was compiled" if compiled_products() is None else "compiled"))
    newton, row_by_row = z_updates()
    print(f"z-update, 1024 rows of 10 classes: {1e3 * newton:.1f} ms; L-BFGS-B row by row {1e3 * row_by_row:.0f} ms")
    print(f"z-update against L-BFGS-B: {row_by_row / newton:.0f} x")


def _spread(times: list[float]) -> str:
    """The middle one of ratios, each of a single turn, and the range they are in."""
    return f"{median(times):.2f} x ({min(times):.2f} to {max(times):.2f})"


def ours(federation: Federation, runtime: InProcess | Forked) -> Spent:
    """What fitting takes; the one prediction at the end is not in it."""
    parties = {name: Party(name, table, 0) for name, table in federation.tables.items()}
    hub = parties.pop(federation.hub)
    with limit_threads(1):
        with open_runtime(tuple(parties.values()), runtime) as carrier:
            peers = Peers(METHOD, hub, carrier, WireLog(), carrier.names)
            _prepare(federation)
            began, before = perf_counter(), _processor()
            for _ in METHOD.fit(hub, peers):
                pass
            clock = perf_counter() - began
        return Spent(clock, _processor() - before)


def _processor() -> float:
    """Seconds of processor time of this process and of the workers that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _prepare(federation: Federation) -> None:
    """Have every party's rows prepared, which is no part of learning, before the clock starts."""
    for table in federation.tables.values():
        table.part("train")


def plain_loop(federation: Federation, threads: int) -> Spent:
    """The same work written as one would: a loop over parties, modules, torch's optimiser."""
    with limit_threads(threads):
        hub = federation.tables[federation.hub]
        at, y = hub.cut("train"), federation.labels("train")
        x = [torch.tensor(federation.tables[name].x[at]).flatten(1) for name in federation.peers]
        nets = [nn.Sequential(nn.Linear(part.shape[1], 128), nn.ReLU(), nn.Linear(128, 60), nn.ReLU()) for part in x]
        heads = [torch.randn(60, 10) * 0.1 for _ in x]
        steps = [torch.optim.SGD(net.parameters(), METHOD.lr, 0.9, weight_decay=METHOD.weight_decay) for net in nets]
        duals = np.zeros((len(y), 10))
        order = np.random.default_rng(0).permutation(len(y))
        began, seconds = perf_counter(), process_time()
        for start in range(0, len(y), METHOD.batch):
            rows = order[start : start + METHOD.batch]
            _plain_round(
                [part[rows] for part in x], nets, heads, steps, duals, rows, targets_of(federation.task, y[rows])
            )
        return Spent(perf_counter() - began, process_time() - seconds)


def _plain_round(
    x: list[torch.Tensor],
    nets: list[nn.Sequential],
    heads: list[torch.Tensor],
    steps: list[torch.optim.SGD],
    duals: Array,
    rows: Array,
    targets: Array,
) -> None:
    task, rho = Task(kind="multiclass", classes=tuple("0123456789")), METHOD.rho
    sent = [net(part).detach() for net, part in zip(nets, x, strict=True)]
    sums = sum(values @ head for values, head in zip(sent, heads, strict=True)).numpy().astype(np.float64)
    z = nearest_logits(task, sums, duals[rows], targets, rho)
    duals[rows] += rho * (sums - z)
    dual, gap = (torch.tensor(values, dtype=torch.float32) for values in (duals[rows], z - sums))
    for party, net in enumerate(nets):
        residual = gap + sent[party] @ heads[party]
        slope = sent[party].T @ (dual - rho * gap) / len(rows)
        heads[party] = heads[party] - METHOD.lr * (slope + METHOD.weight_decay * heads[party])
        for _ in range(METHOD.local_steps):
            steps[party].zero_grad()
            part = net(x[party]) @ heads[party]
            objective = ((dual * part).sum() + rho / 2 * ((residual - part) ** 2).sum()) / len(rows)
            objective.backward()
            steps[party].step()


def z_updates() -> tuple[float, float]:
    """Seconds of one batch's z-update, all rows at once and row by row; the best of three each."""
    rng = np.random.default_rng(0)
    task, rho = Task(kind="multiclass", classes=tuple("0123456789")), 2.0
    sums, duals, y = rng.normal(0, 3, (1024, 10)), rng.normal(0, 0.3, (1024, 10)), rng.integers(0, 10, 1024)
    targets = targets_of(task, y)
    with limit_threads(1):
        newton = min(_timed(lambda: nearest_logits(task, sums, duals, targets, rho)) for _ in range(10))
        row_by_row = min(_timed(lambda: _by_rows(sums, duals, targets, rho)) for _ in range(3))
    return newton, row_by_row


def _by_rows(sums: Array, duals: Array, targets: Array, rho: float) -> Array:
    def solve(row: int) -> Array:
        def value(z: Array) -> tuple[float, Array]:
            away = z - sums[row]
            loss = logsumexp(z) - targets[row] @ z - duals[row] @ z + rho / 2 * away @ away
            return float(loss), softmax(z) - targets[row] - duals[row] + rho * away

        found: Array = minimize(value, sums[row], jac=True, method="L-BFGS-B", tol=1e-8).x
        return found

    return np.stack([solve(row) for row in range(len(sums))])


def _timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


if __name__ == "__main__":
    main()

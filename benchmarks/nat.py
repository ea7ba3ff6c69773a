"""How fast noise-as-targets is, against a plain loop, on phishing with ten parties.

    LACONIC_DATA=... python benchmarks/nat.py [--epochs 30] [--dim 3] [--batch 100]

Guest by guest, all ways are timed one right after the other on one thread, so that a busy machine slows all alike; nine
guests are nine repeats. The plain loop is what one writes first: nn.Sequential, DataLoader, scipy's assignment, unfused
Adam. All start from the same weights and targets. The loss is the mean squared distance of all rows from the targets
that they own in the end.

Swaps get near the exact assignment's loss, not to it, and are farther off after few epochs than after many; so they are
also timed with a quarter more epochs than the others, to compare at a loss that is no higher.
"""

import argparse
import os
import time
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from laconic.learn import AnyAssignment, Exact, Nat, Swaps, make, weights_of
from laconic.learn.encoders.learnt import sphere
from laconic.values import Array, Settings, Weights

PARTIES = 10


class Clocked(Settings, frozen=True):
    """An assignment that adds up the time it takes in `seconds`, a list of one number."""

    inner: AnyAssignment
    seconds: list[float]

    def assign(self, outputs: Array, targets: Array, epoch: int) -> Array:
        """As `inner`, on the clock."""
        start = time.perf_counter()
        traded = self.inner.assign(outputs, targets, epoch)
        self.seconds[0] += time.perf_counter() - start
        return traded


class Turn(msgspec.Struct):
    """One party's training, one way."""

    seconds: float
    share: float
    loss: float


def main() -> None:
    """Time all guests all ways, and print the ratios."""
    args = _arguments()
    print(f"# NAT, {args.epochs} epochs\n\n## Guest by guest\n")
    print("| guest | way | seconds | assignment, % of the time | loss |\n|---|---|---|---|---|", flush=True)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        _warm_up()
        turns: dict[str, list[Turn]] = {"plain": [], "exact": [], "swaps": [], "swaps, longer": []}
        for number, x in enumerate(_guests()):
            nat = Nat(dim=args.dim, epochs=args.epochs, batch=args.batch, lr=args.lr)
            turns["plain"].append(_plain(nat, x, number))
            turns["exact"].append(_ours(nat, Exact(), x, number))
            turns["swaps"].append(_ours(nat, Swaps(), x, number))
            longer = msgspec.structs.replace(nat, epochs=-(-5 * nat.epochs // 4))
            turns["swaps, longer"].append(_ours(longer, Swaps(), x, number))
            _say(f"guest {number + 1}", {way: done[-1:] for way, done in turns.items()})
    _say("all guests", turns)
    _spread(turns)


def _plain(nat: Nat, x: Array, seed: int) -> Turn:
    rows, owned = (
        torch.from_numpy(x),
        torch.from_numpy(sphere(len(x), nat.dim_for(x.shape[1:]), np.random.default_rng(seed))),
    )
    net = _sequential(x.shape[1], nat.dim_for(x.shape[1:]), _first_weights(nat, x, seed))
    adam = torch.optim.Adam(net.parameters(), lr=nat.lr)
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(TensorDataset(rows, torch.arange(len(x))), nat.batch, shuffle=True, generator=order)
    assigning, start = 0.0, time.perf_counter()
    for _ in range(nat.epochs):
        for batch, numbers in loader:
            outputs = net(batch)
            begun = time.perf_counter()
            distances = torch.cdist(outputs.detach(), owned[numbers]) ** 2
            _, order_found = linear_sum_assignment(distances.numpy())
            owned[numbers] = owned[numbers[torch.from_numpy(order_found)]]
            assigning += time.perf_counter() - begun
            loss = ((outputs - owned[numbers]) ** 2).sum(dim=1).mean()
            adam.zero_grad()
            torch.autograd.backward(loss)
            adam.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        return Turn(seconds, assigning / seconds, float(((net(rows) - owned) ** 2).sum(dim=1).mean()))


def _ours(nat: Nat, assignment: AnyAssignment, x: Array, seed: int) -> Turn:
    clock = [0.0]
    # The clock is no assignment that a plan could name, so it is slipped in past the type.
    clocked = msgspec.structs.replace(nat, assignment=Clocked(inner=assignment, seconds=clock))
    targets = sphere(len(x), nat.dim_for(x.shape[1:]), np.random.default_rng(seed))
    start = time.perf_counter()
    weights, owned = clocked.chase(x, targets, np.random.default_rng(1000 + seed))
    seconds = time.perf_counter() - start
    return Turn(seconds, clock[0] / seconds, float(((nat.encode(weights, x) - owned) ** 2).sum(axis=1).mean()))


def _first_weights(nat: Nat, x: Array, seed: int) -> Weights:
    return weights_of(
        make(nat.net(x.shape[1:]), x.shape[1:], nat.dim_for(x.shape[1:]), np.random.default_rng(1000 + seed))
    )


def _sequential(columns: int, dim: int, weights: Weights) -> nn.Sequential:
    layers = [nn.Linear(columns, 30), nn.Linear(30, 30), nn.Linear(30, dim)]
    arrays = iter(weights.values())
    for layer in layers:
        layer.weight.data.copy_(torch.from_numpy(next(arrays)))
        layer.bias.data.copy_(torch.from_numpy(next(arrays)))
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2], nn.Tanh())


def _guests() -> list[Array]:
    """Nine of ten equal shares of the columns, standardised; the first share is the label holder's."""
    table = pd.read_parquet(Path(os.environ["LACONIC_DATA"]) / "phishing_onehot68.parquet")
    x = table.to_numpy(np.float32)[:, :-1]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return [np.ascontiguousarray(part) for part in np.array_split(x, PARTIES, axis=1)[1:]]


def _warm_up() -> None:
    x = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    _plain(Nat(dim=3, epochs=1), x, 0)
    _ours(Nat(dim=3, epochs=1), Exact(), x, 0)


def _say(what: str, turns: dict[str, list[Turn]]) -> None:
    for way, done in turns.items():
        seconds = sum(turn.seconds for turn in done)
        share = sum(turn.share * turn.seconds for turn in done) / seconds
        loss = np.mean([turn.loss for turn in done])
        print(f"| {what} | {way} | {seconds:.2f} | {100 * share:.0f} | {loss:.4f} |", flush=True)


def _spread(turns: dict[str, list[Turn]]) -> None:
    print("\n## Against the plain loop\n")
    print("| way | all guests, times as fast | single guests, median | least | most | loss, % above |\n|" + "---|" * 6)
    for way in ("exact", "swaps", "swaps, longer"):
        pairs = list(zip(turns["plain"], turns[way], strict=True))
        ratios = sorted(plain.seconds / ours.seconds for plain, ours in pairs)
        whole = sum(plain.seconds for plain, _ in pairs) / sum(ours.seconds for _, ours in pairs)
        losses = np.mean([ours.loss for _, ours in pairs]) / np.mean([plain.loss for plain, _ in pairs])
        single = f"{np.median(ratios):.1f} | {ratios[0]:.1f} | {ratios[-1]:.1f}"
        print(f"| {way} | {whole:.1f} | {single} | {100 * (losses - 1):.1f} |")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time noise-as-targets against a plain loop.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--dim", type=int, default=3)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-4)
    return parser.parse_args()


if __name__ == "__main__":
    main()

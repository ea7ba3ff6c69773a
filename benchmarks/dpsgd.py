"""Private training against Opacus and against plain training, in samples a second, all in one run.

Usage: python -m benchmarks.dpsgd [--seconds 3]
"""

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from math import prod

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.learn import Cnn, Mlp, Optimiser, Sgd, make
from laconic.privacy import DpSgd, Randomness, SecureRandomness, SeededRandomness, poisson_sample
from laconic.privacy.private_sgd import PrivateStep

ROWS = 20_000
SHAPES: dict[str, tuple[Mlp | Cnn, tuple[int, ...], int]] = {
    "MLP 196-128-10": (Mlp(hidden=(128,)), (196,), 10),
    "MLP 17-30-30-3": (Mlp(hidden=(30, 30)), (17,), 3),
    "CNN 14x14, 16-32": (Cnn(channels=(16, 32), hidden=(64,)), (1, 14, 14), 10),
}
Step = Callable[[], int]


def main() -> None:
    """Print a table: a line for each net and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each is timed")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    ratios = "seeded / Opacus | seeded / plain | secure / plain"
    print(f"| net | batch | plain | DpSgd, seeded | secure | Opacus hooks | {ratios} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (net, shape, classes) in SHAPES.items():
        for batch in (128, 1024):
            # Little else on the machine is still: turns about, so that all see the same weather.
            speeds = _interleaved(_steps(net, shape, classes, batch), seconds)
            plain, seeded, secure, hooks = speeds
            figures = " | ".join(f"{speed:,.0f}" for speed in speeds)
            ratios = f"{seeded / hooks:.1f} | {seeded / plain:.2f} | {secure / plain:.2f}"
            print(f"| {name} | {batch} | {figures} | {ratios} |", flush=True)


def _steps(net: Mlp | Cnn, shape: tuple[int, ...], classes: int, batch: int) -> list[Step]:
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((ROWS, *shape)), dtype=torch.float32)
    y = torch.tensor(rng.integers(0, classes, ROWS))

    def fresh() -> nn.Module:
        return make(net, shape, classes, np.random.default_rng(1))

    return [
        _plain(fresh(), x, y, batch),
        _private(fresh(), x, y, batch, SeededRandomness(rng)),
        _private(fresh(), x, y, batch, SecureRandomness()),
        _opacus(_as_torch(net, shape, classes), x, y, batch),
    ]


def _plain(module: nn.Module, x: Tensor, y: Tensor, batch: int) -> Step:
    settings = Sgd(optimizer="sgd")
    optimiser = Optimiser(settings, module.train(), settings.begin(module))

    def step() -> int:
        rows = torch.randint(0, ROWS, (batch,))
        module.zero_grad()
        torch.autograd.backward(functional.cross_entropy(module(x.index_select(0, rows)), y.index_select(0, rows)))
        optimiser.step(0.1)
        return batch

    return step


def _private(module: nn.Module, x: Tensor, y: Tensor, batch: int, chance: Randomness) -> Step:
    worker = PrivateStep(DpSgd(sigma=1.0, batch=batch), module, functional.cross_entropy, ROWS, chance)

    def step() -> int:
        rows = poisson_sample(ROWS, batch / ROWS, chance)
        worker.take([x.index_select(0, rows)], y.index_select(0, rows), 0.1)
        return len(rows)

    return step


def _opacus(module: nn.Module, x: Tensor, y: Tensor, batch: int) -> Step:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    watched = GradSampleModule(module.train())
    plain = torch.optim.SGD(watched.parameters(), lr=0.1)
    optimiser = DPOptimizer(plain, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=batch)

    def step() -> int:
        rows = torch.randint(0, ROWS, (batch,))
        optimiser.zero_grad()
        torch.autograd.backward(functional.cross_entropy(watched(x.index_select(0, rows)), y.index_select(0, rows)))
        optimiser.step()
        return batch

    return step


def _as_torch(net: Mlp | Cnn, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The same net of torch's own layers, which Opacus knows."""
    if isinstance(net, Mlp):
        widths = (prod(shape), *net.hidden)
        hidden = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(widths[-1], classes))
    first, second = (one if isinstance(one, int) else one.channels for one in net.channels)
    convolutions = [nn.Conv2d(shape[0], first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    dense = [nn.Linear(second * (shape[1] // 4) * (shape[2] // 4), net.hidden[0]), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.Flatten(), *dense, nn.Linear(net.hidden[0], classes))


def _interleaved(steps: list[Step], seconds: float) -> list[float]:
    """Samples a second of each, timed in short turns one after the other."""
    for step in steps:
        step()
    counts, spent = [0] * len(steps), [0.0] * len(steps)
    while min(spent) < seconds:
        for place, step in enumerate(steps):
            started = time.perf_counter()
            while time.perf_counter() - started < 0.1:
                counts[place] += step()
            spent[place] += time.perf_counter() - started
    return [count / time for count, time in zip(counts, spent, strict=True)]


if __name__ == "__main__":
    main()

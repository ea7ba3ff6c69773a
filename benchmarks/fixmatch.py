"""How fast FixMatch learns: epochs a minute on 10,000 half images, and how much of the time goes into views.

Run: python -m benchmarks.fixmatch
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from laconic.learn import FixMatch, torch_generator
from laconic.learn.train.semisupervised import begin, default_extractor

SHAPE, CLASSES, WIDTH, LABELLED = (1, 28, 14), 10, 32, 256


def main() -> None:
    """Time whole epochs, and the views of one epoch alone, in processor time so that a busy machine does not matter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000, help="unlabelled images")
    parser.add_argument("--epochs", type=int, default=2, help="epochs to time")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((chosen.rows, *SHAPE), dtype=np.float32)
    codes = rng.integers(CLASSES, size=LABELLED)
    settings = FixMatch()
    steps = -(-chosen.rows // (settings.batch * settings.ratio))
    net = default_extractor(SHAPE)
    start = begin(net, SHAPE, WIDTH, CLASSES, rng)

    def learn(count: int) -> None:
        FixMatch(steps=count).fit(start, net, WIDTH, images[:LABELLED], codes, images, rng)

    learn(2)
    epoch = _seconds(lambda: learn(steps * chosen.epochs)) / chosen.epochs
    views = _seconds(lambda: _views(settings, torch.from_numpy(images), steps, rng))
    print(f"{chosen.rows} images of {SHAPE}, {steps} steps an epoch, one thread")
    print(f"epochs a minute: {60 / epoch:.1f} ({epoch:.2f} s of processor time each)")
    print(f"views: {views:.2f} s an epoch, {100 * views / epoch:.1f} % of the time")


def _views(settings: FixMatch, images: torch.Tensor, steps: int, rng: np.random.Generator) -> None:
    """Every view that one epoch needs: weak ones of labelled and unlabelled rows, strong ones of unlabelled rows."""
    chance = torch_generator(rng)
    for number in range(steps):
        settings.weak(images[: settings.batch], chance)
        rows = images[number * settings.batch * settings.ratio : (number + 1) * settings.batch * settings.ratio]
        settings.weak(rows, chance)
        settings.strong(rows, chance)


def _seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()

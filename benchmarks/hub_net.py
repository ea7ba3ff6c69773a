"""The label holder's net on many rows: as FedOnce trains it, as it did before, and by a plain good PyTorch loop.

    python -m benchmarks.hub_net [--rows 200000] [--data made covtype] [--seeds 3]

All three train the same net on the same rows, stop by the same validation rows, and are scored on the same test rows;
the loop is what a practitioner would write: shuffled batches of 1,024, Adam, a third of the learning rate when the
validation loss stays, the best weights in the end. `made` has 30 columns of noise, and a label by some sums and
products. Times are of the processor's work, on one thread, with the load average found.
"""

import argparse
import copy
import os
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import nn

from laconic import Equal, deal, load
from laconic.learn import Joint, Mlp, Sgd, fit_supervised, predict_supervised
from laconic.methods.vertical.fedonce import usual_trainer
from laconic.tables import Task, metrics
from laconic.threads import limit_threads
from laconic.values import Array

HIDDEN = 64
BEFORE = Sgd(epochs=100, patience=10)
NET = Joint(width=128, head=Mlp(hidden=(HIDDEN,)))
Cuts = dict[str, tuple[Array, Array]]


def main() -> None:
    """Print a line for each way and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--data", choices=("made", "covtype"), nargs="+", default=["made"])
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    for name in chosen.data:
        for seed in range(chosen.seeds):
            task, cuts = made(chosen.rows, seed) if name == "made" else dealt(name, seed)
            for way, found in ways(task, cuts, seed):
                started = time.process_time()
                with limit_threads(1):
                    predicted = found()
                seconds = time.process_time() - started
                scores = metrics(task, cuts["test"][1], predicted)
                print(
                    f"{name}, {len(cuts['train'][1]):,} training rows, seed {seed}, {way}: {seconds:.1f} s, log-loss "
                    f"{scores['log_loss']:.5f}, accuracy {scores['accuracy']:.5f}",
                    flush=True,
                )
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def made(rows: int, seed: int) -> tuple[Task, Cuts]:
    """Rows of noise whose label follows from some of it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 30)).astype(np.float32)
    score = rng.normal(size=rows) + sum(x[:, at] + x[:, at + 1] * x[:, at + 2] for at in (0, 10, 20))
    y = (score > 0).astype(np.int64)
    ends = [0, int(rows * 0.72), int(rows * 0.8), rows]
    return Task(kind="binary", label="label", classes=("no", "yes")), {
        cut: (x[first:last], y[first:last])
        for cut, first, last in zip(("train", "valid", "test"), ends, ends[1:], strict=False)
    }


def dealt(name: str, seed: int) -> tuple[Task, Cuts]:
    """A public table as two parties prepare it, side by side."""
    parties = deal(load(name), Equal(parties=2), seed=seed)
    cuts = {}
    for cut in ("train", "valid", "test"):
        x = np.concatenate([table.part(cut)[0] for table in parties.tables.values()], axis=1)
        cuts[cut] = (x, parties.labels(cut))
    return parties.task, cuts


def ways(task: Task, cuts: Cuts, seed: int) -> Iterable[tuple[str, Callable[[], Array]]]:
    """By name, what trains on the training rows and predicts the test rows."""
    (x, y), valid, test = cuts["train"], cuts["valid"], cuts["test"][0]

    def by(trainer: Sgd) -> Array:
        rng = np.random.default_rng(seed)
        weights = fit_supervised(NET, task, [x], y, trainer, rng, valid=([valid[0]], valid[1]))
        return predict_supervised(NET, task, weights, [test])

    yield "FedOnce's usual trainer", lambda: by(usual_trainer(len(y)))
    yield "its trainer on fewer rows", lambda: by(BEFORE)
    yield "a plain PyTorch loop", lambda: plain_loop(task, cuts, seed)


def plain_loop(task: Task, cuts: Cuts, seed: int, batch: int = 1024, patience: int = 6) -> Array:
    """The same net as a practitioner would train it."""
    torch.manual_seed(seed)
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = (
        nn.BCEWithLogitsLoss() if task.outputs == 1 else nn.CrossEntropyLoss()
    )
    rows = {cut: torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)) for cut, (x, _) in cuts.items()}
    labels = {
        cut: torch.from_numpy(y).float()[:, None] if task.outputs == 1 else torch.from_numpy(y)
        for cut, (_, y) in cuts.items()
    }
    net = nn.Sequential(nn.Linear(rows["train"].shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, task.outputs))
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-5)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=1 / 3, patience=1)
    best, waited, kept = np.inf, 0, copy.deepcopy(net.state_dict())
    for _ in range(100):
        for at in torch.split(torch.randperm(len(rows["train"])), batch):
            optimiser.zero_grad()
            torch.autograd.backward(loss_of(net(rows["train"][at]), labels["train"][at]))
            optimiser.step()
        with torch.no_grad():
            now = float(loss_of(net(rows["valid"]), labels["valid"]))
        scheduler.step(now)
        waited += 1
        if now < best:
            best, waited, kept = now, 0, copy.deepcopy(net.state_dict())
        if waited >= patience:
            break
    net.load_state_dict(kept)
    with torch.no_grad():
        outputs = net(rows["test"])
    shares: Array = (outputs.sigmoid()[:, 0] if task.outputs == 1 else outputs.softmax(dim=1)).numpy()
    return shares.astype(np.float64)


if __name__ == "__main__":
    main()

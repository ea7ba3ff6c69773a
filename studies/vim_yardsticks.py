"""What the VIM family has to beat on the rows it is scored on: one party, no upload, all columns in one place."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from laconic import Centralised, Federation, LateFusion, simulate, train
from laconic.core import task_of
from laconic.deploy import FittedRun
from laconic.learn import Boosted, Mlp, Sgd
from laconic.tables import headline, metrics
from laconic.values import Array
from studies.harness import Job, Record
from studies.vim_data import bands, noisy_bands, patches, tables

_NET = Mlp(hidden=(128,))


def yardstick_jobs(quick: bool) -> Iterator[Job]:
    """On the federations of the tables of scores by epoch."""
    epochs, size = (1, 400) if quick else (5, 0)
    dealt: dict[str, tuple[Callable[[int], Federation], int]] = {
        "superconduct": (partial(tables, "superconduct"), size or 8_192),
        "nycflights13": (partial(tables, "nycflights13"), size or 12_288),
        "fashion_mnist": (lambda rows: bands("fashion_mnist", rows, 0), size or 54_000),
        "cifar10": (patches, size or 4_096),
        "mnist": (lambda rows: bands("mnist", rows, 0), size or 54_000),
        "mnist, one party noisy": (lambda rows: noisy_bands("mnist", rows, 0), size or 54_000),
    }
    for data, (deal, rows) in dealt.items():
        if quick and data != "superconduct":
            continue
        key = {"part": "yardsticks", "data": data, "rows": rows, "epochs": epochs, "seed": 0}
        yield Job(key, partial(_measure, deal, rows, epochs))


def _measure(deal: Callable[[int], Federation], rows: int, epochs: int) -> Record:
    federation = deal(rows)
    trainer = Sgd(epochs=epochs, batch=128, decay="cosine")
    alone = train(LateFusion(net=_NET, trainer=trainer), federation)
    found = {
        "metric": alone.result.score.metric,
        "commonest": _commonest(alone),
        "best_party": _best_party(alone),
        "no_upload": alone.headline(),
        "pooled_net": simulate(Centralised(net=_NET, trainer=trainer), federation).score.value,
    }
    # Trees of ten classes on 784 shades would take longer than all the rest.
    return found if federation.tables[federation.peers[0]].x.ndim == 4 else found | {"pooled_trees": _trees(alone)}


def _commonest(alone: FittedRun) -> float:
    """Always the share of classes among training rows, or the mean."""
    task, labels = task_of(alone.hub), alone.federation.labels("train")
    count = len(alone.federation.labels("test"))
    if task.kind != "multiclass":
        return _score(alone, "test", np.full(count, labels.mean()))
    shares = np.bincount(labels.astype(int), minlength=len(task.classes)) / len(labels)
    return _score(alone, "test", np.tile(shares, (count, 1)))


def _best_party(alone: FittedRun) -> float:
    """The party that predicts validation rows best by itself, on test rows."""
    sign = -1.0 if task_of(alone.hub).kind == "regression" else 1.0
    members = [party for party in (alone.hub, *alone.others) if party.data.columns]
    method = alone.method
    if not isinstance(method, LateFusion):
        raise TypeError("only parties that learnt by themselves can be compared")
    best = max(members, key=lambda party: sign * _score(alone, "valid", method.give_predictions(party, "valid")))
    return _score(alone, "test", method.give_predictions(best, "test"))


def _trees(alone: FittedRun) -> float:
    """Boosted trees on all columns side by side."""
    task, learner, members = task_of(alone.hub), Boosted(trees=200, lr=0.1), (alone.hub, *alone.others)
    train_x, test_x = (
        np.concatenate([party.data.part(rows)[0] for party in members if party.data.columns], axis=1)
        for rows in ("train", "test")
    )
    model = learner.fit(task, train_x, alone.federation.labels("train"), np.random.default_rng(0))
    return _score(alone, "test", learner.predict(task, model, test_x))


def _score(alone: FittedRun, rows: str, predictions: Array) -> float:
    task = task_of(alone.hub)
    return headline(task, metrics(task, alone.federation.labels(rows), predictions)).value

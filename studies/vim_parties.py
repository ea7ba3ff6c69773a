"""Which parties matter: heads, noise at test time, Shapley values; a noisy party; half of the parties; pictures."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec.structs import replace

from laconic import Federation, FedOnce, Method, VimAdmm, disturb, importance, train
from laconic.deploy import FittedRun, Importance, denoise, summarise
from laconic.learn import Pca, Sgd
from studies.harness import Job, Record
from studies.vim_curves import methods, patch_methods
from studies.vim_data import bands, patches, tables
from studies.vim_pictures import bars, scatter

_BATCH = 256
"""Heads take one step a round, and tell little before they have left where they began: many rounds of few rows.

Chosen after a first pass with batches of 1024 had been seen; `first_importance.txt` beside the results keeps it.
"""

_KEPT: tuple[Literal["most"], Literal["least"]] = ("most", "least")


def party_jobs(quick: bool, out: Path) -> Iterator[Job]:
    """Importance on every data set, then MNIST's noisy party, halves and pictures."""
    rows, epochs = (300, 1) if quick else (12_288, 4)
    for name, method, federation in islice(_runs(rows, epochs), 3 if quick else None):
        data = federation.args[0]
        key = {"part": "importance", "data": data, "rows": federation.args[1], "method": name, "epochs": epochs}
        yield Job(key, partial(_important, method, federation, quick, out / f"importance_{data}_{name}.svg"))
    banded = partial(bands, "mnist", rows, 0)
    method = methods(epochs, batch=_BATCH)["VimAdmm"]
    key = {"part": "denoise", "data": "mnist", "rows": rows, "method": "VimAdmm", "epochs": epochs, "seed": 0}
    yield Job(key, lambda: _denoised(train(method, banded()), out, quick))
    rows = rows if quick else 54_000
    key = key | {"part": "summarise", "rows": rows}
    yield Job(key, lambda: _halves(train(method, bands("mnist", rows, 0)), out))


def patch_importance_jobs(quick: bool, out: Path) -> Iterator[Job]:
    """Importance of the patches of CIFAR-10."""
    if quick:
        return
    rows = 1_500
    key = {"part": "importance", "data": "cifar10", "rows": rows, "method": "VimAdmm", "epochs": 2}
    method = replace(patch_methods(epochs=2)["VimAdmm"], batch=64)
    yield Job(key, partial(_important, method, partial(patches, rows), quick, out / "importance_cifar10_VimAdmm.svg"))


def _runs(rows: int, epochs: int) -> Iterator[tuple[str, Method, "partial[Federation]"]]:
    few = min(rows, 4096)
    yield "VimAdmm", methods(epochs, batch=_BATCH)["VimAdmm"], partial(bands, "mnist", rows, 0)
    for data in ("phishing", "nycflights13"):
        yield "VimAdmm", VimAdmm(epochs=epochs + 6), partial(tables, data, few)
        yield "FedOnce", FedOnce(encoder=Pca(dim=8), trainer=Sgd(epochs=100, patience=10)), partial(tables, data, few)
    yield "VimSgd", methods(epochs, batch=_BATCH)["VimSgd"], partial(bands, "mnist", rows, 0)
    for name in ("VimAdmm", "VimSgd"):
        yield name, methods(epochs, batch=_BATCH)[name], partial(bands, "fashion_mnist", rows, 0)
    yield "VimAdmm", VimAdmm(epochs=epochs + 6, lr=0.01), partial(tables, "superconduct", few)


def _important(method: Method, federation: Callable[[], Federation], quick: bool, picture: Path) -> Record:
    trained = train(method, federation())
    # 2^14 subsets of parties: 500 rows are enough to tell values a percent apart.
    found = importance(trained, rows=10 if quick else 500)
    bars(picture, f"{trained.federation.name}, {type(method).__name__}", _panels(found))
    return {
        "metric": trained.result.score.metric,
        "score": trained.result.score.value,
        "heads": found.heads,
        "noise": found.noise,
        "shapley": found.shapley,
        **_ranks(found),
    }


def _panels(found: Importance) -> dict[str, dict[str, float]]:
    return {
        "length of head": found.heads,
        "lost when its test cells are noise": found.noise,
        "Shapley value": found.shapley,
    }


def _ranks(found: Importance) -> Record:
    pairs = (("heads", "shapley"), ("heads", "noise"), ("noise", "shapley"))
    return {f"spearman_{one}_{other}": round(found.spearman(one, other), 3) for one, other in pairs}  # type: ignore[arg-type]


def _denoised(trained: FittedRun, out: Path, quick: bool) -> Record:
    party = trained.federation.peers[6]
    found = denoise(trained, party)
    panels = {"all clean": found.heads, f"noise at {party}": found.heads_noisy}
    bars(out / "denoise_heads.svg", "length of heads", panels)
    rows = 100 if quick else 1000
    alike = {
        name: _tsne(trained, name, out / f"tsne_{name}.svg", rows) for name in (party, trained.federation.peers[0])
    }
    noisy = train(trained.method, disturb(trained.federation, party, 3.0), seed=trained.hub.seed)
    alike[f"{party}_noisy"] = _tsne(noisy, party, out / f"tsne_{party}_noisy.svg", rows)
    return {
        "party": party,
        "shrinkage": round(found.shrinkage, 3),
        "score": found.score,
        "score_noisy": found.score_noisy,
        "heads": found.heads,
        "heads_noisy": found.heads_noisy,
        "neighbours_alike": alike,
    }


def _tsne(trained: FittedRun, party: str, picture: Path, rows: int) -> float:
    """Draw a party's outputs for some training rows; how often the nearest neighbour there has the same label."""
    from sklearn.manifold import TSNE
    from sklearn.neighbors import NearestNeighbors

    places = np.random.default_rng(0).permutation(len(trained.hub.data.cut("train")))[:rows]
    values = trained.hub.memory["latest"][party][places]
    labels = trained.federation.labels("train")[places]
    flat = TSNE(n_components=2, random_state=0, init="pca", perplexity=min(30.0, rows / 4)).fit_transform(values)
    scatter(picture, f"outputs of {party}", flat, labels)
    nearest = NearestNeighbors(n_neighbors=2).fit(flat).kneighbors(flat, return_distance=False)[:, 1]
    return float(np.mean(labels[nearest] == labels))


def _halves(trained: FittedRun, out: Path) -> Record:
    found = {"all": trained.headline()}
    for share in (0.5, 0.2):
        for keep in _KEPT:
            found[f"{keep} {share:.0%}"] = summarise(trained, share, keep).headline()
    bars(out / "summarise.svg", "accuracy with fewer parties", {"kept: by length of head": found})
    return dict(found)

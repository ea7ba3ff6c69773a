"""Which parties matter: heads, noise at test time, Shapley values; a noisy party; half of the parties; pictures."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from laconic.core.method import Method
from laconic.data.deal import deal
from laconic.data.federation import Federation
from laconic.data.sources import load
from laconic.data.vertical import Equal, Groups
from laconic.learn.pca import Pca
from laconic.methods.vertical.fedonce import FedOnce
from laconic.methods.vertical.vimadmm import VimAdmm
from laconic.party_importance import Importance, denoise, importance, summarise
from laconic.trained import Trained, train
from studies.harness import Job, Record
from studies.vim_pictures import bars, scatter

Methods = Callable[[int], dict[str, Method]]
_KEPT: tuple[Literal["most"], Literal["least"]] = ("most", "least")
Bands = Callable[[str, int, int], Federation]


def party_jobs(quick: bool, out: Path, methods: Methods, bands: Bands) -> Iterator[Job]:
    """Importance on every data set, then MNIST's noisy party, halves and pictures."""
    rows, epochs = (1024, 1) if quick else (12_288, 3)
    for data in ("mnist", "fashion_mnist"):
        for method in ("VimAdmm", "VimSgd"):
            key = {"part": "importance", "data": data, "rows": rows, "method": method, "epochs": epochs, "seed": 0}
            yield Job(key, partial(_important_bands, methods(epochs)[method], bands, data, rows, quick))
    for data in ("phishing", "nycflights13"):
        for name, chosen in {"VimAdmm": VimAdmm(epochs=5), "FedOnce": FedOnce(encoder=Pca(dim=8))}.items():
            key = {"part": "importance", "data": data, "rows": 4096, "method": name, "epochs": 5, "seed": 0}
            yield Job(key, partial(_important_table, chosen, data, quick))
    key = {"part": "denoise", "data": "mnist", "rows": rows, "method": "VimAdmm", "epochs": epochs, "seed": 0}
    yield Job(key, lambda: _denoised(_run(methods(epochs)["VimAdmm"], bands("mnist", rows, 0)), out))
    key = {"part": "summarise", "data": "mnist", "rows": rows, "method": "VimAdmm", "epochs": epochs, "seed": 0}
    yield Job(key, lambda: _halves(_run(methods(epochs)["VimAdmm"], bands("mnist", rows, 0))))


def _important_bands(method: Method, bands: Bands, data: str, rows: int, quick: bool) -> Record:
    return _important(_run(method, bands(data, rows, 0)), quick)


def _important_table(method: Method, data: str, quick: bool) -> Record:
    return _important(_run(method, _table(data)), quick)


def _run(method: Method, federation: Federation) -> Trained:
    return train(method, federation, workers=2)


def _table(name: str) -> Federation:
    cut = Groups() if name == "nycflights13" else Equal(parties=8)
    return deal(load(name), cut, hub=0 if name == "nycflights13" else None, overlap=4096, seed=0)


def _important(trained: Trained, quick: bool) -> Record:
    # 2^14 subsets of parties: a thousand rows are enough to tell values a percent apart.
    found = importance(trained, rows=20 if quick else 1000)
    return {
        "score": trained.result.score.value,
        "heads": found.heads,
        "noise": found.noise,
        "shapley": found.shapley,
        **_ranks(found),
    }


def _ranks(found: Importance) -> Record:
    pairs = (("heads", "shapley"), ("heads", "noise"), ("noise", "shapley"))
    return {f"spearman_{one}_{other}": round(found.spearman(one, other), 3) for one, other in pairs}  # type: ignore[arg-type]


def _denoised(trained: Trained, out: Path) -> Record:
    party = trained.federation.peers[6]
    found = denoise(trained, party, workers=2)
    bars(out / "heads_clean.svg", "head norms, clean", found.heads)
    bars(out / "heads_noisy.svg", f"head norms, noise at {party}", found.heads_noisy)
    knn = {name: _tsne(trained, name, out) for name in (party, trained.federation.peers[0])}
    return {
        "party": party,
        "shrinkage": round(found.shrinkage, 3),
        "score": found.score,
        "score_noisy": found.score_noisy,
        "heads": found.heads,
        "heads_noisy": found.heads_noisy,
        "neighbours_alike": knn,
    }


def _tsne(trained: Trained, party: str, out: Path) -> float:
    """Draw a party's outputs for 1000 training rows; how often the nearest neighbour there has the same label."""
    from sklearn.manifold import TSNE
    from sklearn.neighbors import NearestNeighbors

    places = np.random.default_rng(0).permutation(len(trained.hub.data.cut("train")))[:1000]
    values = trained.hub.memory["latest"][party][places]
    labels = trained.federation.labels("train")[places]
    flat = TSNE(n_components=2, random_state=0, init="pca", perplexity=30.0).fit_transform(values)
    scatter(out / f"tsne_{party}.svg", f"outputs of {party}", flat, labels)
    nearest = NearestNeighbors(n_neighbors=2).fit(flat).kneighbors(flat, return_distance=False)[:, 1]
    return float(np.mean(labels[nearest] == labels))


def _halves(trained: Trained) -> Record:
    found: Record = {"all": trained.headline()}
    for share in (0.5, 0.2):
        for keep in _KEPT:
            found[f"{keep} {share:.0%}"] = summarise(trained, share, keep, workers=2).headline()
    return found

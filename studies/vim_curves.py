"""Scores of the VIM family by epoch, with rounds and bytes."""

from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from laconic import Fdml, Federation, Vafl, VimAdmm, VimAdmmJoint, VimSgd, simulate
from laconic.learn import Cnn, Mlp
from laconic.methods.families.summed import Summing
from studies.harness import Job, Record
from studies.vim_choice import BATCH, CHOSEN, NET, unless_diverged
from studies.vim_data import bands, noisy_bands, patches, tables

_PIXELS = Cnn(channels=(16, 32), hidden=(), final="relu")
_SMALL = Mlp(hidden=(64,), final="relu")


def methods(epochs: int, net: Mlp | Cnn = NET, batch: int = BATCH) -> dict[str, Summing]:
    """The five methods with the settings chosen."""
    return {name: replace(one, epochs=epochs, net=net, batch=batch) for name, one in CHOSEN.items()}  # type: ignore[misc]


def noisy_jobs(quick: bool, seed: int) -> Iterator[Job]:
    """MNIST in 14 bands, one of them noisy: table 4, and figures 2 and 3 as its last column has them."""
    yield from _band_jobs("noisy", "mnist", 10, partial(noisy_bands, "mnist"), quick, seed)


def clean_jobs(quick: bool, seed: int) -> Iterator[Job]:
    """Nobody noisy: Fashion-MNIST in bands, tables with several owners."""
    yield from _band_jobs("clean", "fashion_mnist", 5, partial(bands, "fashion_mnist"), quick, seed)
    sizes = {"superconduct": 400} if quick else {"nycflights13": 12_288, "superconduct": 8_192}
    for data, rows in sizes.items():
        for name, method in _fewer(_table_methods(data, 1 if quick else 5), quick).items():
            yield _job("clean", data, rows, method, name, partial(tables, data, rows, seed), seed)


def first_row_jobs(quick: bool) -> Iterator[Job]:
    """MNIST in 14 bands, nobody noisy: the first row of figures 2 and 3."""
    yield from _band_jobs("clean", "mnist", 10, partial(bands, "mnist"), quick, 0)


def patch_jobs(quick: bool) -> Iterator[Job]:
    """CIFAR-10 in nine patches; five local steps in place of the paper's 30, for convolutions on two cores."""
    rows, epochs = (128, 1) if quick else (4_096, 4)
    for name, method in _fewer(patch_methods(epochs), quick).items():
        yield _job("clean", "cifar10", rows, method, name, partial(patches, rows), 0)


def _band_jobs(
    part: str, data: str, epochs: int, deal: Callable[[int, int], Federation], quick: bool, seed: int
) -> Iterator[Job]:
    rows, epochs = (400, 2) if quick else (54_000, epochs)
    for name, method in _fewer(methods(epochs), quick).items():
        yield _job(part, data, rows, method, name, partial(deal, rows, seed), seed)


def patch_methods(epochs: int) -> dict[str, Summing]:
    """Methods for patches of photographs, with learning rates from the paper's grid or near it."""
    shared = {"epochs": epochs, "batch": 128, "net": _PIXELS, "weight_decay": 1e-3}
    found: tuple[Summing, ...] = (
        VimAdmm(lr=0.02, local_steps=5, **shared),  # type: ignore[arg-type]
        VimSgd(lr=0.05, **shared),  # type: ignore[arg-type]
        Vafl(lr=0.05, weights_lr=0.1, **shared),  # type: ignore[arg-type]
        VimAdmmJoint(lr=0.02, local_steps=5, **shared),  # type: ignore[arg-type]
        Fdml(lr=0.05, **shared),  # type: ignore[arg-type]
    )
    return {type(one).__name__: one for one in found}


def _table_methods(data: str, epochs: int) -> dict[str, Summing]:
    found = methods(epochs, _SMALL, 512)
    if data == "superconduct":
        # Squared errors have no bound on their slopes: where nothing damps them, the rates chosen for classes diverge.
        return {
            name: one if isinstance(one, VimAdmm | VimAdmmJoint) else replace(one, lr=one.lr / 10)
            for name, one in found.items()
        }
    return found


def _fewer(found: dict[str, Summing], quick: bool) -> dict[str, Summing]:
    return {"VimSgd": found["VimSgd"]} if quick else found


def _job(part: str, data: str, rows: int, method: Summing, name: str, deal: Callable[[], Federation], seed: int) -> Job:
    key = {"part": part, "data": data, "rows": rows, "method": name, "epochs": method.epochs, "seed": seed}
    return Job(key, lambda: curve(method, deal(), seed))


def curve(method: Summing, federation: Federation, seed: int) -> Record:
    """What a run cost and scored, epoch by epoch; the first look, before learning, is left out."""
    rows = len(federation.tables[federation.hub].cuts["train"])
    result = unless_diverged(lambda: simulate(method, federation, seed=seed, look_every=-(-rows // method.batch)))
    if result is None:
        return {"diverged": True}
    looks = result.curve[1:]
    return {
        "metric": result.score.metric,
        "score": result.score.value,
        "scores": [round(look.score.value, 4) for look in looks],
        "accuracy": result.metrics.get("accuracy"),
        "rounds": result.fit.rounds,
        "bytes": [look.bytes for look in looks],
        "bytes_up": result.fit.bytes_up,
        "bytes_down": result.fit.bytes_down,
        "fit_seconds": round(result.fit.seconds, 1),
    }

"""How the settings of the VIM study were chosen: two epochs of MNIST with a noisy party, scored on validation rows."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from laconic import Fdml, Federation, Method, Result, Vafl, VimAdmm, VimAdmmJoint, VimSgd, simulate
from laconic.learn import Mlp
from studies.harness import Job, Record

NET = Mlp(hidden=(128,), final="relu")
BATCH = 1024
EPOCHS = 2

Bands = Callable[[str, int, int], Federation]

_ADMM = {"rho": 2.0, "local_steps": 20}
_JOINT = {"rho": 0.5, "local_steps": 20}
_TRIED: tuple[Method, ...] = (
    VimAdmm(lr=0.05, weight_decay=1e-3, **_ADMM),  # type: ignore[arg-type]
    VimAdmm(lr=0.05, weight_decay=3e-4, **_ADMM),  # type: ignore[arg-type]
    VimAdmm(lr=0.1, weight_decay=1e-3, **_ADMM),  # type: ignore[arg-type]
    VimAdmm(lr=0.1, weight_decay=3e-4, **_ADMM),  # type: ignore[arg-type]
    VimSgd(lr=0.3, weight_decay=1e-3),
    VimSgd(lr=0.3, weight_decay=3e-4),
    VimSgd(lr=0.5, weight_decay=3e-4),
    VimSgd(lr=0.8, weight_decay=3e-4),
    Vafl(lr=0.3, weight_decay=3e-4, weights_lr=0.01),
    Vafl(lr=0.3, weight_decay=3e-4, weights_lr=0.1),
    Vafl(lr=0.5, weight_decay=3e-4, weights_lr=0.1),
    VimAdmmJoint(lr=0.01, weight_decay=3e-4, **_JOINT),  # type: ignore[arg-type]
    VimAdmmJoint(lr=0.02, weight_decay=3e-4, **_JOINT),  # type: ignore[arg-type]
    VimAdmmJoint(lr=0.05, weight_decay=3e-4, **_JOINT),  # type: ignore[arg-type]
    Fdml(lr=0.1, weight_decay=3e-4),
    Fdml(lr=0.3, weight_decay=3e-4),
    VimAdmm(lr=0.05, weight_decay=5e-3, **_ADMM),  # type: ignore[arg-type]
    VimAdmm(lr=0.1, weight_decay=5e-3, **_ADMM),  # type: ignore[arg-type]
)
CHOSEN: Mapping[str, Method] = {type(_TRIED[place]).__name__: _TRIED[place] for place in (3, 6, 10, 12, 15)}
"""The settings used in the study; part `choice` of its tables shows whether they are the best on validation rows."""


def choice_jobs(quick: bool, noisy_bands: Bands) -> Iterator[Job]:
    """Two epochs with each of the settings tried."""
    rows = 400 if quick else 18_000
    for method in _TRIED[3:7:3] if quick else _TRIED:
        key = {
            "part": "choice",
            "data": "mnist",
            "rows": rows,
            "method": type(method).__name__,
            "settings": words_for(method),
            "epochs": EPOCHS,
            "seed": 0,
        }
        yield Job(key, partial(_validated, method, noisy_bands, rows))


def words_for(method: Method) -> str:
    """The settings that were chosen among."""
    names = ("lr", "weight_decay", "weights_lr")
    return ", ".join(f"{name} {getattr(method, name):g}" for name in names if name in method.__struct_fields__)


def _validated(method: Method, noisy_bands: Bands, rows: int) -> Record:
    ready = replace(method, epochs=EPOCHS, net=NET, batch=BATCH)
    result = unless_diverged(lambda: simulate(ready, noisy_bands("mnist", rows, 0), rows="valid"))
    return {"valid_accuracy": None if result is None else result.metrics["accuracy"]}


def unless_diverged(run: Callable[[], Result]) -> Result | None:
    """The result of a run, or None if it ended in numbers that are none: a finding like any other."""
    try:
        return run()
    except ValueError as problem:
        if "NaN" not in str(problem):
            raise
        return None

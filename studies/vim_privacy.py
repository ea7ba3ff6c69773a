"""Private scores beside what they have to beat, with the epsilon that holds and the one claimed; and labels read."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from laconic.check import Recorder
from laconic.core.method import Method
from laconic.core.result import Result
from laconic.core.wire import decode_question
from laconic.data.federation import Federation
from laconic.learn.nets import Mlp
from laconic.learn.sgd import Sgd
from laconic.methods.baselines.late_fusion import LateFusion
from laconic.methods.rows import batch_rows
from laconic.methods.vertical.fdml import Fdml
from laconic.methods.vertical.vimadmm import VimAdmm
from laconic.methods.vertical.vimadmm_joint import VimAdmmJoint
from laconic.methods.vertical.vimsgd import VimSgd
from laconic.privacy.accountants import Rdp
from laconic.privacy.dppca import DpPca
from laconic.privacy.gaussian import mu_of
from laconic.privacy.outputs import AsPublished, BatchClip, PureNoise, RowsOnce
from laconic.privacy.price import ledgers_of, price
from laconic.privacy.protections import AnyProtection
from laconic.privacy.steps import PrivateSteps
from laconic.runtime.inprocess import InProcess
from laconic.simulation import simulate
from studies.harness import Job, Record

Bands = Callable[[str, int, int], Federation]
_DELTA = 1e-5
_NET = Mlp(hidden=(128,), final="relu")


def privacy_jobs(quick: bool, bands: Bands) -> Iterator[Job]:
    """Every protection on MNIST in 14 bands, nobody noisy, then what the downlink tells of labels."""
    rows = 2048 if quick else 54_000
    for name, method in _cases(quick).items():
        key = {
            "part": "privacy",
            "data": "mnist",
            "rows": rows,
            "case": name,
            "method": type(method).__name__,
            "seed": 0,
        }
        yield Job(key, partial(_private, method, bands, rows))
    for reader in _readers():
        key = {"part": "labels", "data": "mnist", "rows": 2048, "method": type(reader).__name__, "seed": 0}
        yield Job(key, partial(_labels_read, reader, bands))


def _readers() -> tuple[Method, ...]:
    """Methods whose array tells each label by its greatest or least number."""
    return (
        VimAdmm(epochs=1, batch=1024, net=_NET, local_steps=1),
        VimAdmmJoint(epochs=1, batch=1024, net=_NET, local_steps=1),
        VimSgd(epochs=1, batch=1024, net=_NET),
        Fdml(epochs=1, batch=1024, net=_NET),
    )


def _cases(quick: bool) -> dict[str, Method]:
    """What is compared: one epoch of VimAdmm as the paper's table 3 sets it for MNIST, and sound ways."""
    local_steps = 2 if quick else 20
    epochs = 3 if quick else 20

    def admm(privacy: AnyProtection | None) -> VimAdmm:
        return VimAdmm(epochs=1, batch=1024, net=_NET, lr=0.05, local_steps=local_steps, privacy=privacy)

    def frozen(epsilon: float, rows: str, encoder: DpPca | None = None) -> VimSgd:
        sigma = 2.0 / mu_of(epsilon, _DELTA)
        # The clip is a matter of scale only; this one makes the noise 0.3 on each number, which heads can learn under.
        guard = RowsOnce(clip=0.3 / sigma, sigma=sigma, seeded=True, rows=rows, encoder=encoder)  # type: ignore[arg-type]
        width = 60 if encoder is None else encoder.dim
        return VimSgd(epochs=epochs, batch=1024, width=width, net=_NET, lr=0.3, weight_decay=1e-3, privacy=guard)

    steps = PrivateSteps(clip=0.1, sigma=4.0, gradient_sigma=2.0, gradient_clip=0.1, rate=0.25, seeded=True)
    return {
        "no noise": admm(None),
        "as published, C 0.01, sigma 10": admm(AsPublished(clip=0.01, sigma=10.0, seeded=True)),
        "null: noise alone, sd 0.1": admm(PureNoise(scale=0.1)),
        "null: no upload": LateFusion(net=Mlp(hidden=(128,)), trainer=Sgd(epochs=1, batch=128)),
        "whole message, C 0.01, sigma 10": admm(BatchClip(clip=0.01, sigma=10.0, seeded=True)),
        "rows once, epsilon 1, test rows open": frozen(1.0, "training"),
        "rows once, epsilon 8, test rows open": frozen(8.0, "training"),
        "rows once, epsilon 8, test rows too": frozen(8.0, "all"),
        "null: noise alone, test rows too": admm(PureNoise(scale=0.3, rows="all")),
        "rows once, epsilon 8 + DP-PCA, test rows open": frozen(8.0, "training", DpPca(dim=16, sigma=4.0, seeded=True)),
        "private steps": VimSgd(epochs=min(3, epochs), batch=1024, net=_NET, lr=0.3, privacy=steps),
    }


def _private(method: Method, bands: Bands, rows: int) -> Record:
    federation = bands("mnist", rows, 0)
    result = simulate(method, federation, runtime=InProcess(workers=2))
    honest = price(ledgers_of(result), _DELTA, "disjoint")
    return {
        "accuracy": result.metrics["accuracy"],
        "epsilon": honest.epsilon if honest.units else None,
        "claimed": _claimed(result),
        "units": list(honest.units),
        "unproven": list(honest.unproven),
        "open": sorted({words.split(": ", 1)[1] for words in honest.open}),
        "rounds": result.fit.rounds,
        "bytes": result.fit.bytes,
    }


def _claimed(result: Result) -> float | None:
    """The paper's own figure: its sensitivity, batches taken for secret, Renyi divergences."""
    noises = [release.noise for release in result.releases if release.noise is not None]
    if all(noise.proven for noise in noises):
        return None
    return price(ledgers_of(result), _DELTA, "disjoint", trust_claims=True, accountant=Rdp()).epsilon


def _labels_read(method: Method, bands: Bands) -> Record:
    """How many labels one party reads off what it is sent in the first epoch, knowing nothing else."""
    federation = bands("mnist", 2048, 0)
    recorder = Recorder()
    simulate(method, federation, runtime=recorder)
    party = federation.peers[0]
    told = [decode_question(blob) for name, _, way, blob in recorder.crossings if name == party and way == "down"]
    seed = next(question.payload["seed"] for question in told if question.step == "begin")
    labels, right, batch = federation.labels("train"), 0, 0
    for question in told:
        signal = question.payload.get("signal")
        if signal is None:
            continue
        rows = batch_rows(len(labels), 1024, seed, 0, batch)
        # A dual, and a gradient, is lowest at the label; ADMM's array is less twice the dual.
        guess = (-signal if isinstance(method, VimAdmm | VimAdmmJoint) else signal).argmin(axis=1)
        right += int(np.sum(guess == labels[rows]))
        batch += 1
    return {"labels_read": right / len(labels)}

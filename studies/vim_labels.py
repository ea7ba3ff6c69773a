"""How many labels one party reads off what it is sent in the first epoch, knowing nothing else."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from laconic import Fdml, Federation, Method, Vafl, VimAdmm, VimAdmmJoint, VimSgd, simulate
from laconic.audit import commonest, labels_read_off
from laconic.core import decode_question
from laconic.deploy import Recorder
from laconic.methods import batch_rows
from laconic.values import Array
from studies.harness import Job, Record
from studies.vim_choice import BATCH, NET
from studies.vim_data import bands


def label_jobs(quick: bool) -> Iterator[Job]:
    """All five methods."""
    rows = 400 if quick else 4_096
    readers: tuple[Method, ...] = (
        VimAdmm(epochs=1, batch=BATCH, net=NET, local_steps=1),
        VimAdmmJoint(epochs=1, batch=BATCH, net=NET, local_steps=1),
        VimSgd(epochs=1, batch=BATCH, net=NET),
        Fdml(epochs=1, batch=BATCH, net=NET),
        Vafl(epochs=1, batch=BATCH, net=NET),
    )
    for method in readers:
        key = {"part": "labels", "data": "mnist", "rows": rows, "method": type(method).__name__, "seed": 0}
        yield Job(key, partial(_labels_read, method, rows))


def _labels_read(method: Method, rows: int) -> Record:
    federation = bands("mnist", rows, 0)
    labels, told = federation.labels("train"), _told(method, federation)
    rng = np.random.default_rng(0)
    right = sum(_right(method, signal, labels[batch], rng) for batch, signal in told)
    return {"labels_read": right / len(labels), "commonest": commonest(labels)}


def _right(method: Method, signal: Array, labels: Array, rng: np.random.Generator) -> float:
    if isinstance(method, Vafl):
        # Its gradients went through the hub's model: their directions fall into clusters, one a class.
        return len(labels) * labels_read_off(signal, labels, 10, rng)
    # A dual, and a gradient, is lowest at the label; ADMM's array is less twice the dual.
    guess = (-signal if isinstance(method, VimAdmm | VimAdmmJoint) else signal).argmin(axis=1)
    return float(np.sum(guess == labels))


def _told(method: Method, federation: Federation) -> list[tuple[Array, Array]]:
    """The rows of each batch, and the array that the first party was sent for it."""
    recorder = Recorder()
    simulate(method, federation, runtime=recorder)
    party, count = federation.peers[0], len(federation.labels("train"))
    asked = [decode_question(blob) for name, _, way, blob in recorder.crossings if name == party and way == "down"]
    seed = next(question.payload["seed"] for question in asked if question.step == "begin")
    signals = [found for question in asked if (found := question.payload.get("signal")) is not None]
    return [(batch_rows(count, BATCH, seed, 0, number), signal) for number, signal in enumerate(signals)]

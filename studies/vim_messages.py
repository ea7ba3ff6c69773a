"""The bytes that go down for one epoch, as measured, and what the papers' own messages take on the same wire."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from msgspec.structs import replace

from laconic import Federation, Vafl, VimAdmm, VimAdmmJoint, VimSgd, simulate
from laconic.core import Party, encode, task_of
from laconic.methods.families.summed import Summing
from laconic.values import Array
from studies.harness import Job, Record
from studies.vim_curves import methods
from studies.vim_data import bands


def message_jobs(quick: bool) -> Iterator[Job]:
    """All five methods, with as few local steps as there can be: they move no byte."""
    rows = 400 if quick else 4_096
    for name, method in methods(1).items():
        ready = replace(method, local_steps=1) if method.admm is not None else method
        key = {"part": "messages", "data": "mnist", "rows": rows, "method": name, "seed": 0}
        yield Job(key, partial(_measure, ready, rows))


def _measure(method: Summing, rows: int) -> Record:
    federation = bands("mnist", rows, 0)
    result = simulate(method, federation)
    return {
        "bytes_up": result.fit.bytes_up,
        "bytes_down": result.fit.bytes_down,
        "papers_bytes_down": _papers_bytes_down(method, federation),
        "parties": len(federation.peers),
    }


def _papers_bytes_down(method: Summing, federation: Federation) -> int:
    table = federation.tables[federation.hub]
    outputs, rows = task_of(Party(federation.hub, table, 0)).outputs, len(table.cuts["train"])
    sizes = [min(method.batch, rows - at) for at in range(0, rows, method.batch)]
    return method.epochs * len(federation.peers) * sum(len(encode(_papers(method, size, outputs))) for size in sizes)


def _papers(method: Summing, rows: int, outputs: int) -> dict[str, Array]:
    """What the papers' algorithms send each party after a batch of so many rows."""
    by_class = np.zeros((rows, outputs), np.float32)
    if isinstance(method, VimAdmm):
        return {"dual": by_class, "residual": by_class, "head": np.zeros((method.width, outputs), np.float32)}
    if isinstance(method, VimAdmmJoint):
        return {"dual": by_class, "residual": by_class}
    return {"gradient": np.zeros((rows, method.width), np.float32) if isinstance(method, VimSgd | Vafl) else by_class}

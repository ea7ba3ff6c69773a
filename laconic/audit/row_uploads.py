"""What crossed in a vertical run, row by row: which numbers each party sent about which rows, and which it was sent.

An attacker keeps everything that it ever received, so an audit looks at all of it and not at the last answer alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from laconic.core.wire import Question, decode, decode_question
from laconic.deploy.simulation import FittedRun
from laconic.deploy.transports.inprocess import Recorder
from laconic.methods.families.rows import batch_rows
from laconic.methods.families.split import split_of
from laconic.methods.vertical.vertical_xgboost import VerticalXgboost
from laconic.tables.table import Table
from laconic.values import Array, flat

_WIDEST = 512
"""Several uploads about the same rows are also looked at side by side, up to so many numbers per row."""

_SIGNALS = ("gradient", "signal", "gradients", "slopes", "labels")
"""What questions call the numbers that are worked out from labels, a row each."""


class Upload(NamedTuple):
    """Numbers about some rows of a cut.

    Attributes:
        party: whose rows they are.
        step: the question that was answered.
        cut: the rows asked for.
        places: which of them.
        values: the numbers, shape (rows, numbers).
    """

    party: str
    step: str
    cut: str
    places: Array
    values: Array


class Signal(NamedTuple):
    """Numbers worked out from labels, as a party received them: their name in the question, and which training rows."""

    name: str
    places: Array
    values: Array


def uploads_of(fitted: FittedRun, recorder: Recorder) -> dict[str, list[Upload]]:
    """All that each party sent that has a row of numbers for each row asked for; batches of an epoch are one upload."""
    found: dict[str, list[Upload]] = defaultdict(list)
    batches: dict[tuple[str, str, int], list[Upload]] = defaultdict(list)
    seeds: dict[str, int] = {}
    for party, asked, reply in _exchanges(recorder):
        table = fitted.federation.tables[party]
        seeds[party] = asked.payload.get("seed", seeds.get(party, 0))
        epoch = asked.payload.get("epoch")
        for cut, values in _by_cut(asked, reply, table):
            places = np.arange(len(table.cut(cut)))
            if epoch is not None:
                # After shared rows a batch may have some of the party's own, which are not looked at.
                places = _batch(fitted, seeds[party], asked.payload)
            enough = len(values) == len(places) or (epoch is not None and len(values) > len(places))
            if enough and len(places) > 1 and values.size:  # Of two rows one can be known, and the other rebuilt.
                kept = flat(values[: len(places)])
                upload = Upload(party, asked.step, cut, places, kept)
                (found[party] if epoch is None else batches[party, asked.step, epoch]).append(upload)
    for (party, step, _), parts in batches.items():
        places, values = (np.concatenate([one[at] for one in parts]) for at in (3, 4))
        order = np.argsort(places, kind="stable")
        found[party].append(Upload(party, step, "train", places[order], values[order]))
    return {party: [*uploads, *_side_by_side(uploads)] for party, uploads in found.items()}


def first_signals(fitted: FittedRun, recorder: Recorder) -> dict[str, Signal]:
    """The first numbers worked out from labels that each party was sent; parties that were sent none are left out."""
    rows = len(fitted.federation.labels("train"))
    found: dict[str, Signal] = {}
    before: dict[str, Mapping[str, Any]] = {}
    seeds: dict[str, int] = {}
    for party, asked, _ in _exchanges(recorder):
        payload = asked.payload
        seeds[party] = payload.get("seed", seeds.get(party, 0))
        name = next((name for name in _SIGNALS if payload.get(name) is not None), None)
        if party not in found and name is not None:
            values, places = payload[name], np.arange(rows)
            if name == "slopes":
                values = np.moveaxis(values, 1, 0)
            elif name in ("gradient", "signal") and party in before:
                # A question brings what belongs to the batch before, and names the next batch.
                places = _batch(fitted, seeds[party], before[party])
            # After those of shared rows there may be some of own rows, which have no labels.
            found[party] = Signal(name, places, values[: len(places)])
        if payload.keys() >= {"epoch", "number"}:
            before[party] = payload
    return found


def _exchanges(recorder: Recorder) -> Iterator[tuple[str, Question, Any]]:
    for (party, _, _, question), (_, _, _, reply) in zip(
        recorder.crossings[::2], recorder.crossings[1::2], strict=True
    ):
        yield party, decode_question(question), decode(reply)


def _by_cut(asked: Question, reply: Any, table: Table) -> Iterator[tuple[str, Array]]:
    """The arrays of an answer, each with the cut that it is about."""
    cut = asked.payload.get("rows", "train")
    if asked.step == VerticalXgboost.give_sides.__name__ and isinstance(reply, np.ndarray):
        yield cut, np.unpackbits(reply, axis=1, count=len(table.cut(cut))).T
        return
    yield from _arrays(reply, cut if isinstance(cut, str) else "train", table)


def _arrays(value: Any, cut: str, table: Table) -> Iterator[tuple[str, Array]]:
    if isinstance(value, np.ndarray):
        if value.ndim and value.dtype.kind in "fiub" and cut in table.cuts:
            yield cut, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            # Labels and what was made of them are no numbers about columns.
            if name != "label":
                yield from _arrays(inner, name if name in table.cuts else cut, table)


def _batch(fitted: FittedRun, seed: int, payload: Mapping[str, Any]) -> Array:
    """Which training rows a batch has, as all parties work it out."""
    split = split_of(fitted.method)
    size = getattr(fitted.method, "batch", None) if split is None else split.trainer.batch
    rows = len(fitted.federation.labels("train"))
    if size is None:
        return np.empty(0, np.int64)
    return batch_rows(rows, size, payload.get("seed", seed), payload["epoch"], payload["number"])


def _side_by_side(uploads: list[Upload]) -> Iterator[Upload]:
    """What a party sent about the same rows at different times, as one upload."""
    by_rows: dict[tuple[str, bytes], list[Upload]] = defaultdict(list)
    for one in uploads:
        by_rows[one.cut, one.places.tobytes()].append(one)
    for several in by_rows.values():
        width = sum(one.values.shape[1] for one in several)
        if len(several) > 1 and width <= _WIDEST:
            step = f"{len(several)} answers together"
            yield several[0]._replace(step=step, values=np.concatenate([one.values for one in several], axis=1))

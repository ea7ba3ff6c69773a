"""What parties with other rows give away: by the final model, and by what each of them sent to the server.

Membership goes by a threshold on the loss: a model errs less on rows that it has seen. A first layer's change gives
rows away as they are: for one row, the gradient by a unit's weights is the row, times the gradient by the unit's bias
(Phong, Aono, Hayashi, Wang, Moriai: Privacy-Preserving Deep Learning via Additively Homomorphic Encryption, 2018). Of
many rows it is a mixture of them, which is seldom one of them. What is under masks cannot be attacked: it is noise.

Which rows were these sums of? The Gram matrix of n rows is `X'X`, so it gives the rows but for a rotation: `X = R V`,
with V known and R orthogonal, n by n. Three ways lead on from there. A row that is alone in its class needs none: the
moment of its class is the row. Columns of zeros and ones leave few rows in the span of V that hold nothing else. And
rows far from normal can be turned back by independent component analysis (Hyvarinen, Oja 2000), the rows as sources and
the columns as samples. Whoever has a row at hand need not rebuild it: while rows are fewer than features, it lies in
their span if it is one of them, and else does not.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from scipy.linalg import qr

from laconic.audit.attacks import Finding, row_losses, threshold_attack
from laconic.core.party import Party
from laconic.core.wire import Question, decode, decode_question
from laconic.deploy.execute import FittedRun
from laconic.deploy.homecoming import final_model, predict_at_home
from laconic.deploy.transports.inprocess import Recorder
from laconic.learn.models.least_squares import Sums, unpack
from laconic.methods.families.rows import batch_rows, map_weights
from laconic.methods.families.split import split_of
from laconic.methods.horizontal.analytic import Analytic
from laconic.methods.vertical.vertical_xgboost import VerticalXgboost
from laconic.tables.table import Table
from laconic.threads import limit_threads
from laconic.values import Array, Rng, Weights, flat

_FOUND = 0.9
"""From this correlation with the true row on, a guess counts as the row."""

_FEW_ROWS = 64
"""An audit tries to rebuild rows from sums of so many: of more, hardly any were found, and the search takes long."""

_MOST_TRIED = 16
"""Zeros and ones are tried for so many rows at most: two to the power of it."""


@limit_threads()
def rebuild_rows(sums: Sums, truth: Array, rng: Rng, *, whose: str = "a party") -> Finding:
    """Guess the rows behind sums of features in every way there is, and see how many of them are found.

    Args:
        sums: what was sent.
        truth: the features of the rows; used to judge the attack only.
        rng: randomness for where the search starts.
        whose: the party's name.
    """
    mixed = _mixed_rows(sums, len(truth))
    guesses = np.concatenate([lone_rows(sums), zero_one_rows(mixed), rotated_rows(mixed, rng)])
    return Finding(
        attack=f"rows of {whose} rebuilt from its sums",
        knows=f"the sums that {whose} sent",
        measure=f"share of rows guessed to a correlation above {_FOUND}",
        success=share_found(guesses, truth),
        baseline=share_found(truth.mean(axis=0, keepdims=True), truth),
    )


@limit_threads()
def tell_members(sums: Sums, members: Array, outsiders: Array, *, whose: str = "a party") -> Finding:
    """Say of rows whether they are among those summed, by how far they are outside of the span of the sums.

    Args:
        sums: what was sent.
        members: features of rows that were summed.
        outsiders: features of rows of the same kind that were not.
        whose: the party's name.
    """
    from sklearn.metrics import roc_auc_score

    strengths, turn = np.linalg.eigh(unpack(sums.gram)[:-1, :-1])
    outside = turn[:, strengths <= 1e-6 * strengths[-1]]

    def inside(rows: Array) -> Array:
        return np.asarray(-np.linalg.norm(rows @ outside, axis=1) / np.maximum(np.linalg.norm(rows, axis=1), 1e-12))

    labels = np.repeat([1, 0], [len(members), len(outsiders)])
    return Finding(
        attack=f"membership in the sums of {whose}",
        knows=f"the sums that {whose} sent, and rows in full",
        measure="probability to tell a row that was summed from another (AUC)",
        success=float(roc_auc_score(labels, np.concatenate([inside(members), inside(outsiders)]))),
        baseline=0.5,
    )


def lone_rows(sums: Sums) -> Array:
    """The rows that are alone in their class, of several classes: each stands in the moments as it is."""
    alone = np.abs(sums.moments[-1] - 1) < 1e-3
    return np.asarray(sums.moments[:-1, alone if len(alone) > 1 else []].T)


def zero_one_rows(mixed: Array) -> Array:
    """All rows in the span of these that hold nothing but zeros and ones, if there are few enough to try."""
    count = len(mixed)
    if not 1 <= count <= _MOST_TRIED:
        return mixed[:0]
    pivots = qr(mixed, mode="r", pivoting=True)[1][:count]
    values = (np.arange(1, 2**count)[:, None] >> np.arange(count) & 1).astype(np.float64)
    tried = np.linalg.solve(mixed[:, pivots].T, values.T).T @ mixed
    return np.asarray(tried[(np.minimum(np.abs(tried), np.abs(tried - 1)) < 0.05).all(axis=1)])


def rotated_rows(mixed: Array, rng: Rng) -> Array:
    """Guesses of as many rows as there are here, each up to its sign and length."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    if len(mixed) < 2:
        return mixed
    finder = FastICA(whiten="unit-variance", random_state=int(rng.integers(2**31)), max_iter=500)
    with warnings.catch_warnings():
        # An attack that does not settle has failed, and its guesses are scored as they are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        with limit_threads():
            return np.asarray(finder.fit_transform(mixed.T).T)


def _mixed_rows(sums: Sums, rows: int) -> Array:
    """V above: rows of the same Gram matrix as the true ones, as many as these span."""
    strengths, turn = np.linalg.eigh(unpack(sums.gram)[:-1, :-1])
    kept = [place for place in np.argsort(-strengths)[:rows] if strengths[place] > 1e-9 * strengths[-1]]
    return np.asarray((turn[:, kept] * np.sqrt(strengths[kept])).T)


def share_found(guesses: Array, truth: Array) -> float:
    """The share of true rows that some guess, up to sign, is like."""
    if not len(guesses):
        return 0.0

    def standard(values: Array) -> Array:
        away = values - values.mean(axis=1, keepdims=True)
        return np.asarray(away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-12))

    return float((np.abs(standard(truth) @ standard(guesses).T).max(axis=1) > _FOUND).mean())


_SMALL = 1e-9
"""A unit whose bias changed less than this says nothing about rows."""


def attack_uploads(fitted: FittedRun, recorder: Recorder) -> list[Finding]:
    """Attack the final model, and of each party the first thing that it sent and that can be read."""
    found = []
    model = final_model(fitted.method, fitted.hub)
    if model is not None:
        members = np.concatenate([_losses(fitted, name, model, "train") for name in _holders(fitted)])
        found.append(_named(threshold_attack(members, _outside(fitted, model)), "the final model", "the final model"))
    seen: set[str] = set()
    pairs = zip(recorder.crossings[::2], recorder.crossings[1::2], strict=True)
    for (party, _, _, question), (_, _, _, reply) in pairs:
        if party in seen or party not in _holders(fitted):
            continue
        attacks = list(_attack_upload(fitted, party, decode_question(question).payload, decode(reply)))
        seen |= {party} if attacks else set()
        found += attacks
    return found


def rebuild_from_update(start: Weights, end: Weights, rows: Array, *, whose: str = "a party") -> Finding | None:
    """Read rows off the change of a net's first layer; None if the net does not begin with a dense layer.

    Args:
        start, end: the net before and after a party trained it.
        rows: the party's rows; used to judge the attack only.
    """
    truth = flat(rows).astype(np.float64)
    layer = next((name for name, values in start.items() if values.ndim == 2), None)
    if layer is None or start[layer].shape[1] != truth.shape[1]:
        return None
    change = end[layer].astype(np.float64) - start[layer]
    bias = layer.replace("weight", "bias")
    shift = end[bias].astype(np.float64) - start[bias]
    moved = np.abs(shift) > _SMALL
    return Finding(
        attack=f"rows of {whose} rebuilt from its update",
        knows=f"the model that {whose} got, and the one that it sent",
        measure="share of rows guessed to a correlation above 0.9",
        success=share_found(change[moved] / shift[moved, None], truth),
        baseline=share_found(truth.mean(axis=0, keepdims=True), truth),
    )


def _attack_upload(fitted: FittedRun, party: str, asked: Mapping[str, Any], sent: Any) -> Iterator[Finding]:
    """What one answer gives away; nothing if it holds neither models nor sums."""
    if not isinstance(sent, dict):
        return
    models = sent["students"] if "students" in sent else [sent["model"]] if "model" in sent else []
    if models:
        inside = np.mean([_losses(fitted, party, {"model": one}, "train") for one in models], axis=0)
        outside = np.mean([_outside(fitted, {"model": one}) for one in models], axis=0)
        yield _named(threshold_attack(inside, outside), f"what {party} sent", f"the models that {party} sent")
    if "model" in sent and "model" in asked:
        rows = fitted.federation.tables[party].part("train")[0]
        found = rebuild_from_update(asked["model"], sent["model"], rows, whose=party)
        yield from [] if found is None else [found]
    if "gram" in sent and "rows" in sent and isinstance(fitted.method, Analytic):
        sums = Sums(**{name: sent[name] for name in Sums.__struct_fields__})
        tables = fitted.federation.tables
        inside = _features(fitted.method, tables[party], "train")
        outside = _features(fitted.method, tables[fitted.federation.hub], "test")
        yield tell_members(sums, inside, outside, whose=party)
        if sums.rows <= _FEW_ROWS:
            yield rebuild_rows(sums, inside, np.random.default_rng(0), whose=party)


def _features(method: Analytic, table: Table, cut: str) -> Array:
    party = Party(table.party, table, 0)
    chosen = method.map_for(party)
    return np.asarray(chosen.apply(map_weights(chosen, party), table.part(cut)[0]), dtype=np.float64)


def _holders(fitted: FittedRun) -> list[str]:
    """The parties that have rows to learn from."""
    tables = fitted.federation.tables
    return [name for name in fitted.federation.peers if len(tables[name].cuts.get("train", ()))]


def _losses(fitted: FittedRun, name: str, model: Mapping[str, Any], cut: str) -> Array:
    table = fitted.federation.tables[name]
    found = predict_at_home(fitted.method, name, table, model, cut)
    return row_losses(fitted.federation.task, found, np.asarray(table.part(cut)[1]))


def _outside(fitted: FittedRun, model: Mapping[str, Any]) -> Array:
    return _losses(fitted, fitted.federation.hub, model, "test")


def _named(finding: Finding, what: str, knows: str) -> Finding:
    return msgspec.structs.replace(finding, attack=f"membership in {what}", knows=f"rows with labels, and {knows}")


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

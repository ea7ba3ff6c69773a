"""Attack a run: repeat it from its record, listen to all that crosses, and try what a curious party could try."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from laconic.align.exact import ExactMatch
from laconic.audit.attacks import (
    Finding,
    LinearAttacker,
    MlpAttacker,
    compare_labels,
    infer_labels,
    likelihood_ratio_attack,
    reconstruct,
    row_losses,
    threshold_attack,
)
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.traffic import WireLog
from laconic.core.wire import decode, decode_question
from laconic.data.federation import Federation
from laconic.deploy.transports.inprocess import InProcess, Recorder
from laconic.methods.families.rows import batch_rows
from laconic.methods.families.split import Splitting
from laconic.tables.table import Table
from laconic.threads import limit_threads
from laconic.values import Array, Rng

_WHEN = frozenset({"seed", "epoch", "number"})
"""What a question of split learning says of the batch that it asks for."""


@limit_threads()
def audit(
    method: Method,
    federation: Federation,
    *,
    seed: int = 0,
    known: int = 100,
    shadows: int = 0,
    align: ExactMatch = ExactMatch(),  # noqa: B008 (frozen)
) -> tuple[Finding, ...]:
    """Run a vertical method again and attack it.

    Args:
        method: what was run, with the noise it had.
        known: how many rows of another party an attacker knows in full.
        shadows: how many models an attacker trains to find members by likelihood ratio, which takes this many runs
            and one more; 0 leaves that attack out.
        align: how rows are matched if they do not correspond yet.
    """
    if federation.kind != "vertical":
        raise ValueError(f"{federation.name} is a horizontal federation; this audit attacks vertical runs")
    rng = np.random.default_rng([seed, 0x5EC2E7])
    federation = federation if federation.aligned else _matched(federation, align, seed)
    with fitted(method, federation, seed) as (run, recorder):
        findings = [threshold_attack(run.losses("train"), run.losses("test"))]
        findings += attack_labels(run, recorder, rng)
        recorder.crossings.clear()
        run.losses("test")
        findings += attack_columns(recorder, federation, known, rng)
    if shadows:
        findings.append(_likelihood_ratio(method, federation, seed, shadows, rng))
    return tuple(findings)


class AttackedRun:
    """A fitted method with its parties still there."""

    def __init__(self, method: Method, hub: Party, judge: Party, peers: Peers) -> None:
        self.method, self.hub, self.judge, self.peers = method, hub, judge, peers

    def losses(self, rows: str) -> Array:
        """The model's loss on every row of a cut."""
        y = self.judge.data.part(rows)[1]
        if y is None:
            raise ValueError(f"{self.judge.name} has no labels for its rows {rows!r}; an audit needs them")
        self.hub.turn("final", 0)
        return row_losses(task_of(self.judge), self.method.predict(self.hub, self.peers, rows), y)


@contextmanager
def fitted(method: Method, federation: Federation, seed: int) -> Iterator[tuple[AttackedRun, Recorder]]:
    """Fit a method on an aligned federation; keep its parties, and all that crossed, for as long as the block lasts."""
    parties = {name: Party(name, table, seed) for name, table in federation.tables.items()}
    judge = parties[federation.hub]
    hub = Party("server", Table.without_rows("server"), seed) if method.server else judge
    recorder = Recorder()
    with recorder.open(tuple(party for party in parties.values() if party is not hub)) as carrier:
        peers = Peers(method, hub, carrier, WireLog(), carrier.names)
        hub.turn("fit", 0)
        for _ in method.fit(hub, peers):
            pass
        yield AttackedRun(method, hub, judge, peers), recorder


def _matched(federation: Federation, align: ExactMatch, seed: int) -> Federation:
    """The federation with its rows matched."""
    parties = {name: Party(name, table, seed) for name, table in federation.tables.items()}
    hub = parties[federation.hub]
    with InProcess().open(tuple(party for party in parties.values() if party is not hub)) as carrier:
        hub.turn("align", 0)
        align.match(hub, Peers(align, hub, carrier, WireLog(), carrier.names))
    return replace(federation, tables={name: party.data for name, party in parties.items()}, aligned=True)


def attack_columns(recorder: Recorder, federation: Federation, known: int, rng: Rng) -> list[Finding]:
    """Reconstruct each party's columns of the held-out rows from what it sent for them."""
    found = []
    sent = {party: decode(blob) for party, _, way, blob in recorder.crossings if way == "up"}
    for party, answer in sent.items():
        x = federation.tables[party].part("test")[0]
        parts = [values.reshape(len(x), -1) for values in _arrays(answer) if values.ndim and len(values) == len(x)]
        for attacker in (LinearAttacker(), MlpAttacker()) if parts else ():
            beside = np.concatenate(parts, axis=1).astype(np.float32)
            count = min(known, len(x) // 2)
            found.append(reconstruct(beside, x, count, rng, attacker=attacker, whose=party))
    return found


def attack_labels(run: AttackedRun, recorder: Recorder, rng: Rng) -> list[Finding]:
    """Cluster the first gradients that went down to each party, or compare the labels that it was sent.

    Split learning, LateFusion and methods that guide parties send one or the other; of others nothing is said here.
    """
    task, y = task_of(run.judge), run.judge.data.part("train")[1]
    if task.kind == "regression" or y is None:
        return []
    found: dict[str, Finding] = {}
    before: dict[str, dict[str, Any]] = {}
    for party, _, way, blob in recorder.crossings:
        if way != "down" or party in found:
            continue
        payload = decode_question(blob).payload
        if "labels" in payload:
            found[party] = compare_labels(payload["labels"], y, whose=party)
        elif "gradients" in payload:
            found[party] = infer_labels(payload["gradients"], y, rng, whose=party)
        elif payload.get("gradient") is not None and party in before and isinstance(run.method, Splitting):
            # A question brings the gradients of the batch before, and says which batch comes next.
            rows = batch_rows(len(y), run.method.together().batch, **before[party])
            # Behind those of shared rows there may be some of own rows, which have no labels.
            found[party] = infer_labels(payload["gradient"][: len(rows)], y[rows], rng, whose=party)
        if payload.keys() >= _WHEN:
            before[party] = {name: payload[name] for name in _WHEN}
    return list(found.values())


def _likelihood_ratio(method: Method, federation: Federation, seed: int, shadows: int, rng: Rng) -> Finding:
    """One model on half of the training rows is attacked with the help of others on other halves."""
    rows = len(federation.tables[federation.hub].cut("train"))
    # Halves in pairs of opposites, so that every row is in as many models as it is out of.
    orders = [rng.permutation(rows) for _ in range(1 + (shadows + 1) // 2)]
    present = np.zeros((1 + 2 * (len(orders) - 1), rows), dtype=bool)
    present[0, orders[0][: rows // 2]] = True
    for place, order in enumerate(orders[1:]):
        present[1 + 2 * place, order[: rows // 2]] = True
        present[2 + 2 * place] = ~present[1 + 2 * place]
    losses = []
    for number, inside in enumerate(present):
        with fitted(method, _only(federation, inside), seed + number) as (run, _):
            losses.append(run.losses("candidates"))
    found = np.stack(losses)
    return likelihood_ratio_attack(found[0], present[0], found[1:], present[1:])


def _only(federation: Federation, inside: Array) -> Federation:
    """The same federation with only some of its training rows to train on; all of them are the cut `candidates`."""
    tables = {}
    for name, table in federation.tables.items():
        train = table.cut("train")
        cuts = {**table.cuts, "train": train[inside], "shared": train[inside], "candidates": train}
        tables[name] = table.take(np.arange(table.rows), cuts)
    return replace(federation, tables=tables)


def _arrays(value: Any) -> list[Array]:
    if isinstance(value, dict):
        return [array for inner in value.values() for array in _arrays(inner)]
    return [value] if isinstance(value, np.ndarray) else []

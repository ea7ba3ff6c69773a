"""Attack a run: repeat it from its record, listen to all that crosses, and try what a curious party could try."""

from collections.abc import Callable
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
from laconic.audit.upload_attacks import attack_uploads
from laconic.core.method import Method
from laconic.core.wire import decode, decode_question, read_heading
from laconic.data.federation import Federation
from laconic.deploy.simulation import FittedRun, train
from laconic.deploy.transports.inprocess import Recorder
from laconic.methods.families.rows import batch_rows
from laconic.methods.families.split import split_of
from laconic.threads import limit_threads
from laconic.values import Array, Rng, heard, track

_WHEN = frozenset({"seed", "epoch", "number"})
"""How a question of split learning names the batch that it asks for."""


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
    """Run a method again and attack it.

    Of parties with other rows, the final model is attacked, and what each party sent: see `attack_uploads`.

    Args:
        method: what was run, with the noise it had.
        known: how many rows of another party an attacker knows in full.
        shadows: how many models an attacker trains to find members by likelihood ratio, which takes this many runs
            and one more; 0 leaves that attack out.
        align: how rows are matched if they do not correspond yet; of a vertical run.
    """
    rng, recorder = np.random.default_rng([seed, 0x5EC2E7]), Recorder()
    if federation.kind == "horizontal":
        if shadows:
            raise ValueError("shadows train models on other halves of shared rows, which horizontal runs do not have")
        heard_run = train(method, federation, seed=seed, runtime=recorder, listener=heard())
        return tuple(attack_uploads(heard_run, recorder))
    fitted = train(method, federation, seed=seed, runtime=recorder, align=align, listener=heard())
    attacks: list[Callable[[], list[Finding]]] = [
        lambda: [threshold_attack(losses_of(fitted, "train"), losses_of(fitted, "test"))],
        lambda: attack_labels(fitted, recorder, rng),
        lambda: attack_columns(fitted, recorder, known, rng),
    ]
    if shadows:
        attacks.append(lambda: [_likelihood_ratio(method, fitted.federation, seed, shadows, rng)])
    return tuple(one for place in track(len(attacks), "attacks") for one in attacks[place]())


def losses_of(fitted: FittedRun, rows: str) -> Array:
    """The model's loss on every row of a cut."""
    return row_losses(fitted.federation.task, fitted.predict(rows), fitted.federation.labels(rows))


def attack_columns(fitted: FittedRun, recorder: Recorder, known: int, rng: Rng) -> list[Finding]:
    """Reconstruct each party's columns of the test rows from what it sent for their predictions."""
    found = []
    pairs = zip(recorder.crossings[::2], recorder.crossings[1::2], strict=True)
    sent = {
        party: decode(answer)
        for (party, _, _, question), (_, _, _, answer) in pairs
        if read_heading(question).phase == "final"
    }
    for party, answer in sent.items():
        x = fitted.federation.tables[party].part("test")[0]
        parts = [values.reshape(len(x), -1) for values in _arrays(answer) if values.ndim and len(values) == len(x)]
        for attacker in (LinearAttacker(), MlpAttacker()) if parts else ():
            beside = np.concatenate(parts, axis=1).astype(np.float32)
            count = min(known, len(x) // 2)
            found.append(reconstruct(beside, x, count, rng, attacker=attacker, whose=party))
    return found


def attack_labels(fitted: FittedRun, recorder: Recorder, rng: Rng) -> list[Finding]:
    """Cluster the first gradients that each party was sent, or compare the labels that it was sent.

    Split learning, LateFusion and methods that guide parties send one or the other; others are not attacked here.
    """
    if fitted.federation.task.kind == "regression":
        return []
    y, split = fitted.federation.labels("train"), split_of(fitted.method)
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
        elif payload.get("gradient") is not None and party in before and split is not None:
            # A question brings the gradients of the batch before, and names the next batch.
            rows = batch_rows(len(y), split.trainer.batch, **before[party])
            # After those of shared rows there may be some of own rows, which have no labels.
            found[party] = infer_labels(payload["gradient"][: len(rows)], y[rows], rng, whose=party)
        if payload.keys() >= _WHEN:
            before[party] = {name: payload[name] for name in _WHEN}
    return list(found.values())


def _likelihood_ratio(method: Method, federation: Federation, seed: int, shadows: int, rng: Rng) -> Finding:
    """One model on half of the training rows is attacked with the help of others on other halves."""
    rows = len(federation.tables[federation.hub].cut("train"))
    halves = [rng.permutation(rows) < rows // 2 for _ in range(1 + (shadows + 1) // 2)]
    # Shadow models come in pairs with opposite halves, so that as many saw a row as did not.
    present = np.stack([halves[0], *(some for half in halves[1:] for some in (half, ~half))])
    losses = np.stack(
        [
            losses_of(train(method, _only(federation, present[number]), seed=seed + number), "candidates")
            for number in track(len(present), "shadow models")
        ]
    )
    return likelihood_ratio_attack(losses[0], present[0], losses[1:], present[1:])


def _only(federation: Federation, inside: Array) -> Federation:
    """The same federation with only some of its training rows to train on; all of them are the cut `candidates`."""
    tables = {}
    for name, table in federation.tables.items():
        train_rows = table.cut("train")
        cuts = {**table.cuts, "train": train_rows[inside], "shared": train_rows[inside], "candidates": train_rows}
        tables[name] = table.take(np.arange(table.rows), cuts)
    return replace(federation, tables=tables)


def _arrays(value: Any) -> list[Array]:
    if isinstance(value, dict):
        return [array for inner in value.values() for array in _arrays(inner)]
    return [value] if isinstance(value, np.ndarray) else []

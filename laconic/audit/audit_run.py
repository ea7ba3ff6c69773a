"""Attack a run: repeat it from its record, listen to all that crosses, and try what a curious party could try."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import msgspec
import numpy as np

from laconic.align.alignment import ExactMatch
from laconic.audit.attacks import (
    Finding,
    LinearAttacker,
    MlpAttacker,
    compare_labels,
    infer_labels,
    infer_numbers,
    likelihood_ratio_attack,
    reconstruct,
    row_losses,
    threshold_attack,
)
from laconic.audit.rap_attacks import attack_rap
from laconic.audit.upload_attacks import Upload, attack_uploads, first_signals, uploads_of
from laconic.core.method import Method
from laconic.core.wire import decode
from laconic.data.federation import Federation
from laconic.deploy.execute import FittedRun, train
from laconic.deploy.transports.inprocess import Recorder
from laconic.methods.vertical.rap import Rap
from laconic.threads import limit_threads
from laconic.values import Array, Rng, heard, track


@limit_threads()
def audit(
    method: Method,
    federation: Federation,
    *,
    seed: int = 0,
    known: int = 100,
    shadows: int = 0,
    align: ExactMatch = ExactMatch(),  # noqa: B008 (frozen)
    each: Callable[[Finding], None] = lambda _: None,
) -> tuple[Finding, ...]:
    """Run a method again and attack it.

    Of parties with other rows, the final model is attacked, and what each party sent: see `attack_uploads`.

    Args:
        method: what was run, with the noise it had.
        known: how many rows of another party an attacker knows in full.
        shadows: how many models an attacker trains to find members by likelihood ratio, which takes this many runs
            and one more; 0 leaves that attack out.
        align: how rows are matched if they do not correspond yet; of a vertical run.
        each: called with each finding as it is made, for whoever may not wait for all.
    """
    rng, recorder = np.random.default_rng([seed, 0x5EC2E7]), Recorder()
    if federation.kind == "horizontal":
        if shadows:
            raise ValueError("shadows train models on other halves of shared rows, which horizontal runs do not have")
        heard_run = train(method, federation, seed=seed, runtime=recorder, listener=heard())
        return _given_out(attack_uploads(heard_run, recorder), each)
    fitted = train(method, federation, seed=seed, runtime=recorder, align=align, listener=heard())
    attacks: list[Callable[[], list[Finding]]] = [
        lambda: [threshold_attack(losses_of(fitted, "train"), losses_of(fitted, "test"))],
        lambda: attack_labels(fitted, recorder, rng),
        lambda: attack_columns(fitted, recorder, known, rng),
    ]
    if isinstance(method, Rap):
        attacks.append(lambda: list(_attack_rap(fitted, recorder, rng)))
    if shadows:
        attacks.append(lambda: [_likelihood_ratio(method, fitted.federation, seed, shadows, rng)])
    return _given_out((one for place in track(len(attacks), "attacks") for one in attacks[place]()), each)


def _given_out(findings: Iterable[Finding], each: Callable[[Finding], None]) -> tuple[Finding, ...]:
    found = []
    for one in findings:
        found.append(one)
        each(one)
    return tuple(found)


def losses_of(fitted: FittedRun, rows: str) -> Array:
    """The model's loss on every row of a cut."""
    return row_losses(fitted.federation.task, fitted.predict(rows), fitted.federation.labels(rows))


def attack_columns(fitted: FittedRun, recorder: Recorder, known: int, rng: Rng) -> list[Finding]:
    """Reconstruct each party's columns from all that it sent about its rows, and report what came nearest.

    Every upload is attacked by least squares: each cut, each epoch of batches, and answers about the same rows side by
    side. The one that gives most away is attacked by a small net too.
    """
    found = []
    for party, uploads in uploads_of(fitted, recorder).items():
        seed = int(rng.integers(2**31))
        linear = [
            _rebuilt(fitted, uploads[place], known, seed, LinearAttacker(), len(uploads))
            for place in track(len(uploads), f"uploads of {party} attacked")
        ]
        worst = max(range(len(linear)), key=lambda place: linear[place].success)
        found += [linear[worst], _rebuilt(fitted, uploads[worst], known, seed, MlpAttacker(), len(uploads))]
    return found


def _rebuilt(
    fitted: FittedRun, upload: Upload, known: int, seed: int, attacker: LinearAttacker | MlpAttacker, uploads: int
) -> Finding:
    """How well one upload's rows are rebuilt; the same rows are known whatever upload is attacked."""
    x = fitted.federation.tables[upload.party].part(upload.cut)[0][upload.places]
    values, rng = upload.values.astype(np.float32), np.random.default_rng(seed)
    finding = reconstruct(values, x, min(known, len(x) // 2), rng, attacker=attacker, whose=upload.party)
    of = "" if uploads == 1 else f", the worst of {uploads} uploads"
    return msgspec.structs.replace(finding, attack=f"{finding.attack} ({upload.step}, rows {upload.cut}{of})")


def _attack_rap(fitted: FittedRun, recorder: Recorder, rng: Rng) -> Iterator[Finding]:
    """The attacks that only mixed columns and hidden labels allow, on everything sent to learn from."""
    asked = Rap.send.__name__
    sent = {
        party: upload.values
        for party, uploads in uploads_of(fitted, recorder).items()
        for upload in uploads
        if upload.step == asked and upload.cut == "train"
    }
    replies = [decode(blob) for _, step, way, blob in recorder.crossings if step == asked and way == "up"]
    hidden = next((one["label"]["train"] for one in replies if one.get("label")), None)
    given = fitted.federation
    return attack_rap(given.task, given.tables, sent, hidden, given.labels("train"), rng)


def attack_labels(fitted: FittedRun, recorder: Recorder, rng: Rng) -> list[Finding]:
    """Read labels off what each party was first sent that is made from them: gradients, VIM's signals, or labels.

    Under encryption there is nothing to read, and nothing is reported.
    """
    y, numeric = fitted.federation.labels("train"), not fitted.federation.task.of_classes
    found = []
    for party, (name, places, values) in first_signals(fitted, recorder).items():
        if numeric:
            found.append(infer_numbers(values, y[places], whose=party))
        elif name == "labels":
            found.append(compare_labels(values, y[places], whose=party))
        else:
            found.append(infer_labels(values, y[places], rng, whose=party))
    return found


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

"""What parties with other rows give away: by the final model, and by what each of them sent to the server.

Membership goes by a threshold on the loss: a model errs less on rows that it has seen. A first layer's change gives
rows away as they are: for one row, the gradient by a unit's weights is the row, times the gradient by the unit's bias
(Phong, Aono, Hayashi, Wang, Moriai: Privacy-Preserving Deep Learning via Additively Homomorphic Encryption, 2018). Of
many rows it is a mixture of them, which is seldom one of them. What is under masks cannot be attacked: it is noise.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from laconic.audit.attacks import Finding, row_losses, threshold_attack
from laconic.audit.sums_attacks import share_found, tell_members
from laconic.core.party import Party
from laconic.core.wire import decode, decode_question
from laconic.deploy.homecoming import final_model, predict_at_home
from laconic.deploy.simulation import FittedRun
from laconic.deploy.transports.inprocess import Recorder
from laconic.learn.models.least_squares import Sums
from laconic.methods.families.rows import map_weights
from laconic.methods.horizontal.analytic import Analytic
from laconic.tables.table import Table
from laconic.values import Array, Weights, flat

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

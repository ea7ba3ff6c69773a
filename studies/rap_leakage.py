"""What a server finds out from one run of RAP, measured by the attacks of `laconic.audit`."""

import numpy as np

from laconic import Federation, Rap
from laconic.audit import (
    best_correlations,
    match_by_leverage,
    pair_codes,
    recover_from_known_rows,
    share_recovered,
    unmask_numeric_label,
    unmix,
)
from laconic.core import Party, unwrap
from laconic.learn import Gaussian, LinearModel
from laconic.privacy import LocalGaussian
from laconic.values import Array
from studies.harness import Job, Record
from studies.rap_parties import HOLDER, federation

_MOST_ROWS = 30_000
"""Attacks look at no more rows than this; more only help them."""


def leakage_job(data: str, seed: int, *, epsilon: float | None = None, rows: int | None = None) -> Job:
    """Run every attack against what four parties and a label owner send, as published or under noise."""
    key = {"what": "leakage", "data": data, "seed": seed, "epsilon": epsilon, "rows": rows}

    def measure() -> Record:
        given = federation(data, 4, seed, rows)
        noise = None if epsilon is None else LocalGaussian(epsilon=epsilon, seeded=True)
        # Which learner would train on it makes no difference to what is sent.
        method = Rap(matrix=Gaussian(), noise=noise, learner=LinearModel())
        sent = {name: _upload(method, given, name, seed) for name in given.names}
        kept = np.random.default_rng(seed).permutation(len(given.labels("train")))[:_MOST_ROWS]
        found = [_columns_of(given, name, sent[name]["columns"]["train"], kept, seed) for name in given.peers]
        means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        return means | _label_of(given, sent, kept)

    return Job(key, measure)


def _upload(method: Rap, given: Federation, name: str, seed: int) -> Record:
    plain: Record = unwrap(method.send(Party(name, given.tables[name], seed)))[0]
    return plain


def _columns_of(given: Federation, name: str, sent: Array, kept: Array, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    truth, sent = given.tables[name].part("train")[0][kept], sent[kept]
    third = len(kept) // 3
    public, truth, sent = truth[:third], truth[third:], sent[third:]
    width = truth.shape[1]
    found = {}
    for label, count in (("half as many", width // 2), ("as many", width), ("twice as many", 2 * width)):
        at = rng.choice(len(truth), count, replace=False)
        found[f"rows solved, {label} known rows as columns"] = share_recovered(
            recover_from_known_rows(sent, truth[at], at), truth
        )
    many = rng.choice(len(truth), 1000, replace=False)
    by_many = recover_from_known_rows(sent, truth[many], many)
    found["correlation, 1000 known rows"] = float(best_correlations(by_many, truth).mean())
    apart = unmix(sent[:20_000], rng)
    found["correlation, nothing known"] = float(best_correlations(apart, truth[:20_000]).mean())
    known = rng.choice(len(truth), 300, replace=False)
    order = rng.permutation(len(truth))
    who, where = match_by_leverage(sent[order], truth[known], public)
    by_match = recover_from_known_rows(sent[order], truth[known[who]], where)
    found["correlation, 300 known rows in unknown places"] = float(best_correlations(by_match, truth[order]).mean())
    return found


def _label_of(given: Federation, sent: dict[str, Record], kept: Array) -> dict[str, float]:
    x = np.hstack([sent[name]["columns"]["train"][kept] for name in given.peers])
    hidden, y = sent[HOLDER]["label"]["train"][kept], given.labels("train")[kept]
    if given.task.kind == "regression":
        return {"label, correlation": float(best_correlations(unmask_numeric_label(x, hidden)[:, None], y[:, None])[0])}
    owner = {int(code): int(np.bincount(y[hidden == code]).argmax()) for code in np.unique(hidden)}
    pairs = pair_codes(x, hidden)
    return {"label, codes paired": float(np.mean([owner[one] == owner[other] for one, other in pairs]))}

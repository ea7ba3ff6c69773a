"""How much each party matters: by its head, by what breaks when it breaks, and by what it adds to the others.

The first is the VIM paper's measure and costs nothing; the other two are what it should be checked against.
"""

from collections.abc import Mapping
from itertools import combinations
from math import comb
from typing import Literal

import msgspec
import numpy as np

from laconic.core.capabilities import Attributable
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.data.federation import Federation
from laconic.data.partition.columns import disturb
from laconic.deploy.simulation import FittedRun, train
from laconic.tables.survival import pairs_of
from laconic.tables.task import LOWER_IS_BETTER
from laconic.threads import limit_threads
from laconic.values import Array

_MOST_PARTIES = 16


class Importance(msgspec.Struct, frozen=True, kw_only=True):
    """Three answers to one question, each by party; more is more important.

    Attributes:
        heads: length of the party's linear head; nobody's where there are none, as trees have none.
        noise: how much the headline figure on test rows worsens with noise on this party's cells.
        shapley: the party's fair share of training accuracy (R2 for numbers) over what no party at all gives; exact,
            from what the hub has stored, so that it costs no further bytes.

    A hub with columns counts as one more party. One that was absent while learning has no head and no Shapley value.
    """

    heads: dict[str, float]
    noise: dict[str, float]
    shapley: dict[str, float]

    def spearman(self, one: Literal["heads", "noise", "shapley"], other: Literal["heads", "noise", "shapley"]) -> float:
        """Rank correlation of two of the answers, over the parties that both name."""
        from scipy.stats import spearmanr

        first, second = getattr(self, one), getattr(self, other)
        names = [name for name in first if name in second]
        if len(names) < 2:
            raise ValueError(f"{one} and {other} name {len(names)} of the same parties; a rank correlation needs 2")
        return float(spearmanr([first[name] for name in names], [second[name] for name in names]).statistic)


class Denoised(msgspec.Struct, frozen=True, kw_only=True):
    """The lengths of all heads, and the headline figure, without and with noise on one party."""

    party: str
    heads: dict[str, float]
    heads_noisy: dict[str, float]
    score: float
    score_noisy: float

    @property
    def shrinkage(self) -> float:
        """How long the noisy party's head is, next to the others', in units of how long it was when clean."""
        return _relative(self.heads_noisy, self.party) / _relative(self.heads, self.party)


@limit_threads()
def importance(trained: FittedRun, *, sd: float = 3.0, rows: int = 2000, seed: int = 0) -> Importance:
    """Every measure of how much each party matters.

    Args:
        trained: a run of a method that stores what parties send: FedOnce, OneShot, FewShot, or one of the VIM family.
        sd: of the noise at test time, as for `disturb`.
        rows: how many training rows, at most, Shapley values are worked out on.
        seed: for which rows and which noise.
    """
    return Importance(
        heads=_stored(trained).head_norms(trained.hub, trained.ask),
        noise=noise_losses(trained, sd=sd, seed=seed),
        shapley=shapley(trained, rows=rows, seed=seed),
    )


@limit_threads()
def head_norms(trained: FittedRun) -> dict[str, float]:
    """The length of each party's linear head."""
    found = _stored(trained).head_norms(trained.hub, trained.ask)
    if not found:
        raise ValueError(
            f"the label holder's model of {type(trained.method).__name__} has no linear heads, as trees have none; use "
            "a net as head, or shapley() and noise_losses()"
        )
    return found


@limit_threads()
def noise_losses(trained: FittedRun, *, sd: float = 3.0, seed: int = 0) -> dict[str, float]:
    """How much the headline figure on test rows worsens with noise on one party's cells at a time."""
    clean = trained.headline()
    sign = -1.0 if trained.result.score.metric in LOWER_IS_BETTER else 1.0
    found = {}
    for name, table in trained.federation.tables.items():
        if table.columns:
            noisy = disturb(trained.federation, name, sd, cuts=("test",), seed=seed)
            found[name] = sign * (clean - trained.headline(noisy))
    return found


@limit_threads()
def shapley(trained: FittedRun, *, rows: int = 2000, seed: int = 0) -> dict[str, float]:
    """Each party's exact Shapley value, over every subset of the parties whose parts the hub has stored."""
    if rows < 1:
        raise ValueError(f"rows must be 1 or more, not {rows}")
    method, hub = _stored(trained), trained.hub
    count = len(hub.data.cut("train"))
    places = np.sort(np.random.default_rng(seed).permutation(count)[:rows])
    parts = method.stored_parts(hub, places)
    if len(parts) > _MOST_PARTIES:
        raise ValueError(
            f"exact Shapley values of {len(parts)} parties need 2^{len(parts)} models; {_MOST_PARTIES} is most"
        )
    labels = np.asarray(trained.federation.labels("train"))[places]
    worth = {
        frozenset(names): _quality(hub, labels, method.predict_from(hub, {name: parts[name] for name in names}, places))
        for size in range(len(parts) + 1)
        for names in combinations(parts, size)
    }
    return {name: _share(name, worth, len(parts)) for name in parts}


@limit_threads()
def denoise(trained: FittedRun, party: str, *, sd: float = 3.0, seed: int = 0, workers: int | None = None) -> Denoised:
    """Train again with noise on one party's cells, and see whether its head shrinks."""
    sizes = head_norms(trained)
    if party in trained.federation.tables and party not in sizes:
        raise ValueError(f"{party} has no head that could shrink; those with one are {', '.join(sizes)}")
    if len(sizes) < 2:
        raise ValueError(f"no other party has a head, next to which {party}'s could shrink; use 2 parties or more")
    noisy = train(
        trained.method, disturb(trained.federation, party, sd, seed=seed), seed=trained.hub.seed, workers=workers
    )
    return Denoised(
        party=party,
        heads=sizes,
        heads_noisy=head_norms(noisy),
        score=trained.headline(),
        score_noisy=noisy.headline(),
    )


@limit_threads()
def summarise(
    trained: FittedRun, share: float = 0.5, keep: Literal["most", "least"] = "most", *, workers: int | None = None
) -> FittedRun:
    """Train again with the share of parties whose heads are longest, or shortest; a hub with columns always stays."""
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, not {share}")
    if keep not in ("most", "least"):
        raise ValueError(f"keep must be 'most' or 'least', not {keep!r}")
    sizes = {name: size for name, size in head_norms(trained).items() if name != trained.federation.hub}
    ranked = sorted(sizes, key=lambda name: sizes[name], reverse=keep == "most")
    names = {trained.federation.hub, *ranked[: max(1, round(share * len(ranked)))]}
    return train(trained.method, _only(trained.federation, names), seed=trained.hub.seed, workers=workers)


def _stored(trained: FittedRun) -> Attributable:
    method = trained.method
    if not isinstance(method, Attributable):
        raise ValueError(
            f"{type(method).__name__} keeps nothing of what parties send; use FedOnce, OneShot, FewShot or one of the "
            "VIM family"
        )
    return method


def _quality(hub: Party, labels: Array, predictions: Array) -> float:
    """Accuracy for classes, R2 for numbers, concordance for times."""
    task = task_of(hub)
    if task.kind == "survival":
        return pairs_of(labels, predictions).share
    if task.kind == "regression":
        return 1.0 - float(np.mean((labels - predictions) ** 2) / max(float(np.var(labels)), 1e-30))
    return float(np.mean(task.decide(predictions) == labels))


def _share(name: str, worth: Mapping[frozenset[str], float], parties: int) -> float:
    gains = 0.0
    for names, value in worth.items():
        if name in names:
            size = len(names) - 1
            gains += (value - worth[names - {name}]) / (parties * comb(parties - 1, size))
    return gains


def _relative(sizes: Mapping[str, float], party: str) -> float:
    others = [size for name, size in sizes.items() if name != party]
    return sizes[party] / (sum(others) / len(others))


def _only(federation: Federation, names: set[str]) -> Federation:
    tables = {name: table for name, table in federation.tables.items() if name in names}
    return Federation(
        name=federation.name, tables=tables, hub=federation.hub, aligned=federation.aligned, facts=federation.facts
    )

"""How much each party matters: by its head, by what breaks when it breaks, and by what it adds to the others.

The first is the VIM paper's measure and costs nothing; the other two are what it should be checked against.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
from laconic.deploy.execute import FittedRun, train
from laconic.tables.task import LOWER_IS_BETTER, pairs_of
from laconic.threads import limit_threads
from laconic.values import Array, check_least, flat

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
    labels, said, parts = _by_parties(trained, rows, seed)
    worth = {names: _quality(trained.hub, labels, one) for names, one in said.items()}
    return {name: _share(name, worth, len(parts)) for name in parts}


@dataclass(frozen=True)
class Worth:
    """What a party added to a model, for parties that have to share what it earns.

    Attributes:
        shapley: its mean gain over all orders in which parties may join: accuracy, R2 or concordance.
        error: the standard error of that, over resampled rows.
        without: how much worse the model is without this party alone.
        similar: how many other parties have numbers like its own, from 0 to one less than there are.
        settled: `shapley`, halved for each party that is wholly like it, so that whoever copies another gains nothing.
        bytes: what it sent while the model was fitted.
    """

    shapley: float
    error: float
    without: float
    similar: float
    settled: float
    bytes: int


@limit_threads()
def worths(trained: FittedRun, *, rows: int = 2000, seed: int = 0, draws: int = 100) -> dict[str, Worth]:
    """What each party added, with uncertainty, from what the hub has stored: nobody is asked.

    Shapley values alone reward a copy: two parties with the same numbers take more together than one of them would. As
    Agarwal, Dahleh and Sarkar have it (A Marketplace for Data, 2019), a value is lessened by how like a party's numbers
    are to those of others, here by the RV coefficient. Nobody can tell which of two similar parties was first.
    """
    check_least(2, draws=draws)
    labels, said, parts = _by_parties(trained, rows, seed)
    hub, rng = trained.hub, np.random.default_rng([seed, 1])

    def values(some: Array) -> tuple[dict[frozenset[str], float], dict[str, float]]:
        worth = {names: _quality(hub, labels[some], one[some]) for names, one in said.items()}
        return worth, {name: _share(name, worth, len(parts)) for name in parts}

    worth, shares = values(np.arange(len(labels)))
    drawn = [values(rng.integers(len(labels), size=len(labels)))[1] for _ in range(draws)]
    everybody, found = frozenset(parts), {}
    fitting = [one for one in trained.result.wire if one.phase == "fit"]
    sent = {name: sum(one.bytes_up for one in fitting if one.party == name) for name in parts}
    for name, part in parts.items():
        similar = sum(_likeness(part, other) for one, other in parts.items() if one != name)
        found[name] = Worth(
            shapley=shares[name],
            error=float(np.std([one[name] for one in drawn], ddof=1)),
            without=worth[everybody] - worth[everybody - {name}],
            similar=similar,
            settled=shares[name] * 0.5**similar,
            bytes=sent[name],
        )
    return found


def _likeness(one: Array, other: Array) -> float:
    """The RV coefficient of two parties' numbers of the same rows: 1 if they are the same but for a rotation."""
    x, y = (np.nan_to_num(flat(numbers).astype(np.float64)) for numbers in (one, other))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    shared, own, others = (float(np.square(a.T @ b).sum()) for a, b in ((x, y), (x, x), (y, y)))
    return shared / (own * others) ** 0.5 if own and others else 0.0


def _by_parties(
    trained: FittedRun, rows: int, seed: int
) -> tuple[Array, dict[frozenset[str], Array], dict[str, Array]]:
    """The labels of some training rows, what every subset of parties predicts of them, and each party's part."""
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
    said = {
        frozenset(names): method.predict_from(hub, {name: parts[name] for name in names}, places)
        for size in range(len(parts) + 1)
        for names in combinations(parts, size)
    }
    return labels, said, parts


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

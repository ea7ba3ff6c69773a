"""Noisy votes: who wins when noise is added to the counts, and what that costs.

Li, He, Song: Practical One-Shot Federated Learning for Cross-Silo Setting (2021), Theorems 1 to 4, after Papernot and
others: PATE (2017) for Laplace noise and Scalable Private Learning with PATE (2018) for Gaussian noise.

The *independent* epsilon holds whatever the votes were. It is the price of the noisy counts themselves, so anything may
be made from them. The *dependent* one is for who won alone, as published (`smooth=False`). It is smaller where voters
agree, but it is calculated from the true counts: publishing it gives away something about them. It is not to be
published; show it, if at all, with `WARNING` beside it.

`Sure` is the confident aggregation of the second PATE paper: a noisy test comes first, and only rows whose winner
passes it are answered. Tests are paid for like answers, and the price is that of the most answers there may be.
"""

from math import inf, log, sqrt
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.learn.models.aggregation import smooth_votes
from laconic.privacy.accounting import Event, Pld, check_delta
from laconic.privacy.mechanisms.gaussian import epsilon_of
from laconic.privacy.mechanisms.sums import IN_SUM
from laconic.privacy.randomness import randomness_from
from laconic.privacy.row_releases import write_noise
from laconic.values import Array, Rng, Settings, check_above_zero, check_least

WARNING = (
    "the data-dependent epsilon is calculated from the true votes, so the figure itself gives something away and is "
    "not to be published"
)
SEEDED = "noise is drawn from the run's seed so that the run can be repeated: not a private run"

_MOMENTS = np.concatenate([np.arange(1, 33), np.arange(36, 257, 4)]).astype(np.float64)
_ORDERS = np.concatenate([np.arange(1.1, 12, 0.1), np.arange(12, 64), np.arange(64, 513, 8)])


class VotePrice(msgspec.Struct, frozen=True, kw_only=True):
    """What noisy votes cost: epsilon whatever the votes were, and for these very votes (see `WARNING`) or None."""

    independent: float
    dependent: float | None
    delta: float


class Sure(Settings, frozen=True):
    """Answer only where voters seem sure: where the winner has votes enough, counted with noise.

    Papernot and others: Scalable Private Learning with PATE (2018), confident GNMax. All tests come before the first
    answer, so that what is released is a fixed number of tests and at most a fixed number of answers.

    Attributes:
        least: the share of all votes that the winner must have, with noise.
        tests: how many rows are tested for each that may be answered.
        width: how much wider the noise on a test is than that on a count. One unit moves a test by the votes it moves,
            so one answer with its tests costs as much as an answer of 1 + tests / (2 width^2) times the squared
            sensitivity.
    """

    least: float = 0.65
    tests: int = 2
    width: float = 3.0

    def __post_init__(self) -> None:
        check_above_zero(1.0, least=self.least)
        check_above_zero(width=self.width)
        check_least(1, tests=self.tests)

    @property
    def stretch(self) -> float:
        """By how much the tests stretch the sensitivity of an answer."""
        return sqrt(1 + self.tests / (2 * self.width**2))

    def passing(self, noisy: Array, voters: int, most: int, rng: Rng) -> Array:
        """The places of the rows to answer, drawn from those that pass; the surest few where hardly any row does.

        Args:
            noisy: the winner's votes of each row, with noise.
            voters: how many votes there are.
            most: how many rows may be answered.
            rng: for which of those that pass are answered.
        """
        passed = rng.permutation(np.flatnonzero(noisy >= self.least * voters))[:most]
        few = -(-most // 4)
        return np.sort(passed if len(passed) >= few else np.argsort(-noisy)[:few])


class LaplaceVotes(Settings, frozen=True):
    """Laplace noise of scale 1 / gamma on every count, as in the paper.

    Attributes:
        gamma: small is private; with one changed unit moving v votes from one class to another, each answer is
            (2 v gamma, 0)-differentially private (Theorem 1).
    """

    sure: ClassVar[None] = None

    gamma: float = 0.04

    def __post_init__(self) -> None:
        if not 0 < self.gamma < inf:
            raise ValueError(f"gamma must be above 0, not {self.gamma}; use level=L0() for no noise")

    def draw(self, uniform: Array) -> Array:
        """Noise from as many numbers between 0 and 1."""
        half = uniform - 0.5
        return np.asarray(-np.sign(half) * np.log1p(-2 * np.abs(half)) / self.gamma)

    def words(self, moved: int, count: int, unit: str, secure: bool) -> Noise:
        """The noise for the ledger; its sensitivity is in L1, as Laplace noise needs it."""
        return _words("laplace", 1 / self.gamma, 2.0 * moved, count, unit, secure)

    @property
    def spread(self) -> float:
        """The standard deviation of the noise on a count."""
        return sqrt(2) / self.gamma

    def price(self, counts: Array, moved: int, delta: float) -> VotePrice:
        """What answering with the noisy winners of these counts costs, if one unit moves `moved` votes.

        Args:
            counts: true counts, shape (answers, classes).
            moved: how many votes one changed unit takes from a class and gives to another.
            delta: the probability that the loss is greater.
        """
        worst = 2.0 * moved * self.gamma
        bound = worst**2 * _MOMENTS * (_MOMENTS + 1) / 2
        each = np.array([_laplace_moments(log_q, worst) for log_q in log_laplace_doubt(counts, self.gamma)])
        independent = Pld().epsilon({"votes": {Event("laplace", 1 / worst): len(counts)}}, delta)
        dependent = _from_moments(np.minimum(each, bound).sum(axis=0), delta)
        return VotePrice(independent=independent, dependent=min(dependent, independent), delta=delta)


class GaussianVotes(Settings, frozen=True):
    """Gaussian noise on every count, whose losses add up more slowly than those of Laplace noise.

    Attributes:
        sigma: standard deviation of the noise; large is private.
        sure: answer only where voters seem sure; None answers whatever is asked.
    """

    sigma: float = 40.0
    sure: Sure | None = None

    def __post_init__(self) -> None:
        if not 0 < self.sigma < inf:
            raise ValueError(f"sigma must be above 0, not {self.sigma}; use level=L0() for no noise")

    def draw(self, uniform: Array) -> Array:
        """Noise from as many numbers between 0 and 1."""
        from scipy.special import ndtri

        return np.asarray(self.sigma * ndtri(uniform))

    def words(self, moved: int, count: int, unit: str, secure: bool) -> Noise:
        """The noise for the ledger."""
        return _words("gaussian", self.sigma, self._sensitivity(moved), count, unit, secure)

    @property
    def spread(self) -> float:
        """The standard deviation of the noise on a count."""
        return self.sigma

    def price(self, counts: Array, moved: int, delta: float) -> VotePrice:
        """As for `LaplaceVotes`; the independent epsilon is exact for Gaussian noise on the counts themselves."""
        independent = epsilon_of(sqrt(len(counts)) * self._sensitivity(moved) / self.sigma, delta)
        if self.sure is not None:
            return VotePrice(independent=independent, dependent=None, delta=delta)
        scaled = self.sigma / moved
        doubts = log_gaussian_doubt(counts, self.sigma)
        divergences = np.sum([_gaussian_divergences(log_q, scaled) for log_q in doubts], axis=0)
        # Renyi to (epsilon, delta): Canonne, Kamath, Steinke (2020), proposition 12.
        extra = np.log1p(-1 / _ORDERS) - np.log(delta * _ORDERS) / (_ORDERS - 1)
        dependent = max(0.0, float(np.min(divergences + extra)))
        return VotePrice(independent=independent, dependent=min(dependent, independent), delta=delta)

    def _sensitivity(self, moved: int) -> float:
        """How far one unit moves an answer, with the tests that belong to it."""
        return sqrt(2) * moved * (1.0 if self.sure is None else self.sure.stretch)


VoteNoise: TypeAlias = LaplaceVotes | GaussianVotes


def under_noise(answer: dict[str, Any], words: Noise) -> Noised[dict[str, Any]]:
    """Models learnt from noisy votes and public rows alone, and noisy counts of classes, ready to leave a party."""
    return Noised(answer, words)


def note_model(party: Party, noise: Noise, rows: int) -> None:
    """Write in the ledger that a model learnt from noisy votes on so many rows may be given to anyone."""
    what = "the final model, learnt from public rows labelled by noisy votes of all parties' models"
    # Drawn once: whoever gets the model gets the same noise.
    write_noise(party, "final model", what, f"{rows} labels", replace(noise, once=True))


def uniforms(counts: Array, rng: Rng, *, secure: bool) -> Array:
    """A number above 0 and below 1 per count; secure ones repeat only for a party that keeps its secret."""
    if secure:
        drawn = randomness_from(rng, False, counts).uniform(counts.size).reshape(counts.shape)
        whole = np.ceil(drawn * 2.0**52) - 1
    else:
        whole = rng.integers(0, 2**52, counts.shape)
    return np.asarray((whole + 0.5) / 2.0**52)


def log_laplace_doubt(counts: Array, gamma: float) -> Array:
    """Per row, the logarithm of a bound on the probability that Laplace noise changes the winner.

    Papernot and others 2017, lemma 4. In logarithms, for where voters agree the probability is far below what can be
    distinguished from 0 beside 1, and an answer that is priced as if nothing could change it is priced too low.
    """
    from scipy.special import logsumexp

    gaps = _gaps(counts) * gamma
    return np.asarray(logsumexp(np.log(2 + gaps) - log(4) - gaps, axis=1))


def log_gaussian_doubt(counts: Array, sigma: float) -> Array:
    """The same for Gaussian noise (Papernot and others 2018)."""
    from scipy.special import log_ndtr, logsumexp

    bound = logsumexp(log_ndtr(-_gaps(counts) / (sqrt(2) * sigma)), axis=1)
    return np.asarray(np.minimum(bound, np.log1p(-1 / counts.shape[1])))


def _gaps(counts: Array) -> Array:
    """How far each class but the winner is behind it, shape (rows, classes - 1)."""
    others = np.sort(np.asarray(counts, dtype=np.float64), axis=1)
    return np.asarray(others[:, -1:] - others[:, :-1])


def _laplace_moments(log_q: float, worst: float) -> Array:
    """Theorems 2 and 3: moments of the loss of one answer that noise changes with probability q.

    Infinite where the theorems say nothing. `worst` is 2 s gamma in Theorem 2, 2 gamma in Theorem 3.
    """
    q = np.exp(log_q)
    if q >= np.expm1(worst) / np.expm1(2 * worst):
        return np.full(len(_MOMENTS), inf)
    kept = np.log1p(-q) + _MOMENTS * (np.log1p(-q) - np.log1p(-np.exp(worst) * q))
    return np.asarray(np.logaddexp(kept, log_q + worst * _MOMENTS))


def _gaussian_divergences(log_q: float, sigma: float) -> Array:
    """Renyi divergences of one answer (Papernot and others 2018, theorem 6), for one vote moved under noise sigma."""
    from scipy.special import logsumexp

    plain = _ORDERS / sigma**2
    q = np.exp(log_q)
    second = sigma * sqrt(max(-log_q, 0.0))
    first = second + 1
    if second <= 1:
        return np.asarray(plain)
    loss1, loss2 = first / sigma**2, second / sigma**2
    limit = (second - 1) * loss2 - second * log(first / (first - 1) * second / (second - 1))
    shrunk = (log_q + loss2) * (second - 1) / second
    if log_q > limit or shrunk >= 0:
        return np.asarray(plain)
    kept = np.log1p(-q) + (_ORDERS - 1) * (np.log1p(-q) - np.log1p(-np.exp(shrunk)))
    changed = log_q + (_ORDERS - 1) * (loss1 - log_q / (first - 1))
    found = logsumexp([kept, changed], axis=0) / (_ORDERS - 1)
    return np.asarray(np.where(first >= _ORDERS, np.clip(np.minimum(found, plain), 0, None), plain))


def _from_moments(moments: Array, delta: float) -> float:
    return float(np.min((moments + log(1 / delta)) / _MOMENTS))


def _words(mechanism: str, scale: float, sensitivity: float, count: int, unit: str, secure: bool) -> Noise:
    source = "noise from the system's secure source" if secure else SEEDED
    caveat = f"{source}; covers what public rows were labelled by, and not how many rows a party has"
    return Noise(
        mechanism=mechanism,
        scale=scale,
        sensitivity=sensitivity,
        unit=unit,
        caveat=caveat,
        count=count,
        secure=secure,
    )


class _Trust(Settings, frozen=True):
    """Abstract: whose votes get noise."""

    def at_parties(self) -> "NoisyVotes | None":
        """What adds noise to parties' votes; None for no noise."""
        return None

    def at_server(self) -> "NoisyVotes | None":
        """What adds noise to the server's votes; None for no noise."""
        return None


class Election(NamedTuple):
    """What is public about a vote.

    Attributes:
        voters: how many votes a row can have.
        most: how many rows may be answered.
        asked: the columns of the rows put to the vote.
        rows: the columns of all public rows.
    """

    voters: int
    most: int
    asked: Array
    rows: Array


class NoisyVotes(_Trust, frozen=True):
    """Abstract: votes that get noise.

    Attributes:
        noise: what is added to the votes.
        delta: the probability that the loss is greater than epsilon.
        secure: draw noise from the system's secure source; False draws it from the run's seed, so that a study can be
            repeated, and the ledger records that such a run is not private.
        smooth: let a ridge regression of the noisy votes on public columns label all public rows, so that noise
            averages out; False labels only the rows asked about, each by its noisy winner, as published.
    """

    noise: VoteNoise = GaussianVotes()
    delta: float = 1e-5
    secure: bool = True
    smooth: bool = True

    def __post_init__(self) -> None:
        check_delta(self.delta)

    def noisy(self, counts: Array, rng: Rng) -> Array:
        """Counts of any shape, each with its noise."""
        return np.asarray(counts + self.noise.draw(uniforms(counts, rng, secure=self.secure)))

    def tested(self, labels: int) -> int:
        """How many rows are put to the vote for so many labels."""
        return labels * (1 if self.noise.sure is None else self.noise.sure.tests)

    def answer(self, counts: Array, election: Election, rng: Rng) -> tuple[Array, Array]:
        """The places of the rows that are answered, and what noisy counts say: of all public rows if smoothed.

        Args:
            counts: true counts, shape (rows put to the vote, classes).
            election: what is public about these votes.
            rng: for the noise.
        """
        places = np.arange(len(counts))
        if isinstance(self.noise, GaussianVotes) and self.noise.sure is not None:
            tests = replace(self.noise, sigma=self.noise.sigma * self.noise.sure.width)
            noisy_best = replace(self, noise=tests).noisy(counts.max(axis=1), rng)
            places = self.noise.sure.passing(noisy_best, election.voters, election.most, rng)
        noisy = self.noisy(counts[places], rng)
        return places, self.decide(noisy, election.asked[places], election.rows, self.noise.spread)

    def price(self, counts: Array, moved: int) -> VotePrice:
        """What these answers cost if one unit moves so many votes; with `Sure`, as many zeros as may be answered do."""
        found = self.noise.price(counts, moved, self.delta)
        # Smoothed votes use the noisy counts themselves, which agreement makes no cheaper.
        return replace(found, dependent=None) if self.smooth else found

    def words(self, answers: int, moved: int, unit: str) -> Noise:
        """The noise for the ledger."""
        return self.noise.words(moved, answers, unit, self.secure)

    def words_in_sum(self, answers: int, moved: int, unit: str) -> Noise:
        """The noise on a secure sum of votes, to which every party adds its share."""
        noise = self.words(answers, moved, unit)
        return replace(noise, caveat=f"{noise.caveat}; {IN_SUM}")

    def share_of(self, counts: Array, rng: Rng, share: float, words: Noise) -> Noised[dict[str, Array]]:
        """A party's own votes under its share of the noise: only for a secure sum, in which others add the rest."""
        return Noised({"votes": counts + share * self.noise.draw(uniforms(counts, rng, secure=self.secure))}, words)

    def decide(self, noisy: Array, asked: Array, rows: Array, spread: float) -> Array:
        """What noisy counts say of all public rows if they are smoothed, else of those asked about."""
        return smooth_votes(noisy, asked, rows, spread) if self.smooth else noisy


class L0(_Trust, frozen=True):
    """No noise anywhere: the server and whoever gets the final model are trusted."""


class L1(NoisyVotes, frozen=True):
    """Noise on the server's votes: the final model may be given to anyone; the server sees students without noise.

    What is protected is whether a whole party took part with these rows or with others.
    """

    noise: VoteNoise = GaussianVotes(sigma=40.0, sure=Sure())

    def at_server(self) -> NoisyVotes | None:
        """These settings."""
        return self


class L2(NoisyVotes, frozen=True):
    """Noise on each party's own votes: not even the server sees a student that one row could have changed much.

    What is protected is each row of a party: its being there instead of another one. The server's votes need no more
    noise, as they are made from what is already protected.
    """

    noise: VoteNoise = GaussianVotes(sigma=20.0)

    def at_parties(self) -> NoisyVotes | None:
        """These settings."""
        return self


Level: TypeAlias = L0 | L1 | L2

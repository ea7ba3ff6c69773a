"""Best: the model that does best on rows held out, of linear models, boosted trees, nets and a stack of them.

Whoever holds all numbers can try everything without asking anyone again. Every candidate is judged by cross-validation
on the same folds of the training rows, by log loss or squared error. What is tried follows from the size of the table
and the time allowed, by a stated model of what each candidate costs: no clock is read, so that a seed gives the same
model on every machine.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from laconic.errors import PlanError
from laconic.learn.models.candidates import (
    BINS,
    AnyCandidate,
    Folds,
    LinearCandidate,
    NetCandidate,
    TreesCandidate,
    Trial,
    chosen_probability,
    loss,
)
from laconic.learn.models.supervised import Learner, Shard, fit_each, predict_each
from laconic.learn.trees.dense_trees import Boosted
from laconic.tables.task import Task, Tried, headline, metrics
from laconic.values import Array, Rng, Weights, check_above_zero, flat, track

Kind: TypeAlias = Literal["linear", "trees", "net"]

_MOST_ROWS = 20_000
"""More rows than this are not chosen on: candidates differ by more than what further rows would change."""

_FEWEST = 20
"""Fewer rows than this cannot be held out: the plainest candidate is taken."""

_MANY = 5_000
"""From so many rows on, fewer folds and deeper trees are tried."""

_LEAST = 0.05
"""A smaller share of the answer is not taken."""

_GAIN = 0.001
"""A stack is taken if its loss is lower than that of the best candidate by this share."""

_CLEAR = 0.01
"""Rows that are not judged by are left out if the loss is lower by this share, and two errors, without them."""

_CHOICE = "choice"


class Chosen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member of the model that was chosen, and the share of its answer that is taken.

    Attributes:
        columns: of how many columns, the first ones, it is a model: the label holder's own; 0 for all.
    """

    candidate: AnyCandidate
    share: float
    columns: int = 0

    def seen(self, x: Array) -> Array:
        """The columns that it looks at."""
        return x[:, : self.columns] if self.columns else x


class Mixture(Learner, frozen=True, omit_defaults=True):
    """Models that were chosen before, fitted anew without choosing again: what `Best` found, for other rows or columns.

    Attributes:
        members: the models and the share of each one's answer.
        others: whether rows that are not judged by are learnt from; not if they did harm when it was chosen.
        chosen_by: what chose them, for whoever wants to choose anew; None if that is not known.
    """

    takes_gaps: ClassVar[bool] = True

    members: tuple[Chosen, ...]
    others: bool = True
    chosen_by: "Best | None" = None

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Fit every member to all rows."""
        rows = flat(x).astype(np.float32)
        return fit_each(lambda numbers: self._fit(task, rows, numbers, rng), y)

    def fit_all(
        self,
        task: Task,
        x: Array,
        y: Array,
        rng: Rng,
        valid: Shard | None = None,
        judged: int | None = None,
        groups: Array | None = None,
        own: int = 0,
    ) -> Weights:
        """Fit to all rows, or to the first alone if others did harm."""
        used = len(y) if self.others else judged
        return self.fit(task, x[:used], y[:used], rng)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """What the members say together."""
        rows = flat(x).astype(np.float32)
        return predict_each(lambda model: self._predict(task, model, rows), weights)

    def _fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        weights: Weights = {}
        for place in track(len(self.members), "fitting what was chosen"):
            member = self.members[place]
            fitted = member.candidate.fit(task, member.seen(x), y, rng)
            weights |= {f"{place}.{name}": values for name, values in fitted.items()}
        return weights

    def _predict(self, task: Task, weights: Weights, x: Array) -> Array:
        found = np.zeros(task.shape(len(x)))
        for place, member in enumerate(self.members):
            own = {name.partition(".")[2]: values for name, values in weights.items() if name.startswith(f"{place}.")}
            found += member.share * member.candidate.predict(task, own, member.seen(x))
        return found


class _Choice(msgspec.Struct, frozen=True):
    members: tuple[Chosen, ...]
    tried: tuple[Tried, ...]
    others: bool = True


class Best(Learner, frozen=True):
    """The best of linear models, boosted trees, nets, and a stack of them, by cross-validation.

    Attributes:
        seconds: how long choosing and fitting may take on one processor of 2020 or later, by the stated costs of the
            candidates; what does not fit in is not tried.
        kinds: what is tried.

    Example:
        >>> import numpy as np
        >>> from laconic.tables import Task
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(200, 3)).astype(np.float32)
        >>> best, task = Best(), Task(kind="regression")
        >>> model = best.fit(task, x, x[:, 0] - 2 * x[:, 1], rng)
        >>> [one.model for one in tried_of(model) if one.share > 0.5]
        ['linear model, penalty 1']
    """

    takes_gaps: ClassVar[bool] = True

    seconds: float = 60.0
    kinds: tuple[Kind, ...] = ("linear", "trees", "net")

    def __post_init__(self) -> None:
        """Refuse no time, and nothing to try."""
        check_above_zero(seconds=self.seconds)
        if not self.kinds:
            raise ValueError("kinds must name at least one of linear, trees and net")

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Choose on folds of these rows, then fit to all of them; validation rows are not looked at.

        Labels that are all of one class leave nothing to choose: the model then says how rare the others may be.
        """
        return self.fit_all(task, x, y, rng)

    def fit_all(
        self,
        task: Task,
        x: Array,
        y: Array,
        rng: Rng,
        valid: Shard | None = None,
        judged: int | None = None,
        groups: Array | None = None,
        own: int = 0,
    ) -> Weights:
        """Judge candidates by the first rows, which learn from the others too, unless they do clearly better without.

        Others may be of other people, or of other years, so that their labels contradict. Rows of one of the `groups`
        are held out together; where all rows are of one group, rows are held out at random. Candidates of the label
        holder's `own` columns alone are tried too: what others sent may be no more than noise.
        """
        rows, first = flat(x).astype(np.float32), len(y) if judged is None else judged
        alone, chooser = own if own < rows.shape[1] else 0, self._for(task)
        return fit_each(lambda numbers: chooser._fit(task, _Rows(rows, numbers, first, groups, alone), rng), y)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """What the members say together."""
        rows = flat(x).astype(np.float32)
        return predict_each(
            lambda model: Mixture(members=_read(model[_CHOICE]).members).predict(task, model, rows), weights
        )

    def candidates(self, rows: int, columns: int, outputs: int) -> list[AnyCandidate]:
        """What is tried on all columns of a table of this size, within the time allowed.

        Raises:
            PlanError: there is no time for any candidate.
        """
        return [one.candidate for one in self.attempts(rows, columns, outputs)]

    def attempts(self, rows: int, columns: int, outputs: int, own: int = 0) -> list[Chosen]:
        """What is tried, on all columns and on the first `own` alone, if there are others; shares are still open.

        Raises:
            PlanError: there is no time for any candidate.
        """
        chosen_on = min(rows, _MOST_ROWS)
        folds, left, found, least = _fold_count(chosen_on), self.seconds, [], np.inf
        for one in _in_order(rows, outputs, self.kinds, own):
            width = one.columns or columns
            cost = folds * one.candidate.seconds(chosen_on * (folds - 1) // folds, width, outputs)
            cost += one.candidate.seconds(rows, width, outputs)
            least = min(least, cost)
            if cost <= left:
                left -= cost
                found.append(one)
        if not found:
            raise PlanError(
                f"seconds = {self.seconds:g} is too little to try any model of {', '.join(self.kinds)} on {rows:,} "
                f"rows of {columns} numbers, of which the quickest takes about {least * 1.05:.2g}; allow at least that"
            )
        return found

    def _for(self, task: Task) -> "Best":
        """The same without what cannot learn such labels: nets learn no times to an event."""
        kinds = tuple(kind for kind in self.kinds if kind != "net" or task.kind != "survival")
        if not kinds:
            raise PlanError("nets do not learn times to an event; let Best try linear models or trees too (kinds)")
        return msgspec.structs.replace(self, kinds=kinds)

    def _fit(self, task: Task, rows: "_Rows", rng: Rng) -> Weights:
        attempts = self.attempts(len(rows.y), rows.x.shape[1], task.outputs, rows.own)
        rows = rows if rows.judged >= _FEWEST else rows._replace(judged=len(rows.y))
        if len(rows.y) < _FEWEST or (task.of_classes and len(np.unique(rows.y)) == 1):
            only = LinearCandidate(penalty=1.0)
            choice = _Choice((Chosen(only, 1.0),), ())
        else:
            choice, losses = _choose(task, rows, attempts, rng)
            if rows.judged < len(rows.y):
                choice = self._without_others(task, rows, rng, choice, losses)
        used = rows if choice.others else rows.first
        written = np.frombuffer(msgspec.json.encode(choice), dtype=np.uint8).copy()
        return {_CHOICE: written} | Mixture(members=choice.members).fit(task, used.x, used.y, rng)

    def _without_others(self, task: Task, rows: "_Rows", rng: Rng, choice: "_Choice", losses: Array) -> "_Choice":
        """The choice, or one of the first rows alone if that is clearly better.

        Others' labels may contradict: they may be of other people, or from other years.
        """
        first = rows.first
        if task.of_classes and len(np.unique(first.y)) == 1:
            return choice
        attempts = self.attempts(rows.judged, rows.x.shape[1], task.outputs, rows.own)
        apart, without = _choose(task, first, attempts, rng)
        gains = losses - without
        error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
        if gains.mean() <= max(_CLEAR * losses.mean(), 2 * error):
            return choice
        return _Choice(apart.members, choice.tried + apart.tried, others=False)


class _Rows(NamedTuple):
    """Rows to choose on: how many of the first are judged by, the group of each, if there are any, and own columns."""

    x: Array
    y: Array
    judged: int
    groups: Array | None = None
    own: int = 0

    @property
    def first(self) -> "_Rows":
        """The rows that are judged by, alone."""
        groups = None if self.groups is None else self.groups[: self.judged]
        return _Rows(self.x[: self.judged], self.y[: self.judged], self.judged, groups, self.own)

    def take(self, places: Array) -> "_Rows":
        """Some of the rows, in order."""
        groups = None if self.groups is None else self.groups[places]
        return _Rows(self.x[places], self.y[places], int(np.searchsorted(places, self.judged)), groups, self.own)


def tried_of(weights: Weights) -> tuple[Tried, ...]:
    """What `Best` tried for a model, and how it did; nothing for a model of another learner."""
    written = weights.get(_CHOICE)
    return () if written is None else _read(written).tried


def left_others_out(weights: Weights) -> bool:
    """Whether `Best` left out all rows that it was not judged by, as the model did clearly better without them."""
    written = weights.get(_CHOICE)
    return written is not None and not _read(written).others


def chosen_in(weights: Weights, best: Best) -> Mixture | None:
    """What `best` chose for a model, to be fitted anew as it is; None for a model of another learner."""
    if _CHOICE not in weights:
        return None
    choice = _read(weights[_CHOICE])
    return Mixture(members=choice.members, others=choice.others, chosen_by=best)


def _in_order(rows: int, outputs: int, kinds: Sequence[Kind], own: int) -> list[Chosen]:
    """All candidates, those first that give most for their time; after some of all columns, those of the own alone.

    Where each class has trees of its own, fewer and larger steps are taken. Others' noise does little harm where rows
    are many, so that fewer models of own columns are tried there.
    """
    count, lr = (400, 0.1) if outputs == 1 else (250, 0.16)
    trees = Boosted(trees=count, depth=6, lr=lr, rows=0.8, columns=0.8, least_rows=3.0, bins=BINS)
    shallow = msgspec.structs.replace(trees, depth=3, columns=0.6)
    deep = msgspec.structs.replace(trees, depth=9, lr=0.6 * lr, columns=0.5, least_rows=5.0)
    linear: list[AnyCandidate] = [LinearCandidate(penalty=penalty) for penalty in (1.0, 100.0)]
    first: list[AnyCandidate] = [*linear, TreesCandidate(trees=trees), NetCandidate(hidden=(64,))]
    second: list[AnyCandidate] = [TreesCandidate(trees=shallow), NetCandidate(hidden=(128, 64))]
    is_large = rows >= _MANY
    alone = [*linear, second[0], first[3]] if is_large else [*linear, second[0], first[3], first[2], second[1]]
    found = [Chosen(one, 0.0) for one in first] + [Chosen(one, 0.0, own) for one in alone[:4] if own]
    found += [Chosen(one, 0.0) for one in second] + [Chosen(one, 0.0, own) for one in alone[4:] if own]
    found += [Chosen(TreesCandidate(trees=deep), 0.0)] if is_large else []
    return [one for one in found if msgspec.to_builtins(one.candidate)["type"] in kinds]


def _fold_count(rows: int) -> int:
    return 3 if rows >= _MANY else 5


def _choose(task: Task, rows: _Rows, attempts: Sequence[Chosen], rng: Rng) -> tuple[_Choice, Array]:
    """Try all candidates on the same folds of the first rows, beside all others, and weigh them.

    Also what the model that is chosen loses on each of the rows to be judged by.
    """
    taken = rows.take(_some(len(rows.y), rows.judged, rng))
    held = _held_out(task, taken.first, rng)
    # Own columns are known of every row, so that models of these alone are judged by every row, as at home.
    every = held if taken.judged == len(taken.y) else _held_out(task, taken, rng)
    folds = {
        columns: Folds(task, taken.x[:, : columns or None], taken.y, every if columns else held, taken.groups)
        for columns in dict.fromkeys(one.columns for one in attempts)
    }
    places = track(len(attempts), "choosing a model")
    trials = [attempts[place].candidate.try_out(folds[attempts[place].columns], rng) for place in places]
    alone, truth = np.flatnonzero([one.columns for one in attempts]), taken.first.y
    home = _stacked(task, folds[taken.own].truth, trials, alone) if len(alone) else None
    trials = [trial._replace(predictions=trial.predictions[: taken.judged]) for trial in trials]
    shares = _stacked(task, truth, trials, np.arange(len(trials)))
    shares = shares if home is None else _mixed(task, truth, trials, shares, home)
    members = [
        Chosen(trial.candidate, float(share), one.columns)
        for one, trial, share in zip(attempts, trials, shares, strict=True)
    ]
    tried = [
        _as_tried(task, truth, _words(one), trial.predictions, one.share)
        for one, trial in zip(members, trials, strict=True)
    ]
    taken_ones = tuple(one for one in members if one.share > 0)
    said = _together(trials, shares)
    if len(taken_ones) > 1:
        tried.append(_as_tried(task, truth, f"a stack of {len(taken_ones)} models", said, 1.0))
    losses = np.array([loss(task, truth, said)]) if task.kind == "survival" else _losses(task, truth, said)
    return _Choice(taken_ones, tuple(tried)), losses


def _as_tried(task: Task, truth: Array, words: str, predictions: Array, share: float) -> Tried:
    score = headline(task, metrics(task, truth, predictions))
    lost = loss(task, truth, predictions)
    return Tried(model=words, loss=lost, metric=score.metric, score=score.value, share=share)


def _words(one: Chosen) -> str:
    return one.candidate.words + (", own columns alone" if one.columns else "")


def _some(rows: int, judged: int, rng: Rng) -> Array:
    """The rows to choose on: all, or as many as there is time for, those to be judged by before any other."""
    if rows <= _MOST_ROWS:
        return np.arange(rows)
    order = rng.permutation(rows)
    first = order < judged
    return np.sort(np.concatenate([order[first], order[~first]])[:_MOST_ROWS])


def _held_out(task: Task, rows: _Rows, rng: Rng) -> list[Array]:
    """Each fold's rows: drawn at random, every class spread over all folds; or whole groups, drawn at random."""
    count, y = _fold_count(len(rows.y)), rows.y
    if rows.groups is not None and (found := _groups_held_out(rows.groups, count, rng)):
        return found
    order, strata = rng.permutation(len(y)), task.strata(y)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    return [np.sort(order[place::count]) for place in range(count)]


def _groups_held_out(groups: Array, count: int, rng: Rng) -> list[Array]:
    """Groups in drawn order, each to the fold that has the fewest rows; no fold if there is one group alone."""
    names, place = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        return []
    sizes, fold = np.bincount(place), np.zeros(len(names), dtype=np.int64)
    filled = np.zeros(min(count, len(names)))
    for one in sorted(rng.permutation(len(names)).tolist(), key=lambda group: -sizes[group]):
        fold[one] = int(filled.argmin())
        filled[fold[one]] += sizes[one]
    return [np.flatnonzero(fold[place] == number) for number in range(len(filled))]


def _mixed(task: Task, y: Array, trials: Sequence[Trial], every: Array, home: Array) -> Array:
    """Shares of a model of all columns and the best one of own columns: others count as far as they surely help.

    The mean gain in loss over own columns, m with standard error s, says how far: 1 - s^2 / m^2 of a gain is more than
    luck, if that is above zero (as James and Stein shrink means).
    """
    if task.kind == "survival":
        return every  # A likelihood of orders has no shares that add up row by row.
    gains = np.subtract(*(_losses(task, y, _together(trials, shares)) for shares in (home, every)))
    mean, error = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))
    sure = 1 - (error / mean) ** 2 if mean > 0 else 0.0
    sure = 1.0 if sure > 1 - _LEAST else 0.0 if sure < _LEAST else sure
    return np.asarray(sure * every + (1 - sure) * home)


def _losses(task: Task, y: Array, predictions: Array) -> Array:
    """The loss of each row."""
    if task.kind == "regression":
        return np.asarray((predictions - y) ** 2)
    return np.asarray(-np.log(chosen_probability(task, y, predictions)))


def _together(trials: Sequence[Trial], shares: Array) -> Array:
    return np.asarray(sum(one.predictions * share for one, share in zip(trials, shares, strict=True) if share > 0))


def _stacked(task: Task, y: Array, trials: Sequence[Trial], among: Array) -> Array:
    """Shares of some of the candidates: all for the best one, unless a stack is better."""
    losses = {place: loss(task, y, trials[place].predictions) for place in among}
    alone, shares = np.zeros(len(trials)), np.zeros(len(trials))
    alone[min(losses, key=lambda place: losses[place])] = 1.0
    if task.kind == "survival":
        return alone
    linear = [losses[place] for place in among if _is_linear(trials[place])]
    stacked = np.array([place for place in among if not _is_linear(trials[place]) or losses[place] == min(linear)])
    found = _mix_numbers(y, trials, stacked) if task.kind == "regression" else _mix_classes(task, y, trials, stacked)
    found = np.where(found < _LEAST, 0.0, found)
    shares[stacked] = found / found.sum()
    return shares if loss(task, y, _together(trials, shares)) < (1 - _GAIN) * min(losses.values()) else alone


def _is_linear(trial: Trial) -> bool:
    return isinstance(trial.candidate, LinearCandidate)


def _mix_numbers(y: Array, trials: Sequence[Trial], places: Array) -> Array:
    """Shares of least squared error that are not negative and sum to 1."""
    from scipy.optimize import nnls

    scale = float(np.std(y)) or 1.0
    said = np.stack([(trials[place].predictions - y) / scale for place in places], axis=1)
    # With a heavy row of ones the shares sum to 1, and squared errors are what is left to lessen.
    heavy = 1e3 * np.sqrt(len(y))
    found, _ = nnls(np.vstack([said, np.full(len(places), heavy)]), np.append(np.zeros(len(y)), heavy))
    return np.asarray(found / found.sum())


def _mix_classes(task: Task, y: Array, trials: Sequence[Trial], places: Array) -> Array:
    """Shares of least log loss, by expectation maximisation: a row counts for whom it is most likely from."""
    given = np.stack([chosen_probability(task, y, trials[place].predictions) for place in places], axis=1)
    shares = np.full(len(places), 1 / len(places))
    for _ in range(200):
        likely = given * shares
        shares = (likely / likely.sum(axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(shares)


def _read(written: Array) -> _Choice:
    return msgspec.json.decode(written.tobytes(), type=_Choice)


def what_was_tried(models: Sequence[Weights]) -> list[dict[str, Any]]:
    """What was tried for models, as plain values for a party's memory."""
    return [msgspec.to_builtins(one) for model in models for one in tried_of(model)]

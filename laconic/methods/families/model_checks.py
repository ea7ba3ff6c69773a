"""Checks of parties' models before they are averaged: each must change the average in about the others' direction.

A server without rows has nothing to judge a model by but the other models, and the other parties. All start from the
same weights, so that parties whose rows are of the same kind change them in similar directions: the cosine between two
changes is well above zero. A model of wrong labels, noise or weights in another order changes them in another
direction. If parties judge, each also marks all models of the first exchange by its own rows, and the middle mark
counts. Nothing is drawn from the run's randomness: found in the first exchange, a party is as if it had not been there.
Single models have to be seen for it, as for Krum: under secure sums, of which the server sees nothing but the sum, the
check is refused.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec
import numpy as np

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.errors import WireError
from laconic.methods.families.contributions import Contribution
from laconic.tables.task import Task
from laconic.values import Array, Settings, Weights, check_above_zero

_TELLING = 0.2
"""If the other models agree less than this with each other, nobody can be called different."""
_FEWEST = 3
"""With two models, nobody knows which of them is the odd one."""
_GUESSING, _KNOWING, _PRECISE = 0.5, 0.55, 0.75
"""The mark of a model that guesses, the least usual mark at which marks say something, and where they say all."""

Marks: TypeAlias = Mapping[str, Mapping[str, float]]
"""By party that judged, and by party whose model it is: from 0 to 1."""


def mark_of(task: Task, predictions: Array, labels: Array) -> float | None:
    """How well predictions rank rows by class, from 0 to 1: AUC, of more classes the mean of each against the rest.

    It does not depend on shares of classes, which parties have of their own. Of numbers it is where Spearman's rank
    correlation lies between -1 and 1. None if all rows are of one class or number.
    """
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    if task.kind == "regression":
        if len(np.unique(labels)) < 2:
            return None
        ranked = len(np.unique(predictions)) > 1 and np.isfinite(predictions).all()
        return float((spearmanr(predictions, labels).statistic + 1) / 2) if ranked else _GUESSING
    columns = np.stack([1.0 - predictions, predictions], axis=1) if predictions.ndim == 1 else predictions
    shares = np.bincount(labels.astype(np.int64), minlength=len(task.classes)) / max(1, len(labels))
    present = [code for code, share in enumerate(shares) if 0 < share < 1]
    if not present:
        return None
    if not np.isfinite(columns).all():
        return 0.0
    each = [roc_auc_score(labels == code, columns[:, code]) for code in present]
    return float(np.average(each, weights=shares[present]))


def read_marks(judge: str, names: list[str], marks: object) -> dict[str, float]:
    """A party's marks of these parties' models; none if its rows cannot tell. A `WireError` names who sent no marks."""
    if not isinstance(marks, np.ndarray) or marks.dtype.kind != "f" or marks.shape not in ((len(names),), (0,)):
        raise WireError(f"{judge} did not send a mark for each of {len(names)} models; check that its plan is the same")
    return dict(zip(names, np.clip(marks, 0.0, 1.0).tolist(), strict=False))


class ModelCheck(Settings, frozen=True):
    """What the server looks for in parties' models; the result says what it found.

    Sizes are compared in every exchange. Directions are compared in the first one alone: later, models have learnt what
    parties share, and their changes show how they differ. Directions alone suit parties whose rows are of the same
    kind. Where they have other shares of the classes, changes differ so much that nobody can be called different, or
    that an honest party with hardly any rows of a class is; there, let parties judge.

    Attributes:
        leave_out: go on without a party that has a problem. Otherwise it counts, and the result names it.
        agreement: a problem if a model's change agrees with the others' less than this share of how well those agree
            with each other; agreement is the median cosine. Not used if parties judge.
        scale: a problem if a model's change is so many times as large as the usual other one.
        judged: let every party mark all models of the first exchange by its own rows, in one exchange more. It finds
            wrong labels far more surely, but every party sees the others' models. Three parties or more are needed.
        standing: a problem if the mean of two numbers is less than this: the cosine with the nearest other change, from
            0 on, and the middle mark above guessing as a share of the usual one, up to 1. Where the usual mark is near
            guessing, that share is mostly luck, and a clear cosine is enough. Used if parties judge.
    """

    leave_out: bool = False
    agreement: float = 0.15
    scale: float = 20.0
    judged: bool = False
    standing: float = 0.5

    def __post_init__(self) -> None:
        """Refuse limits that nobody or everybody would pass."""
        check_above_zero(scale=self.scale)
        check_above_zero(1.0, agreement=self.agreement, standing=self.standing)

    @property
    def exchanges(self) -> int:
        """How many exchanges it takes."""
        return int(self.judged)

    def wants_marks(self, hub: Party, models: Mapping[str, Weights]) -> bool:
        """Whether parties are to judge these models now.

        Raises:
            ValueError: there are too few of them.
        """
        if not self.judged or "contributions" in hub.memory:
            return False
        if len(models) < _FEWEST:
            raise ValueError(
                f"check.judged needs {_FEWEST} parties or more, and there are {len(models)}: of two, nobody knows "
                "whose model is the odd one; use check.judged = false"
            )
        return True

    def trusted(self, hub: Party, peers: Peers) -> Peers:
        """The peers that have not been left out."""
        gone = {one["party"] for one in hub.memory.get("contributions", ()) if one["left_out"]}
        return peers.only(tuple(name for name in peers.names if name not in gone))

    def sift(self, hub: Party, models: Mapping[str, Weights], marks: Marks | None = None) -> dict[str, Weights]:
        """The models that count, of those that were made of `hub.memory["model"]`.

        What was found, in this exchange or an earlier one, is in `hub.memory["contributions"]`.
        """
        changes = {name: _change(hub.memory["model"], model) for name, model in models.items()}
        first = "contributions" not in hub.memory
        evidence = _Evidence(self, changes, marks or {}, first)
        before = {one["party"]: one for one in hub.memory.get("contributions", ())}
        suspects = evidence.suspects()
        for name in models:
            if not before.get(name, {}).get("problems"):
                before[name] = msgspec.to_builtins(evidence.judge(name, suspects))
        hub.memory["contributions"] = list(before.values())
        return {name: model for name, model in models.items() if not before[name]["left_out"]}


class _Evidence:
    """What one exchange shows: how each party changed the model, and how parties mark these models."""

    def __init__(self, check: ModelCheck, changes: Mapping[str, Array], marks: Marks, first: bool) -> None:
        self._check, self._changes, self._marks, self._first = check, changes, marks, first

    def suspects(self) -> list[str]:
        """Who has a problem; the worst is taken away first, then the rest is compared again, while most stay."""
        found: list[str] = []
        while 2 * (len(found) + 1) < len(self._changes):
            left = [name for name in self._changes if name not in found]
            odd = {name: gap for name in left if (gap := self._facts(name, found).gap(self._check)) is not None}
            if not odd:
                break
            found.append(max(odd, key=lambda name: odd[name]))
        return found

    def judge(self, name: str, suspects: list[str]) -> Contribution:
        """What was found in one party's model, without those of others that have a problem."""
        facts, change = self._facts(name, [one for one in suspects if one != name]), self._changes[name]
        problems = (facts.words(self._check),) if name in suspects else ()
        return Contribution(
            party=name,
            columns=len(change),
            constant=int((change == 0).sum()),
            rank=0,
            scale=facts.scale,
            p_value=None,
            worth=None,
            agreement=facts.own,
            mark=facts.mark,
            problems=problems,
            left_out=bool(problems) and self._check.leave_out,
        )

    def _facts(self, name: str, without: list[str]) -> "_Facts":
        """Compare one with all others but some; who has no rows changed nothing, and says nothing."""
        sizes = {one: float(np.linalg.norm(self._changes[one])) for one in self._changes if one not in without}
        others = [one for one in sizes if one != name and sizes[one] > 0]
        scale = sizes[name] / float(np.median([sizes[one] for one in others])) if others else None
        if not self._first or len(others) + 1 < _FEWEST or not sizes[name]:
            return _Facts(scale=scale)
        units = np.stack([self._changes[one] / sizes[one] for one in (name, *others)])
        cosines = units @ units.T
        pairs = cosines[1:, 1:][np.triu_indices(len(others), 1)]
        marks = {one: self._mark(one, without) for one in (name, *others)}
        known = [mark for one in others if (mark := marks[one]) is not None]
        return _Facts(
            scale=scale,
            own=float(np.median(cosines[0, 1:])),
            usual=float(np.median(pairs)),
            nearest=float(cosines[0, 1:].max()),
            closest=float(pairs.max()),
            mark=marks[name],
            usual_mark=float(np.median(known)) if known else None,
        )

    def _mark(self, name: str, without: list[str]) -> float | None:
        """The middle of a model's marks by the others: of two the better one, so that one liar can blame nobody."""
        marks = sorted(
            given[name] for judge, given in self._marks.items() if judge not in (name, *without) and name in given
        )
        return marks[len(marks) // 2] if marks else None


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One party's model beside the others': the size of its change, its agreement with theirs, and marks."""

    scale: float | None
    own: float | None = None
    usual: float | None = None
    nearest: float | None = None
    closest: float | None = None
    mark: float | None = None
    usual_mark: float | None = None

    def gap(self, check: ModelCheck) -> float | None:
        """By how much a party is worse than it may be; None if it is not."""
        if self._is_large(check):
            return self.scale
        if check.judged:
            standing = self.standing
            return check.standing - standing if standing is not None and standing < check.standing else None
        if self.own is None or self.usual is None or self.usual < _TELLING:
            return None
        return self.usual - self.own if self.own < check.agreement * self.usual else None

    @property
    def standing(self) -> float | None:
        """The mean of agreement with the nearest other and of the share of the usual mark; None if nobody can tell.

        It is at least a half for whoever has the usual mark. Marks err by much the same whatever they are, so that the
        error of their share grows as the usual one nears guessing: then agreement counts in place of the mean, by how
        imprecise that is, if it is more. So nobody has a problem who ranks as usual or clearly agrees with another.
        """
        if self.nearest is None or self.mark is None or self.usual_mark is None or self.usual_mark < _KNOWING:
            return None
        agreement = max(0.0, self.nearest)
        both = (agreement + min(1.0, (self.mark - _GUESSING) / (self.usual_mark - _GUESSING))) / 2
        if self.closest is None or self.closest < _TELLING:
            return both
        precision = min(1.0, ((self.usual_mark - _GUESSING) / (_PRECISE - _GUESSING)) ** 2)
        return max(both, precision * both + (1 - precision) * min(1.0, agreement / (2 * _TELLING)))

    def words(self, check: ModelCheck) -> str:
        """What is wrong."""
        if self._is_large(check):
            return f"a model that changed {self.scale:,.0f} times as much as the usual other one"
        if check.judged:
            return (
                f"a model that does not fit the others: agreement with the nearest of them {self.nearest:.2f}, and on "
                f"other parties' rows a rank mark (AUC) of {self.mark:.2f}, where theirs have {self.usual_mark:.2f}"
            )
        return (
            f"a model that changed in another direction than the others': agreement {self.own:.2f}, theirs "
            f"{self.usual:.2f}"
        )

    def _is_large(self, check: ModelCheck) -> bool:
        return self.scale is not None and self.scale > check.scale


def _change(start: Weights, model: Weights) -> Array:
    """All weights of a model, less those that it started from."""
    return np.concatenate([model[name].astype(np.float64).ravel() - start[name].ravel() for name in start])

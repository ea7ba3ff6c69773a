"""Checks of what each party sent, before it counts: that it can be used, is of a usual size, and fits these rows.

The hub judges by what it has itself, its labels and its own columns, and by parties that agree with these. Nothing
is asked for it, and nothing is drawn from the run's randomness, so that a run in which nobody is left out is the same
with and without. All this looks at each party's numbers by themselves: where the hub would see nothing but a secure
sum, it has to be refused.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np

from laconic.core.party import Party
from laconic.errors import WireError
from laconic.values import Array, Settings, check_above_zero, flat

Cuts: TypeAlias = Mapping[str, Array]
"""Arrays by cut, a row for each person of the cut."""

_FEWEST_ROWS = 200
"""With fewer rows, agreement cannot be distinguished from a coincidence."""
_MOST_ROWS, _MOST_COLUMNS = 10_000, 64
"""As many say enough; more would only take longer."""
_CLEAR, _SHUFFLES = 1e-6, 499
"""Below this probability nobody need try; else it is found by so many shuffles."""
_PENALTY = 0.01
_SURE = 4.0
"""Standard errors by which predictions must be worse with a party before it is called harmful."""
_HARMS = "validation rows are predicted worse with its numbers than without"
_HUB = ""
"""What the hub is called among the parties whose numbers are looked at."""


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub found when it looked at what a party sent, before it counted.

    Attributes:
        columns: numbers per row; 0 if it could not be read as such. Of a model, its weights.
        constant: how many of these are the same for all training rows; of a model, are as they were sent.
        rank: how many of them are not a mixture of the others.
        scale: how large its numbers are, in units of the usual other party's; None if there is nothing to compare with.
        p_value: how likely the same numbers, in another order of rows, would agree as well with labels and with the
            others' numbers; None if there are too few rows to tell.
        worth: accuracy (R2 for numbers) on validation rows of a linear model of everybody's numbers, less that of one
            without this party's; None if there are too few rows to tell.
        agreement: of a model, how well its change of the average agrees with the others' changes: the median cosine;
            None for numbers about rows, or if there are too few models to tell.
        mark: of a model, how well it ranks the rows of other parties by class: the middle of their AUCs; None if
            parties did not judge.
        problems: what is wrong, in words; empty for a sound one.
        left_out: whether the model was learnt without it.
    """

    party: str
    columns: int
    constant: int
    rank: int
    scale: float | None
    p_value: float | None
    worth: float | None
    problems: tuple[str, ...]
    left_out: bool
    agreement: float | None = None
    mark: float | None = None


class Check(Settings, frozen=True):
    """What the label holder looks for in what parties sent; the result says what it found.

    Attributes:
        leave_out: learn without a party that has a problem. Otherwise it counts, and the result names it.
        scale: a problem if a party's numbers are so many times larger than the usual other party's.
        significance: a problem if the same numbers, in another order of rows, would agree as well with labels and with
            the others' numbers, with more than this probability.
    """

    leave_out: bool = False
    scale: float = 20.0
    significance: float = 0.01

    def __post_init__(self) -> None:
        """Refuse limits that nobody or everybody would pass."""
        check_above_zero(scale=self.scale)
        check_above_zero(1.0, significance=self.significance)

    def sift(
        self,
        hub: Party,
        received: Mapping[str, Any],
        own: Cuts,
        labels: Cuts,
        *,
        noised: bool = False,
        predictions: bool = False,
    ) -> dict[str, Any]:
        """What counts of what parties sent; what was found is in `hub.memory["contributions"]`.

        Args:
            hub: the party that looks.
            received: by party, its numbers by cut, and possibly more.
            own: what the hub has itself, by cut; empty if it has nothing.
            labels: the labels of each cut that is looked at.
            noised: whether parties put noise on their numbers; then how they fit these rows is no problem of theirs.
            predictions: whether the numbers are predictions of these labels, which the parties do not have. One that
                predicts better than the labels' mean is then not called unrelated, however little it has to say.

        Raises:
            WireError: a party sent what cannot be used, and nobody is to be left out.
        """
        broken = {name: words for name, cuts in received.items() if (words := _broken(cuts, labels))}
        self._refuse(broken)
        sound = {name: {cut: flat(received[name][cut]) for cut in labels} for name in received if name not in broken}
        found = {name: Contribution(**_UNREADABLE, party=name, problems=(words,)) for name, words in broken.items()}
        good = {name for name in sound if predictions and _beats_the_mean(sound[name], labels)}
        found |= self._examine(sound, own, labels, noised, good)
        kept = [name for name in received if not (self.leave_out and found[name].problems)]
        if received and not kept and not any(block.size for block in own.values()):
            raise WireError(
                f"{hub.name} has no columns of its own, and check.leave_out = true left nobody: "
                + "; ".join(f"{name}: {', '.join(found[name].problems)}" for name in received)
            )
        hub.memory["contributions"] = [
            msgspec.to_builtins(msgspec.structs.replace(found[name], left_out=name not in kept)) for name in received
        ]
        return {name: received[name] for name in kept}

    def _refuse(self, broken: Mapping[str, str]) -> None:
        if broken and not self.leave_out:
            said = "; ".join(f"{name} sent {words}" for name, words in broken.items())
            raise WireError(f"{said}; mend it there, or go on without: method.check.leave_out = true")

    def _examine(
        self, sound: Mapping[str, Cuts], own: Cuts, labels: Cuts, noised: bool, good: set[str]
    ) -> dict[str, Contribution]:
        """What was found in each of the contributions that can be used; `good` ones fit these rows."""
        sizes = {name: _size(cuts["train"]) for name, cuts in sound.items()}
        hub_size = [_size(own["train"])] if own and own["train"].size else []
        probe = _Probe(sound, own, labels)
        worths, p_values = probe.worths(), self._p_values(sound, own, labels)
        found = {}
        for name, cuts in sound.items():
            others = sorted(size for other, size in (*sizes.items(), *(("", one) for one in hub_size)) if other != name)
            usual = others[(len(others) - 1) // 2] if others else 0.0
            scale = max(map(_size, cuts.values())) / usual if usual > 0 else None
            facts = _Facts(cuts["train"], scale, p_values[name], worths.get(name))
            found[name] = facts.judged(name, self, fits=noised or name in good)
        sane = [name for name, one in found.items() if not one.problems]
        for name in () if noised else probe.harmful(sane):
            found[name] = msgspec.structs.replace(found[name], problems=(_HARMS,))
        return found

    def _p_values(self, sound: Mapping[str, Cuts], own: Cuts, labels: Cuts) -> dict[str, float | None]:
        """How likely each party's agreement is a coincidence: with what the hub has, then with who agrees with that.

        Trust spreads from the hub, so that parties that agree with nobody but each other do not vouch for each other.
        """
        trusted = [_directions(_targets(np.concatenate(list(labels.values()))))]
        trusted += [_directions(_below(own))] if own else []
        waiting = {name: _directions(_below(cuts)) for name, cuts in sound.items()}
        p_values: dict[str, float | None] = {}
        while waiting:
            p_values |= {name: _p_value(block, trusted) for name, block in waiting.items()}
            agreeing = [name for name in waiting if (one := p_values[name]) is not None and one <= self.significance]
            if not agreeing:
                break
            trusted += [waiting.pop(name) for name in agreeing]
        return p_values


_UNREADABLE: dict[str, Any] = {
    **dict.fromkeys(("columns", "constant", "rank"), 0),
    **dict.fromkeys(("scale", "p_value", "worth")),
    "left_out": False,
}


class _Facts:
    """What can be said of one contribution."""

    def __init__(self, block: Array, scale: float | None, p_value: float | None, worth: float | None) -> None:
        self.columns = block.shape[1]
        self.constant = int((np.ptp(block, axis=0) == 0).sum()) if len(block) else 0
        self.rank = _rank(block)
        self.scale, self.p_value, self.worth = scale, p_value, worth

    def judged(self, name: str, check: Check, *, fits: bool) -> Contribution:
        """The same with what is wrong about it, in words; whether it `fits` these rows may be known otherwise."""
        problems = []
        if self.constant == self.columns:
            problems.append("the same numbers for all rows")
        if self.scale is not None and self.scale > check.scale:
            problems.append(f"numbers {self.scale:,.0f} times as large as the usual other party's")
        unrelated = self.p_value is not None and self.p_value > check.significance
        if unrelated and not fits and self.constant < self.columns:
            problems.append(
                "numbers that have nothing to do with these rows: no agreement with labels or with anybody's"
            )
        return Contribution(party=name, problems=tuple(problems), left_out=False, **vars(self))


def _broken(cuts: Any, labels: Cuts) -> str | None:
    """In words, why an answer cannot be used; None if it can."""
    if not isinstance(cuts, Mapping) or not all(isinstance(cuts.get(cut), np.ndarray) for cut in labels):
        return "no numbers for its rows"
    blocks = [cuts[cut] for cut in labels]
    if any(block.dtype.kind not in "iuf" or block.ndim < 2 for block in blocks):
        return "no rows of numbers"
    if len({block.shape[1:] for block in blocks}) != 1 or not blocks[0].shape[1]:
        return "rows of no numbers, or of different lengths"
    if any(len(block) != len(labels[cut]) for cut, block in zip(labels, blocks, strict=True)):
        return "numbers for more or fewer rows than it was asked about"
    return None if all(np.isfinite(block).all() for block in blocks) else "numbers that are not finite"


def _below(cuts: Cuts) -> Array:
    """The rows of all cuts, below each other."""
    return np.concatenate([flat(block) for block in cuts.values()])


def _size(block: Array) -> float:
    """The usual size of a number."""
    return float(np.sqrt(np.mean(np.square(block, dtype=np.float64)))) if block.size else 0.0


def _rank(block: Array) -> int:
    """How many columns are not a mixture of the others, but for what rounding does."""
    x = block[:_MOST_ROWS].astype(np.float64)
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12) if len(x) else x
    return int(np.linalg.matrix_rank(x, tol=1e-3 * np.sqrt(max(1, len(x))))) if x.size else 0


def _spread(count: int, most: int) -> Array:
    """At most so many of `count` places, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int)) if count else np.arange(0)


def _directions(block: Array) -> Array:
    """Uncorrelated directions of a block: of its columns' ranks, which no outlier can dominate, and their squares."""
    from scipy.stats import rankdata

    rows = _spread(len(block), _MOST_ROWS)
    x = flat(block)[rows][:, _spread(flat(block).shape[1], min(_MOST_COLUMNS, len(rows) // 20))]
    if not x.size:
        return np.zeros((len(rows), 0))
    ranks = rankdata(x, axis=0) / len(x) - 0.5
    x = np.concatenate([ranks, np.square(ranks)], axis=1)
    x = x - x.mean(axis=0)
    directions, lengths, _ = np.linalg.svd(x, full_matrices=False)
    return np.asarray(directions[:, lengths > 1e-3 * max(float(lengths[0]), 1e-9)])


def _p_value(mine: Array, known: list[Array]) -> float | None:
    """How likely the same numbers in any other order of rows would agree as well with what is known of the rows."""
    from scipy.stats import chi2

    known = [one for one in known if one.shape[1]]
    if len(mine) < _FEWEST_ROWS or not known:
        return None
    if not mine.shape[1]:
        return 1.0
    # Of shuffled rows, these sums of squared correlations have about this distribution.
    sums = [(len(mine) - 1) * float(np.square(mine.T @ one).sum()) for one in known]
    sizes = [mine.shape[1] * one.shape[1] for one in known]
    clear = len(known) * min(float(chi2.sf(one, size)) for one, size in zip(sums, sizes, strict=True))
    return clear if clear < _CLEAR else _p_value_by_shuffling(mine, known)


def _p_value_by_shuffling(mine: Array, known: list[Array]) -> float:
    """The same by trial, where rare categories or a weak relation make it doubtful."""
    rng, joined = np.random.default_rng(0), np.concatenate(known, axis=1)
    ends = np.cumsum([one.shape[1] for one in known])[:-1]

    def agreements(order: Array) -> list[float]:
        parts = np.split(np.square(mine[order].T @ joined), ends, axis=1)
        return [float(one.sum()) for one in parts] + [float(one.max()) for one in parts]

    found = [agreements(np.arange(len(mine)))]
    found += [agreements(rng.permutation(len(mine))) for _ in range(_SHUFFLES)]
    scores = np.array(found)
    best = ((scores - scores[1:].mean(axis=0)) / np.maximum(scores[1:].std(axis=0), 1e-12)).max(axis=1)
    return float((best >= best[0]).mean())


def _targets(labels: Array) -> Array:
    """Labels as numbers to be predicted: a column per class, or the numbers themselves."""
    if labels.ndim == 2 or labels.dtype.kind == "f":
        return flat(labels.reshape(len(labels), -1)).astype(np.float64)
    return np.asarray(labels[:, None] == np.arange(int(labels.max(initial=0)) + 1), dtype=np.float64)


def _beats_the_mean(cuts: Cuts, labels: Cuts) -> bool:
    """Whether predictions are nearer to the labels than their mean is.

    Of numbers that have nothing to do with the rows, those of some spread hardly ever are; an honest model is, even
    where its agreement is too weak to exclude a coincidence. Both are needed to call predictions unrelated.
    """
    said, right = _below(cuts).astype(np.float64), _targets(np.concatenate([labels[cut] for cut in cuts]))
    right = right[:, -said.shape[1] :]  # Of two classes, the probability of the second.
    return bool(
        said.shape == right.shape and np.square(said - right).sum() < np.square(right - right.mean(axis=0)).sum()
    )


class _Probe:
    """A linear model of everybody's numbers, and how much worse, or better, it is without one of them."""

    def __init__(self, sound: Mapping[str, Cuts], own: Cuts, labels: Cuts) -> None:
        self._names, self._own = tuple(sound), (_HUB,) if own and own["train"].size else ()
        self._can = bool(sound) and len(labels["train"]) >= _FEWEST_ROWS
        if self._can:
            blocks = dict(sound) | dict.fromkeys(self._own, own)
            self._train, self._held = _learn_and_hold(blocks, labels)

    def worths(self) -> dict[str, float]:
        """What each adds to accuracy, or R2; nothing is said with too few rows."""
        if not self._can:
            return {}
        whole = self._fit(self._names)[0]
        return {name: whole - self._fit(_but(self._names, name))[0] for name in self._names}

    def harmful(self, names: list[str]) -> list[str]:
        """Who makes predictions worse for sure, of these; the worst first, as it makes others look bad as well."""
        found: list[str] = []
        while self._can and len(found) < len(names):
            left = tuple(name for name in names if name not in found)
            losses = self._fit(left)[1]
            gains = {name: _in_errors(self._fit(_but(left, name))[1] - losses) for name in left}
            worst = min(gains, key=lambda name: gains[name])
            if gains[worst] > -_SURE:
                break
            found.append(worst)
        return found

    def _fit(self, names: tuple[str, ...]) -> tuple[float, Array]:
        return _fit_probe(self._train, self._held, [*self._own, *names])


def _but(names: tuple[str, ...], one: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != one)


def _in_errors(values: Array) -> float:
    """The mean in units of its standard error."""
    error = float(values.std()) / np.sqrt(len(values))
    return float(values.mean()) / error if error > 0 else 0.0


_Rows: TypeAlias = tuple[dict[str, Array], Array, Array]


def _learn_and_hold(blocks: Mapping[str, Cuts], labels: Cuts) -> tuple[_Rows, _Rows]:
    """Rows to learn from and rows to judge by: validation rows if parties sent enough, else every fifth row."""
    y = labels["train"]
    every = np.arange(len(y))
    judged: tuple[str, Array] = ("train", every[::5])
    learnt = every[every % 5 > 0]
    if len(labels.get("valid", ())) >= _FEWEST_ROWS // 4:
        judged, learnt = ("valid", np.arange(len(labels["valid"]))), every
    classes = _targets(np.concatenate([labels[cut] for cut in labels]))
    targets = dict(zip(labels, np.split(classes, np.cumsum([len(labels[cut]) for cut in labels])[:-1]), strict=True))
    moments = {name: _moments(cuts["train"][learnt]) for name, cuts in blocks.items()}

    def rows(cut: str, places: Array) -> _Rows:
        some = places[_spread(len(places), _MOST_ROWS)]
        scaled = {name: moments[name](cuts[cut][some]) for name, cuts in blocks.items()}
        return scaled, targets[cut][some], labels[cut][some]

    return rows("train", learnt), rows(*judged)


def _moments(block: Array) -> Callable[[Array], Array]:
    """Brings some columns of a block to mean 0 and variance 1, as in these rows."""
    x = flat(block)
    columns = _spread(x.shape[1], _MOST_COLUMNS)
    mean, sd = x[:, columns].mean(axis=0, dtype=np.float64), x[:, columns].std(axis=0, dtype=np.float64)
    return lambda rows: (flat(rows)[:, columns] - mean) / np.where(sd > 0, sd, 1.0)


def _fit_probe(train: _Rows, held: _Rows, names: list[str]) -> tuple[float, Array]:
    """Accuracy, or R2, of a linear model of these parties' columns on rows held out, and its loss for each row."""
    (x, y, _), (x_held, y_held, labels) = train, held
    middle = y.mean(axis=0)
    predicted = np.tile(middle, (len(y_held), 1))
    if names:
        design = np.concatenate([x[name] for name in names], axis=1)
        square = design.T @ design + _PENALTY * len(design) * np.eye(design.shape[1])
        predicted = predicted + np.concatenate([x_held[name] for name in names], axis=1) @ np.linalg.solve(
            square, design.T @ (y - middle)
        )
    losses = np.square(predicted - y_held).sum(axis=1)
    if labels.ndim == 1 and labels.dtype.kind != "f":
        return float(np.mean(predicted.argmax(axis=1) == labels)), losses
    spread = np.square(y_held - y_held.mean(axis=0)).sum(axis=1).mean()
    return 1.0 - float(losses.mean() / max(float(spread), 1e-30)), losses

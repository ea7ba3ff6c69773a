"""Analytic: parties send sums of products of features once, and the server solves for the model of all rows.

He and others: AFL, A Single-Round Analytic Approach for Federated Learning with Pre-trained Models (2024). Each party
puts its rows through a public feature map and sends the sums of `u u'` and `u t'`, where u is a row's features and t
its target. The sums of all parties add up to those of all rows, so the model is exactly that of the pooled rows,
however classes are dealt; and a party joins, leaves or forgets by adding or taking away its sums.
"""

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec.structs import replace

from laconic.core.ledger import Noise, Noised
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.errors import PlanError, WireError
from laconic.learn.features import AnyFeatureMap, Columns, FeatureMap, Whitened, default_map, draw_once
from laconic.learn.models.least_squares import (
    Sums,
    add_sums,
    calibrate,
    solve,
    solve_noisy,
    sum_up,
    targets_of,
    to_predictions,
    unpack,
)
from laconic.methods.families.rows import labelled
from laconic.privacy.budget import Budget
from laconic.privacy.mechanisms.sums import GaussianSums
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, Weights


class Analytic(Method, frozen=True):
    """Ridge regression on a public feature map, from sums that parties send once.

    Attributes:
        features: how a row becomes features; None for what suits: convolutions for images, columns and cosines of
            them for columns, and with `privacy` few whitened features, or the columns as they are.
        most_bytes: how many bytes a party may send: decides how many features there are if `features` leaves it open.
        expected_rows: about how many rows all parties have together; features are then at most a quarter of that. None
            if it is not known.
        class_weights: how much a row of a class counts, by the class's name; 1 for a class not named.
        penalty: weight of the squared coefficients of standardised features, for one row; None to choose it by
            generalised cross-validation on the sums.
        least_rows: a party with fewer rows sends nothing: from few rows' sums, the rows themselves can be worked out.
        precision: of the sums as sent. Those of float64 are also worked out in it, in twice the time.
        privacy: the noise on the sums; None for none.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    uses: ClassVar[tuple[str, ...]] = ("train",)
    predicts_from: ClassVar[tuple[str, ...]] = ("map", "model")

    features: AnyFeatureMap | None = None
    most_bytes: int = 600_000
    expected_rows: int | None = None
    class_weights: dict[str, float] = {}  # noqa: RUF012 (msgspec copies it)
    penalty: float | None = None
    least_rows: int = 50
    precision: Literal["float32", "float64"] = "float32"
    privacy: GaussianSums | None = None

    def __post_init__(self) -> None:
        """Refuse settings that leave nothing to send or to solve."""
        if self.most_bytes < 1 or (self.expected_rows is not None and self.expected_rows < 1) or self.least_rows < 0:
            raise ValueError("most_bytes and expected_rows must be 1 or more, and least_rows 0 or more")
        if self.penalty is not None and not self.penalty > 0:
            raise ValueError(f"penalty must be above 0, not {self.penalty}; leave it out to have it chosen")
        if any(not weight > 0 for weight in self.class_weights.values()):
            raise ValueError(f"class_weights must be above 0, not {self.class_weights}")
        if self.privacy is not None and (self.class_weights or self.penalty is not None):
            raise ValueError("with privacy rows count alike and noise decides the penalty; leave these two out")

    @property
    def rounds(self) -> int:
        """Sums come in one exchange."""
        return 1

    def fit_opening(self) -> Opening:
        """One question, which parties may answer before it is asked."""
        return Opening((Ask.known(self.give_sums),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take the sums, add them up and solve; absent parties, and those with few rows, are not in the model."""
        answers = peers.tolerant.ask(self.give_sums)
        hub.memory["map"] = draw_once(self.map_for(hub), hub.data.shape, lambda: _public(hub))
        hub.memory["sums"] = {
            name: read for name, answer in answers.items() if (read := self._read(name, answer, hub)) is not None
        }
        self._solve(hub)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the server's rows through the map and the model."""
        model, task = hub.memory["model"], task_of(hub)
        features = self.map_for(hub).apply(hub.memory["map"], hub.data.part(rows)[0])
        if self.privacy is not None:
            features = self.privacy.rows(features)[:, :-1]
        scores = features.astype(np.float64) @ model["coefficients"] + model["intercept"]
        if self.privacy is not None and task.kind == "regression":
            return self.privacy.numbers_back(scores[:, 0])
        return to_predictions(task, scores, float(model["sharpness"][0]))

    @step(
        takes=None,
        gives="sums over its rows, of products of features with each other and with labels, and how many rows there "
        "are; a row that is alone in its class stands in them as it is, and from sums of few rows all of them can be "
        "worked out, so a party with fewer than least_rows sends none; with privacy, sums under noise and nothing else",
    )
    def give_sums(self, party: Party) -> Any:
        """Put this party's rows through the map, and sum products of features and targets."""
        x, y = labelled(party, "train")
        if self.privacy is None and len(y) < max(self.least_rows, 1):
            return {"rows": 0}
        chosen = self.map_for(party)
        features = chosen.apply(draw_once(chosen, party.data.shape, lambda: _public(party)), x)
        if self.privacy is not None:
            return self._noisy_sums(self.privacy, party, features, y)
        sums = sum_up(
            features, targets_of(task_of(party), y), self._weights(party, y), exact=self.precision == "float64"
        )
        sent = {"gram": sums.gram.astype(self.precision), "moments": sums.moments.astype(self.precision)}
        return sent | {"squares": sums.squares, "rows": sums.rows}

    def join(self, hub: Party, name: str, answer: Mapping[str, Any]) -> None:
        """Take a party's sums, as `give_sums` gives them, into a fitted model; sums it sent before are replaced."""
        read = self._read(name, answer, hub)
        if read is None:
            raise ValueError(f"{name} sent no sums: it has fewer than least_rows = {self.least_rows} rows")
        hub.memory["sums"] = {**hub.memory["sums"], name: read}
        self._solve(hub)

    def forget(self, hub: Party, name: str) -> None:
        """Take a party out of a fitted model, which is then as if the party had never taken part."""
        if name not in hub.memory["sums"]:
            raise ValueError(f"{name!r} is not in this model; it has {', '.join(hub.memory['sums'])}")
        hub.memory["sums"] = {one: sums for one, sums in hub.memory["sums"].items() if one != name}
        self._solve(hub)

    def within(self, budget: Budget, rows: int, hub: str, guests: tuple[str, ...]) -> "Analytic":
        """The same with as little noise as keeps a budget; each row is at one party, which has the budget whole."""
        if self.class_weights or self.penalty is not None:
            raise PlanError("budget.epsilon needs noise on the sums: leave out class_weights and penalty")
        privacy = self.privacy or GaussianSums()
        sigma = replace(budget, people="disjoint").multipliers(dict.fromkeys(guests, privacy.demand()))
        # All parties share one setting: the most careful one.
        return replace(self, privacy=privacy.with_sigma(max(sigma.values())))

    def expected_noise(self, rows: int, hub: str, guests: tuple[str, ...]) -> dict[str, tuple[Noise, ...]]:
        """The noise on each party's sums."""
        return {} if self.privacy is None else dict.fromkeys(guests, (self.privacy.words(),))

    def map_for(self, party: Party) -> FeatureMap:
        """The map for a party's rows: the same for all, as their rows have the same columns."""
        shape, task = party.data.shape, task_of(party)
        chosen: FeatureMap = self.features or (default_map(shape) if self.privacy is None else _private_map(shape))
        most = _most_features(self.most_bytes, task.outputs, 4 if self.precision == "float32" else 8)
        return chosen.sized(most if self.expected_rows is None else min(most, self.expected_rows // 4), shape)

    def _weights(self, party: Party, y: Array) -> Array | None:
        """How much each row counts, by its class; None if all count alike."""
        if not self.class_weights:
            return None
        classes = task_of(party).classes
        strangers = self.class_weights.keys() - set(classes)
        if strangers:
            raise ValueError(
                f"class_weights names {', '.join(sorted(strangers))}; the classes are {', '.join(classes)}"
            )
        return np.array([self.class_weights.get(name, 1.0) for name in classes])[y.astype(np.int64)]

    def _noisy_sums(self, privacy: GaussianSums, party: Party, features: Array, y: Array) -> Noised[dict[str, Array]]:
        task = task_of(party)
        aims = privacy.numbers(y) if task.kind == "regression" else y
        return privacy.release(privacy.rows(features), targets_of(task, aims), party)

    def _read(self, name: str, answer: Any, hub: Party) -> dict[str, Any] | None:
        """A party's sums, checked to be sums for this map and task and nothing else; None if it sent none."""
        if isinstance(answer, dict) and answer.get("rows") == 0:
            return None
        parts = answer if isinstance(answer, dict) else {}
        gram, moments = parts.get("gram"), parts.get("moments")
        squares, rows = parts.get("squares", 0.0), parts.get("rows", 0)
        sound = (
            isinstance(gram, np.ndarray)
            and isinstance(moments, np.ndarray)
            and gram.dtype.kind == moments.dtype.kind == "f"
            and gram.shape == (moments.shape[0] * (moments.shape[0] + 1) // 2,)
            and moments.shape == (self._features(hub) + 1, task_of(hub).outputs)
            and isinstance(squares, float)
            and isinstance(rows, int)
            and bool(np.isfinite(gram).all() and np.isfinite(moments).all() and np.isfinite(squares) and rows >= 0)
        )
        if not sound:
            raise WireError(f"{name} did not send the sums of this map; check that its plan and columns are the same")
        return {"gram": gram, "moments": moments, "squares": squares, "rows": rows}

    def _features(self, hub: Party) -> int:
        """How many features the map puts out."""
        nobody = np.zeros((1, *hub.data.shape), np.float32)
        return int(self.map_for(hub).apply(hub.memory["map"], nobody).shape[1])

    @limit_threads()
    def _solve(self, hub: Party) -> None:
        """The model of all sums at hand."""
        received, task = hub.memory["sums"], task_of(hub)
        if not received:
            raise ValueError(f"no party has {max(self.least_rows, 1)} rows to learn from; lower least_rows")
        sums = add_sums(*(Sums(**one) for one in received.values()))
        if self.privacy is not None:
            hub.memory["model"] = _solve_noisy(self.privacy, task, sums, len(received))
            return
        found = solve(sums, self.penalty)
        inflate = (1 - found.freedom / sums.rows) ** -2 if found.freedom < sums.rows else 1.0
        fit = found.coefficients, found.intercept
        sharp = calibrate(task, (unpack(sums.gram), sums.moments), fit, inflate=inflate)
        hub.memory["model"] = _model(fit, sharp) | {"penalty": np.array([found.penalty])}


def _solve_noisy(privacy: GaussianSums, task: Task, sums: Sums, parties: int) -> Weights:
    """The model of noisy sums; noise of several parties adds up by squares."""
    gram = unpack(sums.gram)
    on_gram, on_moments = (scale * sqrt(parties) for scale in privacy.scales())
    found = solve_noisy(gram, sums.moments, privacy.count(gram), (on_gram, on_moments))
    fit = found.coefficients[:-1], privacy.intercept(found.coefficients)
    return _model(fit, calibrate(task, privacy.with_ones(gram, sums.moments), fit, noisy=found))


def _model(fit: tuple[Array, Array], sharp: float) -> Weights:
    return {"coefficients": fit[0], "intercept": fit[1], "sharpness": np.array([sharp])}


def _most_features(most_bytes: int, outputs: int, size: int) -> int:
    """How many features there may be, so that half a Gram matrix and the moments fit."""
    numbers = most_bytes / size
    return max(1, int((sqrt((2 * outputs + 1) ** 2 + 8 * numbers) - (2 * outputs + 1)) / 2) - 1)


def _private_map(shape: tuple[int, ...]) -> AnyFeatureMap:
    return Whitened() if len(shape) == 3 else Columns()


def _public(party: Party) -> Array:
    return party.data.part("public")[0]

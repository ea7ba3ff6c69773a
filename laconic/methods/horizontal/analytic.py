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

from laconic.core.capabilities import ERASED
from laconic.core.ledger import Noise, Noised
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.errors import PlanError, Refused, WireError
from laconic.learn.features import AnyFeatureMap, Columns, FeatureMap, Whitened, default_map
from laconic.learn.models.least_squares import (
    LEAST_SINGLE,
    Sums,
    add_sums,
    calibrate,
    solve,
    solve_noisy,
    subtract_sums,
    sum_up,
    targets_of,
    to_predictions,
    unpack,
)
from laconic.methods.families.rows import ROWS_IN_ALL, labelled, map_weights
from laconic.methods.families.sums import SecureSums, agree_keys, confirm_present, share_secrets, unmask
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
            for what parties learnt when they agreed on columns; where they did not, bytes alone decide.
        class_weights: how much a row of a class counts, by the class's name; 1 for a class not named.
        penalty: weight of the squared coefficients of standardised features, for one row; None to choose it by
            generalised cross-validation on the sums.
        least_rows: a party with fewer rows sends nothing: from few rows' sums, the rows themselves can be worked out.
        precision: of the sums as sent. Those of float64 are also worked out in it, in twice the time.
        privacy: the noise on the sums; None for none.
        sums: add parties' sums up under masks, so that the server sees the total alone, and noise once for all parties
            together; None lets it see each party's sums. To leave the total, a party has to send its own sums.
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
    sums: SecureSums | None = None

    agree_keys, share_secrets = agree_keys, share_secrets
    confirm_present, unmask = confirm_present, unmask

    def __post_init__(self) -> None:
        """Refuse settings that leave nothing to send or to solve."""
        if self.most_bytes < 1 or (self.expected_rows is not None and self.expected_rows < 1) or self.least_rows < 0:
            raise ValueError("most_bytes and expected_rows must be 1 or more, and least_rows 0 or more")
        if self.penalty is not None and not self.penalty > 0:
            raise ValueError(f"penalty must be above 0, not {self.penalty}; leave it out to have it chosen")
        if any(not weight > 0 for weight in self.class_weights.values()):
            raise ValueError(f"class_weights must be above 0, not {self.class_weights}")
        if self.privacy is not None and (self.class_weights or self.penalty is not None):
            raise ValueError("with privacy all rows count the same and noise decides the penalty; leave these two out")

    @property
    def rounds(self) -> int:
        """Sums come in one exchange; a secure sum takes more questions."""
        return 1 if self.sums is None else self.sums.questions

    def fit_opening(self) -> Opening:
        """One question, which parties may answer before it is asked; of a secure sum, the first one."""
        if self.sums is not None:
            return Opening((Ask.known(self.agree_keys),))
        return Opening((Ask.known(self.give_sums),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take the sums, add them up and solve; absent parties, and those with few rows, are not in the model."""
        if task_of(hub).by_log:
            raise PlanError(
                f"label {task_of(hub).label!r} is a count, whose likelihood has no closed form: Analytic solves least "
                "squares alone. Say task = regression to have it learn the count as a number, or use FedAvg or FedTrees"
            )
        chosen = self.map_for(hub)
        hub.memory["map"] = map_weights(chosen, hub)
        width = chosen.apply(hub.memory["map"], np.zeros((1, *hub.data.shape), np.float32)).shape[1]
        if self.sums is not None:
            hub.memory["sums"] = {_TOTAL: self._total(self.sums, hub, peers, width)}
        else:
            answers = peers.tolerant.ask(self.give_sums)
            read = {name: self._read(name, answer, width, task_of(hub)) for name, answer in answers.items()}
            hub.memory["sums"] = {name: one for name, one in read.items() if one is not None}
        self._solve(hub)
        yield

    def _total(self, sums: SecureSums, hub: Party, peers: Peers, width: int) -> dict[str, Any]:
        """The sums over all parties, and nothing of a single one."""
        half = (width + 1) * (width + 2) // 2
        like = {"gram": np.zeros(half), "moments": np.zeros((width + 1, task_of(hub).outputs))}
        total = sums.over(self, peers, self.give_sums, like if self.privacy else like | {"squares": 0.0, "rows": 0.0})
        hub.memory["parties"] = list(total.parties)
        parts = {"squares": 0.0, "rows": 0.0} | total.parts
        # Every party's noise is its share of what is needed, if no more are honest and there than there must be.
        releases = len(total.parties) / sums.honest(total.agreed)
        return parts | {"rows": round(parts["rows"]), "releases": releases}

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
        few = self.privacy is None and len(party.data.cut("train")) < max(self.least_rows, 1)
        if self.sums is not None:
            sent = self._sums(party, self.sums.noise_share(party) if self.privacy else 1.0)
            # Under masks nobody sees who has few rows: zeros add nothing.
            return self.sums.hide(party, {name: 0 * part for name, part in sent.items()} if few else sent)
        return {"rows": 0} if few else self._sums(party)

    @step(
        takes=None,
        gives="sums over the rows that are to be erased; of a single row these are its features, squared and by its "
        "label, so the server learns that row as it is; from the sums of few rows it can work out all of them",
    )
    def give_erased(self, party: Party) -> Any:
        """Sum over rows that are to be erased, however few: no others, or masks and least_rows would hide nothing."""
        if ERASED not in party.data.cuts:
            raise Refused(f"{party.name} has no rows here that are to be erased, and sums no others without masks")
        return self._sums(party, rows=ERASED)

    def members(self, hub: Party) -> dict[str, int]:
        """Whose sums are in the model, and of how many rows; 0 where noise or masks hide that."""
        if self.sums is not None:
            return dict.fromkeys(hub.memory["parties"], 0)
        return {name: one["rows"] for name, one in hub.memory["sums"].items()}

    def merge_in(self, hub: Party, peers: Peers) -> None:
        """Ask parties for the sums of their training rows, and add them to what is there."""
        if self.sums is not None:
            raise ValueError(
                "a party that joins alone would show its own sums, which are under masks in this model; train again "
                "with everybody, or leave out method.sums"
            )
        for name, answer in peers.ask(self.give_sums).items():
            read = self._read_again(name, answer, hub)
            before = hub.memory["sums"].get(name)
            # Each noisy release brings its own noise, and the penalty is chosen by how much there is in all.
            releases = read["releases"] + (before.get("releases", 1) if before else 0)
            added = read if before is None else _plain(add_sums(_sums_of(before), _sums_of(read)), releases)
            hub.memory["sums"] = {**hub.memory["sums"], name: added}
        self._solve(hub)

    def take_out(self, hub: Party, name: str) -> None:
        """Drop a party's sums; those of the others stay as they are."""
        if self.sums is not None:
            raise ValueError(
                f"what {name} added is hidden in the sum of all parties, so that nobody else can take it out; let "
                f"it send the sums of its own rows: laconic forget {name} MODEL --rows FILE-WITH-ALL-ITS-ROWS"
            )
        left = {one: sums for one, sums in hub.memory["sums"].items() if one != name}
        if not left:
            raise ValueError(f"without {name} no sums are left to make a model from; delete the model instead")
        hub.memory["sums"] = left
        self._solve(hub)

    def erase(self, hub: Party, peers: Peers) -> None:
        """Ask a party for the sums of rows to be erased, and take them off its sums; off noisy ones nothing can be."""
        if self.privacy is not None:
            raise ValueError(
                "noise hides single rows in the sums, so that they cannot be taken off them; let the party be "
                "forgotten and join again without these rows, which costs it one more noisy release"
            )
        for name, answer in peers.ask(self.give_erased).items():
            place = name if self.sums is None else _TOTAL
            before = hub.memory["sums"][place]
            left = subtract_sums(_sums_of(before), _sums_of(self._read_again(name, answer, hub)))
            if left.rows == 0:
                self.take_out(hub, name)
                return
            hub.memory["sums"] = {**hub.memory["sums"], place: _plain(left, before.get("releases", 1))}
        self._solve(hub)

    def within(self, budget: Budget, rows: int, hub: str, guests: tuple[str, ...]) -> "Analytic":
        """The same with as little noise as keeps a budget."""
        if self.class_weights or self.penalty is not None:
            raise PlanError("budget.epsilon needs noise on the sums: leave out class_weights and penalty")
        privacy = self.privacy or GaussianSums()
        sigma = budget.multipliers(dict.fromkeys(guests, privacy.demand()))
        # All parties share one setting: the most careful one.
        return replace(self, privacy=privacy.with_sigma(max(sigma.values())))

    def expected_noise(self, rows: int, hub: str, guests: tuple[str, ...]) -> dict[str, tuple[Noise, ...]]:
        """The noise on each party's sums."""
        if self.privacy is None:
            return {}
        noise = self.privacy.words() if self.sums is None else self.privacy.words_in_sum()
        return dict.fromkeys(guests, (noise,))

    @property
    def _noise(self) -> GaussianSums:
        return self.privacy or GaussianSums()

    def tuning(self) -> Mapping[str, tuple[Any, ...]]:
        """Other maps for columns, where none is set; images keep the default among them."""
        fourier = {"type": "RandomFourier"}
        maps = (None, {"type": "RandomRelu"}, fourier | {"scale": 0.5}, fourier | {"scale": 2.0}, {"type": "Columns"})
        return {"features": maps} if self.features is None and self.privacy is None else {}

    def map_for(self, party: Party) -> FeatureMap:
        """The map for a party's rows: the same for all, as their rows have the same columns."""
        shape, task = party.data.shape, task_of(party)
        chosen: FeatureMap = self.features or (default_map(shape) if self.privacy is None else _private_map(shape))
        most = _most_features(self.most_bytes, task.outputs, 4 if self.precision == "float32" else 8)
        rows = self.expected_rows or party.memory.get(ROWS_IN_ALL)
        return chosen.sized(most if not rows else min(most, max(rows // 4, 1)), shape)

    def _weights(self, party: Party, y: Array) -> Array | None:
        """How much each row counts, by its class; None if all count the same."""
        if not self.class_weights:
            return None
        classes = task_of(party).classes
        strangers = self.class_weights.keys() - set(classes)
        if strangers:
            raise ValueError(
                f"class_weights names {', '.join(sorted(strangers))}; the classes are {', '.join(classes)}"
            )
        return np.array([self.class_weights.get(name, 1.0) for name in classes])[y.astype(np.int64)]

    def _noisy_sums(self, party: Party, features: Array, y: Array, share: float) -> Noised[dict[str, Array]]:
        task, privacy = task_of(party), self._noise
        aims = privacy.numbers(y) if task.kind == "regression" else y
        return privacy.release(privacy.rows(features), targets_of(task, aims), party, share)

    def _sums(self, party: Party, share: float = 1.0, rows: str = "train") -> Any:
        """The sums over this party's rows of a cut, ready to leave, with this share of the noise."""
        x, y = labelled(party, rows)
        chosen = self.map_for(party)
        features = chosen.apply(map_weights(chosen, party), x)
        if self.privacy is not None:
            return self._noisy_sums(party, features, y, share)
        sums = sum_up(
            features, targets_of(task_of(party), y), self._weights(party, y), exact=self.precision == "float64"
        )
        sent = {"gram": sums.gram.astype(self.precision), "moments": sums.moments.astype(self.precision)}
        return sent | {"squares": sums.squares, "rows": sums.rows}

    def _read_again(self, name: str, answer: Any, hub: Party) -> dict[str, Any]:
        """Sums for a model that is fitted already."""
        read = self._read(name, answer, len(hub.memory["model"]["coefficients"]), task_of(hub))
        if read is None:
            raise ValueError(
                f"{name} sent no sums: it has fewer than least_rows = {self.least_rows} rows, from whose sums the rows "
                "could be worked out; let it bring more rows at once"
            )
        return read

    def _read(self, name: str, answer: Any, width: int, task: Task) -> dict[str, Any] | None:
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
            and moments.shape == (width + 1, task.outputs)
            and isinstance(squares, float)
            and isinstance(rows, int)
            and bool(np.isfinite(gram).all() and np.isfinite(moments).all() and np.isfinite(squares) and rows >= 0)
        )
        if not sound:
            raise WireError(f"{name} did not send the sums of this map; check that its plan and columns are the same")
        return {"gram": gram, "moments": moments, "squares": squares, "rows": rows, "releases": 1}

    @limit_threads()
    def _solve(self, hub: Party) -> None:
        """The model of all sums at hand."""
        received, task = hub.memory["sums"], task_of(hub)
        if not received:
            raise ValueError(f"no party has {max(self.least_rows, 1)} rows to learn from; lower least_rows")
        sums = add_sums(*map(_sums_of, received.values()))
        if self.privacy is not None:
            releases = sum(one.get("releases", 1) for one in received.values())
            hub.memory["model"] = _solve_noisy(self.privacy, task, sums, releases)
            return
        found = solve(sums, self.penalty, least=LEAST_SINGLE if self.precision == "float32" else 0.0)
        inflate = (1 - found.freedom / sums.rows) ** -2 if found.freedom < sums.rows else 1.0
        fit = found.coefficients, found.intercept
        sharp = calibrate(task, (unpack(sums.gram), sums.moments), fit, inflate=inflate)
        hub.memory["model"] = _model(fit, sharp) | {"penalty": np.array([found.penalty])}


_TOTAL = "all parties together"
"""Where the server keeps a secure sum, of which nothing is any single party's."""


def _sums_of(kept: Mapping[str, Any]) -> Sums:
    return Sums(gram=kept["gram"], moments=kept["moments"], squares=kept["squares"], rows=kept["rows"])


def _plain(sums: Sums, releases: int) -> dict[str, Any]:
    return {
        "gram": sums.gram,
        "moments": sums.moments,
        "squares": sums.squares,
        "rows": sums.rows,
        "releases": releases,
    }


def _solve_noisy(privacy: GaussianSums, task: Task, sums: Sums, releases: int) -> Weights:
    """The model of noisy sums; noise of several releases adds up by squares."""
    gram = unpack(sums.gram)
    on_gram, on_moments = (scale * sqrt(releases) for scale in privacy.scales())
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

"""FedPFT: parties send Gaussian mixtures of each class's features once, and the server trains a head on draws of them.

Beitollahi, Bie, Hemati, Brunswic, Li, Chen, Zhang: Parametric Feature Transfer, One-shot Federated Learning with
Foundation Models (2024). Every party puts its rows through a public feature map, fits a mixture to the features of each
class, and sends its mixtures. The server draws as many features of each class as there were rows, and trains a
classifier on them. With noise, a class is one Gaussian, made from noisy sums of products of its features.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec.structs import replace

from laconic.core.ledger import Noise, Noised
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.errors import WireError
from laconic.learn.features import AnyFeatureMap, FeatureMap, RandomFourier, Whitened
from laconic.learn.models.clustering import (
    Covariance,
    draw_rows,
    fit_mixture,
    nearest_covariance,
    one_gaussian,
    spread_size,
)
from laconic.learn.models.learners import AnyClassifier, Network
from laconic.learn.models.supervised import fit_models, predict_model
from laconic.learn.nets.nets import Mlp
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import labelled, map_weights
from laconic.privacy.budget import Budget
from laconic.privacy.mechanisms.sums import GaussianMoments, moments_from, unit_rows
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, Rng, check_least

_MOST_DRAWN = 40_000
"""So many features are drawn in all, at most: more hardly help a head, and take time."""


class FedPft(Method, frozen=True):
    """A classifier of features that are drawn from parties' mixtures, which are sent once.

    Attributes:
        features: how a row becomes features; None for what suits: whitened convolutions for images, columns and cosines
            of them for columns.
        components: Gaussians in the mixture of a class; fewer where a class has few rows. With `privacy`, one.
        covariance: how a Gaussian may spread; `full` costs as many numbers as half the square of the features.
        head: what the server trains.
        least_rows: a class with fewer rows at a party is not sent, and each Gaussian has as many rows on average: one
            of few rows gives these away.
        privacy: the noise on what is sent; None for none.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")
    uses: ClassVar[tuple[str, ...]] = ("train",)
    predicts_from: ClassVar[tuple[str, ...]] = ("map", "model", "scaling")

    features: AnyFeatureMap | None = None
    components: int = 10
    covariance: Covariance = "diagonal"
    head: AnyClassifier = Network(net=Mlp(hidden=()), trainer=Sgd(epochs=20, batch=256, lr=3e-3))
    least_rows: int = 10
    privacy: GaussianMoments | None = None

    def __post_init__(self) -> None:
        """Refuse mixtures of nothing."""
        check_least(1, components=self.components, least_rows=self.least_rows)

    @property
    def rounds(self) -> int:
        """Mixtures come in one exchange."""
        return 1

    def fit_opening(self) -> Opening:
        """One question, which parties may answer before it is asked."""
        return Opening((Ask.known(self.give_mixtures),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take the mixtures, draw from them and train the head; absent parties are not in the model."""
        answers = peers.tolerant.ask(self.give_mixtures)
        chosen = self.map_for(hub)
        hub.memory["map"] = map_weights(chosen, hub)
        width = chosen.apply(hub.memory["map"], np.zeros((1, *hub.data.shape), np.float32)).shape[1]
        hub.memory["width"] = width
        hub.memory["mixtures"] = {
            name: [self._read(name, answer, width, task_of(hub))] for name, answer in answers.items()
        }
        self._train(hub)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the server's rows through the map and the head."""
        found = self._prepared(self.map_for(hub).apply(hub.memory["map"], hub.data.part(rows)[0]))
        scaling = hub.memory["scaling"]
        found = ((found - scaling["centre"]) / scaling["scale"]).astype(np.float32)
        return predict_model(self.head, task_of(hub), hub.memory["model"], found)

    @step(
        takes=None,
        gives="for each class with least_rows rows or more, how many these are, and means and spreads of groups of "
        "their features; a group of few rows gives away about where these are. With privacy, sums under noise",
    )
    def give_mixtures(self, party: Party) -> Any:
        """Fit a mixture to the features of each class."""
        x, y = labelled(party, "train")
        chosen, classes = self.map_for(party), range(len(task_of(party).classes))
        features = self._prepared(chosen.apply(map_weights(chosen, party), x))
        if self.privacy is not None:
            return self._noisy(self.privacy, [features[y == one] for one in classes], party)
        return {
            str(one): self._mixture(features[y == one], party.rng)
            for one in classes
            if int((y == one).sum()) >= self.least_rows
        }

    def members(self, hub: Party) -> dict[str, int]:
        """Whose mixtures are in the model, and of how many rows; 0 where noise hides that."""
        return {
            name: 0 if self.privacy is not None else sum(one["rows"] for sent in parts for one in sent.values())
            for name, parts in hub.memory["mixtures"].items()
        }

    def merge_in(self, hub: Party, peers: Peers) -> None:
        """Ask parties for mixtures of their training rows, and put these beside what is there."""
        for name, answer in peers.ask(self.give_mixtures).items():
            read = self._read(name, answer, hub.memory["width"], task_of(hub))
            if not read:
                raise ValueError(f"{name} sent no mixtures: no class has least_rows = {self.least_rows} rows")
            before = hub.memory["mixtures"].get(name, [])
            hub.memory["mixtures"] = {**hub.memory["mixtures"], name: [*before, read]}
        self._train(hub)

    def take_out(self, hub: Party, name: str) -> None:
        """Drop a party's mixtures, and train anew."""
        hub.memory["mixtures"] = {one: sent for one, sent in hub.memory["mixtures"].items() if one != name}
        self._train(hub)

    def within(self, budget: Budget, rows: int, hub: str, guests: tuple[str, ...]) -> "FedPft":
        """The same with as little noise as keeps a budget; each row is at one party, which has the budget whole."""
        privacy = self.privacy or GaussianMoments()
        sigma = budget.multipliers(dict.fromkeys(guests, privacy.demand()))
        return replace(self, privacy=privacy.with_sigma(max(sigma.values())))

    def expected_noise(self, rows: int, hub: str, guests: tuple[str, ...]) -> dict[str, tuple[Noise, ...]]:
        """The noise on what each party sends."""
        return {} if self.privacy is None else dict.fromkeys(guests, (self.privacy.words(),))

    def map_for(self, party: Party) -> FeatureMap:
        """The map for a party's rows: the same for all, as their rows have the same columns."""
        shape = party.data.shape
        usual = Whitened(width=128) if len(shape) == 3 else RandomFourier(width=64)
        return self.features or usual

    def _prepared(self, features: Array) -> Array:
        return features if self.privacy is None else unit_rows(features)[:, :-1]

    def _mixture(self, rows: Array, rng: Rng) -> dict[str, Any]:
        components = max(1, min(self.components, len(rows) // self.least_rows))
        return {**fit_mixture(rows, components, self.covariance, rng), "rows": len(rows)}

    def _noisy(self, privacy: GaussianMoments, groups: list[Array], party: Party) -> Noised[Any]:
        return privacy.release([unit_rows(one) for one in groups], party)

    def _read(self, name: str, answer: Any, width: int, task: Task) -> dict[str, Any]:
        """A party's mixtures by class, checked to be of this map and task and nothing else."""
        if self.privacy is not None:
            half = (width + 1) * (width + 2) // 2
            fits = isinstance(answer, np.ndarray) and answer.shape == (len(task.classes), half)
            if not fits or answer.dtype != np.float32 or not np.isfinite(answer).all():
                raise _not_ours(name)
            return {str(one): {"half": half} for one, half in enumerate(answer)}
        known = {str(one) for one in range(len(task.classes))}
        if not isinstance(answer, dict) or not answer.keys() <= known:
            raise _not_ours(name)
        for one in answer.values():
            if not self._is_mixture(one, width):
                raise _not_ours(name)
        return answer

    def _is_mixture(self, sent: Any, width: int) -> bool:
        if not isinstance(sent, dict) or sent.keys() != {"weights", "means", "spreads", "rows"}:
            return False
        parts = [sent[part] for part in ("weights", "means", "spreads")]
        if not all(isinstance(one, np.ndarray) and one.dtype == np.float32 for one in parts):
            return False
        count = len(parts[0])
        shapes = [(count,), (count, width), (count, spread_size(width, self.covariance))]
        sizes = [one.shape for one in parts] == shapes and 1 <= count <= self.components
        rows = isinstance(sent["rows"], int) and sent["rows"] >= self.least_rows
        return bool(sizes and rows and all(np.isfinite(one).all() for one in parts) and (parts[0] >= 0).all())

    @limit_threads()
    def _train(self, hub: Party) -> None:
        """Draw from all mixtures, and train the head on what was drawn."""
        parts = [one for sent in hub.memory["mixtures"].values() for one in sent]
        mixtures = (
            self._of_noisy(parts) if self.privacy is not None else [one for sent in parts for one in sent.items()]
        )
        rows = sum(int(one["rows"]) for _, one in mixtures)
        if not rows:
            raise ValueError(f"no class has {self.least_rows} rows at any party; lower least_rows")
        share, kind = min(1.0, _MOST_DRAWN / rows), self.covariance if self.privacy is None else "full"
        drawn = [draw_rows(one, kind, max(1, round(share * one["rows"])), hub.rng) for _, one in mixtures]
        y = np.repeat([int(code) for code, _ in mixtures], [len(one) for one in drawn])
        x = np.concatenate(drawn)
        centre, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
        hub.memory["scaling"] = {"centre": centre, "scale": scale}
        hub.memory["model"] = fit_models(self.head, task_of(hub), [((x - centre) / scale, y)], hub.rng)[0]

    def _of_noisy(self, parts: list[dict[str, Any]]) -> list[tuple[str, Any]]:
        """One Gaussian for each class, of all parties' noisy sums together: noise is least against their sum."""
        scale = 0.0 if self.privacy is None else self.privacy.scale
        found = []
        for code in parts[0] if parts else ():
            halves = np.stack([one[code]["half"] for one in parts]).astype(np.float64)
            count, mean, second = moments_from(halves.sum(axis=0))
            rows = max(round(count), 0)
            if rows < self.least_rows:
                continue
            # About the edge of Wigner's semicircle: directions with less variance are noise.
            edge = scale * sqrt(2 * len(mean) * len(parts)) / rows
            spread = nearest_covariance(second - np.outer(mean, mean), max(0.5 * edge, 1e-6))
            found.append((code, {**one_gaussian(mean, spread), "rows": rows}))
        return found


def _not_ours(name: str) -> WireError:
    return WireError(f"{name} did not send mixtures of this map; check that its plan and columns are the same")

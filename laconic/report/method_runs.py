"""Runs of one method with one choice of settings together: what they score, and what they cost."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from laconic.core.result import Release, Result
from laconic.core.traffic import Traffic
from laconic.report.words import scored

_LOWER_IS_BETTER = {"rmse", "mae", "log_loss", "rmse_scaled"}


@dataclass(frozen=True)
class MethodRuns:
    """One method with one choice of settings, run with one seed or several.

    Attributes:
        label: its name, and the settings in which it differs from others of that name.
        results: its runs, by seed.
    """

    label: str
    results: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """The run with the first seed, which stands for the others where one must."""
        return self.results[0]

    @property
    def kind(self) -> str:
        """The method's name."""
        return str(self.first.method["type"])

    @property
    def metric(self) -> str:
        """The name of its headline figure; accuracy where runs have different ones, as some rows have no AUC."""
        different = {result.score.metric for result in self.results}
        return different.pop() if len(different) == 1 else "accuracy"

    @property
    def sign(self) -> int:
        """1 if more is better, -1 if less is."""
        return -1 if self.metric in _LOWER_IS_BETTER else 1

    @cached_property
    def score(self) -> float:
        """The headline figure, as the mean over seeds."""
        return statistics.fmean(self._figure(result) for result in self.results)

    @cached_property
    def spread(self) -> float | None:
        """The standard deviation of the headline figure over seeds; None with one seed."""
        values = [self._figure(result) for result in self.results]
        return statistics.stdev(values) if len(values) > 1 else None

    @property
    def goodness(self) -> float:
        """The score, with its sign turned where less is better."""
        return self.sign * self.score

    @property
    def scored(self) -> str:
        """The headline figure by name, with its spread."""
        return scored(self.metric, self.score, self.spread)

    def _figure(self, result: Result) -> float:
        return result.score.value if result.score.metric == self.metric else result.metrics[self.metric]

    @cached_property
    def fit(self) -> Traffic:
        """What fitting cost, as the mean over seeds."""
        means = {
            name: statistics.fmean(getattr(result.fit, name) for result in self.results)
            for name in Traffic.__struct_fields__
        }
        seconds = means.pop("seconds")
        return Traffic(**{name: round(mean) for name, mean in means.items()}, seconds=seconds)

    @property
    def bytes(self) -> int:
        """Bytes that fitting sent, both ways, as the mean over seeds."""
        return self.fit.bytes

    @property
    def bytes_a_prediction(self) -> float | None:
        """Bytes for one row to predict; None where the record does not say how many rows were scored."""
        rows = self.first.data.get("alignment") or self.first.data.get("rows") or {}
        count = rows.get("test") if isinstance(rows, dict) else None
        return self.first.final.bytes / count if isinstance(count, int) and count > 0 else None

    @property
    def is_alone(self) -> bool:
        """Whether nothing crosses while learning and nobody is asked for more than its own score."""
        return self.kind.startswith("Solo")

    @property
    def is_pooled(self) -> bool:
        """Whether it sends raw columns: what a federation is there to avoid."""
        return any("raw columns" in release.words for release in self.first.releases)

    @property
    def is_federated(self) -> bool:
        """Whether it is a method to choose, and not a yardstick."""
        return not (self.is_alone or self.is_pooled)

    @property
    def has_price(self) -> bool:
        """Whether noise with a proven epsilon is on some of what left."""
        return self.first.privacy is not None and self.first.privacy.epsilon is not None

    @cached_property
    def given(self) -> list[list[Release]]:
        """What left, in the first run, as `same_releases` puts it together."""
        return same_releases(self.first.releases)


def same_releases(releases: Iterable[Release]) -> list[list[Release]]:
    """Releases of the same words and noise together, whoever made them and when."""
    groups: dict[str, list[Release]] = {}
    for release in releases:
        groups.setdefault(f"{release.to}/{release.words}/{release.noise}", []).append(release)
    return list(groups.values())


def costs_of(result: Result) -> dict[str, Traffic]:
    """What each phase of a run cost."""
    return {"align": result.align, "fit": result.fit, "look": result.look, "final": result.final}


def flatten(settings: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Settings within settings as one dict, by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{path}.{key}" if path else key
        flat |= flatten(value, name) if isinstance(value, dict) else {name: value}
    return flat


def settings_key(result: Result) -> str:
    """A method's settings as one text, the same for equal settings."""
    return json.dumps(result.method, sort_keys=True)


def members(result: Result) -> tuple[str, ...]:
    """The parties that hold rows: a server without any is not one."""
    return tuple(name for name in result.parties if name != "server")

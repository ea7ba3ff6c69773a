"""Methods side by side on one federation: what each scores, costs and gives away, and which of them to use."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from textwrap import shorten
from typing import Any, NamedTuple

from laconic.core.traffic import Traffic
from laconic.deploy.result import Release, Result
from laconic.report.words import figure, in_bytes, in_rounds, mean_spread, metric_name, scored
from laconic.tables.task import LOWER_IS_BETTER


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
        return -1 if self.metric in LOWER_IS_BETTER else 1

    @property
    def score(self) -> float:
        """The headline figure, as the mean over seeds."""
        return statistics.fmean(self._figures)

    @property
    def spread(self) -> float | None:
        """The standard deviation of the headline figure over seeds; None with one seed."""
        return statistics.stdev(self._figures) if len(self.results) > 1 else None

    @property
    def goodness(self) -> float:
        """The score, with its sign turned where less is better."""
        return self.sign * self.score

    @property
    def scored(self) -> str:
        """The headline figure by name, with its spread."""
        return scored(self.metric, self.score, self.spread)

    @property
    def by_seed(self) -> dict[int, float]:
        """The headline figure of each seed, with its sign turned where less is better."""
        return {one.seed: self.sign * value for one, value in zip(self.results, self._figures, strict=True)}

    def run_of(self, seed: int) -> Result:
        """The run with a seed."""
        return next(one for one in self.results if one.seed == seed)

    @cached_property
    def _figures(self) -> list[float]:
        name = self.metric
        return [one.score.value if one.score.metric == name else one.metrics[name] for one in self.results]

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
    def allowed(self) -> tuple[int, float] | None:
        """Trials and processor seconds for finding its settings, which all arms should share; None if not tuned."""
        return None if self.first.tuning is None else self.first.tuning.allowed

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

    @cached_property
    def label_leaks(self) -> tuple[Release, ...]:
        """What leaves, in the first run and without noise, from which others can read labels that are not theirs."""
        return self.first.label_leaks

    @property
    def has_price(self) -> bool:
        """Whether noise with a proven epsilon is on some of what left."""
        return self.first.privacy is not None and self.first.privacy.epsilon is not None

    @cached_property
    def given(self) -> list[list[Release]]:
        """What left, in the first run, as `same_releases` puts it together."""
        return same_releases(self.first.releases)


class Difference(NamedTuple):
    """How much better one arm is than another, and how sure that is.

    Attributes:
        value: in units of the score; above 0 if the first is better, also where less is better.
        error: its standard error, with the runs paired; None if nothing shows it.
        source: in words, what the standard error is from.
    """

    value: float
    error: float | None
    source: str

    @property
    def in_words(self) -> str:
        """The standard error and its source."""
        if self.error is None:
            return "one seed does not say how sure that is: add --seeds 3"
        return f"standard error {figure(self.error)}, from {self.source}"


def difference(arm: MethodRuns, other: MethodRuns) -> Difference:
    """How much better an arm is than another on the same rows.

    With several seeds in common, the standard error is that of the mean of their differences; with one, that of
    differences on the same bootstrap resamples of the rows scored on.
    """
    value = arm.goodness - other.goodness
    mine, theirs = arm.by_seed, other.by_seed
    common = [seed for seed in mine if seed in theirs]
    if len(common) > 1:
        found = [mine[seed] - theirs[seed] for seed in common]
        return Difference(value, statistics.stdev(found) / sqrt(len(found)), f"{len(found)} seeds")
    pairs = [arm.run_of(seed).resampled for seed in common], [other.run_of(seed).resampled for seed in common]
    if common and arm.metric == other.metric and len(pairs[0][0]) == len(pairs[1][0]) > 1:
        return Difference(value, statistics.stdev(a - b for a, b in zip(pairs[0][0], pairs[1][0], strict=True)), _ROWS)
    return Difference(value, None, "")


_ROWS = "resampling the rows scored on (one seed)"


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
    """A method's settings, as they were given before any tuning, as one text: the same for equal settings."""
    tuned = [] if result.tuning is None else [result.tuning.allowed]
    return json.dumps([settings_given(result), *tuned] if tuned else result.method, sort_keys=True)


def settings_given(result: Result) -> dict[str, Any]:
    """A method's settings before any tuning."""
    return result.method if result.tuning is None else result.tuning.given


def members(result: Result) -> tuple[str, ...]:
    """The parties that hold rows: a server without any is not one."""
    return tuple(name for name in result.parties if name != "server")


_SHARE_OF_GAP = 0.1
_ROUNDING = 1e-12  # of a mean of differences, so that equal ones stay equal


@dataclass(frozen=True)
class Comparison:
    """All arms on one federation.

    Attributes:
        title: of the data, and how many parties.
        arms: in the order of the results.
    """

    title: str
    arms: tuple[MethodRuns, ...]

    @property
    def first(self) -> Result:
        """A run that tells of the federation."""
        return self.arms[0].first

    @property
    def is_horizontal(self) -> bool:
        """Whether parties have other rows of the same columns, and not other columns of the same rows."""
        return self.first.data.get("kind") == "horizontal"

    @property
    def what_is_pooled(self) -> str:
        """What parties would have to hand over to be pooled."""
        return "rows" if self.is_horizontal else "columns"

    @property
    def holder(self) -> str:
        """The party with the labels, as far as the runs tell; in a horizontal federation each party has some."""
        if self.is_horizontal:
            return "a party"
        hubs = [arm.first.hub for arm in self.arms if arm.first.hub != "server"]
        return hubs[0] if hubs else "the label holder"

    @property
    def alone(self) -> MethodRuns | None:
        """A party alone, if that was run."""
        return next((arm for arm in self.arms if arm.is_alone), None)

    @property
    def pooled(self) -> MethodRuns | None:
        """The best of what was run on pooled columns, if anything was."""
        return best_of(arm for arm in self.arms if arm.is_pooled)

    @property
    def federated(self) -> list[MethodRuns]:
        """The methods to choose from."""
        return [arm for arm in self.arms if arm.is_federated]

    @property
    def best(self) -> MethodRuns | None:
        """The federated method with the best score."""
        return best_of(self.federated)

    @property
    def chosen(self) -> MethodRuns | None:
        """Of the federated methods as good as the best, one that keeps labels if there is one, and sends least.

        Those that beat being alone come before those that do not.
        """
        best = self.best
        if best is None:
            return None
        fair = [arm for arm in self.federated if self.as_good(arm, best)]
        fair = [arm for arm in fair if self.beats_alone(arm)] or fair
        return min(fair, key=lambda arm: (bool(arm.label_leaks), arm.bytes, arm.fit.rounds, -arm.goodness))

    @property
    def is_single(self) -> bool:
        """Whether there is one method to choose, and nothing beside it or a single run of it."""
        return len(self.federated) == 1 and (len(self.arms) == 1 or len(self.federated[0].results) == 1)

    @property
    def recommended(self) -> MethodRuns | None:
        """The chosen method, if there is something to choose from and no evidence against a federation at all."""
        chosen = self.chosen
        return chosen if chosen is not None and not self.is_single and self.beats_alone(chosen) else None

    def beats_alone(self, arm: MethodRuns) -> bool:
        """Whether an arm is better than a party alone by more than the standard error; true where that was not run."""
        return self.alone is None or not self.as_good(self.alone, arm)

    def as_good(self, arm: MethodRuns, other: MethodRuns) -> bool:
        """Whether an arm's score is not clearly below another's (see `leeway`)."""
        return other.goodness - arm.goodness <= self.leeway(arm, other) + _ROUNDING

    def leeway(self, arm: MethodRuns, other: MethodRuns) -> float:
        """How far two scores may lie apart and count as equal: one standard error of their difference.

        Where nothing shows that, a tenth of what pooling adds to being alone.
        """
        error = difference(arm, other).error
        return _SHARE_OF_GAP * max(0.0, self.gap or 0.0) if error is None else error

    @property
    def gap(self) -> float | None:
        """How much better pooled is than alone; None if one of them was not run."""
        alone, pooled = self.alone, self.pooled
        return None if alone is None or pooled is None else pooled.goodness - alone.goodness

    @property
    def frontier(self) -> tuple[MethodRuns, ...]:
        """The arms that no other beats both in bytes and in score, by bytes; pooling is not a choice."""
        found: list[MethodRuns] = []
        choices = [arm for arm in self.arms if not arm.is_pooled]
        for arm in sorted(choices, key=lambda arm: (arm.bytes, -arm.goodness)):
            if not found or arm.goodness > found[-1].goodness:
                found.append(arm)
        return tuple(found)


def comparisons_of(results: Iterable[Result]) -> tuple[Comparison, ...]:
    """Results by federation, and within it by method and settings."""
    federations: dict[str, list[Result]] = {}
    for result in results:
        federations.setdefault(_federation_of(result), []).append(result)
    titles = [_title_of(those[0]) for those in federations.values()]
    return tuple(
        Comparison(_distinct(title, those[0], titles), _arms_of(those))
        for title, those in zip(titles, federations.values(), strict=True)
    )


def best_of(arms: Iterable[MethodRuns]) -> MethodRuns | None:
    """The arm with the best score; None of none."""
    return max(arms, key=lambda arm: arm.goodness, default=None)


def _arms_of(results: Sequence[Result]) -> tuple[MethodRuns, ...]:
    groups: dict[str, dict[int, Result]] = {}
    for result in results:
        groups.setdefault(settings_key(result), {})[result.seed] = result
    firsts = [next(iter(group.values())) for group in groups.values()]
    return tuple(
        MethodRuns(_label(first, firsts), tuple(group[seed] for seed in sorted(group)))
        for first, group in zip(firsts, groups.values(), strict=True)
    )


def _label(result: Result, all_of_them: Sequence[Result]) -> str:
    """The method's name, with its epsilon, and the fewest settings that set it apart from others of that name."""
    others = [one for one in all_of_them if _plain_label(one) == _plain_label(result) and one is not result]
    mine = flatten(settings_given(result))
    said = [_plain_label(result)]
    # Settings near the top, and which part was chosen rather than its numbers, say most.
    for key in sorted(mine, key=lambda one: (one.removesuffix(".type").count("."), not one.endswith(".type"))):
        differing = [one for one in others if flatten(settings_given(one)).get(key) != mine[key]]
        if differing:
            name = key.removesuffix(".type").rpartition(".")[2]
            said.append(str(mine[key]) if key.endswith(".type") else f"{name} {mine[key]}")
            others = [one for one in others if one not in differing]
    said += ["tuned"] if others and result.tuning is not None else []
    return ", ".join(said)


def _plain_label(result: Result) -> str:
    paid = result.privacy
    if paid is None:
        return str(result.method["type"])
    return f"{result.method['type']}, " + ("no bound" if paid.epsilon is None else f"epsilon {paid.epsilon:.2g}")


def _federation_of(result: Result) -> str:
    facts = [result.data.get("name"), sorted(members(result)), result.task.label, result.data.get("plan")]
    return json.dumps(facts, sort_keys=True)


def _title_of(result: Result) -> str:
    return f"{result.data.get('name', 'data')}, {len(members(result))} parties"


def _distinct(title: str, result: Result, titles: Sequence[str]) -> str:
    """The title, with what else is known of the federation if another has the same."""
    plan = result.data.get("plan") or {}
    if titles.count(title) < 2 or not isinstance(plan, dict):
        return title
    overlap = plan.get("overlap")
    return f"{title}, hub {plan.get('hub', result.hub)}" + (f", overlap {overlap:g}" if overlap else "")


_SHORT = 400  # the words of every step of ours are shorter: what leaves is said whole


def sentences(part: Comparison) -> list[str]:
    """What a newcomer should take away: whether to federate, what to use, what it gains, costs and gives away."""
    chosen = part.chosen
    if chosen is None:
        return ["No federated method was run; add one, such as FedOnce."]
    if part.is_single:
        alone = (_single(chosen), _gain(part, chosen), _how_to_choose(part, chosen))
        return [sentence for sentence in alone if sentence]
    said = (one(part, chosen) for one in (_advice, _gain, _keeping_labels, _rival, _thrift, _private))
    return [sentence for sentence in said if sentence]


def price_of(arm: MethodRuns) -> str:
    """What an arm sends, in words: bytes, rounds, and bytes for each prediction afterwards."""
    later = arm.bytes_a_prediction
    after = f", then {in_bytes(round(later))} per prediction" if later else ""
    return f"{in_bytes(arm.bytes)} in {in_rounds(arm.fit.rounds)}{after}"


def role_of(part: Comparison, arm: MethodRuns) -> str:
    """What a method is in a comparison, in a few words; empty for one that is not chosen."""
    if arm is not part.chosen:
        return ""
    if arm is not part.recommended:
        return "the only one" if part.is_single else "not worth it here"
    return "best trade, but gives labels away" if arm.label_leaks else "use this"


def leak_of(arm: MethodRuns) -> str:
    """What leaves while fitting, and to whom, in one clause: what holds most bytes stands for the rest."""
    given = [same for same in arm.given if same[0].phase != "align"]
    if not given:
        return "nothing made from rows leaves"
    most = max(given, key=lambda same: sum(one.bytes for one in same))
    givers = " and ".join(dict.fromkeys(one.party for one in most))
    guard = most[0].label if most[0].noise is None else f"under {most[0].noise.mechanism} noise"
    more = f" (and {len(given) - 1} more, below)" if len(given) > 1 else ""
    said = shorten(most[0].words, _SHORT, placeholder=" ...")
    return f"{_receivers(arm, most[0])} gets from {givers}, {guard}: {said}{more}"


def _receivers(arm: MethodRuns, release: Release) -> str:
    if release.to == "hub":
        return arm.first.hub
    others = [name for name in arm.first.parties if name != release.party] if release.to == "peers" else [release.to]
    return " and ".join(others) or "nobody"


def _single(arm: MethodRuns) -> str:
    labels = f" and gives labels away to {_receivers(arm, arm.label_leaks[0])}" if arm.label_leaks else ""
    return f"A single run recommends nothing: {arm.label} has {arm.scored} for {price_of(arm)}{labels}; {leak_of(arm)}."


def _how_to_choose(part: Comparison, chosen: MethodRuns) -> str:
    if len(part.arms) == 1:
        return f"For a choice, set it beside others: laconic compare {chosen.kind} ..."
    return f"For a choice, repeat it with --seeds 3, or set other methods beside {chosen.label}."


def _advice(part: Comparison, chosen: MethodRuns) -> str:
    """Whether to federate at all and, if so, by which method, at what price, and who sees what."""
    alone = part.alone
    if part.recommended is None and alone is not None:
        nearest = best_of(part.federated) or chosen
        found = difference(nearest, alone)
        return (
            f"On this evidence a federation is not worth it: no method beats {part.holder} alone ({alone.scored}) by "
            f"more than its standard error; the best, {nearest.label}, {_gained(nearest, found.value)} "
            f"({found.in_words}), for {price_of(nearest)}."
        )
    least = ", the least of all that score as well as the best" if len(part.federated) > 1 else ""
    if chosen.label_leaks:
        seen = _receivers(chosen, chosen.label_leaks[0])
        kept = ", and no method here that keeps labels scores as well" if len(part.federated) > 1 else ""
        return (
            f"{chosen.label} gives labels away to {seen}{kept}: use it only if they may know the labels; "
            f"{chosen.scored} for {price_of(chosen)}."
        )
    keeps = "; labels stay where they are" if any(arm.label_leaks for arm in part.federated) else ""
    return f"Use {chosen.label}: {chosen.scored} for {price_of(chosen)}{least}{keeps}; {leak_of(chosen)}."


def _gained(arm: MethodRuns, value: float) -> str:
    name = metric_name(arm.metric)
    if arm.sign < 0:
        return f"{'lowers' if value >= 0 else 'raises'} {name} by {figure(abs(value))}"
    return f"{'adds' if value >= 0 else 'loses'} {figure(abs(value))} {name}"


def _gain(part: Comparison, chosen: MethodRuns) -> str:
    """What the chosen method adds to being alone, how sure that is, and how far it goes towards pooling."""
    alone, pooled, gap = part.alone, part.pooled, part.gap
    said = []
    if alone is not None and (part.is_single or part.recommended is not None):
        found = difference(chosen, alone)
        said.append(
            f"alone, {part.holder} has {alone.scored}; {chosen.label} {_gained(chosen, found.value)} ({found.in_words})"
        )
    elif alone is None and len(part.arms) > 1:
        said.append(f"whether a federation is worth it was not measured: {part.holder} alone was not run")
    if pooled is not None:
        share = ""
        if alone is not None and gap is not None and gap > part.leeway(alone, pooled):
            reached = (chosen.goodness - alone.goodness) / gap
            how_far = "all the way" if reached >= 1 else f"{100 * reached:.0f} % of the way"
            share = f", and {chosen.label} goes {how_far}" if reached > 0 else ""
        pool = f"with all {part.what_is_pooled} pooled it would be {mean_spread(pooled.score, pooled.spread)}"
        said.append(pool + share)
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if said else ""


def _keeping_labels(part: Comparison, chosen: MethodRuns) -> str:
    """Where the chosen method gives labels away: the best that does not."""
    if part.recommended is None or not chosen.label_leaks:
        return ""
    best = _best_with_labels_kept(part)
    if best is None:
        return "No method here that keeps labels is better than being alone." if part.alone is not None else ""
    return f"With labels kept, {best.label} has {best.scored} for {price_of(best)}; {leak_of(best)}."


def _best_with_labels_kept(part: Comparison) -> MethodRuns | None:
    return best_of(arm for arm in part.federated if not arm.label_leaks and part.beats_alone(arm))


def _rival(part: Comparison, chosen: MethodRuns) -> str:
    """The best of the others that sends more, and how much more."""
    rival = best_of(arm for arm in part.federated if arm is not chosen and arm.bytes > chosen.bytes > 0)
    if rival is None:
        return ""
    times = rival.bytes / chosen.bytes
    more = f"{times:,.0f} times" if times >= 10 else f"{times:.1f} times"
    leaks = ", and gives labels away" if rival.label_leaks else ""
    return f"{rival.label} has {rival.scored} for {more} the bytes, in {in_rounds(rival.fit.rounds)}{leaks}."


def _thrift(part: Comparison, chosen: MethodRuns) -> str:
    """The best of those that send less, if it is still better than being alone."""
    best = best_of(arm for arm in part.federated if arm.bytes < chosen.bytes and part.beats_alone(arm))
    if best is None or (chosen.label_leaks and best is _best_with_labels_kept(part)):  # already named
        return ""
    leaks = ", and gives labels away" if best.label_leaks else ""
    price = f"{in_bytes(best.bytes)} in {in_rounds(best.fit.rounds)}"
    return f"For fewer bytes, {best.label} has {best.scored}: {price}{leaks}."


def _private(part: Comparison, chosen: MethodRuns) -> str:
    """The best of those with a proven epsilon, where the one to use has none."""
    best = best_of(arm for arm in part.arms if arm.has_price)
    if chosen.has_price or best is None:
        return ""
    left = len(best.first.privacy.open) if best.first.privacy is not None else 0
    rest = f", beside {left} open release{'' if left == 1 else 's'} that it does not cover" if left else ""
    return f"With a privacy price, {best.label} has {best.scored}{rest}."

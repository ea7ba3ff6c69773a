"""`compare`: methods side by side on the same rows, from Python."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from laconic.atomic_files import write_whole
from laconic.audit.leakage import measure_leakage
from laconic.core.method import Method
from laconic.data.federation import Federation
from laconic.deploy.execute import can_weigh, train, with_price
from laconic.deploy.party_importance import importance
from laconic.deploy.result import Result
from laconic.deploy.transports.inprocess import Recorder
from laconic.deploy.tuning import YARDSTICKS
from laconic.errors import PlanError
from laconic.methods.registry import find_method
from laconic.plan.plan import Budget, Plan
from laconic.report.comparisons import Comparison, MethodRuns, comparisons_of, sentences, settings_key
from laconic.report.page.view import render_page
from laconic.report.plots import plot_bytes
from laconic.report.reproduce import commands_for
from laconic.report.words import epsilon_in_words, figure, in_bytes, in_rounds, mean_spread, metric_name
from laconic.shown import counted, html_table
from laconic.threads import limit_threads
from laconic.values import Listener

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True)
class Compared:
    """Methods side by side, scored on the same held-out rows.

    Attributes:
        results: the record of every run, those of the first seed first.
        methods: the settings that were compared, by the label of their line.
    """

    results: tuple[Result, ...]
    methods: dict[str, Method]

    @property
    def comparison(self) -> Comparison:
        """The runs, put together by method."""
        return comparisons_of(self.results)[0]

    @property
    def best(self) -> Method:
        """The method with the best score of those to choose from: yardsticks that pool or share nothing are not."""
        best = self.comparison.best
        if best is None:
            raise ValueError("only yardsticks were compared, of which none is a method to choose; add one")
        return self.methods[best.label]

    @property
    def verdict(self) -> str:
        """What to take away: whether to federate, by which method, and what that costs and gives away."""
        return " ".join(sentences(self.comparison))

    def to_frame(self) -> "DataFrame":
        """A line per method: its score and spread over seeds, what fitting cost, and what it releases."""
        from pandas import DataFrame

        return DataFrame([_line(arm) for arm in self.comparison.arms])

    def plot(self) -> "Figure":
        """Score against bytes sent."""
        return plot_bytes(self.results)

    def report(self, path: Path | str, title: str | None = None) -> Path:
        """Write one HTML page that opens offline; returns where it is."""
        write_whole(Path(path), render_page(self.results, commands_for(self.results), title).encode())
        return Path(path)

    def __repr__(self) -> str:
        arms = self.comparison.arms
        scores = ", ".join(f"{arm.label} {figure(arm.score)}" for arm in arms[:4])
        more = f" and {len(arms) - 4} more" if len(arms) > 4 else ""
        return f"<Compared {counted(len(arms), 'method')}, {metric_name(arms[0].metric)}: {scores}{more}>"

    def _repr_html_(self) -> str:
        arms = self.comparison.arms
        headings = ("method", metric_name(arms[0].metric), "bytes", "rounds", "epsilon")
        lines = [
            (
                arm.label,
                mean_spread(arm.score, arm.spread),
                in_bytes(arm.bytes),
                in_rounds(arm.fit.rounds),
                epsilon_in_words(arm.first),
            )
            for arm in arms
        ]
        return html_table(self.comparison.title, headings, lines, self.verdict)


@limit_threads()
def compare(
    methods: Sequence[Method | str],
    federation: Federation,
    *,
    seeds: int = 1,
    first_seed: int = 0,
    yardsticks: bool = True,
    leakage: bool = False,
    listener: Listener | None = None,
) -> Compared:
    """Fit several methods to a federation, with the same rows held out for all, and put them side by side.

    Choosing by this table looks at held-out rows: score the one you take on rows that it has not seen.

    Args:
        methods: settings, or names for the settings they come with.
        federation: what `laconic.federation` or `laconic.deal` gives.
        seeds: runs of each method; with one, nothing shows the spread.
        first_seed: of these runs.
        yardsticks: whether to add the hub alone and everything pooled, between which a federation lies.
        leakage: whether to measure how well columns can be rebuilt from what leaves in the open; vertical methods only.
        listener: called with progress.

    Example:
        >>> import laconic
        >>> fed = laconic.deal(laconic.load("breast_cancer"), laconic.Equal(parties=3))
        >>> laconic.compare(["Linear"], fed, yardsticks=False).best
        Linear()
    """
    chosen = [_settings(one) for one in _listed(methods)]
    if not isinstance(federation, Federation):
        raise TypeError(f"give a federation to compare on, such as laconic.federation(...), not {federation!r:.60}")
    if yardsticks:
        there = {type(one) for one in chosen}
        alone, pooled = ([] if kind in there else [kind()] for kind in YARDSTICKS[federation.kind])
        chosen = [*alone, *chosen, *pooled]
    runs = [(seed, one) for seed in range(first_seed, first_seed + seeds) for one in chosen]
    results = []
    for done, (seed, one) in enumerate(runs):
        if listener is not None:
            listener("runs", done, len(runs))
        recorder = Recorder() if leakage and federation.kind == "vertical" else None
        fitted = train(one, federation, seed=seed, runtime=recorder, listener=listener)
        found = with_price(fitted.result, one.kind, Budget())
        if seed == first_seed and can_weigh(fitted):
            found = msgspec.structs.replace(found, importance=msgspec.to_builtins(importance(fitted, seed=seed)))
        if recorder is not None:
            found = msgspec.structs.replace(found, leakage=measure_leakage(fitted, recorder))
        results.append(found)
    by_settings = {json.dumps(msgspec.to_builtins(one), sort_keys=True): one for one in chosen}
    named = {arm.label: by_settings[settings_key(arm.first)] for arm in comparisons_of(results)[0].arms}
    return Compared(tuple(results), named)


def _line(arm: MethodRuns) -> dict[str, object]:
    return {
        "method": arm.label,
        arm.metric: arm.score,
        "spread": arm.spread,
        "bytes": arm.bytes,
        "rounds": arm.fit.rounds,
        "seconds": arm.fit.seconds,
        "epsilon": None if arm.first.privacy is None else arm.first.privacy.epsilon,
        "open releases": sum(one.noise is None for one in arm.first.releases),
    }


def _listed(methods: Sequence[Method | str]) -> list[Method | str]:
    if isinstance(methods, str | Method):
        return [methods]
    found = list(methods)
    if found and isinstance(found[0], Plan):
        raise TypeError("compare takes methods and a federation; for plans: laconic.deploy.compare_plans(plans, ...)")
    if not found:
        raise PlanError("there is no method to compare; name some, such as ['FedOnce', 'SplitNN']")
    return found


def _settings(method: Method | str) -> Method:
    return find_method(method)() if isinstance(method, str) else method

"""The verdict on a comparison, in words: whether to federate, which method to use, its price, and who sees what.

A single run recommends nothing. A method that gives labels away is recommended only in a sentence that names this.
"""

from textwrap import shorten

from laconic.deploy.result import Release
from laconic.report.comparisons import Comparison, MethodRuns, best_of, difference
from laconic.report.words import figure, in_bytes, in_rounds, mean_spread, metric_name

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
    best = best_of(arm for arm in part.federated if not arm.label_leaks and part.beats_alone(arm))
    if best is None:
        return "No method here that keeps labels is better than being alone." if part.alone is not None else ""
    return f"With labels kept, {best.label} has {best.scored} for {price_of(best)}; {leak_of(best)}."


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
    if best is None:
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

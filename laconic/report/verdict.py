"""Which method to use and what it costs, in a few sentences that say how they were arrived at."""

from laconic.report.arms import Arm
from laconic.report.parts import Part
from laconic.report.words import in_bytes, in_rounds, mean_spread, scored


def verdict(part: Part) -> str:
    """What a newcomer should take away from the runs on one federation, as one text."""
    return " ".join(sentences(part))


def sentences(part: Part) -> list[str]:
    """What a newcomer should take away: what to use, what it gains, and what more bytes would buy."""
    chosen = part.chosen
    if chosen is None:
        return ["No federated method was run; add one, such as FedOnce."]
    return [
        _advice(part, chosen),
        *_gain(part, chosen),
        *_rival(part, chosen),
        *_thrift(part, chosen),
        *_private(part, chosen),
    ]


def price_of(arm: Arm) -> str:
    """What an arm sends, in words: bytes, rounds, and bytes for each prediction afterwards."""
    later = arm.bytes_a_prediction
    after = f", then {in_bytes(round(later))} a prediction" if later else ""
    return f"{in_bytes(arm.bytes)} in {in_rounds(arm.rounds)}{after}"


def beats_alone(part: Part, arm: Arm) -> bool:
    """Whether an arm is clearly better than a party alone; true where that was not run."""
    alone = part.alone
    return alone is None or not part.as_good(alone, arm)


def _advice(part: Part, chosen: Arm) -> str:
    score = scored(chosen.metric, chosen.score, chosen.spread)
    if not beats_alone(part, chosen):
        return (
            f"No method here is clearly better than {part.holder} alone; the cheapest of the best is {chosen.label}: "
            f"{score} for {price_of(chosen)}."
        )
    others = [arm for arm in part.arms if arm.is_federated and arm is not chosen]
    why = "" if not others else ", the least of all that score as well as the best"
    return f"Use {chosen.label}: {score} for {price_of(chosen)}{why}."


def _gain(part: Part, chosen: Arm) -> list[str]:
    alone, pooled, gap = part.alone, part.pooled, part.gap
    said = []
    if alone is not None:
        said.append(f"alone, {part.holder} has {scored(alone.metric, alone.score, alone.spread)}")
    if pooled is not None:
        said.append(f"with all {part.what_is_pooled} pooled it would be {mean_spread(pooled.score, pooled.spread)}")
    if not said:
        return []
    share = ""
    if alone is not None and pooled is not None and gap is not None and gap > part.leeway(alone, pooled):
        reached = chosen.sign * (chosen.score - alone.score) / gap
        share = _share(reached, chosen)
    text = "; ".join(said)
    return [f"{text[0].upper()}{text[1:]}{share}."]


def _share(reached: float, chosen: Arm) -> str:
    if reached >= 1:
        return f": {chosen.label} goes all the way"
    return f": {chosen.label} goes {100 * reached:.0f} % of the way" if reached > 0 else ""


def _thrift(part: Part, chosen: Arm) -> list[str]:
    """The best of those that send less, if it is still clearly better than being alone."""
    cheaper = [arm for arm in part.arms if arm.is_federated and arm.bytes < chosen.bytes and beats_alone(part, arm)]
    if not cheaper:
        return []
    best = max(cheaper, key=lambda arm: arm.sign * arm.score)
    score = scored(best.metric, best.score, best.spread)
    return [f"For fewer bytes, {best.label} has {score}: {in_bytes(best.bytes)} in {in_rounds(best.rounds)}."]


def _private(part: Part, chosen: Arm) -> list[str]:
    """The best of those with a proven epsilon, where the one to use has none."""
    if chosen.has_price:
        return []
    best = max((arm for arm in part.arms if arm.has_price), key=lambda arm: arm.sign * arm.score, default=None)
    if best is None:
        return []
    left = len(best.first.privacy.open) if best.first.privacy is not None else 0
    rest = f", beside {left} open release{'' if left == 1 else 's'} that it does not cover" if left else ""
    return [f"With a privacy price, {best.label} has {scored(best.metric, best.score, best.spread)}{rest}."]


def _rival(part: Part, chosen: Arm) -> list[str]:
    """The best of the others that sends more, and how much more."""
    rivals = [arm for arm in part.arms if arm.is_federated and arm is not chosen and arm.bytes > chosen.bytes > 0]
    if not rivals:
        return []
    rival = max(rivals, key=lambda arm: arm.sign * arm.score)
    times = rival.bytes / chosen.bytes
    more = f"{times:,.0f} times" if times >= 10 else f"{times:.1f} times"
    return [
        f"{rival.label} has {scored(rival.metric, rival.score, rival.spread)} for {more} the bytes, "
        f"in {in_rounds(rival.rounds)}."
    ]

"""Checks of parties' models before they are averaged: each must change the average in about the others' direction.

A server without rows has nothing to judge a model by but the other models. All start from the same weights, so that
parties whose rows are of the same kind change them in similar directions: the cosine between two changes is well above
zero. A model of wrong labels, noise or weights in another order changes them in another direction. Nothing is asked for
the check, and nothing is drawn from the run's randomness: found in the first exchange, a party is as if it had not been
there. Single models have to be seen for it, as for Krum: under secure sums, of which the server sees nothing but the
sum, the check is refused.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.result import Contribution
from laconic.values import Array, Settings, Weights, check_above_zero

_TELLING = 0.2
"""If the other models agree less than this with each other, nobody can be called different."""
_FEWEST = 3
"""With two models, nobody knows which of them is the odd one."""


class ModelCheck(Settings, frozen=True):
    """What the server looks for in parties' models; the result says what it found.

    Sizes are compared in every exchange. Directions are compared in the first one alone: later, models have learnt what
    parties share, and their changes show how they differ. It suits parties whose rows are of the same kind. Where they
    have other shares of the classes, changes differ so much that nobody can be called different, or that an honest
    party with hardly any rows of a class is.

    Attributes:
        leave_out: go on without a party that has a problem. Otherwise it counts, and the result names it.
        agreement: a problem if a model's change agrees with the others' less than this share of how well those agree
            with each other; agreement is the median cosine.
        scale: a problem if a model's change is so many times as large as the usual other one.
    """

    leave_out: bool = False
    agreement: float = 0.15
    scale: float = 20.0

    def __post_init__(self) -> None:
        """Refuse limits that nobody or everybody would pass."""
        check_above_zero(scale=self.scale)
        check_above_zero(1.0, agreement=self.agreement)

    def trusted(self, hub: Party, peers: Peers) -> Peers:
        """The peers that have not been left out."""
        gone = {one["party"] for one in hub.memory.get("contributions", ()) if one["left_out"]}
        return peers.only(tuple(name for name in peers.names if name not in gone))

    def sift(self, hub: Party, models: Mapping[str, Weights]) -> dict[str, Weights]:
        """The models that count, of those that were made of `hub.memory["model"]`.

        What was found, in this exchange or an earlier one, is in `hub.memory["contributions"]`.
        """
        changes = {name: _change(hub.memory["model"], model) for name, model in models.items()}
        first = "contributions" not in hub.memory
        before = {one["party"]: one for one in hub.memory.get("contributions", ())}
        suspects: list[str] = []
        while (worst := self._worst(changes, suspects, first)) is not None:
            suspects.append(worst)
        for name in models:
            if not before.get(name, {}).get("problems"):
                found = self._judge(name, changes, [one for one in suspects if one != name], name in suspects)
                before[name] = msgspec.to_builtins(found)
        hub.memory["contributions"] = list(before.values())
        return {name: model for name, model in models.items() if not before[name]["left_out"]}

    def _worst(self, changes: Mapping[str, Array], suspects: list[str], first: bool) -> str | None:
        """Who differs most from the others, if that is a problem; as long as most parties have none."""
        if 2 * (len(suspects) + 1) >= len(changes):
            return None
        left = [name for name in changes if name not in suspects]
        odd = {name: gap for name in left if (gap := self._gap(name, changes, suspects, first)) is not None}
        return max(odd, key=lambda name: odd[name]) if odd else None

    def _gap(self, name: str, changes: Mapping[str, Array], suspects: list[str], first: bool) -> float | None:
        """By how much a party is worse than it may be; None if it is not."""
        facts = _Facts.of(name, {one: changes[one] for one in changes if one not in suspects})
        if facts.scale is not None and facts.scale > self.scale:
            return facts.scale
        if not first or facts.own is None or facts.usual is None or facts.usual < _TELLING:
            return None
        return facts.usual - facts.own if facts.own < self.agreement * facts.usual else None

    def _judge(self, name: str, changes: Mapping[str, Array], others_odd: list[str], odd: bool) -> Contribution:
        facts = _Facts.of(name, {one: changes[one] for one in changes if one not in others_odd})
        problems = []
        if odd and facts.scale is not None and facts.scale > self.scale:
            problems.append(f"a model that changed {facts.scale:,.0f} times as much as the usual other one")
        elif odd:
            problems.append(
                f"a model that changed in another direction than the others': agreement {facts.own:.2f}, theirs "
                f"{facts.usual:.2f}"
            )
        return Contribution(
            party=name,
            columns=len(changes[name]),
            constant=int((changes[name] == 0).sum()),
            rank=0,
            scale=facts.scale,
            p_value=None,
            worth=None,
            agreement=facts.own,
            problems=tuple(problems),
            left_out=bool(problems) and self.leave_out,
        )


class _Facts(msgspec.Struct):
    """One party's change beside the others': its size, its agreement with them, and theirs with each other."""

    scale: float | None
    own: float | None
    usual: float | None

    @classmethod
    def of(cls, name: str, changes: Mapping[str, Array]) -> "_Facts":
        """Compare one with all others; who has no rows changed nothing, and says nothing."""
        sizes = {one: float(np.linalg.norm(change)) for one, change in changes.items()}
        others = [one for one in changes if one != name and sizes[one] > 0]
        scale = sizes[name] / float(np.median([sizes[one] for one in others])) if others else None
        if len(others) + 1 < _FEWEST or not sizes[name]:
            return cls(scale, None, None)
        units = np.stack([changes[one] / sizes[one] for one in (name, *others)])
        cosines = units @ units.T
        pairs = cosines[1:, 1:][np.triu_indices(len(others), 1)]
        return cls(scale, float(np.median(cosines[0, 1:])), float(np.median(pairs)))


def _change(start: Weights, model: Weights) -> Array:
    """All weights of a model, less those that it started from."""
    return np.concatenate([model[name].astype(np.float64).ravel() - start[name].ravel() for name in start])

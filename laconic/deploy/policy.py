"""What a party allows to leave it: the `[allow]` table of `party.toml`, and the gate that holds every answer to it.

Nothing here needs a network: `Gatekeeper` is a gate for `PartyFolder.answer`, and holds for answers given online and
for answers sealed in envelopes alike.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

from laconic.core.capabilities import Budgeted
from laconic.core.ledger import Entry, Noise
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import Script, steps_of
from laconic.core.wire import Limits, decode, read_heading
from laconic.deploy.epsilon_account import EpsilonAccount, Limit
from laconic.errors import PlanError, Refused
from laconic.plan.keys import to_settings
from laconic.values import Settings

_WHERE = "[allow] in its party.toml"


class Policy(Settings, frozen=True, tag=False):
    """What a party lets leave; whatever is not named here is refused.

    Attributes:
        methods: the methods it takes part in, and the ways of matching rows, such as FedOnce and PrivateMatch.
        steps: the steps it answers; none for all steps of those methods. `laconic methods` lists them.
        max_rows: the most rows that one answer may be about; none for no limit.
        max_bytes: the most bytes that all its answers in one run may have; none for no limit.
        min_noise: the least noise on every answer, in units of how far one row can move it; none for no such rule.
        max_epsilon: the most privacy loss of anyone's row by all runs together, ever; none for no such rule.
        delta: the chance, for each person, that the loss is greater than max_epsilon.
        open: steps whose answers may hold what bears no noise although min_noise or max_epsilon is set, such as those
            that match rows; what they give away is not part of epsilon.
        seeded: let noise from the run's seed count, which whoever knows the seed can take off; for trials only.
    """

    methods: tuple[str, ...] = ()
    steps: tuple[str, ...] | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    min_noise: float | None = None
    max_epsilon: float | None = None
    delta: float = 1e-5
    open: tuple[str, ...] = ()
    seeded: bool = False

    def __post_init__(self) -> None:
        """Refuse limits that mean nothing."""
        for name, limit in {"max_rows": self.max_rows, "max_bytes": self.max_bytes}.items():
            if limit is not None and limit < 0:
                raise ValueError(f"{name} must be 0 or more, not {limit}")
        for name, bound in {"min_noise": self.min_noise, "max_epsilon": self.max_epsilon}.items():
            if bound is not None and not 0 < bound < inf:
                raise ValueError(f"{name} must be above 0, not {bound}; leave it out for no such rule")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is a chance above 0 and below 1, not {self.delta}")

    @property
    def wants_noise(self) -> bool:
        """Whether answers must bear noise, but for those of the steps named open."""
        return self.min_noise is not None or self.max_epsilon is not None


def read_policy(plain: Mapping[str, Any], path: str = "party.toml") -> Policy:
    """The allowances in an `[allow]` table.

    Raises:
        PlanError: a key or value does not fit; names file and key.
    """
    try:
        return to_settings(dict(plain), Policy)
    except PlanError as problem:
        raise PlanError(f"{path}, [allow]: {problem}") from problem


def check_method(allowed: Policy, party: str, script: Script) -> None:
    """Refuse a method, or a way of matching rows, that is not allowed."""
    name = type(script).__name__
    if name not in allowed.methods:
        listed = ", ".join(allowed.methods) or "none"
        raise Refused(f"{party} does not allow {name}; the methods that {_WHERE} lists: {listed}")


def check_question(allowed: Policy, party: str, script: Script, step: str) -> None:
    """Refuse a question whose method or step is not allowed."""
    check_method(allowed, party, script)
    name = type(script).__name__
    if allowed.steps is not None and step not in allowed.steps:
        raise Refused(f"{party} does not allow the step `{step}` of {name}; {_WHERE} lists {', '.join(allowed.steps)}")


def check_answer(allowed: Policy, party: Party, step: str, reply: bytes) -> None:
    """Refuse an answer that holds too much, or too little noise; `party.ledger` has it already."""
    rows = _rows(decode(reply, _ANY)) if allowed.max_rows is not None else 0
    if allowed.max_rows is not None and rows > allowed.max_rows:
        raise Refused(
            f"{party.name} does not allow the answer to `{step}`: it is about {rows:,} rows, and {_WHERE} says "
            f"max_rows = {allowed.max_rows:,}"
        )
    spent = sum(entry.bytes for entry in party.ledger.entries)
    if allowed.max_bytes is not None and spent > allowed.max_bytes:
        raise Refused(
            f"{party.name} does not allow the answer to `{step}`: with it {spent:,} bytes would have left in this run, "
            f"and {_WHERE} says max_bytes = {allowed.max_bytes:,}"
        )
    if allowed.wants_noise:
        for entry in party.ledger.entries:
            if entry.step == step and (entry.noise is not None or step not in allowed.open):
                _check_noise(allowed, party.name, entry)


class Gatekeeper:
    """A party's rules in one run: the gate that every question and every answer goes through.

    Args:
        allowed: the rules.
        spending: what the party has spent in all its runs.
        run: the name of this run.
        hub: the party that asks. guests: all others; both as the plan's method knows them.
    """

    def __init__(self, allowed: Policy, spending: EpsilonAccount, run: str, hub: str, guests: tuple[str, ...]) -> None:
        self.allowed, self.spending, self.run = allowed, spending, run
        self._hub, self._guests = hub, guests

    def begin(self, script: Script, party: Party) -> None:
        """Refuse a run before it starts if its noise, which is known beforehand, would pass the limit."""
        check_method(self.allowed, party.name, script)
        if self.allowed.max_epsilon is None or not isinstance(script, Method):
            return
        if not isinstance(script, Budgeted):
            if any(step not in self.allowed.open for step in _giving(script)):
                raise Refused(
                    f"{party.name} cannot tell beforehand what {type(script).__name__} costs, and {_WHERE} says "
                    f"max_epsilon = {self.allowed.max_epsilon:g}; FedOnce can tell"
                )
            return
        rows = len(party.data.cut("train"))
        noises = script.expected_noise(rows, self._hub, self._guests).get(party.name, ())
        self.spending.reserve(self.run, noises, self._limit(party.name))

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Refuse a question before anything is done for it."""
        check_question(self.allowed, party.name, script, read_heading(blob).step)
        if isinstance(script, Method) and not self.spending.has(self.run):
            self.begin(script, party)

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Refuse an answer before it leaves, and write down what it spends before it does."""
        check_answer(self.allowed, party, read_heading(blob).step, reply)
        self.spending.write(
            self.run, party.ledger, None if self.allowed.max_epsilon is None else self._limit(party.name)
        )

    def _limit(self, party: str) -> Limit:
        def refuse(total: float) -> None:
            most = self.allowed.max_epsilon
            if most is not None and total > most:
                figure = "without a bound" if total == inf else f"{total:.4g}"
                raise Refused(
                    f"{party} does not allow this: with it the epsilon of all its runs would be {figure} at delta "
                    f"{self.allowed.delta:g}, and {_WHERE} says max_epsilon = {most:g}"
                )

        return Limit(self.allowed.delta, refuse)


_ANY = Limits(bytes=2**40)


def _giving(script: Script) -> list[str]:
    return [name for name, words in steps_of(script).items() if words.gives is not None]


def _rows(value: Any) -> int:
    """The length of the longest list or first side of an array anywhere in a value."""
    if isinstance(value, dict):
        return max((_rows(inner) for inner in value.values()), default=0)
    if isinstance(value, list):
        return max(len(value), *(_rows(inner) for inner in value), 0)
    shape = getattr(value, "shape", ())
    return int(shape[0]) if shape else 0


def _check_noise(allowed: Policy, party: str, entry: Entry) -> None:
    fault = _fault(allowed, entry.noise)
    if fault:
        rule = "max_epsilon" if allowed.min_noise is None else f"min_noise = {allowed.min_noise:g}"
        raise Refused(
            f"{party} does not allow the answer to `{entry.step}`: {fault}, and {_WHERE} says {rule}; name the step in "
            "open there if it may leave all the same"
        )


def _fault(allowed: Policy, noise: Noise | None) -> str:
    """What is wrong with a noise by these rules; nothing if it will do."""
    if noise is None:
        return "it bears no noise"
    if noise.multiplier is None or not noise.proven:
        return "its noise has no proven price"
    if not noise.secure and not allowed.seeded:
        return "its noise comes from the run's seed, which others know (seeded = true allows it, for trials)"
    if allowed.min_noise is not None and noise.multiplier < allowed.min_noise:
        return f"its noise is {noise.multiplier:.4g}"
    return ""

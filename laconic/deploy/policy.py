"""What a party allows to leave it: the `[allow]` table of `party.toml`, and what holds every answer to it.

Nothing here needs a network: a `Gatekeeper` is handed to `respond`, through which answers leave online and by envelope.
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
ANSWER = Limits(bytes=2**40)
"""The most that an answer may hold; longer ones cross in parts."""


class Policy(Settings, frozen=True, tag=False):
    """What a party lets leave; whatever is not named here is refused.

    Attributes:
        methods: the methods it takes part in, and the ways of matching rows, such as FedOnce and PrivateMatch.
        steps: the steps it answers; none for all steps of those methods. `laconic methods` lists them.
        max_rows: the most rows that one answer may be about; none for no limit.
        max_bytes: the most bytes that all its answers in one run may have; none for no limit.
        min_noise: the least noise on every answer, in units of how far one row can move it; none for no such rule.
        max_epsilon: the most privacy loss of anyone's row by all runs together, ever; none for no such rule.
        delta: the probability, for each person, that the loss is greater than max_epsilon.
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
            raise ValueError(f"delta is a probability above 0 and below 1, not {self.delta}")

    @property
    def wants_noise(self) -> bool:
        """Whether answers must bear noise, but for those of the steps named open."""
        return self.min_noise is not None or self.max_epsilon is not None


def read_policy(plain: Mapping[str, Any], path: str = "party.toml") -> Policy:
    """The rules in an `[allow]` table."""
    try:
        return to_settings(dict(plain), Policy)
    except PlanError as problem:
        raise PlanError(f"{path}, [allow]: {problem}") from problem


class Gatekeeper:
    """A party's rules in one run, to which every question and every answer is held.

    Args:
        allowed: the rules.
        account: what the party has spent in all its runs.
        run: the name of this run.
        hub: the party that asks. guests: all others; both as the plan's method knows them.
    """

    def __init__(self, allowed: Policy, account: EpsilonAccount, run: str, hub: str, guests: tuple[str, ...]) -> None:
        self._allowed, self._account, self._run = allowed, account, run
        self._hub, self._guests = hub, guests

    def allow_run(self, party: str, *scripts: Script) -> None:
        """Refuse a run before a row is read for it, unless all its scripts are allowed."""
        for script in scripts:
            self._check_method(party, script)

    def begin(self, script: Script, party: Party) -> None:
        """Refuse a run before it starts if its noise, which is known beforehand, would pass the limit."""
        self._check_method(party.name, script)
        limit = self._limit(party.name)
        if limit is None or not isinstance(script, Method):
            return
        if isinstance(script, Budgeted):
            rows = len(party.data.cut("train"))
            self._account.reserve(
                self._run, script.expected_noise(rows, self._hub, self._guests).get(party.name, ()), limit
            )
        elif any(
            words.gives is not None and step not in self._allowed.open for step, words in steps_of(script).items()
        ):
            raise Refused(
                f"{party.name} cannot tell beforehand what {type(script).__name__} costs, and {_WHERE} says "
                f"max_epsilon = {limit.epsilon:g}; FedOnce can tell"
            )

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Refuse a question before anything is done for it."""
        self._check_method(party.name, script)
        step, steps = read_heading(blob).step, self._allowed.steps
        if steps is not None and step not in steps:
            name = type(script).__name__
            raise Refused(f"{party.name} does not allow the step `{step}` of {name}; {_WHERE} lists {', '.join(steps)}")
        if isinstance(script, Method) and not self._account.has(self._run):
            self.begin(script, party)

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Refuse an answer before it leaves, and write down what it spends before it does."""
        step = read_heading(blob).step
        self._check_size(party, step, reply)
        if self._allowed.wants_noise:
            for entry in party.ledger.entries:
                if entry.step == step and (entry.noise is not None or step not in self._allowed.open):
                    _check_noise(self._allowed, party.name, entry)
        self._account.write(self._run, party.ledger, self._limit(party.name))

    def _check_method(self, party: str, script: Script) -> None:
        name = type(script).__name__
        if name not in self._allowed.methods:
            listed = ", ".join(self._allowed.methods) or "none"
            raise Refused(f"{party} does not allow {name}; the methods that {_WHERE} lists: {listed}")

    def _check_size(self, party: Party, step: str, reply: bytes) -> None:
        most, refused = self._allowed, f"{party.name} does not allow the answer to `{step}`"
        if most.max_rows is not None and (rows := _rows(decode(reply, ANSWER))) > most.max_rows:
            words = f"{refused}: it is about too many rows, as {_WHERE} says max_rows = {most.max_rows:,}"
            raise Refused(words, f"; it is about {rows:,} rows")
        spent = sum(entry.bytes for entry in party.ledger.entries)
        if most.max_bytes is not None and spent > most.max_bytes:
            words = f"{refused}: too many bytes would have left in this run, as {_WHERE} says "
            raise Refused(f"{words}max_bytes = {most.max_bytes:,}", f"; with it they are {spent:,}")

    def _limit(self, party: str) -> Limit | None:
        most = self._allowed.max_epsilon
        return None if most is None else Limit(party, most, self._allowed.delta)


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

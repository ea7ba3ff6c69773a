"""What a party allows to leave it: the `[allow]` table of `party.toml`, and what holds every answer to it.

Nothing here needs a network: a `Gatekeeper` is handed to `respond`, through which answers leave online and by envelope.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

from laconic.align.alignment import Align, is_matched
from laconic.core.capabilities import Budgeted
from laconic.core.ledger import Entry, Noise
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import Script, steps_of
from laconic.core.wire import Limits, decode, decode_question, read_heading
from laconic.deploy.party_account import Limit, MatchLimit, PartyAccount, mark_of
from laconic.errors import PlanError, Refused
from laconic.plan.keys import to_settings
from laconic.values import Settings

_WHERE = "[allow] in its party.toml"
ANSWER = Limits(bytes=2**40)
"""The most that an answer may hold; longer ones cross in parts."""
NEW = "new"
"""The cut of rows that came after training, to be predicted."""
ASKED = "asked "
"""How the cuts begin that a served model's clients ask about: these are new rows too."""
SCORED = "test"
"""The cut that a run predicts."""


class Policy(Settings, frozen=True, tag=False):
    """What a party lets leave; whatever is not named here is refused.

    Attributes:
        methods: the methods it takes part in, and the ways of matching rows, such as FedOnce and PrivateMatch.
        steps: the steps it answers; none for all steps of those methods. `laconic methods` lists them.
        rows: the cuts it answers about, of train, valid, test, paired (rows that the hub has too, but not every party),
            own and new; none for all that the plan asks for. Cuts that no plan asks for are never answered about.
        max_rows: the most rows that one answer may be about; none for no limit.
        least_rows: the fewest training rows that it may have in a run: sums, means, votes and models of few rows give
            these away; none for no such rule.
        max_bytes: the most bytes that all its answers in one run may have; none for no limit.
        min_noise: the least noise on every answer, in units of how far one row can move it; none for no such rule.
        max_epsilon: the most privacy loss of anyone's row by all runs together, ever; none for no such rule.
        delta: the probability, for each person, that the loss is greater than max_epsilon.
        open: steps whose answers may hold what bears no noise although min_noise or max_epsilon is set, such as those
            that match rows; what they give away is not part of epsilon.
        seeded: let noise from the run's seed count, which whoever knows the seed can take off; for trials only.
        max_points: the most points that others may bring in one run for private matching, each of which may be a guess;
            none for a hundred times as many as it has rows itself, and 1,000 at least.
        matches_per_day: how often private matching may be begun within a day, by all runs; none for no limit.
        max_matches: how often in all; none for no limit.
    """

    methods: tuple[str, ...] = ()
    steps: tuple[str, ...] | None = None
    rows: tuple[str, ...] | None = None
    max_rows: int | None = None
    least_rows: int | None = None
    max_bytes: int | None = None
    min_noise: float | None = None
    max_epsilon: float | None = None
    delta: float = 1e-5
    open: tuple[str, ...] = ()
    seeded: bool = False
    max_points: int | None = None
    matches_per_day: int | None = 20
    max_matches: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits that mean nothing."""
        for name in ("max_rows", "least_rows", "max_bytes", "max_points", "matches_per_day", "max_matches"):
            limit = getattr(self, name)
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
        account: what the party has spent in all its runs, and how often rows were matched.
        run: what the party calls this run.
        hub: the party that asks. guests: all others; both as the plan's method knows them.
        matched: rows correspond from the start, so that none are to be matched before the method asks.
    """

    def __init__(
        self,
        allowed: Policy,
        account: PartyAccount,
        run: str,
        hub: str,
        guests: tuple[str, ...],
        *,
        matched: bool = True,
    ) -> None:
        self._allowed, self._account, self._run = allowed, account.spent, run
        self._matches, self._matched = account.matches, matched
        self._hub, self._guests = hub, guests
        self._begun, self._before = False, ""

    def allow_run(self, party: str, *scripts: Script) -> None:
        """Refuse a run before a row is read for it, unless all its scripts are allowed."""
        for script in scripts:
            self._check_method(party, script)

    def begin(self, script: Script, party: Party, *, reserve: bool = True) -> None:
        """Refuse a run before it starts if its noise, which is known beforehand, would pass the limit.

        A run that was only greeted for reserves nothing yet: a hub that greets and never asks would use up the limit.
        """
        self._check_method(party.name, script)
        limit = self._limit(party.name)
        # What is asked of a trained model is paid as it leaves: nobody knows beforehand how often that will be.
        if limit is None or not isinstance(script, Method) or "train" not in party.data.cuts:
            return
        if isinstance(script, Budgeted):
            rows = len(party.data.cut("train"))
            noises = script.expected_noise(rows, self._hub, self._guests).get(party.name, ()) + _noise_before(party)
            if reserve:
                self._account.reserve(self._run, noises, limit)
            else:
                limit.refuse(self._account.expected(self._run, noises, limit.delta))
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
        payload = decode_question(blob).payload
        if isinstance(script, Method):
            self._check_rows(script, party, step, payload)
            if not self._begun:
                self.begin(script, party)
                self._begun = True
        elif isinstance(script, Align):
            self._check_guesses(script, party, step, payload)
        self._before = mark_of(party.ledger)

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Refuse an answer before it leaves, and write down what it spends before it does."""
        step = read_heading(blob).step
        self._check_size(party, step, reply)
        if self._allowed.wants_noise:
            for entry in party.ledger.entries:
                if entry.label == "no rows" or entry.step != step:
                    continue
                if entry.noise is not None or step not in self._allowed.open:
                    _check_noise(self._allowed, party.name, entry)
        self._account.write(self._run, party.ledger, self._limit(party.name), self._before)

    def _check_method(self, party: str, script: Script) -> None:
        name = script.allowed_as
        if name not in self._allowed.methods:
            listed = ", ".join(self._allowed.methods) or "none"
            raise Refused(f"{party} does not allow {name}; the methods that {_WHERE} lists: {listed}")

    def _check_rows(self, script: Method, party: Party, step: str, payload: Mapping[str, Any]) -> None:
        """Only rows that the plan asks for: those that the method learns from, those it is scored on, and new ones."""
        if not self._matched and not is_matched(party):
            raise Refused(f"{party.name} has not matched its rows yet, and answers `{step}` only about matched rows")
        words = str(payload["rows"]).split("+") if "rows" in payload else []
        named = [NEW if one.startswith(ASKED) else one for one in words]
        other = [one for one in named if one not in (*script.uses, SCORED, NEW)]
        if other:
            name = type(script).__name__
            raise Refused(f"{party.name} does not answer `{step}` about rows {other[0]!r}: {name} never asks for these")
        allowed = self._allowed.rows
        learnt = [one for one in script.uses if len(party.data.cuts.get(one, ()))]
        for one in (*named, *learnt):
            if allowed is not None and one not in allowed:
                listed = ", ".join(allowed) or "none"
                raise Refused(f"{party.name} does not allow answers about rows {one!r}; {_WHERE} lists rows: {listed}")
        least, rows = self._allowed.least_rows, len(party.data.cuts.get("train", ()))
        if least is not None and "train" in learnt and rows < least:
            refused = f"{party.name} has too few training rows for `{step}`, as {_WHERE} says least_rows = {least:,}"
            raise Refused(refused, f"; it has {rows:,}")

    def _check_guesses(self, script: Align, party: Party, step: str, payload: Mapping[str, Any]) -> None:
        """Private matching tells whoever brings a point whether the party has it: only so often, and so many."""
        most = self._allowed
        points = max(1_000, 100 * party.data.rows) if most.max_points is None else most.max_points
        limit = MatchLimit(party.name, points, most.matches_per_day, most.max_matches)
        if step == script.guesses_begin:
            self._matches.begin(self._run, limit)
        if brought := script.guesses_in(step, payload):
            self._matches.bring(self._run, brought, limit)

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


def _noise_before(party: Party) -> tuple[Noise, ...]:
    """The noise under which a party agreed on columns, for which the method is not answerable."""
    return tuple(entry.noise for entry in party.ledger.entries if entry.phase == "align" and entry.noise is not None)


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

"""What a party that serves its part of a model lets leave: by the rules of its `party.toml`, and limits per client."""

import secrets
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import msgspec

from laconic.core.ledger import Entry, Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import Script, steps_of
from laconic.core.wire import Question, encode, read_heading
from laconic.deploy.epsilon_account import EpsilonAccount, Limit
from laconic.deploy.party_account import open_account
from laconic.deploy.party_config import PartyFile
from laconic.deploy.policy import NEW, Gatekeeper, Policy, read_policy
from laconic.errors import PlanError, Refused
from laconic.inference.bundle import About, PartInUse
from laconic.inference.part_state import PartState
from laconic.plan.keys import to_settings
from laconic.values import Settings

_DAY, _LINEAGE = "day", "account"


class DailyLimits(Settings, frozen=True, tag=False):
    """The `[serve]` table of `party.toml`: how much one client may ask on one day.

    Attributes:
        ids_per_day: the most people that its questions may be about; a question asked again counts again.
        unknown_ids_per_day: the most different people among them whom the party does not know. With one more, the
            client gets no answer at all until the next day: guessing does not list the party's customers.
    """

    ids_per_day: int = 10_000
    unknown_ids_per_day: int = 1_000

    def __post_init__(self) -> None:
        """Refuse limits that mean nothing."""
        if self.ids_per_day < 1 or self.unknown_ids_per_day < 0:
            raise ValueError("ids_per_day must be above 0, and unknown_ids_per_day 0 or more")


def read_daily_limits(plain: Mapping[str, Any], path: str = "party.toml") -> DailyLimits:
    """The limits in a `[serve]` table."""
    try:
        return to_settings(dict(plain), DailyLimits)
    except PlanError as problem:
        raise PlanError(f"{path}, [serve]: {problem}") from problem


class DailyLimitReached(Refused):
    """A client has asked enough for today; tomorrow it is answered again."""


class _Day(msgspec.Struct):
    """What one client has asked on one day; `unknown` are marks of eight bytes for each person."""

    day: str
    asked: int = 0
    unknown: bytes = b""
    closed: bool = False


def count_asked(
    limits: DailyLimits, state: PartState, party: str, client: str, people: int, unknown: Collection[str]
) -> None:
    """Count what a client asks, and refuse what is too much; in the part's folder, for all its servers together.

    Args:
        people: how many the question is about.
        unknown: those among them whom the party does not know.
    """
    key = blake2b(client.encode(), digest_size=16).hexdigest()
    with state.writing():
        kept = state.get(_DAY, key)
        day, today = msgspec.convert(kept, _Day) if kept else _Day(""), datetime.now(UTC).date().isoformat()
        if today > day.day:  # A clock that is put back gives nobody a new day.
            day = _Day(today)
        refused = _refuse(limits, day, party, people, unknown)
        state.put(_DAY, key, msgspec.structs.asdict(day))
    if refused:
        raise DailyLimitReached(refused)


def _refuse(limits: DailyLimits, day: _Day, party: str, people: int, unknown: Collection[str]) -> str:
    """Why a question is too much for today; nothing if it is not, and then the day has it."""
    again = "ask again tomorrow, or have [serve] in its party.toml allow more"
    over = (
        f"{party} answers no more today: it was asked about more than "
        f"unknown_ids_per_day = {limits.unknown_ids_per_day:,} people whom it does not know; {again}"
    )
    if day.closed:
        return over
    if day.asked + people > limits.ids_per_day:
        return f"{party} does not answer about more than ids_per_day = {limits.ids_per_day:,} people; {again}"
    day.asked += people
    marks = {day.unknown[at : at + 8] for at in range(0, len(day.unknown), 8)}
    marks |= {blake2b(one.encode(), digest_size=8).digest() for one in unknown}
    if len(marks) > limits.unknown_ids_per_day:
        day.closed = True
        return over
    day.unknown = b"".join(sorted(marks))
    return ""


class ServingRules:
    """A party's rules while it serves: the questions of predictions, and what `[allow]` says of their answers.

    Args:
        about: what the part says of itself.
        gate: the rules of the party's file, and what this model has released so far counts; None for no such rules.
        base: releases that another run in the account has already.
    """

    def __init__(self, about: About, gate: Gatekeeper | None = None, base: Ledger | None = None) -> None:
        self._about, self._gate, self._base = about, gate, base or Ledger()

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Refuse a question that no prediction asks, or that the party's file does not allow."""
        step, steps = read_heading(blob).step, self._about.steps or ()
        if step not in steps:
            raise Refused(f"{party.name} does not answer that after training; it answers {', '.join(steps)}")
        # `find_rows` is no step of a method, and its answer bears no noise: the limits of a day are for it.
        if self._gate is not None and isinstance(script, Method):
            self._gate.admit(script, self._counted(party), blob)

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Refuse an answer, or write what it costs to the party's account before it leaves."""
        if self._gate is not None and isinstance(script, Method):
            self._gate.release(script, self._counted(party), blob, reply)

    def _counted(self, party: Party) -> Party:
        """The party with what this run of the account counts."""
        return Party(party.name, party.data, 0, party.memory, since(party.ledger, self._base))


def rules_of(file: PartyFile, about: About, method: Method, use: PartInUse) -> ServingRules:
    """The rules of a party's file for a part in use; refuses a part whose questions they do not allow at all."""
    if file.name != about.party:
        raise PlanError(
            f"{file.path} is of {file.name}, but the part of the model is {about.party}'s; name its own file"
        )
    allowed, account = read_policy(file.allow, file.path), open_account(file)
    if allowed.rows is not None and NEW not in allowed.rows:
        raise Refused(
            f"{file.name} does not allow answers about rows {NEW!r}, which a model in use asks for; [allow] in "
            f"{file.path} lists rows: {', '.join(allowed.rows) or 'none'}"
        )
    run, base = _count_training(account.spent, allowed, use)
    rules = ServingRules(about, Gatekeeper(allowed, account, run, about.hub, about.peers), base)
    for step in steps_of(method).keys() & set(about.steps or ()):
        rules.admit(method, use.party, encode(Question(step, "final", 0, {})))
    return rules


def _count_training(account: EpsilonAccount, allowed: Policy, use: PartInUse) -> tuple[str, Ledger]:
    """The run under which the account has this part's releases, and releases that it has under another one.

    A folder that was put back from a backup knows less than the account: what it releases from then on is counted as
    another run, and nothing in the account goes down.
    """
    limit = None if allowed.max_epsilon is None else Limit(use.party.name, allowed.max_epsilon, allowed.delta)
    with use.state.answering(use.party):
        ledger = use.party.ledger
        kept = use.state.get(_LINEAGE) or {"run": "", "base": []}
        run, base = kept["run"], Ledger(tuple(msgspec.convert(kept["base"], list[Entry])))
        spent = account.epsilon(allowed.delta)
        if not run or account.with_run(run, since(ledger, base), allowed.delta) < spent:
            base = ledger if run else Ledger()
            run = f"model {secrets.token_hex(8)}"
            kept = {"run": run, "base": list(msgspec.to_builtins(base.entries))}
            use.state.put(_LINEAGE, "", kept)
        account.write(run, since(ledger, base), limit)
        return run, Ledger(base.entries)


def since(ledger: Ledger, base: Ledger) -> Ledger:
    """What a ledger has more than an earlier one."""
    before = {(one.phase, one.step, one.words, one.noise): one for one in base.entries}
    found = []
    for entry in ledger.entries:
        old = before.get((entry.phase, entry.step, entry.words, entry.noise))
        if old is None:
            found.append(entry)
        elif entry.times > old.times:
            found.append(msgspec.structs.replace(entry, times=entry.times - old.times, bytes=entry.bytes - old.bytes))
    return Ledger(tuple(found))

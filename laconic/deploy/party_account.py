"""A party's account: what it has spent of its people's privacy, in all its runs, and how often others matched with it.

It lies with the party's data, so that it outlives every run, every site and every certificate. Matching counts too:
whoever begins to match rows brings points, and each of them may be a guess.
"""

import os
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from laconic.core.ledger import Entry, Ledger, Noise
from laconic.core.wire import decode, encode
from laconic.deploy.party_files import SQLITE, PartyFile
from laconic.deploy.store import OWN, Record, Store, copy_kept, read_slots, slots_of
from laconic.errors import PlanError, Refused
from laconic.privacy.accounting import price

_MATCHING = "match"
_DAY = 86_400.0


class _Match(msgspec.Struct, frozen=True):
    """One run: when its matching began, and how many points were brought since."""

    began: float
    points: int = 0


class MatchLimit(NamedTuple):
    """The most of each that a party puts up with; none for no limit."""

    party: str
    points: int
    per_day: int | None
    in_all: int | None

    def refuse(self, rule: str, most: int | None, begun: int) -> None:
        """Raise an error if one matching more would be too many by a rule."""
        if most is not None and begun >= most:
            raise Refused(
                f"{self.party} does not allow this: private matching was begun {begun:,} times before, and [allow] in "
                f"its party.toml says {rule} = {most:,}"
            )


class MatchCount:
    """Counts the private matchings of all runs, written before anything is done for them; only ever added to."""

    def __init__(self, path: Path) -> None:
        self._store = Store(path, grows=True, adopt=lambda _: [])

    def begin(self, run: str, limit: MatchLimit) -> None:
        """Count a matching that begins, unless this run has had one, or it would be one too many."""
        now = time.time()
        with self._store.writing():
            found = self._found()
            today = sum(one.began > now - _DAY for one in found.values())
            if run in found:
                raise Refused(f"{limit.party} has begun to match rows in this run already; begin a new run")
            limit.refuse("matches_per_day", limit.per_day, today)
            limit.refuse("max_matches", limit.in_all, len(found))
            self._store.put(_MATCHING, run, encode(msgspec.to_builtins(_Match(now))))

    def bring(self, run: str, points: int, limit: MatchLimit) -> None:
        """Count points that are brought in a run, unless they are too many with those before."""
        with self._store.writing():
            before = self._found().get(run)
            if before is None:
                raise Refused(f"no match has begun at {limit.party}; ask it to begin first")
            total = before.points + points
            if total > limit.points:
                raise Refused(
                    f"{limit.party} does not allow this: with it {total:,} points would have been compared in this "
                    f"run, and max_points in [allow] of its party.toml permits {limit.points:,}"
                )
            self._store.put(_MATCHING, run, encode(msgspec.to_builtins(_Match(before.began, total))))

    def _found(self) -> dict[str, _Match]:
        return {
            record.key: msgspec.convert(decode(self._store.content(record), OWN), _Match)
            for record in self._store.records(_MATCHING)
        }


_SPENT, _MATCHES = "spent", "matches"


class PartyAccount:
    """All that a party counts over its runs, in one folder: what it spent, and how often others matched rows with it.

    Args:
        folder: where; made when something is first written.
        earlier: the account that an earlier version kept beside the party file, if there can be one; taken over once,
            and then renamed.
    """

    def __init__(self, folder: Path, earlier: Path | None = None) -> None:
        self.folder, self.earlier = folder, earlier
        self.spent = EpsilonAccount(folder / _SPENT)
        self.matches = MatchCount(folder / _MATCHES)

    @property
    def begun(self) -> bool:
        """Whether anything was ever written there."""
        return is_there(self.folder / _SPENT)

    @property
    def waiting(self) -> bool:
        """Whether there is an account of an earlier version that has yet to be taken over."""
        return self.earlier is not None and is_there(self.earlier)

    def take_over(self) -> None:
        """Add what an earlier version's account says, under names that no run has now; once."""
        earlier = self.earlier
        if earlier is not None and self.waiting:
            self.spent.take_over(earlier, lambda run: run_before(run, earlier.parent))


def open_account(file: PartyFile) -> PartyAccount:
    """The account of the party whose file this is, with all that earlier versions wrote."""
    account = locate_account(file)
    try:
        account.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        raise PlanError(
            f"{file.name} cannot keep its account in {account.folder}: {problem.strerror}; make that folder writable, "
            f'or name another in {file.path}: account = "FOLDER"'
        ) from problem
    account.take_over()
    return account


def locate_account(file: PartyFile) -> PartyAccount:
    """The same without writing anything."""
    return PartyAccount(account_folder(file), Path(file.path).absolute().parent / _SPENT)


def account_folder(file: PartyFile) -> Path:
    """The folder named in the party file; else `NAME.account` beside the data, or beside the site that they lie in.

    A database elsewhere has no place beside it: then it is in the state folder of this user.
    """
    if file.account:
        return Path(file.account)
    source = file.path if file.data is None else file.data.source.removeprefix(SQLITE)
    if "://" in source:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        mark = blake2b(source.encode(), digest_size=6).hexdigest()
        return Path(state) / "laconic" / "accounts" / f"{file.name}-{mark}"
    place = Path(source).absolute()
    sites = [folder for folder in place.parents if (folder / "kit").is_dir() and (folder / "parties.toml").is_file()]
    return Path(os.path.normpath(sites[0] if sites else place)).with_name(f"{file.name}.account")


def run_before(run: str, folder: Path) -> str:
    """What a run of an earlier version, which the hub named, is called in the account: two sites may have one each."""
    return f"{run} in {folder}"


def copied(account: PartyAccount, to: Path) -> PartyAccount:
    """A copy of an account to try things on, which costs nothing."""
    copy = PartyAccount(to / "account")
    if account.folder.exists():
        copy_kept(account.folder, copy.folder)
    if account.earlier is not None and account.waiting:
        folder = account.earlier.parent
        copy_kept(folder, to / "earlier", f"{_SPENT}.*")
        copy.spent.take_over(to / "earlier" / _SPENT, lambda run: run_before(run, folder))
    return copy


_KIND = "run"


class _Run(msgspec.Struct, frozen=True):
    """One run: the noise expected of it, the noisy releases it has made, and a digest of its ledger after the last."""

    foreseen: tuple[Entry, ...] = ()
    released: tuple[Entry, ...] = ()
    mark: str = ""


class Limit(NamedTuple):
    """The most that a party may spend in all its runs together, counted at a delta."""

    party: str
    epsilon: float
    delta: float

    def refuse(self, total: float) -> None:
        """Raise an error if a loss is too much; the account then stays as it was."""
        if total > self.epsilon:
            figure = "without a bound" if total == inf else f"{total:.4g}"
            raise Refused(
                f"{self.party} does not allow this: with it the epsilon of all its runs would be {figure} at delta "
                f"{self.delta:g}, and [allow] in its party.toml says max_epsilon = {self.epsilon:g}"
            )


class EpsilonAccount:
    """The noisy releases of every run, written before they leave; only ever added to.

    A run counts with what was expected of it or with what it has released, whichever costs more, so that two runs
    begun together cannot pass a limit between them, and a run that was cut off cannot be begun again for nothing. The
    limit is checked and the entry made in one transaction, so that no other process can come between.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store = Store(path, grows=True, adopt=self._adopt)
        self._known: dict[bytes, _Run] = {}

    def has(self, run: str) -> bool:
        """Whether a run has begun."""
        return self._store.find(_KIND, run) is not None

    def epsilon(self, delta: float) -> float:
        """The loss of anyone's row by all runs together; infinite if there is no bound."""
        return _epsilon(self._runs(), delta)

    def expected(self, run: str, noises: tuple[Noise, ...], delta: float) -> float:
        """The loss if a run with this noise were added."""
        runs = self._runs()
        return _epsilon(runs | {run: _reserved(runs.get(run, _Run()), noises, delta)}, delta)

    def with_run(self, run: str, ledger: Ledger, delta: float) -> float:
        """The loss if this were a run's own ledger."""
        return _epsilon(self._after(run, ledger, ""), delta)

    def reserve(self, run: str, noises: tuple[Noise, ...], limit: Limit) -> None:
        """Write down what a run will spend before it begins; what it has reserved or released before stays."""
        with self._store.writing():
            limit.refuse(self.expected(run, noises, limit.delta))
            self._put(run, _reserved(self._runs().get(run, _Run()), noises, limit.delta))

    def write(self, run: str, ledger: Ledger, limit: Limit | None, before: str = "") -> None:
        """Write down what a run has released.

        `before` marks the run's ledger as it was before this release. If the account was last written with another, the
        run's memory was put back from an older copy: what it does not know of any more has left, and still counts.
        """
        with self._store.writing():
            runs, after = self._runs(), self._after(run, ledger, before)
            if limit is not None:
                limit.refuse(_epsilon(after, limit.delta))
            for name in after:
                if after[name] != runs.get(name):
                    self._put(name, after[name])

    def take_over(self, path: Path, name: Callable[[str], str]) -> None:
        """Add the runs of another account, called as `name` says, and put that one aside; again, it adds nothing."""
        with self._store.writing():
            if is_there(path):
                other, here = EpsilonAccount(path), self._runs()
                for run, what in other._runs().items():
                    if name(run) not in here:
                        self._put(name(run), what)
                other._store.close()
        with self._store.writing():
            kept = path.with_name(f"{path.name}.db")
            if kept.exists():
                kept.rename(kept.with_name(f"{kept.name}.taken-over"))

    def _after(self, run: str, ledger: Ledger, before: str) -> dict[str, _Run]:
        """All runs, with this as the ledger of one."""
        runs = self._runs()
        held, released = runs.get(run, _Run()), _noisy(ledger)
        if not released and not held.released:
            return runs
        if before and held.mark not in ("", before):
            aside = sum(name.startswith(f"{run}, lost ") for name in runs)
            runs[f"{run}, lost {aside}"] = _Run(released=held.released)
        return runs | {run: _Run(held.foreseen, released, mark_of(ledger))}

    def _put(self, run: str, what: _Run) -> None:
        self._store.put(_KIND, run, encode(msgspec.to_builtins(what)))

    def _runs(self) -> dict[str, _Run]:
        records = self._store.records(_KIND)
        self._known = {record.digest: self._run(record) for record in records}
        return {record.key: self._known[record.digest] for record in records}

    def _run(self, record: Record) -> _Run:
        known = self._known.get(record.digest)
        return known or msgspec.convert(decode(self._store.content(record), OWN), _Run)

    def _adopt(self, store: Store) -> list[Path]:
        """Take over the account that an earlier version kept in two files."""
        slots = slots_of(self._path)
        if not slots:
            return []
        for run, what in decode(read_slots(self._path), OWN).items():
            store.put(_KIND, run, encode(what))
        return [*slots, self._path.with_name(f"{self._path.name}.lock")]


def is_there(path: Path) -> bool:
    """Whether there is an account, of this version or an earlier one; looking makes none."""
    return any(path.with_name(f"{path.name}{end}").exists() for end in (".db", ".0", ".1"))


def mark_of(ledger: Ledger) -> str:
    """A digest of what a ledger says of releases with a price; it changes with each of them."""
    return blake2b(msgspec.json.encode(_noisy(ledger)), digest_size=16).hexdigest()


def _reserved(run: _Run, noises: tuple[Noise, ...], delta: float) -> _Run:
    """A run with noise expected of it; greeted again, it may have released more already, or reserved more."""
    entries = tuple(
        Entry(phase="fit", step=f"{number}", words="expected before the run", form="", times=1, bytes=0, noise=noise)
        for number, noise in enumerate(noises)
    )
    return msgspec.structs.replace(run, foreseen=_costlier(_Run(run.foreseen, entries), delta))


def _noisy(ledger: Ledger) -> tuple[Entry, ...]:
    """The entries that have a price: the others are open releases, which no epsilon covers."""
    return tuple(entry for entry in ledger.entries if entry.noise is not None and entry.noise.multiplier is not None)


def _epsilon(runs: Mapping[str, _Run], delta: float) -> float:
    """Runs add up as parties that share all people do.

    Within one run, cuts are of different people. Two runs may cut differently, so that between them a person may be in
    any of them; then all noise counts against everyone.
    """
    spent = {run: costlier for run, what in runs.items() if (costlier := _costlier(what, delta))}
    if len(spent) < 2:
        return max((_price({run: entries}, delta) for run, entries in spent.items()), default=0.0)
    of_everyone: dict[str, tuple[Entry, ...]] = {}
    for run, entries in spent.items():
        for entry in entries:
            if entry.noise is not None:
                noise = msgspec.structs.replace(entry.noise, people="everyone")
                # By cut: a noise drawn once in each of two cuts was drawn twice.
                key = f"{run}, {entry.noise.people}"
                of_everyone[key] = (*of_everyone.get(key, ()), msgspec.structs.replace(entry, noise=noise))
    return _price(of_everyone, delta)


def _costlier(run: _Run, delta: float) -> tuple[Entry, ...]:
    if not run.foreseen or not run.released:
        return run.foreseen or run.released
    return max(run.foreseen, run.released, key=lambda entries: _price({"": entries}, delta))


def _price(spent: Mapping[str, tuple[Entry, ...]], delta: float) -> float:
    found = price({run: Ledger(entries) for run, entries in spent.items()}, delta).epsilon
    return inf if found is None else found

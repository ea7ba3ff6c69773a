"""Where a party's account lies: with its data, so that it outlives every run, every site and every certificate."""

import os
from hashlib import blake2b
from pathlib import Path

from laconic.deploy.epsilon_account import EpsilonAccount, is_there
from laconic.deploy.match_count import MatchCount
from laconic.deploy.party_config import SQLITE, PartyFile
from laconic.deploy.store import copy_kept
from laconic.errors import PlanError

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

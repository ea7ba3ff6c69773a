"""Where a party keeps its runs, and how it reads what a run by mail needs: plan, own file, rows and keys."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from laconic.align.agreed import AgreedIds, agree
from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.data.readers.source_table import own_table
from laconic.deploy.epsilon_account import EpsilonAccount
from laconic.deploy.execute import federation_of
from laconic.deploy.party_config import PartyFile, read_party, seed_of
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.policy import Gatekeeper, read_policy
from laconic.deploy.session import Agreement, agree_on
from laconic.deploy.store import copy_kept
from laconic.deploy.transports.envelopes.keys import KeyRing, open_ring
from laconic.errors import DataError, PlanError
from laconic.plan.plan import Plan
from laconic.plan.text import plan_fingerprint, read_plan_file
from laconic.privacy.accounting import price
from laconic.tables.columns import Recipe
from laconic.tables.table import Table


@dataclass(frozen=True)
class PartyContext:
    """One party, its rows and its keys, ready for a plan.

    Attributes:
        agreement: what the plan settles.
        file: the party's own settings.
        party: the party as it begins.
        ring: its keys.
        home: the folder of its own file, in which its runs are kept too.
    """

    agreement: Agreement
    file: PartyFile
    party: Party
    ring: KeyRing
    home: Path

    @property
    def run(self) -> Path:
        """Where this plan's run is kept."""
        return _run(self.home, self.agreement.plan)


def open_context(plan_path: Path, party_path: Path, keys: Path, ids: Path | None = None) -> PartyContext:
    """Read all that a party needs for a plan.

    Args:
        plan_path: the plan that all parties hold.
        party_path: this party's own file.
        keys: its key ring.
        ids: the ids agreed upon, one a line; None for all of the party's rows.
    """
    plan, file = read_plan_file(plan_path), read_party(party_path)
    ring = open_ring(keys, file.name)
    table = own_rows(plan, file)
    wanted = None if ids is None else read_ids_file(ids)
    agreement = agree_on(plan, table, None if wanted is None else len(set(wanted)))
    if file.name not in (*agreement.names, agreement.hub):
        raise PlanError(f"{party_path} is of {file.name}, but the plan's parties are {', '.join(agreement.names)}")
    # The others foretell what the hub will ask, chance and all; nobody is to foretell what a party answers.
    party = Party(file.name, table, plan.seed if file.name == agreement.hub else seed_of(plan, file))
    if wanted is not None:
        if not isinstance(agreement.align, AgreedIds):
            raise PlanError(
                "a list of ids is for plans with data.match.type = AgreedIds; this plan matches rows otherwise"
            )
        agree(party, wanted)
    return PartyContext(agreement, file, party, ring, party_path.absolute().parent)


def reopen_context(plan_path: Path, party_path: Path, keys: Path) -> PartyContext:
    """The place of a party that has trained already: its rows and what it learnt as they were then.

    Raises:
        PlanError: it has not trained by this plan.
    """
    plan, file = read_plan_file(plan_path), read_party(party_path)
    home = party_path.absolute().parent
    run = _run(home, plan)
    kept = [folder for name in ("party", "model") if (folder := PartyFolder(run / name)).begun]
    if not kept:
        raise PlanError(
            f"{file.name} has no model of this plan in {run}; train first: the parties seal the plan, and the one with "
            "the labels hosts it"
        )
    party = kept[0].load()
    shared = party.data.cuts.get("shared")
    agreement = agree_on(plan, party.data, None if shared is None else len(shared))
    return PartyContext(agreement, file, party, open_ring(keys, file.name), home)


def read_ids_file(path: Path) -> list[str]:
    """Ids, one a line; white space around them and empty lines do not count."""
    found = [line.strip() for line in _text(path).splitlines()]
    ids = [one for one in found if one]
    if not ids:
        raise DataError(f"there are no ids in {path}; write one a line")
    twice = len(ids) - len(set(ids))
    if twice:
        raise DataError(f"{path} names {twice:,} ids more than once; leave each there once")
    return ids


def ids_fingerprint(ids: list[str]) -> str:
    """A digest of ids in their order."""
    whole = "".join(f"{len(one)}:{one}" for one in ids)
    return blake2b(whole.encode(), digest_size=16, person=b"laconic ids").hexdigest()


def own_rows(plan: Plan, file: PartyFile, recipe: Recipe | None = None) -> Table:
    """A party's rows: from its own source, or its share of a public data set that the plan deals out.

    Args:
        recipe: how the rows of a model were prepared, for rows that came later; they need no labels.
    """
    if plan.data.name is None:
        return own_table(file.name, file.own_data, recipe=recipe)
    tables = federation_of(plan.data, plan.seed).tables
    return tables.get(file.name) or Table.without_rows(file.name)


def _run(home: Path, plan: Plan) -> Path:
    return home / "runs" / f"mail-{plan_fingerprint(plan)[:16]}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise PlanError(f"the file {path} cannot be read: {problem}") from problem


def epsilon_words(party: str, entries: Iterable[Entry], plan: Plan) -> str:
    """The price of all that a party gave away in this run so far, in words; sender and reader find the same."""
    ledger = Ledger(tuple(entries))
    if not ledger.entries:
        return "none: nothing made from rows"
    priced = [one for one in ledger.entries if one.noise is not None and one.noise.multiplier is not None]
    if not priced:
        return "none: open release, not protected"
    paid = price({party: ledger}, plan.budget.delta, accountant=plan.budget.accountant)
    rest = f"; besides, {len(paid.open)} open releases" if paid.open else ""
    seeded = "" if paid.secure else "; noise from the seed, which undoes it"
    return f"{paid.figure} at delta {paid.delta:g} by {paid.accountant}, for {'; '.join(paid.units)}{rest}{seeded}"


_SPENT = "spent"
"""The ledger of epsilon beside a party's file: one for all its runs, by mail and online."""


def gate_of(place: PartyContext, folder: Path) -> Gatekeeper:
    """The gate for one run, which is kept in `folder`."""
    return _gate(place, folder, place.home / _SPENT)


def trial_gate(place: PartyContext, folder: Path) -> Gatekeeper:
    """The same gate for a trial in `folder`, on a copy of the ledger: what it would let through, and nothing spent."""
    copy_kept(place.home, folder, f"{_SPENT}.*")
    return _gate(place, folder, folder / _SPENT)


def run_id(folder: Path) -> str:
    """What tells this run from every other, of the same plan too."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "id"
    if not path.exists():
        path.write_text(secrets.token_hex(16), encoding="utf-8")
    return path.read_text(encoding="utf-8")


def _gate(place: PartyContext, folder: Path, spending: Path) -> Gatekeeper:
    agreement = place.agreement
    guests = tuple(name for name in agreement.names if name != agreement.holder)
    allowed = read_policy(place.file.allow, place.file.path)
    return Gatekeeper(allowed, EpsilonAccount(spending), run_id(folder), agreement.holder, guests)

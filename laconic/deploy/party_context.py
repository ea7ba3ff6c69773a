"""What a party brings to a run by envelope: the plan, its own file, its rows, its keys, and where it keeps the run."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np

from laconic.align.alignment import AgreedIds, agree
from laconic.atomic_files import make_private_folder, write_whole
from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.deploy.party_files import PartyFile, read_party
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.policy import NEW
from laconic.deploy.session import Session, envelope_session, read_rows
from laconic.deploy.transports.envelopes.keys import KeyRing, open_ring
from laconic.errors import DataError, PlanError
from laconic.plan.plan import Plan
from laconic.plan.text import plan_fingerprint, read_plan_file
from laconic.privacy.accounting import price
from laconic.privacy.row_releases import releases_of_rows, take_over
from laconic.tables.table import Table, fingerprint

NONE = "none"
"""The alignment of rows that are not matched yet."""


@dataclass(frozen=True)
class PartyContext:
    """One party, its rows and its keys, ready for a plan.

    Attributes:
        party: the party as it begins.
        home: the folder of its own file, in which its runs are kept too.
        ids: whom to predict with a trained model; None for training.
    """

    session: Session
    file: PartyFile
    party: Party
    ring: KeyRing
    home: Path
    ids: list[str] | None = None

    @property
    def run(self) -> Path:
        """Where this plan's run is kept."""
        return _run(self.home, self.session.plan)

    @property
    def folder(self) -> Path:
        """Where training, or predicting these ids, is kept."""
        return self.run if self.ids is None else self.run / f"predict-{ids_fingerprint(self.ids)[:12]}"

    @property
    def phase(self) -> str:
        """A phase for these ids alone: the randomness a party draws for one list is never used for another."""
        return f"predict {ids_fingerprint(self.ids or [])[:12]}"


def open_context(plan_path: Path, party_path: Path, keys: Path, ids: Path | None = None) -> PartyContext:
    """Read all that a party needs for a plan.

    Args:
        ids: a file of the ids agreed upon, one per line; None for all of the party's rows.
    """
    plan, file = read_plan_file(plan_path), read_party(party_path)
    ring = open_ring(keys, file.name)
    wanted = None if ids is None else read_ids_file(ids)
    table = read_rows(plan, file.name, file)
    session = envelope_session(plan, table, None if wanted is None else len(set(wanted)))
    name = session.hub if session.apart and file.data is None else file.name
    stranger = name == session.hub and session.apart and file.name != session.host
    if stranger or name not in (*session.names, session.hub):
        listed = ", ".join(dict.fromkeys((session.host, *session.guests)))
        raise PlanError(f"{party_path} is of {file.name}, but the plan's parties are {listed}")
    party = session.begin(name, table, file)
    if wanted is not None:
        if not isinstance(session.align, AgreedIds):
            raise PlanError(
                "a list of ids is for plans with data.match.type = AgreedIds; this plan matches rows otherwise"
            )
        agree(party, wanted)
    return PartyContext(session, file, party, ring, party_path.absolute().parent)


def reopen_context(plan_path: Path, party_path: Path, keys: Path) -> PartyContext:
    """The context of a party that has trained already: its rows and what it learnt as they were then."""
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
    session = envelope_session(plan, party.data, None if shared is None else len(shared))
    return PartyContext(session, file, party, open_ring(keys, file.name), home)


def context_for_ids(context: PartyContext, ids: list[str]) -> PartyContext:
    """The context of a party that has trained, with the rows of these ids prepared as its training rows were."""
    trained, name = context.party, context.file.name
    recipe = trained.data.recipe
    source = read_rows(context.session.plan, name, context.file, recipe)
    place_of = {key: at for at, key in enumerate(source.keys.tolist())}
    missing = [one for one in ids if one not in place_of]
    if missing:
        raise DataError(
            f"party {name!r} has no row for {len(missing):,} of the {len(ids):,} ids to predict, such as "
            f"{missing[0]!r}; add the rows, or leave these ids out of everybody's list"
        )
    order = np.array([place_of[one] for one in ids], dtype=np.int64)
    table = Table(
        source.raw[order],
        source.columns,
        ids=ids,
        task=trained.data.task,
        cuts={NEW: np.arange(len(ids))},
        party=name,
        recipe=recipe,
    )
    party = Party(name, table, trained.seed, dict(trained.memory))
    # As it was after each list of ids that it has answered for: each knows what was released by then.
    kept = [PartyFolder(folder / "party") for folder in context.run.glob("predict-*")]
    before = [folder.load() for folder in kept if folder.begun]
    take_over(party, max((trained, *before), key=releases_of_rows))
    return replace(context, party=party, ids=ids)


def read_ids_file(path: Path) -> list[str]:
    """Ids, one per line; white space around them and empty lines do not count."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise PlanError(f"the file {path} cannot be read: {problem}") from problem
    ids = [one for line in lines if (one := line.strip())]
    if not ids:
        raise DataError(f"there are no ids in {path}; write one per line")
    twice = len(ids) - len(set(ids))
    if twice:
        raise DataError(f"{path} names {twice:,} ids more than once; leave each there once")
    return ids


def ids_fingerprint(ids: list[str]) -> str:
    """A digest of ids in their order."""
    whole = "".join(f"{len(one)}:{one}" for one in ids)
    return blake2b(whole.encode(), digest_size=16, person=b"laconic ids").hexdigest()


def alignment_of(party: Party, session: Session) -> str:
    """The fingerprint of a party's rows; of those to be predicted, if it has such; none where people differ."""
    if session.apart:
        return NONE
    if NEW in party.data.cuts:
        return ids_fingerprint(party.data.keys.tolist())
    return fingerprint(party.data) if "train" in party.data.cuts else NONE


def rows_of(party: Party) -> int:
    """How many rows a party has in a run: those that all share, or all before that is known."""
    shared = party.data.cuts.get("shared")
    return party.data.rows if shared is None else len(shared)


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


def run_id(folder: Path) -> str:
    """What tells this run from every other, of the same plan too."""
    make_private_folder(folder)
    path = folder / "id"
    if not path.exists():
        write_whole(path, secrets.token_hex(16).encode(), private=True)
    return path.read_text(encoding="utf-8")


def find_run(plan_path: Path, party_path: Path) -> Path:
    """Where a party keeps its run of a plan by envelope."""
    return _run(party_path.absolute().parent, read_plan_file(plan_path))


def _run(home: Path, plan: Plan) -> Path:
    return home / "runs" / f"mail-{plan_fingerprint(plan)[:16]}"

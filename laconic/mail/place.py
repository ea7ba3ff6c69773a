"""Where a party keeps its runs, and how it reads what a run by mail needs: plan, own file, rows and keys."""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from laconic.align.agreed import AgreedIds, agree
from laconic.core.columns import Recipe
from laconic.core.errors import DataError, PlanError
from laconic.core.party import Party
from laconic.core.table import Table
from laconic.data.own_table import read_own
from laconic.envelope.keyring import KeyRing, open_ring
from laconic.mail.agreement import Agreement, agree_on
from laconic.plan.execute import federation_of
from laconic.plan.fingerprint import plan_fingerprint
from laconic.plan.own_seed import seed_of
from laconic.plan.party_file import PartyFile, read_party
from laconic.plan.shape import Plan
from laconic.plan.text import read_plan
from laconic.runtime.memory import PartyFolder


@dataclass(frozen=True)
class Place:
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


def take_place(plan_path: Path, party_path: Path, keys: Path, ids: Path | None = None) -> Place:
    """Read all that a party needs for a plan.

    Args:
        plan_path: the plan that all parties hold.
        party_path: this party's own file.
        keys: its key ring.
        ids: the ids agreed upon, one a line; None for all of the party's rows.
    """
    plan, file = read_plan(_text(plan_path)), read_party(party_path)
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
    return Place(agreement, file, party, ring, party_path.absolute().parent)


def retake_place(plan_path: Path, party_path: Path, keys: Path) -> Place:
    """The place of a party that has trained already: its rows and what it learnt as they were then.

    Raises:
        PlanError: it has not trained by this plan.
    """
    plan, file = read_plan(_text(plan_path)), read_party(party_path)
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
    return Place(agreement, file, party, open_ring(keys, file.name), home)


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
        return read_own(file.name, file.own_data, recipe=recipe).table
    tables = federation_of(plan.data, plan.seed).tables
    return tables.get(file.name) or Table.without_rows(file.name)


def _run(home: Path, plan: Plan) -> Path:
    return home / "runs" / f"mail-{plan_fingerprint(plan)[:16]}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise PlanError(f"the file {path} cannot be read: {problem}") from problem

"""Align: a script that makes the rows of all parties correspond, and checks later that they still do."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, Script, step
from laconic.errors import DataError, Refused
from laconic.tables.table import digest, fingerprint
from laconic.values import Rng

ALIGNMENT = "alignment"
"""Where a party remembers how its rows were matched."""


class Align(Script, frozen=True):
    """A script that makes the rows of all parties correspond before fitting."""

    guesses_begin: ClassVar[str] = ""
    """The step with which others begin to find out which ids a party has; empty if they are shown, or agreed upon."""

    @property
    def declares_all(self) -> bool:
        """Whether `match` asks just what `match_opening` declares, so that what comes after it is known as well."""
        return False

    def guesses_in(self, step: str, payload: Mapping[str, Any], /) -> int:
        """How many ids, hidden or not, a question brings that may be a party's own; what a party limits."""
        return 0

    @abstractmethod
    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        """Put the rows that all share in the same order everywhere, cut them the same, and count them."""

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        """The fingerprint of the alignment, which must be the same at all parties and as it was when rows were matched.

        A party that does not answer now is not compared; whether the run can do without it is the method's to say.
        """
        own = {hub.name: self.show_fingerprint(hub)} if hub.data.rows else {}
        found: dict[str, str] = own | peers.tolerant.ask(self.show_fingerprint)
        if len(set(found.values())) > 1:
            shown = ", ".join(f"{name} {one[:8]}" for name, one in found.items())
            raise DataError(
                f"the parties do not hold the same rows in the same order: their fingerprints are {shown}; "
                "match the rows again, and do not change or sort the files after that"
            )
        return next(iter(found.values()), "")

    def match_opening(self, rng: Rng, *, server: bool) -> Opening:
        """What `match` asks that follows from the plan alone, with the hub's `rng` as it is then.

        `server` says whether the hub is one without rows. Declaring nothing is always right.
        """
        return Opening()

    def confirm_opening(self) -> Opening:
        """The same of `confirm`; a class that asks otherwise in its own `confirm` has to name it here."""
        return Opening((Ask.known(self.show_fingerprint),), then="ends")

    @step(takes=None, gives="a digest of the ids of the shared rows, in order, which all who hold these rows know")
    def show_fingerprint(self, party: Party) -> str:
        """The digest, if the party's data is what it was when its rows were matched."""
        shown = fingerprint(party.data)
        refuse_changed(party, shown)
        return shown


def note_alignment(party: Party, asked: str = "") -> None:
    """Remember what a party's data is now that its rows are matched, so that a change is noticed.

    `asked` is a digest of the rows it was asked to keep, so that being asked the same again changes nothing.
    """
    party.memory[ALIGNMENT] = {"data": digest(party.data), "asked": asked}


def refuse_changed(party: Party, rows: str | None = None) -> None:
    """Refuse a party whose data is not what it was when `note_alignment` noted it; `rows` is its fingerprint now."""
    noted = party.memory.get(ALIGNMENT)
    if noted is None:
        raise DataError(f"party {party.name!r}: its rows have not been matched yet; match them before fitting")
    now = digest(party.data, rows)
    if noted["data"] != now:
        raise DataError(
            f"party {party.name!r}: its data changed after its rows were matched (then {noted['data'][:8]}, now "
            f"{now[:8]}); bring back the file as it was, or match the rows again"
        )


def is_matched(party: Party) -> bool:
    """Whether the party's rows have been matched in this run."""
    return ALIGNMENT in party.memory


def is_aligned(party: Party, asked: str) -> bool:
    """Whether the party already did what it is asked, and its data is still as that left it.

    Raises:
        Refused: its rows were matched otherwise: in two cuts of one run a person would be released twice, and pay once.
    """
    if not is_matched(party):
        return False
    noted = party.memory[ALIGNMENT]
    if noted["asked"] != asked:
        raise Refused(
            f"{party.name} has matched its rows in this run, and does not match them otherwise; begin a new run"
        )
    refuse_changed(party)
    return True

"""An office: where a hub takes in the envelopes of one run, each checked before anything inside is used."""

from dataclasses import dataclass
from pathlib import Path

from laconic.envelope.content import Content
from laconic.envelope.cover import Cover
from laconic.envelope.opening import Envelope, Expected, check, read_cover
from laconic.envelope.refusals import CoverMismatch, EnvelopeRefused
from laconic.mail.epsilon import epsilon_words
from laconic.mail.place import Place
from laconic.mail.register import Register
from laconic.mail.rules import run_id
from laconic.runtime.envelopes import ENDING, Arrived


@dataclass(frozen=True)
class Came:
    """An envelope that came, and whether it is accepted.

    Attributes:
        path: the file.
        cover: what stands on it, if that can be trusted; None if not.
        refusal: why it is not accepted; None if it is.
    """

    path: Path
    cover: Cover | None
    refusal: EnvelopeRefused | None


class Office:
    """Where a hub takes in envelopes for one run.

    Args:
        place: the hub's.
        inbox: the folder that envelopes are put in.
        folder: where the run is kept.
        alignment: the fingerprint that answers must be about; None if it is not known yet.
        rows: how many rows they must be made from; None if that is not known yet.
    """

    def __init__(self, place: Place, inbox: Path, folder: Path, alignment: str | None, rows: int | None) -> None:
        self._place, self._inbox, self._rows = place, inbox, rows
        self._expected = Expected("answer", plan=place.agreement.fingerprint, alignment=alignment)
        self._register = Register(place.home / "runs" / "accepted")
        self._run = run_id(folder)
        self.arrived = Arrived(place.ring.own)

    def take_in(self) -> None:
        """Accept everything in the inbox; the first envelope that cannot be is an error."""
        for path in sorted(self._inbox.glob(f"*{ENDING}")):
            self._register.note(self._accept(path), self._run)

    def look(self) -> list[Came]:
        """Check everything in the inbox, and accept nothing."""
        found = []
        for path in sorted(self._inbox.glob(f"*{ENDING}")):
            try:
                found.append(Came(path, self._accept(path).cover, None))
            except EnvelopeRefused as problem:
                found.append(Came(path, None, problem))
        return found

    def _accept(self, path: Path) -> Envelope:
        said = read_cover(path)
        # What this run has accepted stays so when its last day is over; the signature is checked all the same.
        now = said.written if self._register.has(said.number, self._run) else None
        envelope = check(path, self._place.ring, self._expected, now)
        self._register.refuse_seen(envelope, self._run)
        with envelope.open(self._place.ring.own) as opened:
            self._compare(envelope, opened.content)
            for _, pieces in opened.blobs():
                for _ in pieces:
                    pass
            self.arrived.add(envelope, opened)
        return envelope

    def _compare(self, envelope: Envelope, content: Content) -> None:
        """What its sender says must follow from its own ledger, and from the rows that both hold."""
        words = epsilon_words(envelope.sender.name, content.ledger, self._place.agreement.plan)
        if words != content.epsilon:
            raise CoverMismatch(
                f"the cover of {envelope.path} says epsilon: {content.epsilon}, but by its ledger it is {words}; ask "
                f"{envelope.sender.name} why"
            )
        if self._rows is not None and content.rows != self._rows:
            raise CoverMismatch(
                f"the cover of {envelope.path} says rows: {content.rows:,}, but there are {self._rows:,} here; match "
                "the rows again on both sides"
            )

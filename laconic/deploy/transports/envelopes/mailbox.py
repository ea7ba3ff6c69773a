"""Answers that come by envelope: a runtime for parties that are never connected.

What was answered is taken from the envelopes at hand. What was not is written out as question envelopes, and the run
stops; started again when the answers are in, it goes on from its journal. Methods notice none of this.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.step import Script, steps_of
from laconic.core.wire import Blob, read_heading
from laconic.deploy.homecoming import script_kind
from laconic.deploy.inbox import ENDING, Inbox
from laconic.deploy.party_context import NONE, PartyContext, alignment_of, epsilon_words, rows_of
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.session import Session
from laconic.deploy.statements import sign_ledger
from laconic.deploy.transports.envelopes.cover import Content, describe_blob
from laconic.deploy.transports.envelopes.keys import (
    EnvelopeRefused,
    OtherAlignment,
)
from laconic.deploy.transports.envelopes.opening import Envelope, read_cover
from laconic.deploy.transports.envelopes.sealing import cover_of, seal
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import Waiting

QUESTIONS = "questions"
"""The folder within the inbox for envelopes that go out."""


class CoLocatedHolder:
    """The label holder, asked by the server that it runs itself: its rows on disk, and as they are now."""

    def __init__(self, kept: PartyFolder, party: Party) -> None:
        self._kept, self._party = kept, party
        if not kept.begun:
            kept.begin(party)
        party.data = kept.load().data

    def reply(self, script: Script, question: bytes) -> bytes:
        """Its answer; its rows may be others after it."""
        reply = self._kept.answer(script, question)
        self._party.data = self._kept.load().data
        return reply

    def ledger(self) -> Ledger:
        """What it gave away."""
        return self._kept.load().ledger


class Mailbox:
    """A carrier whose parties answer by envelope.

    Args:
        context: the label holder's. hub: the party that asks.
        inbox: the answers that came.
        beside: the label holder, if a server asks it; None if it asks itself.
        without: parties that the run is to do without.
        folder: where questions are written that nobody has answered yet. days: how long they may be answered.
    """

    def __init__(
        self,
        context: PartyContext,
        hub: Party,
        inbox: Inbox,
        *,
        beside: CoLocatedHolder | None,
        without: tuple[str, ...],
        folder: Path,
        days: float,
    ) -> None:
        self.names = context.session.peers
        self._context, self._hub, self._inbox = context, hub, inbox
        self._here = {} if beside is None else {context.party.name: beside}
        self._without, self._folder, self._days = without, folder, days

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Yield the answers that are in; stop the run if others are not."""
        missing: dict[str, bytes] = {}
        for name, blob in blobs.items():
            if name in self._without:
                continue
            if name in self._here:
                yield name, self._here[name].reply(script, blob)
                continue
            found = self._inbox.find(name, question_id(script, name, blob))
            if found is None:
                missing[name] = blob
                continue
            refuse_other_rows(found[0], self._context.party, self._context.session)
            yield name, self._inbox.read(*found)
        if missing:
            self._folder.mkdir(exist_ok=True)
            for name, blob in missing.items():
                self._post(script, name, blob)
            raise Waiting(tuple(missing), read_heading(next(iter(missing.values()))).step)

    def ledgers(self) -> dict[str, Ledger]:
        """What each party says that it gave away, as far as it is known."""
        return self._inbox.ledgers() | {name: self._signed(name, one.ledger()) for name, one in self._here.items()}

    def _signed(self, name: str, ledger: Ledger) -> Ledger:
        """What the label holder gave its own server, signed like everybody's."""
        plan = self._context.session.fingerprint
        return Ledger(ledger.entries, sign_ledger(self._context.ring.own, name, plan, ledger.entries, final=True))

    def _post(self, script: Script, name: str, question: bytes) -> None:
        """Write a question envelope, in the place of earlier ones to the same party."""
        session, ring, holder = self._context.session, self._context.ring, self._context.party
        heading = read_heading(question)
        takes = steps_of(script)[heading.step].takes
        blob = describe_blob(
            script_kind(script), heading, question_id(script, name, question), takes, "question", len(question)
        )
        words = epsilon_words(self._hub.name, self._hub.ledger.entries if takes else (), session.plan)
        content = Content(rows=rows_of(holder) if takes else 0, epsilon=words, ledger=(), blobs=(blob,))
        about = {"plan": session.fingerprint, "alignment": alignment_of(holder, session)}
        to = ring.named(name)
        cover = cover_of(content, ring.own, to, kind="question", days=self._days, **about)
        for old in posted(self._folder, name):
            old.unlink()
        path = self._folder / f"{name}-{heading.phase}-{heading.round}{ENDING}".replace(" ", "-")
        seal(path, cover, content, [[question]], ring.own, to)


def posted(folder: Path, name: str) -> list[Path]:
    """The question envelopes in a folder that are for one party."""
    found = []
    for path in sorted(folder.glob(f"*{ENDING}")):
        try:
            if read_cover(path).to == name:
                found.append(path)
        except EnvelopeRefused:
            continue  # Not one that was written here.
    return found


def refuse_other_rows(envelope: Envelope, party: Party, session: Session) -> None:
    """Refuse an envelope that is about other rows than a party's own."""
    own, other = alignment_of(party, session), envelope.cover.alignment
    if NONE not in (own, other) and own != other:
        raise OtherAlignment(
            f"{envelope.path} is about the rows {other}, but here they are {own}; match the rows again on both sides"
        )

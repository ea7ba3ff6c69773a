"""Answers that come by envelope: where a hub takes them in, and a runtime for parties that are never connected.

What was answered is taken from the envelopes at hand, and the hub remembers which it has accepted. What was not is
written out as question envelopes, and the run stops; started again when the answers are in, it goes on from its
journal. Methods notice none of this.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.step import Script, steps_of
from laconic.core.wire import Blob, outline, read_heading
from laconic.deploy.homecoming import script_kind
from laconic.deploy.party_context import NONE, PartyContext, alignment_of, epsilon_words, rows_of, run_id
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.session import Session
from laconic.deploy.statements import sign_ledger
from laconic.deploy.store import Store
from laconic.deploy.transports.envelopes.keys import (
    Content,
    Cover,
    CoverMismatch,
    EnvelopeRefused,
    OtherAlignment,
    Replayed,
    describe_blob,
)
from laconic.deploy.transports.envelopes.sealing import Envelope, Expected, Opened, check, cover_of, read_cover, seal
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import Waiting, WireError

_KIND = "envelope"
ENDING = ".envelope"
"""How the names of envelopes end."""


class ReplayGuard:
    """An entry for each envelope accepted; it outlives runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store = Store(path, grows=True, adopt=self._adopt)

    def has(self, number: str, run: str) -> bool:
        """Whether a run accepted the envelope with a number."""
        return self._run_of(number) == run

    def refuse_seen(self, envelope: Envelope, run: str) -> None:
        """Refuse an envelope that another run had already."""
        if self._run_of(envelope.cover.number) not in (None, run):
            raise Replayed(
                f"{envelope.path} was accepted before, for an earlier run; somebody sent it again. Ask "
                f"{envelope.cover.sender} to seal a new one: that costs no more privacy"
            )

    def note(self, envelope: Envelope, run: str) -> None:
        """Write down that an envelope was accepted, unless another run was faster; returns when it is on the disk."""
        with self._store.writing():
            self.refuse_seen(envelope, run)
            if self._run_of(envelope.cover.number) is None:
                self._store.put(_KIND, envelope.cover.number, run.encode(), note=envelope.cover.sender.encode())

    def _run_of(self, number: str) -> str | None:
        found = self._store.find(_KIND, number)
        return None if found is None else self._store.content(found).decode()

    def _adopt(self, store: Store) -> list[Path]:
        """Take over the lines that an earlier version wrote."""
        if not self._path.exists():
            return []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            number, run, sender = [*line.split(" ", 2), "", ""][:3]
            store.put(_KIND, number, run.encode(), note=sender.encode())
        return [self._path]


@dataclass(frozen=True)
class ReceivedEnvelope:
    """An envelope that came, with its cover if it is accepted, or why it is refused."""

    path: Path
    cover: Cover | None
    refusal: EnvelopeRefused | None


class Inbox:
    """Where a hub takes in envelopes for one run, each checked before anything inside is used.

    Args:
        alignment, rows: what answers must be about: the rows' fingerprint and number; None if not known yet.
    """

    def __init__(self, context: PartyContext, folder: Path, alignment: str | None, rows: int | None) -> None:
        self._context, self._folder, self._rows = context, folder, rows
        self._expected = Expected("answer", plan=context.session.fingerprint, alignment=alignment)
        self._guard = ReplayGuard(context.home / "runs" / "accepted")
        self._run = run_id(context.folder / "hub")
        self._found: dict[tuple[str, str], tuple[Envelope, int]] = {}
        self._numbers: dict[str, Path] = {}
        self._ledgers: dict[str, Ledger] = {}

    def take_in(self) -> None:
        """Accept everything in the inbox; the first envelope that cannot be is an error."""
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            self._guard.note(self._accept(path), self._run)

    def look(self) -> list[ReceivedEnvelope]:
        """Check everything in the inbox, and accept nothing."""
        found = []
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            try:
                found.append(ReceivedEnvelope(path, self._accept(path).cover, None))
            except EnvelopeRefused as problem:
                found.append(ReceivedEnvelope(path, None, problem))
        return found

    def _accept(self, path: Path) -> Envelope:
        said = read_cover(path)
        # What this run has accepted stays so when its last day is over; the signature is checked all the same.
        now = said.written if self._guard.has(said.number, self._run) else None
        envelope = check(path, self._context.ring, self._expected, now)
        self._guard.refuse_seen(envelope, self._run)
        with envelope.open(self._context.ring.own) as opened:
            self._compare(envelope, opened.content)
            for _, pieces in opened.blobs():
                for _ in pieces:
                    pass
            self._add(envelope, opened)
        return envelope

    def _compare(self, envelope: Envelope, content: Content) -> None:
        """What its sender says must follow from its own ledger, and from the rows that both hold."""
        words = epsilon_words(envelope.sender.name, content.ledger, self._context.session.plan)
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

    def _add(self, envelope: Envelope, opened: Opened) -> None:
        """Take in an envelope that was checked."""
        name, cover = envelope.sender.name, envelope.cover
        if cover.number in self._numbers:
            raise Replayed(f"{envelope.path} is a copy of {self._numbers[cover.number]}; take one of them away")
        for blob in opened.content.blobs:
            if (name, blob.question) in self._found:
                other = self._found[name, blob.question][0].path
                raise Replayed(
                    f"{envelope.path} answers `{blob.step}` of {blob.phase} {blob.round}, as {other} does; keep the "
                    "one that its sender says is right, and take the other away"
                )
        self._numbers[cover.number] = envelope.path
        for number, blob in enumerate(opened.content.blobs):
            self._found[name, blob.question] = envelope, number
        ledger = Ledger(opened.content.ledger, opened.content.statement)
        # A later envelope's ledger holds all that an earlier one's does.
        self._ledgers[name] = max(self._ledgers.get(name, ledger), ledger, key=_completeness)

    def find(self, name: str, question: str) -> tuple[Envelope, int] | None:
        """The envelope with a party's answer to a question, and which of its blobs that is; None if it has not come."""
        return self._found.get((name, question))

    def ledgers(self) -> dict[str, Ledger]:
        """What each sender says that it gave away."""
        return dict(self._ledgers)

    def read(self, envelope: Envelope, number: int) -> Blob:
        """A blob of an envelope, whose form is what the cover says."""
        with envelope.open(self._context.ring.own) as opened:
            for at, (blob, pieces) in enumerate(opened.blobs()):
                if at == number:
                    return _checked(_joined(pieces, blob.size), blob.form, envelope)
                for _ in pieces:
                    pass
        raise IndexError(f"{envelope.path} has no blob {number}")


def _completeness(ledger: Ledger) -> tuple[int, bool]:
    """Greater for a later ledger of the same party."""
    return sum(entry.times for entry in ledger.entries), ledger.statement is not None and ledger.statement.final


def _joined(pieces: Iterable[bytes], size: int) -> memoryview:
    """All pieces as one, put together where they stay: an answer may be as large as memory."""
    whole, at = bytearray(size), 0
    for piece in pieces:
        whole[at : at + len(piece)] = piece
        at += len(piece)
    return memoryview(whole)


def _checked(reply: memoryview, form: str, envelope: Envelope) -> memoryview:
    """An answer whose form is what its cover says."""
    try:
        found = outline(reply)
    except WireError as problem:
        raise CoverMismatch(f"an answer in {envelope.path} cannot be read: {problem}") from problem
    if found != form:
        raise CoverMismatch(f"the cover of {envelope.path} says {form}, but inside is {found}; ask its sender why")
    return reply


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

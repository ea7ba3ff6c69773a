"""The hub's side of a run by mail: take in what came, train from it, and ask for what is missing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from laconic.align.agreed import AgreedIds
from laconic.core.align import Align
from laconic.core.errors import PlanError
from laconic.core.ledger import Ledger
from laconic.core.log import WireLog
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.result import Result
from laconic.core.run import run
from laconic.core.script import Script, steps_of
from laconic.core.table import Table
from laconic.core.values import Listener
from laconic.core.wire import read_heading
from laconic.envelope.content import Asked, Content
from laconic.envelope.opening import Envelope, read_cover
from laconic.envelope.refusals import EnvelopeRefused, OtherAlignment
from laconic.envelope.sealing import cover_of, seal
from laconic.mail.desk import NONE, Desk, alignment_of, note_rows, question_of, rows_of
from laconic.mail.epsilon import epsilon_words
from laconic.mail.office import Office
from laconic.mail.place import Place
from laconic.plan.execute import priced
from laconic.runtime.envelopes import ENDING, Mailbox
from laconic.runtime.journal import Journal
from laconic.runtime.memory import PartyFolder
from laconic.runtime.naming import question_id
from laconic.simulation import on_threads

QUESTIONS = "questions"
"""The folder within the inbox for envelopes that go out."""


def open_office(place: Place, inbox: Path) -> Office:
    """The office for the run of a plan."""
    refuse_peer(place)
    if not inbox.is_dir():
        raise PlanError(f"there is no folder {inbox} for envelopes; make it, and put in what the others sent")
    aligned = _aligned(place)
    known = (None, None) if aligned is None else (alignment_of(aligned), rows_of(aligned))
    return Office(place, inbox, place.run / "hub", *known)


def host(
    place: Place,
    inbox: Path,
    *,
    without: tuple[str, ...] = (),
    days: float = 30,
    listener: Listener | None = None,
) -> Result:
    """Train from the envelopes in a folder.

    Args:
        place: the label holder's.
        inbox: the folder.
        without: parties that the run is to do without, if the method can.
        days: how long questions may be answered.
        listener: told of progress.

    Raises:
        EnvelopeRefused: an envelope in the folder is not accepted.
        Waiting: answers are missing; questions for them are in the folder `questions` within the inbox.
    """
    agreement, plan = place.agreement, place.agreement.plan
    office = open_office(place, inbox)
    note_rows(place.run / "hub", place.party)
    office.take_in()
    hub, judge, here = _seats(place)
    with asking(place, office, hub, judge, here, inbox, place.run / "hub", without, days) as carrier, on_threads(1):
        peers = Peers(agreement.method, hub, carrier, WireLog(), agreement.peers)
        result = run(
            agreement.method,
            hub,
            peers,
            judge=judge,
            align=agreement.align,
            max_bytes=plan.budget.byte_limit,
            look_every=plan.look_every,
            data={"name": plan.data.name or ", ".join(agreement.names), "plan": msgspec.to_builtins(plan.data)},
            listener=listener,
        )
    # What the hub learnt stays with it, for predictions later.
    PartyFolder(place.run / "model").begin(hub)
    return priced(result, plan)


def _seats(place: Place) -> tuple[Party, Party, dict[str, "Beside"]]:
    """Who asks, whose labels score, and, if a server asks, the label holder beside it, who is asked too."""
    agreement = place.agreement
    if not agreement.method.server:
        return place.party, place.party, {}
    beside = Beside(Desk(agreement, place.run, None), place.party)
    server = Party(agreement.hub, Table.without_rows(agreement.hub), agreement.plan.seed)
    return server, beside.party, {agreement.holder: beside}


class Beside:
    """The label holder, asked by the server that it runs itself: its rows on disk, and as they are now."""

    def __init__(self, desk: Desk, party: Party) -> None:
        self._desk = desk
        desk.begin(party)
        self.party = party
        self.party.data = desk.load().data

    def reply(self, script: Script, question: bytes) -> bytes:
        """Its answer; its rows may be others after it."""
        reply = self._desk.reply(script, question)
        self.party.data = self._desk.load().data
        return reply

    def ledger(self) -> Ledger:
        """What it gave away."""
        return self._desk.ledger()


@contextmanager
def asking(
    place: Place,
    office: Office,
    hub: Party,
    judge: Party,
    here: "Mapping[str, Beside]",
    inbox: Path,
    folder: Path,
    without: tuple[str, ...],
    days: float,
) -> Iterator[Carrier]:
    """The parties as a carrier, with a journal around it."""
    strangers = [name for name in without if name not in place.agreement.peers]
    if strangers:
        raise PlanError(f"{strangers[0]} is no party of this plan; they are {', '.join(place.agreement.peers)}")

    def approve(envelope: Envelope) -> None:
        own, other = alignment_of(judge), envelope.cover.alignment
        if NONE not in (own, other) and own != other:
            raise OtherAlignment(
                f"{envelope.path} is about the rows {other}, but here they are {own}; match the rows again on both "
                "sides"
            )

    post = _poster(place, hub, judge, inbox / QUESTIONS, days)
    mailbox = Mailbox(place.agreement.peers, office.arrived, here=here, without=without, approve=approve, post=post)
    with Journal(folder / "journal") as journal:
        hub.keep_secret(journal.secret)  # Taken up again, it must ask what it asked before.
        yield journal.around(mailbox)


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


def _poster(
    place: Place, hub: Party, judge: Party, folder: Path, days: float
) -> Callable[[Script, Mapping[str, bytes]], None]:
    """Writes question envelopes, one for each party."""

    def post(script: Script, questions: Mapping[str, bytes]) -> None:
        folder.mkdir(exist_ok=True)
        for name, question in questions.items():
            heading = read_heading(question)
            takes = steps_of(script)[heading.step].takes
            kind: Asked = "align" if isinstance(script, Align) else "method"
            blob = question_of(kind, question, question_id(script, name, question), takes)
            told = epsilon_words(hub.name, hub.ledger.entries if takes else (), place.agreement.plan)
            content = Content(rows=rows_of(judge) if takes else 0, epsilon=told, ledger=(), blobs=(blob,))
            own, to = place.ring.own, place.ring.named(name)
            about = {"plan": place.agreement.fingerprint, "alignment": alignment_of(judge)}
            cover = cover_of(content, own, to, kind="question", days=days, **about)
            for old in posted(folder, name):
                old.unlink()
            path = folder / f"{name}-{heading.phase}-{heading.round}{ENDING}".replace(" ", "-")
            seal(path, cover, content, [[question]], own, to)

    return post


def _aligned(place: Place) -> Party | None:
    """The hub's party as it will be when rows are matched, if that follows from the plan alone."""
    agreement = place.agreement
    if agreement.align is None:
        return place.party
    if not isinstance(agreement.align, AgreedIds):
        return None
    asking = Party(agreement.hub, Table.without_rows(agreement.hub), agreement.plan.seed)
    asking.turn("align", 0)
    party = Party(place.party.name, place.party.data, place.party.seed, dict(place.party.memory))
    agreement.align.keep_agreed(party, int(asking.rng.integers(2**31)))
    return party


def refuse_peer(place: Place) -> None:
    """Only the label holder hosts."""
    if place.file.name != place.agreement.holder:
        raise PlanError(
            f"{place.file.name} has no labels by this plan, but {place.agreement.holder} has; {place.agreement.holder} "
            f"hosts, and {place.file.name} seals"
        )

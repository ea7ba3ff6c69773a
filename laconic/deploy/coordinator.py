"""The hub's side of a run by mail: take in what came, train from it, and ask for what is missing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from laconic.align.agreed import AgreedIds
from laconic.atomic_files import write_sealed
from laconic.core.align import Align
from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.result import Result
from laconic.core.run import run
from laconic.core.step import Script, steps_of
from laconic.core.traffic import WireLog
from laconic.core.wire import Blob, read_heading
from laconic.deploy.consortium import PartySite
from laconic.deploy.execute import priced
from laconic.deploy.inbox import Inbox
from laconic.deploy.journal import Journal
from laconic.deploy.party_context import PartyContext, epsilon_words
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.responder import (
    NONE,
    EnvelopeResponder,
    OnlineResponder,
    alignment_of,
    note_rows,
    question_of,
    rows_of,
)
from laconic.deploy.session import Seating, seat, sit_down
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.envelopes.cover import Asked, Content
from laconic.deploy.transports.envelopes.keys import EnvelopeRefused, OtherAlignment
from laconic.deploy.transports.envelopes.mailbox import ENDING, Mailbox
from laconic.deploy.transports.envelopes.opening import Envelope, read_cover
from laconic.deploy.transports.envelopes.sealing import cover_of, seal
from laconic.deploy.transports.rpc_client import Line, RpcClient
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import DataError, PlanError
from laconic.learn.device import on_device
from laconic.plan.text import plan_fingerprint, read_plan
from laconic.tables.table import Table, fingerprint
from laconic.values import Listener

QUESTIONS = "questions"
"""The folder within the inbox for envelopes that go out."""


def open_inbox(place: PartyContext, inbox: Path) -> Inbox:
    """The office for the run of a plan."""
    refuse_peer(place)
    if not inbox.is_dir():
        raise PlanError(f"there is no folder {inbox} for envelopes; make it, and put in what the others sent")
    aligned = _aligned(place)
    known = (None, None) if aligned is None else (alignment_of(aligned), rows_of(aligned))
    return Inbox(place, inbox, place.run / "hub", *known)


def host(
    place: PartyContext,
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
    office = open_inbox(place, inbox)
    note_rows(place.run / "hub", place.party)
    office.take_in()
    hub, judge, here = _seats(place)
    with asking(place, office, hub, judge, here, inbox, place.run / "hub", without, days) as carrier:
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


def _seats(place: PartyContext) -> tuple[Party, Party, dict[str, "CoLocatedHolder"]]:
    """Who asks, whose labels score, and, if a server asks, the label holder beside it, who is asked too."""
    agreement = place.agreement
    if not agreement.method.server:
        return place.party, place.party, {}
    beside = CoLocatedHolder(EnvelopeResponder(agreement, place.run, None), place.party)
    server = Party(agreement.hub, Table.without_rows(agreement.hub), agreement.plan.seed)
    return server, beside.party, {agreement.holder: beside}


class CoLocatedHolder:
    """The label holder, asked by the server that it runs itself: its rows on disk, and as they are now."""

    def __init__(self, desk: EnvelopeResponder, party: Party) -> None:
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
    place: PartyContext,
    office: Inbox,
    hub: Party,
    judge: Party,
    here: "Mapping[str, CoLocatedHolder]",
    inbox: Path,
    folder: Path,
    without: tuple[str, ...],
    days: float,
) -> Iterator[Carrier]:
    """The parties as a carrier, with a journal around it, and this party's device for as long as the block lasts."""
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
    with on_device(place.file.device), Journal(folder / "journal") as journal:
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
    place: PartyContext, hub: Party, judge: Party, folder: Path, days: float
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


def _aligned(place: PartyContext) -> Party | None:
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


def refuse_peer(place: PartyContext) -> None:
    """Only the label holder hosts."""
    if place.file.name != place.agreement.holder:
        raise PlanError(
            f"{place.file.name} has no labels by this plan, but {place.agreement.holder} has; {place.agreement.holder} "
            f"hosts, and {place.file.name} seals"
        )


def host_run(
    site: PartySite, name: str, line: Line, *, deadline: float | None = None, listener: Listener | None = None
) -> Result:
    """Run the plan of a run's folder at the hub; started again, it goes on where it was.

    Args:
        site: the hub's.
        name: the run's; its folder holds `plan.toml`.
        line: brings frames to sites by name.
        deadline: seconds that a question may take; None for no limit while a party is there.
        listener: told of progress.

    Raises:
        Refused: a party does not agree, or its rules forbid what is asked; in its own words.
        PartyAbsent: a party cannot be reached or is late, and the method cannot do without it.
    """
    folder = site.run(name)
    plan = read_plan((folder / "plan.toml").read_text(encoding="utf-8"))
    seating = seat(plan, site.circle)
    with ExitStack() as stack:
        stack.enter_context(on_device(site.party_file.device))
        journal = stack.enter_context(Journal(folder / "journal"))
        desk = OnlineResponder(site)

        def bring(party: str, frame: bytes, seconds: float) -> bytes:
            # A label holder beside a server is asked like everybody else, without a line.
            at = seating.sites[party]
            return desk.hear(frame) if at == site.name else line(at, frame, seconds)

        lines = RpcClient(bring, seating.peers, name, folder / "incoming", deadline)
        hub, judge = _take_seats(seating, site, journal)
        greeted = lines.greet(
            frames.Greet(name, plan_fingerprint(plan), version("laconic"), seating.hub, seating.peers)
        )
        _compare_rows(judge if plan.method.kind == "vertical" else None, greeted)
        carrier = journal.around(_Shielded(lines, set(greeted)))
        result = _run(seating, hub, judge, carrier, lines, listener)
    write_sealed(folder / "result", msgspec.json.encode(result))
    return result


def _take_seats(seating: Seating, site: PartySite, journal: Journal) -> tuple[Party, Party]:
    """Who asks, and whose labels score."""
    judge = sit_down(seating, site, seating.holder)
    if not seating.plan.method.server:
        judge.keep_secret(journal.secret)
        return judge, judge
    return Party(seating.hub, Table.without_rows(seating.hub), seating.plan.seed, secret=journal.secret), judge


def _run(
    seating: Seating, hub: Party, judge: Party, carrier: Carrier, lines: RpcClient, listener: Listener | None
) -> Result:
    plan, log = seating.plan, WireLog()
    align, facts = seating.align, dict(seating.facts)
    method = seating.plan.method
    if align is not None:
        with log.during("align"):
            hub.turn("align", 0)
            found = align.match(hub, Peers(align, hub, carrier, log, carrier.names))
        lines.shared = found["shared"]
        align = _Matched(within=align, found=found)
        facts = {"name": ", ".join(seating.names), "kind": method.kind}
    method = seating.method(lines.shared, hub.data if hub.data.rows else judge.data)
    result = run(
        method,
        hub,
        Peers(method, hub, carrier, log, carrier.names),
        judge=judge,
        align=align,
        max_bytes=plan.budget.byte_limit,
        look_every=plan.look_every,
        data=facts,
        listener=listener,
    )
    return priced(msgspec.structs.replace(result, data=result.data | {"plan": msgspec.to_builtins(plan.data)}), plan)


class _Matched(Align, frozen=True):
    """Rows that were matched before the method was settled, since its noise may depend on how many there are."""

    within: Any
    found: dict[str, Any]

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        return self.found

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        return str(self.within.confirm(hub, peers.speaking(self.within)))


class _Shielded:
    """Lines to those who were greeted; who was not there then is absent from this run, and is not waited for."""

    def __init__(self, lines: RpcClient, present: set[str]) -> None:
        self._lines, self._present = lines, present

    @property
    def names(self) -> tuple[str, ...]:
        return self._lines.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        yield from self._lines.carry(script, {name: blobs[name] for name in blobs if name in self._present}, deadline)

    def ledgers(self) -> dict[str, Ledger]:
        return {name: ledger for name, ledger in self._lines.ledgers().items() if name in self._present}


def _compare_rows(judge: Party | None, greeted: Mapping[str, frames.Welcome]) -> None:
    """Refuse parties whose rows are matched already, but not to the same ones."""
    found = {name: said.alignment for name, said in greeted.items() if said.alignment}
    if judge is not None and "train" in judge.data.cuts:
        found = {judge.name: fingerprint(judge.data)} | found
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{name} {one[:8]}" for name, one in found.items())
        raise DataError(f"the parties do not hold the same rows in the same order: {shown}; match the rows again")

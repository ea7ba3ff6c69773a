"""The hub's side of a run: reach the parties online or by envelope, train, predict, and write down what happened."""

import csv
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from laconic.align.agreed import AgreedIds
from laconic.align.exact import AT_RANDOM
from laconic.atomic_files import write_sealed, write_whole
from laconic.core.align import Align
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.result import Result
from laconic.core.run import run
from laconic.core.traffic import WireLog
from laconic.deploy.execute import finished
from laconic.deploy.growth import INFORMED, GrowingModel, read_growth, with_names
from laconic.deploy.homecoming import Homecoming, Sign, bring_home
from laconic.deploy.journal import AnswerCheck, Journal
from laconic.deploy.party_context import PartyContext, alignment_of, context_for_ids, rows_of
from laconic.deploy.party_files import PartySite
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.policy import NEW
from laconic.deploy.responder import OnlineResponder, note_rows, open_kept
from laconic.deploy.session import Session, online_session, read_rows
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.envelopes.mailbox import QUESTIONS, CoLocatedHolder, Inbox, Mailbox
from laconic.deploy.transports.rpc_client import Line, RpcClient
from laconic.deploy.transports.secure_channel import SecureLine
from laconic.errors import DataError, PlanError
from laconic.learn.device import on_device
from laconic.plan.text import plan_fingerprint, read_plan
from laconic.tables.table import Table, fingerprint
from laconic.tables.task import Task
from laconic.values import Array, Listener


def _run(
    session: Session,
    hub: Party,
    holder: Party,
    carrier: Carrier,
    *,
    align: Align | None,
    log: WireLog,
    listener: Listener | None,
    sign: Sign,
    growing: GrowingModel | None = None,
) -> Result:
    """Run a session's method over a carrier, scored by the labels of `holder`, with what the plan limits and asks."""
    plan, method = session.plan, session.method
    result = run(
        method if growing is None else growing.method(method),
        hub,
        Peers(method, hub, carrier, log, session.peers),
        judge=holder,
        align=align,
        max_bytes=plan.budget.byte_limit,
        look_every=plan.look_every,
        data=session.facts,
        listener=listener,
        home=bring_home(method, sign, plan.data.home) if session.apart else None,
    )
    return finished(result if growing is None else growing.record(result, method), plan)


def host(
    context: PartyContext,
    inbox: Path,
    *,
    without: tuple[str, ...] = (),
    days: float = 30,
    listener: Listener | None = None,
) -> Result:
    """Train from the envelopes in a folder.

    Args:
        without: parties that the run is to do without, if the method can.
        days: how long questions may be answered.

    Raises:
        EnvelopeRefused: an envelope in the folder is not accepted.
        Waiting: answers are missing; questions for them are in the folder `questions` within the inbox.
    """
    session, hub = context.session, context.session.asker(context.party, context.file)
    judge, sign = hub if session.apart else context.party, context.ring.own.signing.sign
    with _by_envelope(context, hub, inbox, without, days) as carrier:
        result = _run(session, hub, judge, carrier, align=session.align, log=WireLog(), listener=listener, sign=sign)
    # What the hub learnt stays with it, for predictions later.
    PartyFolder(context.run / "model").begin(hub)
    return result


@dataclass(frozen=True)
class Predicted:
    """Predictions for new ids, in the order asked and in the shape of `Task.shape`."""

    ids: list[str]
    values: Array
    task: Task

    def save(self, path: Path) -> None:
        """Write one line per id, whole or not at all."""
        text = io.StringIO(newline="")
        named = list(self.task.classes) if self.task.kind == "multiclass" else ["prediction"]
        columns = self.values if self.values.ndim == 2 else self.values[:, None]
        writer = csv.writer(text)
        writer.writerow(["id", *named])
        writer.writerows([one, *(f"{value:.6g}" for value in row)] for one, row in zip(self.ids, columns, strict=True))
        write_whole(path, text.getvalue().encode())


def predict(
    context: PartyContext, inbox: Path, ids: list[str], *, without: tuple[str, ...] = (), days: float = 30
) -> Predicted:
    """Predict new ids from the envelopes in a folder, as `host` trains; the context is from `reopen_context`."""
    refuse_peer(context)
    if context.session.apart:
        raise PlanError("every party has the model and predicts by itself: laconic home, then laconic predict")
    model = PartyFolder(context.run / "model")
    if not model.begun:
        raise PlanError("training has not ended; go on with `laconic host` until it shows a result")
    session, context = context.session, context_for_ids(context, ids)
    hub = session.asker(context.party, context.file, model.load().memory)
    with _by_envelope(context, hub, inbox, without, days) as carrier:
        log = WireLog()
        log.phase = context.phase
        hub.turn(context.phase, 0)
        values = session.method.predict(hub, Peers(session.method, hub, carrier, log, session.peers), NEW)
    return Predicted(ids, np.asarray(values), task_of(context.party))


@contextmanager
def _by_envelope(
    context: PartyContext, hub: Party, folder: Path, without: tuple[str, ...], days: float
) -> Iterator[Carrier]:
    """The parties as a carrier, with a journal around it, and this party's device for as long as the block lasts."""
    session = context.session
    inbox = open_inbox(context, folder)
    strangers = [name for name in without if name not in session.peers]
    if strangers:
        raise PlanError(f"{strangers[0]} is no party of this plan; they are {', '.join(session.peers)}")
    if context.ids is None:
        note_rows(context.folder / "hub", context.party)
    inbox.take_in()
    beside = None
    if hub is not context.party:
        note_rows(context.folder, context.party)
        beside = CoLocatedHolder(open_kept(context.folder), context.party)
    mailbox = Mailbox(context, hub, inbox, beside=beside, without=without, folder=folder / QUESTIONS, days=days)
    with on_device(context.file.device), Journal(context.folder / "hub" / "journal") as journal:
        hub.keep_secret(journal.secret)  # Taken up again, it must ask what it asked before.
        yield journal.around(mailbox, AnswerCheck(None if session.apart else context.party))


def open_inbox(context: PartyContext, folder: Path) -> Inbox:
    """What takes in the envelopes of a run, or about new ids."""
    refuse_peer(context)
    if not folder.is_dir():
        raise PlanError(f"there is no folder {folder} for envelopes; make it, and put in what the others sent")
    aligned = _aligned(context)
    known = (None, None) if aligned is None else (alignment_of(aligned, context.session), rows_of(aligned))
    return Inbox(context, folder, *known)


def _aligned(context: PartyContext) -> Party | None:
    """The hub's party as it will be when rows are matched, if that follows from the plan alone."""
    session = context.session
    if context.ids is not None or session.align is None:
        return context.party
    if not isinstance(session.align, AgreedIds) or session.align.held_out is not AT_RANDOM:
        return None
    asking = Party(session.hub, Table.without_rows(session.hub), session.plan.seed)
    asking.turn("align", 0, session.holder)
    party = Party(context.party.name, context.party.data, context.party.seed, dict(context.party.memory))
    session.align.keep_agreed(party, int(asking.rng.integers(2**31)))
    return party


def refuse_peer(context: PartyContext) -> None:
    """Only the label holder hosts, or whoever runs the server."""
    name, host = context.file.name, context.session.host
    if name == host:
        return
    if context.session.apart:
        raise PlanError(f"by this plan (data.hub) {host} runs the server; {host} hosts, and {name} seals")
    raise PlanError(f"{name} has no labels by this plan, but {host} has; {host} hosts, and {name} seals")


def host_run(
    site: PartySite, name: str, line: Line, *, deadline: float | None = None, listener: Listener | None = None
) -> Result:
    """Run the plan of a run's folder at the hub; started again, it goes on where it was.

    Args:
        name: the run's; its folder holds `plan.toml`, and of a run that changes a model what it begins with.
        line: brings bytes to sites by name; frames go on channels that only hub and party can use.
        deadline: seconds that a question may take; None for no limit while a party is there.

    Raises:
        Refused: a party does not agree, or its rules forbid what is asked; in its own words.
        PartyAbsent: a party cannot be reached or is late, and the method cannot do without it.
    """
    folder = site.run(name)
    plan = read_plan((folder / "plan.toml").read_text(encoding="utf-8"))
    session, growing = online_session(plan, site.consortium), read_growth(folder)
    greeting = frames.Greet(name, plan_fingerprint(plan), session.hub, session.peers)
    if growing is not None:
        session = growing.session(session)
    responder = OnlineResponder(site)

    def bring(party: str, frame: bytes, seconds: float) -> bytes:
        # A label holder beside a server is asked like everybody else, without a line.
        at = session.sites[party]
        return responder.hear(frame) if at == site.name else line(at, frame, seconds)

    with on_device(site.party_file.device), Journal(folder / "journal") as journal:
        secured = SecureLine(bring, site.ring, name, session.sites)
        client = RpcClient(secured, session.peers, name, folder / "incoming", deadline, needs_all=session.apart)
        client.take_up(
            learnt=journal.named("reply", phase=None if session.apart else "fit"),
            lost=journal.named("absent", phase="fit"),
            home=journal.named("reply", step=Homecoming.take_model.__name__),
        )
        holder = session.begin(session.holder, read_rows(plan, session.holder, site.party_file), site.party_file)
        hub = session.asker(holder, site.party_file)
        if growing is not None:
            hub = holder = growing.hub(hub)
        hub.keep_secret(journal.secret)
        _compare_rows(holder if plan.method.kind == "vertical" else None, client.greet(greeting))
        check = AnswerCheck(holder if plan.method.kind == "vertical" else None)
        sign = site.ring.own.signing.sign
        result = _match_and_run(session, hub, holder, journal.around(client, check), client, listener, sign, growing)
    if session.apart:
        PartyFolder(folder / "model").begin(hub)
    write_sealed(folder / "result", msgspec.json.encode(result))
    return result


def _match_and_run(
    session: Session,
    hub: Party,
    holder: Party,
    carrier: Carrier,
    client: RpcClient,
    listener: Listener | None,
    sign: Sign,
    growing: GrowingModel | None,
) -> Result:
    log, align = WireLog(), session.align
    if growing is not None and align is not None:
        align = growing.align(align)
    if align is not None:
        with log.during("align"):
            hub.turn("align", 0, holder.name)
            found = align.match(hub, Peers(align, hub, carrier, log, carrier.names))
        client.shared = found.get("shared")
        if growing is not None:
            session = with_names(session, found[INFORMED])
        align = _Matched(within=align, found=found)
    session = session.settle_matched(client.shared, holder.data)
    return _run(session, hub, holder, carrier, align=align, log=log, listener=listener, sign=sign, growing=growing)


class _Matched(Align, frozen=True):
    """Rows that were matched before the method was settled, since its noise may depend on how many there are."""

    within: Any
    found: dict[str, Any]

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        return self.found

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        return str(self.within.confirm(hub, peers.speaking(self.within)))


def _compare_rows(holder: Party | None, greeted: Mapping[str, frames.Welcome]) -> None:
    """Refuse parties whose rows are matched already, but not to the same ones."""
    found = {name: said.alignment for name, said in greeted.items() if said.alignment}
    if holder is not None and "train" in holder.data.cuts:
        found = {holder.name: fingerprint(holder.data)} | found
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{name} {one[:8]}" for name, one in found.items())
        raise DataError(f"the parties do not hold the same rows in the same order: {shown}; match the rows again")

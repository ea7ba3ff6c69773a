"""The hub's side of a run: reach the parties online or by envelope, train, predict, and write down what happened."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from laconic.align.agreed import AgreedIds
from laconic.align.alignment import ALIGNMENT, AT_RANDOM, Align
from laconic.align.schema import AgreedColumns, same_everywhere
from laconic.atomic_files import make_private_folder, read_sealed, write_sealed, write_whole
from laconic.core.capabilities import Mergeable
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.step import Step
from laconic.core.traffic import WireLog
from laconic.deploy.execute import finished
from laconic.deploy.homecoming import Homecoming, Sign, bring_home
from laconic.deploy.journal import AnswerCheck, Journal
from laconic.deploy.one_run import run
from laconic.deploy.party_context import PartyContext, alignment_of, context_for_ids, rows_of
from laconic.deploy.party_files import PartySite
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.policy import NEW
from laconic.deploy.responder import OnlineResponder, note_rows, open_kept
from laconic.deploy.result import Result
from laconic.deploy.session import Session, online_session, read_rows
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.envelopes.mailbox import QUESTIONS, CoLocatedHolder, Inbox, Mailbox
from laconic.deploy.transports.rpc_client import Line, RpcClient
from laconic.deploy.transports.secure_channel import SecureLine
from laconic.errors import DataError, PlanError, StepError
from laconic.learn.device import on_device
from laconic.methods.families.rows import ROWS_IN_ALL
from laconic.plan.text import plan_fingerprint, read_plan
from laconic.tables.columns import Recipe
from laconic.tables.table import Table, fingerprint
from laconic.tables.task import Task
from laconic.values import Array, Listener

_FILE, _START = "growth", "start"

INFORMED = "informed"
"""In what is known of the columns: who was informed of them."""


class Growth(msgspec.Struct, frozen=True):
    """What changes in a model.

    Attributes:
        joins: who adds its rows. without: who is not asked anything, because it left.
    """

    joins: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class GrowingModel:
    """A trained model that a run begins with, and what changes in it."""

    growth: Growth
    kept: Party

    def session(self, session: Session) -> Session:
        """What the plan settles, for those who are asked."""
        refuse_growth(session, self.growth, self.kept)
        return with_names(session, [one for one in session.names if one not in self.growth.without])

    def hub(self, fresh: Party) -> Party:
        """The server as the run begins: with what the model is made of."""
        memory = {name: value for name, value in self.kept.memory.items() if name != ALIGNMENT}
        return Party(fresh.name, fresh.data, fresh.seed, memory)

    def align(self, within: Align) -> Align:
        """How parties prepare their columns: as the model was trained."""
        return _AsTrained(within=within, recipe=self.kept.data.recipe, task=task_of(self.kept), joins=self.growth.joins)

    def method(self, within: Method) -> Method:
        """Asks who joins, and nobody else."""
        return _Joining(within=within, joins=self.growth.joins)

    def record(self, result: Result, within: Method) -> Result:
        """The result as one of the model's method, with who joined and who left."""
        facts = {"joined": list(self.growth.joins), "left": list(self.growth.without)}
        return msgspec.structs.replace(result, method=msgspec.to_builtins(within), data=result.data | facts)


def with_names(session: Session, names: Sequence[str]) -> Session:
    """A session of these parties and the hub alone."""
    return replace(session, names=tuple(one for one in session.names if one in names or one == session.hub))


def write_growth(folder: Path, growth: Growth, hub: Party) -> None:
    """Put what a run begins with into its folder: the server, with its columns and what the model is made of."""
    make_private_folder(folder)
    PartyFolder(folder / _START).begin(hub)
    write_sealed(folder / _FILE, msgspec.json.encode(growth))


def read_growth(folder: Path) -> GrowingModel | None:
    """What a run in this folder begins with; None for a run that trains a model."""
    if not (folder / _FILE).exists():
        return None
    growth = msgspec.json.decode(read_sealed(folder / _FILE), type=Growth)
    return GrowingModel(growth, PartyFolder(folder / _START).load())


def growing(method: Method) -> Mergeable:
    """The method, if parties can join and leave its models."""
    if not isinstance(method, Mergeable):
        raise PlanError(
            f"{type(method).__name__} lets nobody join or leave later, as every party trained what others had made; "
            "train again with everybody who is to be in the model"
        )
    return method


def refuse_growth(session: Session, growth: Growth, kept: Party) -> None:
    """Refuse a plan that is not the model's, a method that cannot grow, and parties that cannot join.

    Args:
        kept: the server with what the model is made of.
    """
    method = growing(session.method)
    strangers = [one for one in (*growth.joins, *growth.without) if one not in session.names or one == session.hub]
    if growth.joins and strangers:
        raise PlanError(
            f"{strangers[0]} is no party of the plan ({', '.join(session.names[1:])}); name it in data.files of a plan "
            "with the same method and seed (--plan FILE), which it and everybody who is to get the model agree to"
        )
    members = method.members(kept)
    again = [one for one in growth.joins if one in members]
    if again:
        raise DataError(f"{again[0]} is in the model already; it can join again once it is forgotten")


class _AsTrained(Align, frozen=True):
    """Tells parties the columns of a model, as they were agreed on when it was trained; none says what it has."""

    within: Any
    recipe: Recipe
    task: Task
    joins: tuple[str, ...]

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        within, agreed = self.within, self._agreed(hub)
        known = isinstance(within, AgreedColumns)
        question: Step = within.keep_columns if known else within.take_prepared
        own = question(hub, **agreed)
        if (hub.data.recipe.parts, hub.data.task) != (self.recipe.parts, self.task):
            raise DataError(
                "the schema is not the one that the model was trained with; bring that back, or train again with "
                "everybody"
            )
        asked = peers.speaking(within)
        others = tuple(name for name in peers.names if name not in self.joins)
        answers = asked.only(self.joins).ask(question, **agreed) if self.joins else {}
        # Whoever is away now is away until the end: the model is of no use without its columns.
        answers |= asked.only(others).tolerant.ask(question, **agreed)
        if known:
            same_everywhere(hub, own, answers)
        return {"columns": len(hub.data.columns), "classes": list(self.task.classes), INFORMED: list(answers)}

    def _agreed(self, hub: Party) -> dict[str, Any]:
        """What is said to parties; nothing where all have the schema."""
        if isinstance(self.within, AgreedColumns):
            return {}
        rows = int(hub.memory.get(ROWS_IN_ALL, 0))
        return {"recipe": msgspec.to_builtins(self.recipe), "task": msgspec.to_builtins(self.task), "rows": rows}

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        return str(self.within.confirm(hub, peers.speaking(self.within)))


class _Joining(Method, frozen=True):
    """The server's side of a method, from a model that is there: only who joins is asked."""

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"

    within: Any
    joins: tuple[str, ...]

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take what those who join add, and make the model anew."""
        if self.joins:
            try:
                self.within.merge_in(hub, peers.speaking(self.within).only(self.joins))
            except (ValueError, StepError) as problem:
                raise DataError(str(problem)) from problem
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask the model."""
        return np.asarray(self.within.predict(hub, peers.speaking(self.within), rows))


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

"""What a plan settles, so that parties who never meet work out the same scripts, names and fingerprint."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from laconic.align.agreed import AgreedIds
from laconic.align.alignment import Align
from laconic.core.capabilities import Budgeted
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import Ask, Opening, Script
from laconic.core.wire import Heading, Question, encode, read_heading
from laconic.data.readers.source_rows import server_table
from laconic.data.readers.source_table import note_aloud, own_table
from laconic.deploy.execute import align_of, deal_of, federation_of
from laconic.deploy.homecoming import Homecoming, refuse_homeless
from laconic.deploy.party_account import PartyAccount
from laconic.deploy.party_files import (
    Consortium,
    PartyFile,
    known_columns,
    people_of,
    read_apart,
    refuse_homeless_names,
    seed_of,
)
from laconic.deploy.policy import SCORED, Gatekeeper, read_policy
from laconic.deploy.transports.envelopes.keys import Asked
from laconic.errors import DataError, PlanError
from laconic.plan.plan import Plan, keep_budget_of, refuse_few_rows, refuse_unkept, training_rows
from laconic.plan.text import plan_fingerprint
from laconic.tables.columns import Recipe
from laconic.tables.table import Table

SERVER = "server"
"""What a hub without rows is called."""


@dataclass(frozen=True)
class PredictedQuestion:
    """A question that a party can answer before it is asked, as the hub will write it."""

    script: Asked
    blob: bytes


class Due(NamedTuple):
    """A question that will come, as the hub will write it; its blob is None if it depends on somebody's rows."""

    script: Asked
    heading: Heading
    blob: bytes | None


@dataclass(frozen=True)
class QuestionForecast:
    """All that the order of a run's questions depends on; no align for rows that correspond already.

    `holder` has the labels where the hub is a server; empty if the hub has them. `home` is how the model comes home to
    parties that score it; None if the hub predicts.
    """

    method: Method
    align: Align | None
    hub: str
    seed: int
    look_every: int | None = None
    holder: str = ""
    home: Homecoming | None = None

    def opening(self) -> tuple[PredictedQuestion, ...]:
        """What a party is asked from the start, up to the first question that must be waited for."""
        return _known(self.dues())

    def following(self, question: bytes, confirmed: int | None) -> tuple[PredictedQuestion, ...]:
        """The questions after a given one that can be answered with it, as they wait for nothing else.

        Args:
            question: what the hub asked last.
            confirmed: in which round of phase `align` the matched rows were first confirmed; None if it is not known.
        """
        heading = read_heading(question)
        # How many questions it takes to match rows depends on how many there are.
        counted = self.align is not None and self.align.declares_all
        if not counted and (heading.phase == "align" or (self.align is not None and confirmed is None)):
            return ()
        dues = self.dues() if counted else self.dues(confirmed or 0, matched=True)
        found = [at for at, due in enumerate(dues) if due.heading == heading]
        return _known(dues[found[0] + 1 :]) if found else ()

    def predicting(self, phase: str, rows: str) -> tuple[PredictedQuestion, ...]:
        """What a party is asked when the fitted model predicts a cut, in a phase of its own."""
        return _known(self.predict_dues(phase, rows))

    def predict_dues(self, phase: str, rows: str) -> tuple[Due, ...]:
        """All questions that are declared for predicting a cut, in a phase of its own."""
        return _numbered([("method", phase, self.method.predict_opening(rows))])

    def dues(self, confirmed: int = 0, *, matched: bool = False) -> tuple[Due, ...]:
        """All questions that are declared, in their order.

        Args:
            confirmed: the last round of phase `align` before these.
            matched: leave out how rows are matched and confirmed before fitting.
        """
        return _numbered(self._parts(matched=matched), confirmed)

    @property
    def whole(self) -> bool:
        """Whether fitting and predicting ask nothing beyond what is declared."""
        asked = ("ends", "trains") if self.look_every is None else ("ends",)
        return self.method.fit_opening().then in asked and self.method.predict_opening(SCORED).then == "ends"

    def _parts(self, *, matched: bool) -> Iterator[tuple[Asked, str, Opening]]:
        """The functions of a run in their order, each with its script and phase."""
        if self.align is not None and not matched:
            hub = Party(self.hub, Table.without_rows(self.hub), self.seed)
            hub.turn("align", 0, self.holder)
            yield "align", "align", self.align.match_opening(hub.rng, server=self.method.server)
            yield "align", "align", self.align.confirm_opening()
        server = Party(self.hub, Table.without_rows(self.hub), self.seed)
        server.turn("fit", 0)
        fit = self.method.fit_opening_from(server.rng)
        yield "method", "fit", fit
        if self.look_every is not None:
            yield "method", "look", self.method.predict_opening(SCORED)
        # How often the model is looked at after that depends on how often `fit` yields.
        if fit.then == "yields" or (fit.then == "trains" and self.look_every is not None):
            return
        if self.align is not None:
            yield "align", "align", self.align.confirm_opening()
        if self.home is not None:
            yield "home", "final", Opening((Ask.later(self.home.take_model),), then="ends")
        else:
            yield "method", "final", self.method.predict_opening(SCORED)


def _numbered(parts: Iterable[tuple[Asked, str, Opening]], confirmed: int = 0) -> tuple[Due, ...]:
    """The questions of some parts with their rounds, up to a part after which nobody knows what comes."""
    rounds = {"align": confirmed}
    dues: list[Due] = []
    for script, phase, opening in parts:
        for ask in opening.asks:
            rounds[phase] = number = rounds.get(phase, 0) + 1
            blob = None if ask.payload is None else encode(Question(ask.step, phase, number, dict(ask.payload)))
            dues.append(Due(script, Heading(ask.step, phase, number), blob))
        if opening.then == "unknown":
            break
    return tuple(dues)


def _known(dues: Sequence[Due]) -> tuple[PredictedQuestion, ...]:
    known = takewhile(lambda due: due.blob is not None, dues)
    return tuple(PredictedQuestion(due.script, due.blob or b"") for due in known)


@dataclass(frozen=True)
class Session:
    """A plan as all parties understand it.

    Attributes:
        plan: the plan.
        names: the parties with rows, in the order of the federation.
        holder: which of them has the labels.
        method: the plan's method; once rows are matched, with the noise that keeps its budget.
        facts: what is known of the data beforehand, for the report.
        sites: online, the site of each party.
    """

    plan: Plan
    names: tuple[str, ...]
    holder: str
    method: Method
    facts: dict[str, Any]
    sites: dict[str, str] = field(default_factory=dict)

    @property
    def apart(self) -> bool:
        """Whether parties hold other people, each in its own files: all are asked, and score the model at home."""
        return is_apart(self.plan)

    @property
    def host(self) -> str:
        """Who hosts the run: the label holder, or whoever runs the server."""
        return self.sites.get(self.holder, self.holder)

    @property
    def align(self) -> Align | None:
        """How rows are matched; None if they correspond already."""
        return None if self.plan.data.name is not None else align_of(self.plan)

    @property
    def hub(self) -> str:
        """Who asks: the label holder, or a server without rows that it runs."""
        return SERVER if self.method.server else self.holder

    @property
    def peers(self) -> tuple[str, ...]:
        """Who is asked."""
        return tuple(name for name in self.names if name != self.hub)

    @property
    def guests(self) -> tuple[str, ...]:
        """All parties without labels."""
        return tuple(name for name in self.names if name != self.holder)

    @property
    def fingerprint(self) -> str:
        """Equal only for plans that ask the same of the same parties; where they run does not matter."""
        return plan_fingerprint(self.plan)

    @property
    def schedule(self) -> QuestionForecast:
        """The questions of the run, as far as the scripts declare them."""
        method, plan = self.method, self.plan
        home = Homecoming.of(method) if self.apart else None
        return QuestionForecast(method, self.align, self.hub, plan.seed, plan.look_every, self.holder, home)

    def name_of(self, site: str) -> str:
        """What the party of a site is called in the run."""
        return next(name for name, one in self.sites.items() if one == site)

    def script(self, kind: str) -> Script:
        """The script that a step belongs to: `method`, `align` or `home`."""
        if kind == "method":
            return self.method
        if kind == "home" and self.apart:
            return Homecoming.of(self.method)
        if kind != "align" or self.align is None:
            raise PlanError(f"the plan has no script {kind!r} to match rows by; compare the plans of hub and party")
        return self.align

    def settle(self, rows: int) -> "Session":
        """The same with noise that keeps the plan's budget for so many training rows."""
        return replace(self, method=keep_budget_of(self.plan, rows, self.holder, self.guests))

    def settle_matched(self, shared: int | None, table: Table) -> "Session":
        """The same for rows that are matched: `shared` of them as the hub says, which must be those in `table`."""
        if self.plan.budget.epsilon is None or self.apart:
            return self
        if self.align is None:
            return self.settle(len(table.cut("train")))
        here = len(table.cut("shared"))
        if shared != here:
            raise DataError(f"the hub says that {shared} rows are shared; here there are {here}")
        return self.settle(training_rows(self.plan.data, here))

    def asker(self, holder: Party, file: PartyFile, memory: dict[str, Any] | None = None) -> Party:
        """The party that asks: the label holder, or a server beside it with this memory."""
        if self.apart and holder.name != self.hub:
            return Party(self.hub, read_rows(self.plan, self.hub, file), self.plan.seed, memory)
        if not self.method.server:
            return holder
        return Party(self.hub, Table.without_rows(self.hub), self.plan.seed, memory)

    def begin(self, name: str, table: Table, file: PartyFile) -> Party:
        """A party as it begins.

        The others predict what the hub will ask, randomness included. Nobody is to predict what a party answers.
        """
        return Party(name, table, self.plan.seed if name == self.hub else seed_of(self.plan, file))

    def rules(self, file: PartyFile, account: PartyAccount, run: str) -> Gatekeeper:
        """A party's own rules for one run, with the account of what it has spent in all its runs."""
        allowed, matched = read_policy(file.allow, file.path), self.align is None
        return Gatekeeper(allowed, account, run, self.holder, self.guests, matched=matched)


def online_session(plan: Plan, consortium: Consortium) -> Session:
    """What a plan settles for the parties of a consortium.

    A public data set is dealt among made-up parties: the hub's site plays the one with the labels, and the other sites
    play the others in turn. With data of their own, everybody plays themselves.
    """
    hub, parties, named = consortium.hub.name, consortium.parties, _file_names(plan)
    if is_apart(plan):
        strangers = set(named) - {hub, *parties}
        if strangers:
            raise PlanError(
                f"the plan is for {', '.join(named)}, but parties.toml for {hub}, {', '.join(parties)}; say "
                f'data.files = {{ name = "party.toml", ... }} with names from there, and with {hub} only if it has rows'
            )
        return _session_apart(plan, hub)
    if plan.data.name is None and set(named) != {hub, *parties}:
        raise PlanError(
            f"the plan is for {', '.join(named)}, but parties.toml for {hub}, {', '.join(parties)}; "
            'say data.files = { name = "party.toml", ... } with the same names'
        )
    session = _session(plan, hub)
    if plan.data.name is None:
        return replace(session, sites={name: name for name in session.names})
    if len(session.guests) != len(parties):
        raise PlanError(
            f"the plan deals {plan.data.name} among {len(session.guests)} parties beside the hub, but parties.toml "
            f"names {len(parties)}; set data.parties, or the number in data.cut, to fit"
        )
    return replace(session, sites={session.holder: hub} | dict(zip(session.guests, parties, strict=True)))


def envelope_session(plan: Plan, table: Table, agreed: int | None = None) -> Session:
    """What a plan settles for parties that send envelopes.

    Args:
        table: this party's own rows.
        agreed: how many ids were agreed upon beforehand; None for all of this party's rows.
    """
    if is_apart(plan):
        names, hub = _file_names(plan), plan.data.hub
        return _session_apart(plan, names[hub] if isinstance(hub, int) and 0 <= hub < len(names) else str(hub))
    if plan.method.kind != "vertical":
        raise PlanError(
            f"{type(plan.method).__name__} on a public data set is a trial, for which nobody sends envelopes; give "
            "party files (data.files), or use laconic run"
        )
    session = _session(plan, plan.data.hub)
    if plan.budget.epsilon is None:
        return session
    if session.align is None:
        return session.settle(len(table.cut("train")))
    if not isinstance(session.align, AgreedIds):
        raise PlanError(
            "budget.epsilon needs to know how many rows there are before anything is sent: set data.match.type = "
            "AgreedIds, and give every party the same list of ids"
        )
    return session.settle(training_rows(plan.data, table.rows if agreed is None else agreed))


def is_apart(plan: Plan) -> bool:
    """Whether a plan is for parties with other people, each in its own files."""
    return plan.data.name is None and plan.method.kind == "horizontal"


def _session_apart(plan: Plan, host: str) -> Session:
    """Parties with other people, and a server that `host` runs; whoever hosts may be one of the parties."""
    refuse_unkept(plan)
    _refuse_unrunnable(plan)
    names = _file_names(plan)
    facts = {"name": ", ".join(names), "kind": plan.method.kind} | people_of(plan.data)
    sites = {name: name for name in names} | {SERVER: host}
    # Noise follows from the plan alone, so that all work out the same before anything is asked.
    method = keep_budget_of(plan, plan.budget.least_rows or 1, SERVER, names)
    return Session(plan, (SERVER, *names), SERVER, method, facts, sites)


def _refuse_unrunnable(plan: Plan) -> None:
    """Refuse a plan of parties with other people that would fail once it runs between them."""
    method, data, name = plan.method, plan.data, type(plan.method).__name__
    if not data.of_parties:
        raise PlanError(
            f"between machines or by envelope, each party of {name} describes its own rows: say data.files = "
            '{ north = "party.toml", ... }, and source and label in each party file; tables are for one machine'
        )
    if SERVER in _file_names(plan):
        raise PlanError(f"no party can be called {SERVER!r}, as the hub is; rename it in data.files")
    refuse_homeless(method)
    refuse_homeless_names(data, _file_names(plan))
    if "public" in method.uses and data.public is None:
        raise PlanError(
            f"{name} learns from public rows, and the plan names none; say data.public = FILE (--public FILE), a file "
            "that everybody has beside its party file"
        )
    if plan.look_every is not None:
        raise PlanError("look_every scores the model on rows in one place, and parties keep theirs; leave it out")
    if plan.budget.epsilon is not None and isinstance(method, Budgeted) and plan.budget.least_rows is None:
        raise PlanError(
            f"nobody knows how many rows the others have, by which the noise of {name} is worked out: say "
            "budget.least_rows (--set budget.least_rows=200), how many training rows every party has at least"
        )


def _session(plan: Plan, hub: int | str) -> Session:
    """The parties with rows; of own files, `hub` has the labels, as nobody can look into another's file."""
    refuse_unkept(plan)
    if plan.budget.epsilon is not None and plan.look_every is not None:
        raise PlanError(
            "look_every asks for held-out rows again and again, which budget.epsilon does not cover; leave out one"
        )
    if plan.data.name is not None:
        federation = federation_of(deal_of(plan), plan.seed)
        facts = {"name": federation.name, "kind": federation.kind} | federation.facts
        return Session(plan, federation.names, federation.hub, plan.method, facts)
    names = _file_names(plan)
    facts = {"name": ", ".join(names), "kind": plan.method.kind}
    holder = names[hub] if isinstance(hub, int) and 0 <= hub < len(names) else str(hub)
    if holder not in names:
        raise PlanError(f"data.hub = {hub!r} is no party; say which of {', '.join(names)} has the labels")
    return Session(plan, names, holder, plan.method, facts)


def _file_names(plan: Plan) -> tuple[str, ...]:
    files = plan.data.files
    return tuple(files) if isinstance(files, dict) else tuple(Path(path).name.split(".")[0] for path in files)


def read_rows(plan: Plan, name: str, file: PartyFile, recipe: Recipe | None = None) -> Table:
    """A party's rows: from its own source, or its share of a public data set that the plan deals out.

    Args:
        recipe: how the rows of a model were prepared, for rows that came later; they need no labels.
    """
    if is_apart(plan) and recipe is None:
        if name == SERVER or file.data is None:
            return server_table(SERVER, known_columns(plan.data, Path(file.path).parent))
        own = read_apart(file, plan.data, plan.seed)
        note_aloud(own)
        refuse_few_rows(plan, name, own.table)
        return own.table
    if plan.data.name is None:
        parts = recipe is None and file.own_data.label is not None
        return own_table(name, file.own_data, recipe=recipe, by=plan.data.by if parts else None)
    return federation_of(deal_of(plan), plan.seed).tables.get(name) or Table.without_rows(name)

"""Run a plan: get its rows, keep its limits, and hand back the result."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from laconic.align.alignment import AT_RANDOM, Align, ExactMatch, HeldOut
from laconic.align.schema import AgreedColumns, SameColumns
from laconic.core.capabilities import Attributable
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Script, Step
from laconic.core.traffic import WireLog
from laconic.data.datasets import Dataset, load
from laconic.data.federation import Federation
from laconic.data.partition.columns import Cut, deal, usual_cut
from laconic.data.partition.rows import Dirichlet, HalfTest, RandomHoldout, RowCut, deal_rows
from laconic.data.readers.federate import from_files, rows_from_files
from laconic.data.schema import OwnData
from laconic.deploy.homecoming import bring_home, refuse_homeless
from laconic.deploy.journal import Journal
from laconic.deploy.one_run import mean_metrics, predictions_of, releases_of, run
from laconic.deploy.party_files import UNKNOWN, from_party_files, read_party, rows_from_party_files
from laconic.deploy.result import Result, ledgers_of
from laconic.deploy.transports import Runtime, open_runtime, suited
from laconic.deploy.transports.inprocess import Recorder, open_calls
from laconic.errors import DataError, PlanError, closest
from laconic.learn.device import Device, on_device
from laconic.plan.plan import Budget, DataPlan, Plan, agreement, keep_budget, refuse_unkept
from laconic.plan.runtime import AnyRuntime, InProcess
from laconic.privacy.accounting import People, price
from laconic.privacy.row_releases import take_over
from laconic.tables.table import Table
from laconic.tables.task import Task, headline, metrics
from laconic.threads import limit_threads
from laconic.values import Array, Listener

T = TypeVar("T")


def simulate(
    method: Method,
    federation: Federation,
    *,
    seed: int = 0,
    runtime: AnyRuntime | Runtime = InProcess(),  # noqa: B008 (frozen)
    align: Align | None = None,
    max_bytes: float = math.inf,
    look_every: int | None = None,
    rows: str = "test",
    threads: int = 1,
    device: Device | None = None,
    listener: Listener | None = None,
) -> Result:
    """Fit and score a method on a federation, and keep the record only; `train` keeps the parties as well.

    The same seed gives the same run on every runtime.

    Args:
        align: how parties' rows are matched, or their columns agreed on, where that is still to be done; None as
            usual (`usual_align`).
        rows: the cut to score on; choose settings by `valid`, and look at `test` when they are chosen.
        max_bytes, look_every, listener: as for `laconic.deploy.one_run.run`.
        threads: processor threads; small networks are fastest on one. Another number gives other last bits.
        device: what torch learns on, as for `on_device`; None is that of the block around this, or else `auto`.

    Example:
        >>> from laconic import Equal, FedOnce, deal, load, simulate
        >>> simulate(FedOnce(), deal(load("breast_cancer"), Equal(parties=3))).score
    """
    with limit_threads(threads):
        return train(
            method,
            federation,
            seed=seed,
            runtime=runtime,
            align=align,
            max_bytes=max_bytes,
            look_every=look_every,
            rows=rows,
            device=device,
            listener=listener,
        ).result


def roles(method: Method, federation: Federation, seed: int) -> tuple[Party, Party, tuple[Party, ...]]:
    """The party that runs the script, the one that has the labels, and all whom the first can ask."""
    refuse_other_kind(method, federation)
    parties = {name: Party(name, table, seed) for name, table in federation.tables.items()}
    judge = parties[federation.hub]
    hub = Party("server", Table.without_rows("server"), seed) if method.server else judge
    return hub, judge, tuple(party for party in parties.values() if party is not hub)


def usual_align(federation: Federation) -> Align:
    """How parties come together if nothing else is said: by ids in the clear, or by columns where rows are apart."""
    if federation.kind == "vertical":
        parted = federation.tables[federation.hub].parting is not None
        held_out: HeldOut = "label holder" if parted else AT_RANDOM
        return ExactMatch(test=federation.test, valid=federation.valid, held_out=held_out)
    return SameColumns()


@limit_threads()
def matched(method: Method, federation: Federation, *, seed: int = 0, align: Align | None = None) -> Federation:
    """The federation with rows that correspond, cut as a run of any method with this seed cuts them."""
    if federation.aligned:
        return federation
    hub, judge, others = roles(method, federation, seed)
    chosen = align or usual_align(federation)
    with open_calls(others) as carrier:
        hub.turn("align", 0, judge.name)
        chosen.match(hub, Peers(method, hub, carrier, WireLog(), carrier.names).speaking(chosen))
    found = {party.name: party.data for party in (judge, *others)}
    return replace(federation, tables={name: found[name] for name in federation.tables}, aligned=True)


_OTHERS = {"vertical": "other columns of the same people", "horizontal": "other people with the same columns"}


def refuse_other_kind(method: Method, federation: Federation) -> None:
    """Refuse a vertical method on parties with other rows, the other way round, and one that lacks public rows.

    Raises:
        TypeError: `method` is a name or a class rather than settings, or `federation` is something else.
        ValueError: the two are of different kinds.
        DataError: a horizontal method needs public rows and there are none, or cannot predict numbers.
    """
    if not isinstance(method, Method):
        name = method.__name__ if isinstance(method, type) else method if isinstance(method, str) else "FedOnce"
        raise TypeError(f"the method must be its settings, such as {name}(), not {_shown(method)}")
    if not isinstance(federation, Federation):
        raise TypeError(
            "the federation must be what laconic.federation(...), deal(...) or deal_rows(...) gives, "
            f"not {_shown(federation)}"
        )
    if method.kind != federation.kind:
        raise ValueError(
            f"{type(method).__name__} is a {method.kind} method, but {federation.name} is a {federation.kind} "
            f"federation: its parties have {_OTHERS[federation.kind]}; `laconic methods` lists what suits them"
        )
    if federation.at_home:
        refuse_homeless(method)
    if federation.task.kind not in method.tasks:
        raise DataError(_unfit(method, federation))
    if "public" in method.uses:
        _refuse_no_public(method, federation)


@contextmanager
def reach(
    script: Script,
    federation: Federation,
    *,
    seed: int = 0,
    runtime: AnyRuntime | Runtime = InProcess(),  # noqa: B008 (frozen)
) -> Iterator[tuple[Party, Peers]]:
    """A server without rows, and all parties of an aligned federation as its peers, for a script that is no method."""
    hub = Party("server", Table.without_rows("server"), seed)
    parties = tuple(Party(name, table, seed) for name, table in federation.tables.items())
    with open_runtime(parties, runtime) as carrier:
        yield hub, Peers(script, hub, carrier, WireLog(), carrier.names)


def _refuse_no_public(method: Method, federation: Federation) -> None:
    """Refuse parties without public rows for a method that learns from them."""
    if "public" not in federation.tables[federation.hub].cuts:
        raise DataError(
            f"{type(method).__name__} learns from public rows, and {federation.name} has none. Give rows of the same "
            "columns that everybody may see, labels not needed (--public FILE, or public= in rows_from_frames), or use "
            "a method without, such as FedAvg"
        )


def _unfit(method: Method, federation: Federation) -> str:
    """That a method does not predict such labels, in words."""
    said = f"label {federation.task.label!r} of {federation.name}"
    if "survival" in (federation.task.kind, *method.tasks):
        return (
            f"{type(method).__name__} predicts {', '.join(method.tasks)}, but {said} is of kind "
            f"{federation.task.kind}; choose a method for it (`laconic methods`), or say with --event which "
            "column makes a time the time to an event"
        )
    return (
        f"{type(method).__name__} predicts classes, but {said} holds numbers; if these are classes, set "
        "task=Task(kind=...) (--set data.task=multiclass), or put them into classes, such as low and high, at all "
        "parties"
    )


def _shown(value: object) -> str:
    kind = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    return repr(value) if isinstance(value, str) else kind


@dataclass(frozen=True)
class FittedRun:
    """What `train` hands back: the record of the run, and the parties as the run left them.

    A `Result` is a record that can be stored, and so holds nothing of what was learnt; this holds it, in this process.

    Attributes:
        method, federation: what was run, on what; the federation's rows correspond.
        hub, others: the parties with their memories.
        result: the record.
    """

    method: Method
    federation: Federation
    hub: Party
    others: tuple[Party, ...]
    result: Result

    def predict(self, rows: str = "test", federation: Federation | None = None) -> Array:
        """Predictions for the rows of a cut, of these parties or of the same parties with other cells."""
        return self._ask(lambda hub, peers: self.method.predict(hub, peers, rows), federation)

    def _ask(self, script: Callable[[Party, Peers], T], federation: Federation | None) -> T:
        """What a script of the hub gives, in the final phase; what parties release on the way is theirs to keep."""
        tables = {self.hub.name: self.hub.data} | (federation or self.federation).tables
        hub, *others = (
            Party(party.name, tables[party.name], party.seed, dict(party.memory), party.ledger)
            for party in (self.hub, *self.others)
        )
        try:
            with open_calls(tuple(others)) as carrier:
                log = WireLog()
                log.phase = "final"
                hub.turn("final", 0)
                return script(hub, Peers(self.method, hub, carrier, log, carrier.names))
        finally:
            for party, asked in zip(self.others, others, strict=True):
                take_over(party, asked)

    def to_date(self) -> Result:
        """The record with all that was given away since, by predictions and by finding out who matters."""
        ledgers = {party.name: party.ledger for party in self.others}
        return msgspec.structs.replace(self.result, releases=releases_of(self.hub, ledgers))

    @limit_threads()
    def score(self, rows: str = "test", federation: Federation | None = None) -> dict[str, float]:
        """Every metric of those predictions; their mean where each party has a model of its own."""
        task, y = self.federation.task, self.federation.labels(rows)
        predicted = self._ask(lambda hub, peers: predictions_of(self.method, hub, peers, rows), federation)
        return mean_metrics({name: metrics(task, y, one) for name, one in predicted.items()})

    def ask(self, question: Step) -> dict[str, Any]:
        """Ask every party but the hub a step that needs nothing."""
        with open_calls(self.others) as carrier:
            return Peers(self.method, self.hub, carrier, WireLog(), carrier.names).ask(question)

    def headline(self, federation: Federation | None = None) -> float:
        """The headline figure on test rows."""
        return headline(self.federation.task, self.score("test", federation)).value


def train(
    method: Method,
    federation: Federation,
    *,
    seed: int = 0,
    workers: int | None = None,
    runtime: AnyRuntime | Runtime | None = None,
    align: Align | None = None,
    max_bytes: float = math.inf,
    look_every: int | None = None,
    rows: str = "test",
    device: Device | None = None,
    listener: Listener | None = None,
) -> FittedRun:
    """As `simulate`, but keep the parties.

    Args:
        workers: how many parties work at the same time, as for `InProcess`.
        runtime: where parties are while they learn; they are brought back here with all that they remember. None is
            this process, with so many workers. Where that is said neither, many parties that train by themselves for
            long are shared out among forked workers, one per core: numbers and bytes are the same.
        align, max_bytes, look_every, rows, device, listener: as for `simulate`.
    """
    hub, judge, others = roles(method, federation, seed)
    if look_every is not None and federation.at_home:
        raise PlanError("look_every scores the model on rows in one place, and parties keep theirs; leave it out")
    wanted = runtime or InProcess(workers=workers)
    with on_device(device), open_runtime(others, suited(wanted, method, others)) as carrier:
        if isinstance(carrier, Journal):
            hub.keep_secret(carrier.secret)
        result = run(
            method,
            hub,
            Peers(method, hub, carrier, WireLog(), carrier.names),
            judge=judge,
            align=None if federation.aligned else align or usual_align(federation),
            max_bytes=max_bytes,
            look_every=look_every,
            rows=rows,
            data={"name": federation.name, "kind": federation.kind} | federation.facts,
            listener=listener,
            home=bring_home(method, only=federation.home) if federation.at_home else None,
        )
    found = {party.name: party.data for party in (judge, *others)}
    matched = {name: found[name] for name in federation.tables}
    return FittedRun(method, replace(federation, tables=matched, aligned=True), hub, others, result)


_MOST_WEIGHED = 8
"""Parties whose importance is worked out beside a run: Shapley values take twice as long with each."""


OnRead: TypeAlias = Callable[[Federation], object]
"""Called with the parties as soon as their rows are read, before anything is learnt."""


def execute(
    plan: Plan, *, listener: Listener | None = None, weigh: bool = False, on_read: OnRead = lambda _: None
) -> Result:
    """Run a plan; the same plan gives the same numbers.

    Args:
        weigh: find out as well how much each party matters, where the method keeps what that takes. What parties give
            away for that is not in the record, as it is no part of the run.
        on_read: called with the parties before anything is learnt.

    Raises:
        PlanError: the plan promises what its method cannot keep, or names what is not there.
        DataError: the rows cannot be used.
    """
    fitted = _execute(plan, listener, on_read)
    return weighed(plan, fitted) if weigh else fitted.result


def weighed(plan: Plan, fitted: FittedRun) -> Result:
    """The result of a run with how much each party matters; as it is where that cannot be worked out."""
    from laconic.deploy.party_importance import importance  # It looks at runs that are made here.

    if plan.runtime != InProcess() or plan.budget.max_bytes is not None or not can_weigh(fitted):
        return fitted.result
    # The record is of the run, as it would be with any other seed; what weighing gave away is not part of it.
    with on_device(plan.device):
        found = msgspec.to_builtins(importance(fitted, seed=plan.seed))
    return msgspec.structs.replace(fitted.result, importance=found)


def execute_and_keep(
    plan: Plan,
    *,
    listener: Listener | None = None,
    on_read: OnRead = lambda _: None,
    recorder: Recorder | None = None,
) -> FittedRun:
    """As `execute`, but keep what the parties learnt, which needs all of them in this process.

    A `recorder` listens to all that crosses.
    """
    if not isinstance(plan.runtime, InProcess):
        raise PlanError(
            f"a model is saved from parties in this process, but runtime.type = {type(plan.runtime).__name__!r}; "
            "leave the runtime out: the numbers are the same"
        )
    return _execute(plan, listener, on_read, recorder)


def _execute(plan: Plan, listener: Listener | None, on_read: OnRead, recorder: Recorder | None = None) -> FittedRun:
    refuse_unkept(plan)
    federation = parties_of(plan)
    on_read(federation)
    with limit_threads(1):
        fitted = train(
            keep_budget(plan, federation),
            federation,
            seed=plan.seed,
            runtime=plan.runtime if recorder is None else recorder,
            align=align_of(plan),
            max_bytes=plan.budget.byte_limit,
            look_every=plan.look_every,
            device=plan.device,
            listener=listener,
        )
    return replace(fitted, result=finished(fitted.result, plan))


def finished(result: Result, plan: Plan) -> Result:
    """The result with what was asked for beside what was found, so that it alone is enough to run it again."""
    data, now = result.data | {"plan": msgspec.to_builtins(plan.data)}, datetime.now(UTC).isoformat(timespec="seconds")
    return priced(msgspec.structs.replace(result, data=data, ended=now), plan)


def align_of(plan: Plan) -> Align:
    """How the plan matches rows that do not correspond yet, or has parties with other rows agree on columns."""
    if plan.method.kind == "horizontal":
        return _agree_on_columns(plan)
    held_out: HeldOut = AT_RANDOM if plan.data.by is None else "label holder"
    return msgspec.structs.replace(plan.data.match, test=plan.data.test, valid=plan.data.valid, held_out=held_out)


def _agree_on_columns(plan: Plan) -> Align:
    """How parties with other people come to mean the same by their columns."""
    data = plan.data
    if data.schema is not None:
        return AgreedColumns()
    chosen = agreement(plan) or SameColumns()
    if not data.of_parties:
        return chosen
    return msgspec.structs.replace(chosen, by="sums" if data.public is None else "public")


def deal_of(plan: Plan) -> DataPlan:
    """The plan's data, with rows dealt instead of columns where the method wants that and no cut was chosen."""
    if plan.method.kind == "horizontal" and plan.data.cut is None:
        return msgspec.structs.replace(plan.data, cut=Dirichlet(parties=plan.data.parties))
    return plan.data


def can_weigh(fitted: FittedRun) -> bool:
    """Whether party importance can be worked out: the hub keeps every party's part, and parties are few."""
    method, names = fitted.method, fitted.federation.names
    return isinstance(method, Attributable) and not method.server and len(names) <= _MOST_WEIGHED


def parties_of(plan: Plan, *, choosing: bool = False) -> Federation:
    """The parties and their rows, as the plan's method wants them: with other columns, or with other rows.

    In a horizontal federation `choosing` keeps a share of the parties' rows at the server, to choose settings by.
    """
    valid = plan.data.valid if choosing else 0.0
    if plan.method.kind == "horizontal" and plan.data.files:
        if plan.data.of_parties:
            if choosing:
                raise PlanError(
                    "settings are chosen by rows that a server has, and with party files it has none; give the tables "
                    "themselves in one place (--files a.csv b.csv --label COLUMN)"
                )
            return rows_from_party_files(_paths(plan.data), plan.data, seed=plan.seed, name=_name(plan.data))
        return _rows_from_files(plan.data, plan.seed, valid)
    return federation_of(deal_of(plan), plan.seed, valid)


def federation_of(data: DataPlan, seed: int, kept: float = 0.0) -> Federation:
    """A public data set dealt as the plan describes it, or parties with other columns from their files.

    `kept` is the share of rows dealt among parties that the server keeps, to choose settings by.
    """
    if data.name is None:
        return _from_files(data)
    dataset = load(data.name)
    if isinstance(data.cut, RowCut):
        reserve = RandomHoldout(valid=kept) if dataset.test is None else HalfTest(valid=kept)
        return deal_rows(dataset, data.cut, reserve=reserve, seed=seed)
    cut = data.cut or usual_cut(dataset, data.parties)
    hub = _position(data.hub, dataset, cut)
    return deal(dataset, cut, hub=hub, overlap=data.overlap, seed=seed, test=data.test, valid=data.valid)


def priced(result: Result, plan: Plan) -> Result:
    """The result with the price of its noise, if any of it has one."""
    return with_price(result, plan.method.kind, plan.budget)


def with_price(result: Result, kind: str, budget: Budget) -> Result:
    """The result of a vertical or horizontal method with the price of its noise, at the budget's delta."""
    if not any(release.noise is not None and release.noise.multiplier is not None for release in result.releases):
        return result
    # People whose ids are at several parties suffer the losses of all of them.
    known = result.data.get("people") != UNKNOWN
    apart = kind == "horizontal" and known and not result.data.get("at_several")
    people: People = "disjoint" if apart else "shared"
    paid = price(ledgers_of(result), budget.delta, people, accountant=budget.accountant)
    return msgspec.structs.replace(result, privacy=paid)


def own_data_of(plan: Plan) -> dict[str, OwnData]:
    """How each party file describes its data, by which new rows are read; empty if the plan names no party files.

    With other people at each party, rows to predict need no key, and are known by their place in the file.
    """
    named = map(read_party, plan.data.paths) if plan.data.of_parties and plan.method.kind == "vertical" else ()
    return {party.name: party.own_data for party in named if party.data is not None}


def _from_files(data: DataPlan) -> Federation:
    if data.of_parties:
        return from_party_files(_paths(data), name=_name(data), by=data.by)
    return from_files(
        data.files,
        id=data.id or "",
        label=data.label or "",
        event=data.event,
        kinds=data.kinds,
        task=_task(data),
        name=_name(data),
        split_by=data.split_by,
        group=data.group,
        memory=data.memory,
    )


def _rows_from_files(data: DataPlan, seed: int, valid: float) -> Federation:
    if data.memory is not None:
        raise PlanError("data.memory is for parties with other columns of the same people; leave it out")
    return rows_from_files(
        data.files,
        label=data.label or "",
        event=data.event,
        id=data.id,
        public=data.public,
        kinds=data.kinds,
        task=_task(data),
        test=data.test,
        valid=valid,
        seed=seed,
        name=_name(data),
        split_by=data.split_by,
        group=data.group,
    )


def _paths(data: DataPlan) -> tuple[str, ...]:
    return tuple(data.files.values() if isinstance(data.files, dict) else data.files)


def _name(data: DataPlan) -> str:
    return ", ".join(Path(path).name for path in _paths(data))


def _task(data: DataPlan) -> Task | None:
    return None if data.task is None else Task.said(data.task)


def _position(hub: int | str, dataset: Dataset, cut: Cut) -> int:
    if isinstance(hub, int):
        return hub
    names = list(cut.pieces(dataset, np.random.default_rng(0)))
    if hub not in names:
        raise PlanError(
            f"data.hub = {hub!r} is no party: say who has the labels, by name or by place from 0, such as "
            f'data.hub="{names[0]}" or data.hub=0; {closest(hub, names, "The parties are")}'
        )
    return names.index(hub)

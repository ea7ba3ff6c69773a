"""Run a plan: get its rows, keep its limits, and hand back the result."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from laconic.align.alignment import AT_RANDOM, Align, HeldOut
from laconic.align.schema import AgreedColumns, SameColumns
from laconic.core.capabilities import Attributable
from laconic.data.datasets import Dataset, load
from laconic.data.federation import Federation
from laconic.data.partition.columns import Cut, deal, usual_cut
from laconic.data.partition.rows import Dirichlet, HalfTest, RandomHoldout, RowCut, deal_rows
from laconic.data.readers.federate import from_files, rows_from_files
from laconic.data.schema import OwnData
from laconic.deploy.party_files import UNKNOWN, from_party_files, read_party, rows_from_party_files
from laconic.deploy.party_importance import importance
from laconic.deploy.result import Result, ledgers_of
from laconic.deploy.simulation import FittedRun, train
from laconic.deploy.transports.inprocess import Recorder
from laconic.errors import PlanError, closest
from laconic.learn.device import on_device
from laconic.plan.plan import Budget, DataPlan, Plan, agreement, keep_budget, refuse_unkept
from laconic.plan.runtime import InProcess
from laconic.privacy.accounting import People, price
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Listener

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
    )


def _rows_from_files(data: DataPlan, seed: int, valid: float) -> Federation:
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

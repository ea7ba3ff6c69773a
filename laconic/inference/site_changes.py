"""A party joins a saved model, or the others get it again after one left, between machines: the model's end of it.

What crosses is a run like any other (`laconic.deploy.growth`), hosted from the server's site; here the model's folder
gives what it begins with, and takes what it ends with.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np

from laconic.atomic_files import read_sealed
from laconic.core.party import Party
from laconic.core.wire import encode
from laconic.deploy.growth import Growth, growing, refuse_growth, write_growth
from laconic.deploy.party_files import PartySite
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.result import Result
from laconic.deploy.session import online_session
from laconic.errors import DataError, PlanError
from laconic.inference.bundle import Part
from laconic.inference.predict import Model
from laconic.plan.plan import Plan
from laconic.plan.text import plan_fingerprint, read_plan, write_plan
from laconic.tables.table import Table

Host = Callable[[str], Result]
"""Hosts the run of that name to its end."""

_PLAN = "plan.toml"
_OF_PARTIES = ("journal*", "incoming", "model", "start")
"""What a run's folder at the server holds of parties' answers."""


def change_between(
    site: PartySite, part: Part, growth: Growth, host: Host, plan: Plan | None = None
) -> tuple[Model, Result]:
    """The server's model once parties joined, which everybody who is there gets, and the run; not yet saved.

    Cut off and given again, it goes on where it was: what a party answered is not asked twice.

    Args:
        site: the server's.
        part: the server's own part of the model, as `laconic home` puts it into a folder.
        plan: the plan that names who joins, if it is another than the model was trained by.
    """
    plan = _plan_of(part) if plan is None else plan
    run = _begin(site, part, growth, plan)
    folder = site.run(run)
    if not (folder / "result").exists():
        host(run)
    hub = PartyFolder(folder / "model").load()
    found = msgspec.json.decode(read_sealed(folder / "result"), type=Result)
    texts = part.texts | {_PLAN: write_plan(plan)}
    return Model(replace(part, memory=hub.memory, texts=texts), part.method()), found


def _begin(site: PartySite, part: Part, growth: Growth, plan: Plan) -> str:
    """The name of the run, whose folder has all that it begins with: the same for the same change of the same model."""
    about = part.about
    growing(part.method())
    session = online_session(plan, site.consortium)
    if about.party != session.hub or about.made_by:
        raise PlanError(
            f"{part.path} is the model of {about.party}, which has no other party's part of it; name the folder of the "
            f"server, which `laconic home {site.folder}` writes at {session.host}"
        )
    if (session.method, plan.seed) != (part.method(), about.seed):
        raise PlanError(
            f"the model was trained by {about.method['type']} with other settings or another seed than the plan has; "
            "take the model's plan (plan.toml in its folder), and change data.files alone"
        )
    rows = Table.without_rows(about.party).changed(
        raw=np.empty((0, len(about.columns))), columns=about.columns, task=about.task, recipe=about.recipe
    )
    hub = Party(about.party, rows, about.seed, dict(part.memory))
    refuse_growth(session, growth, hub)
    whole = [plan_fingerprint(plan), msgspec.to_builtins(growth), part.memory]
    run = stem = f"change-{blake2b(encode(whole), digest_size=6).hexdigest()}"
    again = 1
    while not growth.joins and (site.run(run) / "result").exists():
        # Nobody sends anything, so that the same model may be brought to parties as often as they missed it.
        again += 1
        run = f"{stem}-{again}"
    if not (site.run(run) / _PLAN).exists():
        write_growth(site.run(run), growth, hub)
        (site.run(run) / _PLAN).write_text(write_plan(plan), encoding="utf-8")
    return run


def forget_runs(site: PartySite, part: Part, party: str) -> list[str]:
    """Delete what the server's finished runs of a model keep of what parties answered; returns which runs these are.

    The journal of a run, and the model as it was, hold the answers of a party that left. What was learnt of the others
    is in the model's folder; results, which hold no rows, stay.
    """
    plan, gone = _plan_of(part), []
    for folder in sorted((site.folder / "runs").glob("*")):
        if not (folder / "result").exists() or not (folder / _PLAN).exists():
            continue
        its = read_plan((folder / _PLAN).read_text(encoding="utf-8"))
        if (its.method, its.seed) != (plan.method, plan.seed) or not _held(folder, party):
            continue
        found = [one for pattern in _OF_PARTIES for one in folder.glob(pattern)]
        for one in found:
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        gone += [folder.name] if found else []
    return gone


def _held(folder: Path, party: str) -> bool:
    """Whether a run began or ended with what a party sent."""
    kept = [PartyFolder(folder / name) for name in ("start", "model") if (folder / name).exists()]
    memories = [one.load().memory for one in kept if one.begun]
    return any(party in value for memory in memories for value in memory.values() if isinstance(value, dict))


def _plan_of(part: Part) -> Plan:
    if _PLAN not in part.texts:
        raise DataError(
            f"{part.path} names no plan, so that nobody can join it between machines: it is a trial's, whose parties "
            "join by their files (--party NAME=FILE)"
        )
    return read_plan(part.texts[_PLAN])

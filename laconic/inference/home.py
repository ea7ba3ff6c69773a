"""A party's own folder of the model that came home to it, once the server's signature is checked."""

import tomllib
from pathlib import Path

import msgspec

from laconic.core.capabilities import Mergeable
from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.deploy.homecoming import MODEL, SIGNED, final_model, model_text
from laconic.deploy.party_context import find_run
from laconic.deploy.party_files import PartySite
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.session import Session, envelope_session, online_session
from laconic.deploy.statements import Checked
from laconic.deploy.transports.envelopes.keys import KeyRing
from laconic.errors import DataError, PlanError
from laconic.inference.bundle import About, Part, load_part, save_part
from laconic.inference.bundle_files import refuse_full
from laconic.inference.save import home_part
from laconic.plan.text import read_plan, read_plan_file, write_plan
from laconic.tables.table import Table

SIGNATURE = "signature.toml"
"""The file in a model's folder that says who made the model, and signed it."""


def take_from_site(site: PartySite, out: Path, run: str | None = None, *, replace_old: bool = False) -> Path:
    """The model of a run, by default the last that ended here, as a folder of the party's own within `out`."""
    runs = sorted((site.folder / "runs").glob("*"), key=lambda one: one.stat().st_mtime, reverse=True)
    chosen = [one for one in runs if run in (None, one.name) and (one / "plan.toml").exists()]
    for folder in chosen:
        kept = _kept(folder / "memory", folder / "model")
        if kept is not None:
            plan = read_plan((folder / "plan.toml").read_text(encoding="utf-8"))
            session = online_session(plan, site.consortium)
            refuse_full(out, replace_old=replace_old)
            _keep_server(folder / "model", kept, session, site.ring, out)
            return _save(kept, session, site.ring, out)
    raise PlanError(f"no model came home to {site.name} in {run or 'any run'} yet; see `laconic status {site.folder}`")


def take_from_mail(plan_path: Path, party_path: Path, ring: KeyRing, out: Path, *, replace_old: bool = False) -> Path:
    """The same of a run by envelope."""
    plan, run = read_plan_file(plan_path), find_run(plan_path, party_path)
    kept = _kept(run / "party", run / "model")
    if kept is None:
        raise PlanError(
            f"no model of this plan came home yet in {run}; answer the envelope that brings it with `laconic answer`"
        )
    session = envelope_session(plan, kept.data)
    refuse_full(out, replace_old=replace_old)
    _keep_server(run / "model", kept, session, ring, out)
    return _save(kept, session, ring, out)


def check_home(folder: Path, ring: KeyRing) -> Checked:
    """Whether the model in a folder is as the server that is named there signed it."""
    part = load_part(folder)
    text = part.texts.get(SIGNATURE)
    if text is None:
        return Checked(part.about.party, "unsigned", "the model came from a trial in one process, where nobody signs")
    said = tomllib.loads(text)
    key = ring.named(said["server"])
    if key.verifies(bytes.fromhex(said["signature"]), model_text(part.method(), part.memory, part.about)):
        return Checked(part.about.party, "confirmed", f"the model is as {said['server']} signed it")
    return Checked(part.about.party, "forged", f"the model is not as {said['server']} signed it; take it home again")


def _kept(*folders: Path) -> Party | None:
    """The party of the first of these folders that has a model: its own, or that of the server it runs."""
    for folder in folders:
        kept = PartyFolder(folder)
        if folder.exists() and kept.begun:
            party = kept.load()
            if MODEL in party.memory or folder.name == "model":
                return party
    return None


def _keep_server(folder: Path, kept: Party, session: Session, ring: KeyRing, out: Path) -> None:
    """Beside the model of a party that runs the server too, the server's own, if parties can join and leave that."""
    server = PartyFolder(folder)
    if MODEL in kept.memory and folder.exists() and server.begun and isinstance(session.method, Mergeable):
        _save(server.load(), session, ring, out)


def _save(party: Party, session: Session, ring: KeyRing, out: Path) -> Path:
    plan, method, host = session.plan, session.method, session.host
    model = party.memory.get(MODEL) or final_model(method, party)
    if model is None:
        raise DataError(f"{party.name} has nothing to predict from; {type(method).__name__} asks parties for that")
    signature = party.memory.get(SIGNED, "")
    if MODEL in party.memory and not ring.named(host).verifies(
        bytes.fromhex(signature), model_text(method, model, party.data)
    ):
        raise DataError(
            f"the model at {party.name} is not as {host} signed it; do not use it, and ask {host} to run the plan again"
        )
    table: Table = party.data
    about = About(
        party=party.name,
        hub=party.name,
        peers=(),
        method=msgspec.to_builtins(method),
        seed=plan.seed if MODEL not in party.memory else 0,
        id="",
        columns=table.columns,
        recipe=table.recipe,
        task=table.task,
    )
    texts = {"plan.toml": write_plan(plan)}
    if signature:
        texts[SIGNATURE] = f'server = "{host}"\nsignature = "{signature}"\n'
    if MODEL not in party.memory and isinstance(method, Mergeable):
        # The server's own: with what each party sent, so that one can leave or join.
        return save_part(out, Part(about, dict(party.memory), Ledger(party.ledger.entries), texts=texts))
    return save_part(
        out, home_part(msgspec.structs.replace(about, hub=host), model, Ledger(party.ledger.entries), texts)
    )

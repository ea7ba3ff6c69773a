"""Start and stop sites, host runs, and see how they stand; what dies is started again, and goes on from the journal."""

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import msgspec

from laconic.atomic_files import hold, keep_from_others, make_private_folder, read_sealed
from laconic.deploy.coordinator import read_growth
from laconic.deploy.party_files import Consortium, PartySite, read_consortium, write_consortium
from laconic.deploy.result import Result
from laconic.deploy.session import online_session
from laconic.deploy.transports.envelopes.keys import (
    PUBLIC,
    SECRET,
    KeyRefused,
    PublicKey,
    SecretKey,
    add_key,
    compare_fingerprint,
    load_secret,
    make_key,
    parse_public,
    read_public,
    save_key,
)
from laconic.deploy.transports.flare import system as engine
from laconic.deploy.transports.flare.system import CERTIFICATE, KEY, make_kits, make_own_kit
from laconic.errors import LaconicError, MissingExtra, PlanError
from laconic.plan.text import plan_fingerprint, read_plan

Tell = Callable[[str], None]
_BACK = 120.0
_TRIES = 5
"""A job that ends without a result is handed over again so often."""


class RunFailed(LaconicError):
    """A run ended with an error, at the hub or at a party; in its words."""


def join(site: PartySite, tell: Tell) -> None:
    """Be a party until stopped; an engine that dies is started again."""
    if site.is_hub:
        raise PlanError(f"{site.name} is the hub; start it with `laconic host PLAN.toml --site {site.folder}`")
    site.ring  # noqa: B018 (whether the keys are there is better said now than when the hub calls)
    with _ended_by_signals():
        engine.stop(
            site.kit
        )  # A command that was killed leaves its engine behind, and two would be in each other's way.
        process = engine.start(site.kit, site.name)
        tell(f"{site.name} is ready for {site.consortium.hub.address}:{site.consortium.hub.port}; Ctrl-C stops it")
        try:
            while True:
                sleep(0.5)
                code = process.poll()
                if code is not None:
                    if not (site.kit / "pid").exists():
                        return  # `laconic stop` took it away.
                    tell(f"the engine ended with code {code}; starting it again (log: {site.kit / 'engine.log'})")
                    sleep(2.0)
                    process = engine.start(site.kit, site.name)
        finally:
            engine.stop(site.kit)


def host(
    site: PartySite,
    plan: Path,
    tell: Tell,
    *,
    wait: float,
    deadline: float,
    afresh: bool = False,
    begun: Callable[[Path], None] = lambda _: None,
) -> Result:
    """Host a run of a plan; one that was cut off goes on.

    Args:
        wait: seconds to wait for parties; then it begins without those who are missing.
        deadline: seconds that a question may take; 0 for no limit.
        afresh: begin a new run even if one was cut off.
        begun: called with the folder of the run, once it is known.

    Raises:
        RunFailed: in the words of whoever ended it.
    """
    refuse_no_hub(site)
    text = plan.read_text(encoding="utf-8")
    with _ended_by_signals(), _alone(site), _engine(site):
        run = begin_run(site, text, afresh)
        begun(site.run(run))
        return _host(site, run, tell, wait, deadline)


def host_change(site: PartySite, run: str, tell: Tell, *, wait: float, deadline: float) -> Result:
    """Host a run that changes a model, whose folder has what it begins with; one that was cut off goes on.

    Who joins must be there; of the others, those who are get the new model.
    """
    with _ended_by_signals(), _alone(site), _engine(site):
        return _host(site, run, tell, wait, deadline)


def refuse_no_hub(site: PartySite) -> None:
    """Refuse to host anywhere but at the hub."""
    if not site.is_hub:
        raise PlanError(f"{site.name} is not the hub; start it with `laconic join {site.folder}`")


def _host(site: PartySite, run: str, tell: Tell, wait: float, deadline: float) -> Result:
    """Hand a run over until it has ended, or cannot."""
    tell(f"run {run}, in {site.run(run)}")
    for attempt in range(_TRIES):
        if attempt:
            tell(f"{_standing(site.run(run))}; going on from the journal")
        # Those who were there before need time to find the way back.
        result = _attempt(site, run, tell, max(wait, _BACK) if attempt else wait, deadline)
        if result is not None:
            return result
        if _standing(site.run(run)).startswith("ended: ") and attempt:
            break
    raise RunFailed(f"{_standing(site.run(run))}; the run can be taken up by the same command")


def begin_run(site: PartySite, text: str, afresh: bool) -> str:
    """The name of the run: the one that was cut off, or a new one."""
    plan = read_plan(text)
    stem = f"{type(plan.method).__name__.lower()}-{plan_fingerprint(plan)[:8]}"
    make_private_folder(site.folder / "runs")
    taken = [
        int(found[1]) for one in (site.folder / "runs").iterdir() if (found := re.fullmatch(rf"{stem}-(\d+)", one.name))
    ]
    last = max(taken, default=0)
    if last and not afresh and not (site.run(f"{stem}-{last}") / "result").exists():
        return f"{stem}-{last}"
    run = f"{stem}-{last + 1}"
    make_private_folder(site.run(run))
    (site.run(run) / "plan.toml").write_text(text, encoding="utf-8")
    return run


def _attempt(site: PartySite, run: str, tell: Tell, wait: float, deadline: float) -> Result | None:
    """Hand over the run once; None if it ended without a result."""
    folder = site.run(run)
    asked, joins = _parties(site, folder)
    for name in ("error", "absent"):
        (folder / name).unlink(missing_ok=True)
    try:
        with _session(site) as opened:
            there = engine.wait_for(opened, asked, wait)
            missing = [name for name in asked if name not in there]
            needed = [name for name in joins if name in missing]
            if needed:
                raise RunFailed(
                    f"{' and '.join(needed)} did not join within {wait:.0f} s; start it with `laconic join`, and give "
                    "the command again"
                )
            if missing:
                tell(f"beginning without {' and '.join(missing)}, who did not join within {wait:.0f} s")
            if not there:
                raise RunFailed(f"nobody joined within {wait:.0f} s; start the parties with `laconic join`")
            job = engine.submit(opened, {"runs": [run], "deadline": deadline}, there)
            return _watch(opened, job, folder)
    except engine.EngineError as problem:
        tell(str(problem))
        return None


def _parties(site: PartySite, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which sites beside the hub a run asks, and which of them join the model that it begins with."""
    session = online_session(read_plan((folder / "plan.toml").read_text(encoding="utf-8")), site.consortium)
    growing = read_growth(folder)
    joins, without = (growing.growth.joins, growing.growth.without) if growing else ((), ())
    named = {*session.sites.values()} - {site.name, *without}
    return tuple(name for name in site.consortium.parties if name in named), joins


def _watch(opened: Any, job: str, folder: Path) -> Result | None:
    looked = monotonic()
    while True:
        for name in ("result", "error", "absent"):
            if (folder / name).exists():
                content = read_sealed(folder / name)
                _let_end(opened, job)
                if name == "error":
                    raise RunFailed(content.decode())
                return msgspec.json.decode(content, type=Result) if name == "result" else None
        sleep(0.1)
        if monotonic() - looked > 1.0:
            looked = monotonic()
            if engine.state_of(opened, job).startswith("FINISHED"):
                return None


def _let_end(opened: Any, job: str) -> None:
    """Give the job time to end at the parties, so that nothing is left behind there."""
    ends = monotonic() + 30.0
    with suppress(engine.EngineError):
        while not engine.state_of(opened, job).startswith("FINISHED") and monotonic() < ends:
            sleep(0.3)


def show_status(site: PartySite) -> Iterator[tuple[str, str]]:
    """How a site stands: its engine, who has joined, and its runs."""
    running = engine.is_running(site.kit)
    yield "engine", "running" if running else "not running"
    if site.is_hub and running:
        with _session(site) as opened:
            there = engine.connected(opened)
        for name in site.consortium.parties:
            yield name, "joined" if name in there else "not there"
    if site.log.exists():
        yield "errors", f"details in {site.log}"
    runs = site.folder / "runs"
    for folder in sorted(runs.iterdir(), key=lambda one: one.stat().st_mtime) if runs.is_dir() else ():
        yield folder.name, _standing(folder)


def _standing(folder: Path) -> str:
    if (folder / "result").exists():
        result = msgspec.json.decode(read_sealed(folder / "result"), type=Result)
        return f"finished, {result.score.metric} {result.score.value:.4f}"
    for name in ("error", "absent"):
        if (folder / name).exists():
            return f"ended: {read_sealed(folder / name).decode().strip().splitlines()[-1]}"
    if (folder / "progress").exists():
        return (folder / "progress").read_text(encoding="utf-8")
    return "begun" if (folder / "plan.toml").exists() else "taking part"


@contextmanager
def _alone(site: PartySite) -> Iterator[None]:
    """Refuse a second command that hosts from the same site: the first to end would stop the engine of the other."""
    with hold(site.folder / "hosting") as held:
        if not held:
            raise PlanError(
                f"another `laconic host` is running from {site.folder}; wait until it ends, which `laconic status "
                f"{site.folder}` shows, and give the command again"
            )
        yield


@contextmanager
def _engine(site: PartySite) -> Iterator[None]:
    """The hub's engine, started if it is not running, and stopped at the end if it was started here."""
    if engine.is_running(site.kit):
        yield
        return
    _start_hub(site)
    try:
        yield
    finally:
        engine.stop(site.kit)


def _start_hub(site: PartySite) -> None:
    """Start the hub's engine; whose key was taken out is not let in."""
    engine.shut_out(site.kit, site.ring.revoked)
    engine.start(site.kit, None)


@contextmanager
def _session(site: PartySite) -> Iterator[Any]:
    """A session with the hub's engine; one that died is started again first."""
    if not engine.is_running(site.kit):
        _start_hub(site)
    engine.wait_until_listening(site.kit, site.consortium.hub.address, site.consortium.hub.port)
    with engine.session(site.folder / "admin") as opened:
        yield opened


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a polite signal to end do what Ctrl-C does, so that nothing is left running."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


ReadOut = Callable[[PublicKey], str]
"""Asks somebody for the fingerprint of a key, as its owner read it out."""

REQUEST, REPLY = ".request", ".reply"
_MOST = 65_536
_PARTY = """\
# What {name} says of itself. Only {name} sees this file.
name = "{name}"

# Where its rows are; leave this out for a plan on a public data set.
# [data]
# source = "rows.csv"
# key = "customer"
{label}
# What may leave. Whatever is not named here is refused.
[allow]
methods = [{methods}]
# steps = ["learn_and_send", "represent"]
# max_rows = 100000
# least_rows = 50
# max_bytes = 100000000
# min_noise = 1.0
# max_epsilon = 2.0
"""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party asks the hub to sign: its public keys, and that of its engine, signed with the first.

    Attributes:
        public: the public file. engine: the signing request, as PEM.
    """

    public: str
    engine: str
    signature: bytes


def make_request(name: str, site: Path) -> tuple[Path, PublicKey]:
    """Make a party's own keys in its site, if they are not there yet, and the request to send to the hub."""
    make_private_folder(site)
    secret = site / "keys" / f"{name}{SECRET}"
    if not secret.exists():
        save_key(make_key(name), site / "keys")
    own = load_secret(secret, os.environ.get("LACONIC_PASSPHRASE"))
    public, engine = own.public.to_text(), _engine_request(name, site / "kit" / "startup" / KEY)
    request = Request(public, engine, own.signing.sign(_claim(public, engine)))
    path = site / f"{name}{REQUEST}"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(request)))
    return path, own.public


def read_request(path: Path, name: str) -> tuple[PublicKey, Any]:
    """A party's public keys, and the public key of its engine; all must be signed, and in the party's name."""
    from cryptography import x509

    wrong = f"{path} is no request of {name}, or a damaged one; {name} makes it again with: laconic request {name}"
    if not path.is_file() or path.stat().st_size > _MOST:
        raise PlanError(f"there is no request {path}; {name} makes it with `laconic request {name}`, and sends it")
    try:
        request = msgspec.json.decode(path.read_bytes(), type=Request)
        asked = x509.load_pem_x509_csr(request.engine.encode())
    except (msgspec.DecodeError, ValueError) as problem:
        raise KeyRefused(wrong) from problem
    public = parse_public(request.public.encode(), str(path))
    said = [one.value for one in asked.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    signed = asked.is_signature_valid and public.verifies(request.signature, _claim(request.public, request.engine))
    if not signed or said != [name] or public.name != name:
        raise KeyRefused(wrong)
    return public, asked.public_key()


def provision(
    consortium: Consortium,
    folder: Path,
    plan: Path | None = None,
    requests: Path | None = None,
    read_out: ReadOut | None = None,
) -> tuple[Path, ...]:
    """Make a site for the hub, and for everyone else a reply to its request; nothing stays if something goes wrong.

    Args:
        consortium: who takes part.
        folder: where to; sites that are there already are not touched, and are an error.
        plan: the plan to put at everyone; None to leave that to each.
        requests: the folder with everyone's requests; None to make all private keys here, and a site for everyone.
        read_out: asks for the fingerprint of each party's key; with None nothing is compared.

    Returns:
        The hub's site, and the others' sites or replies.
    """
    hub, *others = names = (consortium.hub.name, *consortium.parties)
    text = None if plan is None else plan.read_text(encoding="utf-8")
    if text is not None:
        # Refuses what could not be hosted before anybody gets a file: sites with it would wait for nothing.
        online_session(read_plan(text), consortium)
    ending = "" if requests is None else REPLY
    places = {name: folder / (name if name == hub else f"{name}{ending}") for name in names}
    there = [place for place in places.values() if place.exists()]
    if there:
        raise PlanError(f"{there[0]} is there already; move it away, or make the sites in another folder")
    asked = {} if requests is None else {name: read_request(requests / f"{name}{REQUEST}", name) for name in others}
    for name, (key, _) in asked.items():
        if read_out is not None and requests is not None:
            compare_fingerprint(key, read_out(key), requests / f"{name}{REQUEST}")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        engines = {name: engine for name, (_, engine) in asked.items()}
        make_kits(places, consortium.project, consortium.hub.address, consortium.hub.port, engines)
        share_keys(places, {name: key for name, (key, _) in asked.items()})
        for name, place in places.items():
            if name in asked:
                _fill_reply(place, consortium, text)
            else:
                _furnish(place, name, consortium, text)
    except BaseException:
        for place in places.values():
            shutil.rmtree(place, ignore_errors=True)
        raise
    return tuple(places.values())


def accept_reply(site: Path, reply: Path, read_out: ReadOut) -> str:
    """Take the hub's reply into a party's site; returns the party's name.

    Only certificates, the hub's public key and who takes part come from the hub; how the engine is locked down does
    not. What the party wrote itself stays. `read_out` asks for the hub's fingerprint.
    """
    if not (reply / "parties.toml").is_file():
        raise PlanError(f"{reply} is no reply of a hub; the hub makes it with `laconic provision --requests`")
    consortium = read_consortium(reply / "parties.toml")
    hub = consortium.hub
    own = [name for name in consortium.parties if (site / "keys" / f"{name}{SECRET}").exists()]
    if not own or not (site / "kit" / "startup" / KEY).exists():
        names = " or ".join(consortium.parties)
        raise PlanError(f"{site} holds no keys of {names}; make them with: laconic request NAME -o {site}")
    _refuse_other_key(site, reply, own[0])
    where = reply / f"{hub.name}{PUBLIC}"
    key = read_public(where)
    if key.name != hub.name:
        raise KeyRefused(f"{where} is the key of {key.name}; ask {hub.name} for its reply again")
    compare_fingerprint(key, read_out(key), where)
    add_key(site / "keys", key)
    make_own_kit(site / "kit", consortium.project, hub.address, hub.port, own[0], reply)
    _furnish(site, own[0], consortium, None)
    return own[0]


def _refuse_other_key(site: Path, reply: Path, name: str) -> None:
    """Refuse a certificate of another key than the party's own."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    wrong = f"{reply} does not answer the request of {name} in {site}; send {name}{REQUEST} to the hub again"
    own = load_pem_private_key((site / "kit" / "startup" / KEY).read_bytes(), None).public_key()
    try:
        found = x509.load_pem_x509_certificate((reply / CERTIFICATE).read_bytes()).public_key()
    except (OSError, ValueError) as problem:
        raise KeyRefused(wrong) from problem
    if found != own:
        raise KeyRefused(wrong)


def _engine_request(name: str, key: Path) -> str:
    """A signing request for the engine's key, which is made here if there is none."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from nvflare.lighter.utils import generate_keys, serialize_pri_key, x509_name
    except ImportError as problem:
        raise MissingExtra("nvflare", "flare") from problem
    if not key.exists():
        make_private_folder(key.parent)
        with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(serialize_pri_key(generate_keys()[0]))
    own: Any = serialization.load_pem_private_key(key.read_bytes(), None)
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509_name(name, "laconic"))
    return asked.sign(own, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def share_keys(places: dict[str, Path], known: dict[str, PublicKey]) -> None:
    """Give everybody without keys of its own some, the hub all public keys, and the others the hub's."""
    hub, *others = places
    made: dict[str, SecretKey] = {name: make_key(name) for name in places if name not in known}
    for name, secret in made.items():
        save_key(secret, places[name] / "keys")
    for name in others:
        add_key(places[hub] / "keys", known[name] if name in known else made[name].public)
        add_key(places[name] if name in known else places[name] / "keys", made[hub].public)


def _fill_reply(reply: Path, consortium: Consortium, plan: str | None) -> None:
    (reply / "parties.toml").write_text(write_consortium(consortium), encoding="utf-8")
    if plan is not None:
        (reply / "plan.toml").write_text(plan, encoding="utf-8")


def _furnish(site: Path, name: str, consortium: Consortium, plan: str | None) -> None:
    """All but keys and kit; a party file that is there stays."""
    for inner in ("plans", "runs"):
        make_private_folder(site / inner)
    (site / "parties.toml").write_text(write_consortium(consortium), encoding="utf-8")
    if plan is not None:
        (site / "plans" / "plan.toml").write_text(plan, encoding="utf-8")
    if not (site / "party.toml").exists():
        label = '# label = "churned"\n' if name == consortium.hub.name else ""
        method = "FedOnce" if plan is None else type(read_plan(plan).method).__name__
        methods = ", ".join(f'"{one}"' for one in (method, "ExactMatch", "PrivateMatch"))
        (site / "party.toml").write_text(_PARTY.format(name=name, label=label, methods=methods), encoding="utf-8")
    keep_from_others(site)  # It holds the site's private keys.


def _claim(public: str, engine: str) -> bytes:
    return f"laconic request 1\0{public}\0{engine}".encode()

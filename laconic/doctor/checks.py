"""All that `laconic doctor` looks at, in order; at its end, what the party has spent of its people's privacy."""

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from laconic.align.alignment import ExactMatch
from laconic.align.schema import SameColumns
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.traffic import WireLog
from laconic.data.federation import Federation
from laconic.data.readers.aloud import FileReading, frame_reading
from laconic.data.readers.federate import by_party, federation, read_file
from laconic.data.readers.frames import with_text_names
from laconic.data.readers.source_table import check_frame
from laconic.deploy.party_account import locate_account
from laconic.deploy.party_files import (
    PartyFile,
    PartySite,
    from_party_files,
    open_site,
    read_party,
    rows_from_party_files,
)
from laconic.deploy.policy import read_policy
from laconic.deploy.transports.inprocess import open_calls
from laconic.doctor.columns import Check, Diagnosis, Level, check_columns, check_ids
from laconic.errors import LaconicError
from laconic.plan.plan import DataPlan
from laconic.tables.table import fingerprint

_ENGINE = "2.9."
_SOON = 14
"""Days before its end at which a certificate is worth a note."""
_APART = 60.0
"""Seconds by which two clocks may differ."""


def check_machine(party: PartyFile) -> Iterator[Diagnosis]:
    """Everything about the machine that the party's site is on; nothing for a party file without a site."""
    folder = Path(party.path).parent
    if not (folder / "kit").is_dir():
        return
    site = open_site(folder)
    yield from _versions()
    yield from _certificates(site)
    yield from (_hub_port(site) if site.is_hub else _line_to_hub(site))


def _versions() -> Iterator[Diagnosis]:
    try:
        engine = version("nvflare")
    except PackageNotFoundError:
        remedy = "run: pip install 'laconic-fl[flare]'"
        yield Diagnosis("wrong", "versions", "nvflare is not installed", remedy)
        return
    words = f"laconic {version('laconic-fl')}, nvflare {engine}; versions of laconic mix that differ in the last number"
    fits = engine.startswith(_ENGINE)
    remedy = "" if fits else f"run: pip install 'nvflare=={_ENGINE}*'"
    yield Diagnosis("fine" if fits else "wrong", "versions", words, remedy)


def _certificates(site: PartySite) -> Iterator[Diagnosis]:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    name = "server" if site.is_hub else "client"
    startup = site.kit / "startup"
    again = "make the kits again with `laconic provision`, and send each site its own"
    try:
        own = x509.load_pem_x509_certificate((startup / f"{name}.crt").read_bytes())
        root = x509.load_pem_x509_certificate((startup / "rootCA.pem").read_bytes())
        own.verify_directly_issued_by(root)
    except (OSError, ValueError, InvalidSignature) as problem:
        words = f"{startup} holds no pair that fits: {type(problem).__name__} {problem}"
        yield Diagnosis("wrong", "certificates", words, again)
        return
    now = datetime.now(UTC)
    starts = max(own.not_valid_before_utc, root.not_valid_before_utc)
    ends = min(own.not_valid_after_utc, root.not_valid_after_utc)
    if now < starts:
        words = f"the clock says {now:%Y-%m-%d %H:%M} UTC, and the certificates begin at {starts:%Y-%m-%d %H:%M}"
        yield Diagnosis("wrong", "clock", words, "set the clock")
    days = (ends - now).days
    level: Level = "wrong" if days < 0 else "note" if days < _SOON else "fine"
    words = f"valid until {ends:%Y-%m-%d}, {days} days from now"
    yield Diagnosis(level, "certificates", words, "" if level == "fine" else again)
    key = startup / f"{name}.key"
    if key.stat().st_mode & 0o077:
        remedy = f"run: chmod 600 {key}"
        yield Diagnosis("note", "certificates", f"others can read {key}", remedy)


def _hub_port(site: PartySite) -> Iterator[Diagnosis]:
    hub = site.consortium.hub
    try:
        socket.getaddrinfo(hub.address, hub.port)
    except OSError as problem:
        words = f"{hub.address} is not known here: {problem}"
        yield Diagnosis("note", "address", words, "the parties at least must know it")
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", hub.port))
        except OSError as problem:
            running = (site.kit / "pid").exists()
            words = f"port {hub.port} is taken" + (" by this site's own engine" if running else f": {problem}")
            remedy = "" if running else "stop what listens there (ss -ltnp shows it), or choose another port"
            yield Diagnosis("note" if running else "wrong", "port", words, remedy)
            return
    yield Diagnosis("fine", "port", f"port {hub.port} is free; the parties must be able to reach it")


def _line_to_hub(site: PartySite) -> Iterator[Diagnosis]:
    hub = site.consortium.hub
    where = f"{hub.address}:{hub.port}"
    try:
        line = socket.create_connection((hub.address, hub.port), timeout=5)
    except socket.gaierror as problem:
        remedy = f"put {hub.address} in the name service, or in /etc/hosts"
        yield Diagnosis("wrong", "port", f"{hub.address} is not known: {problem}", remedy)
        return
    except OSError as problem:
        remedy = "start the hub, or have the firewalls between let this port through"
        yield Diagnosis("note", "port", f"nobody answers at {where}: {problem}", remedy)
        return
    yield Diagnosis("fine", "port", f"{where} can be reached")
    startup = site.kit / "startup"
    context = ssl.create_default_context(cafile=startup / "rootCA.pem")
    # The engine's certificates bear plain names; that the root signed them is what counts.
    context.check_hostname = False
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with line, context.wrap_socket(line, server_hostname=hub.address) as secure:
            secure.sendall(f"GET / HTTP/1.1\r\nHost: {hub.address}\r\nConnection: close\r\n\r\n".encode())
            said = secure.recv(4096).decode("latin-1")
    except (ssl.SSLError, OSError) as problem:
        remedy = "use the kit of this project, and let the hub use its own"
        yield Diagnosis("wrong", "certificates", f"{where} does not accept: {problem}", remedy)
        return
    yield Diagnosis("fine", "certificates", f"{where} and this site accept each other")
    yield from _clock(said)


def _clock(said: str) -> Iterator[Diagnosis]:
    dates = [line[5:].strip() for line in said.splitlines() if line.lower().startswith("date:")]
    if not dates:
        yield Diagnosis("note", "clock", "the hub did not say what time it is")
        return
    apart = abs((datetime.now(UTC) - parsedate_to_datetime(dates[0])).total_seconds())
    words = f"the hub's clock and this one are {apart:.0f} s apart"
    wrong = apart > _APART
    yield Diagnosis("wrong" if wrong else "fine", "clock", words, "set it" if wrong else "")


_NEARLY = 0.8
"""The share of its limit from which on an account is worth a note."""


def check_account(party: PartyFile) -> Iterator[Diagnosis]:
    """Where the account of all runs is, and what it says; nothing for a party that is not read from a file."""
    if not party.path:
        return
    allowed, account = read_policy(party.allow, party.path), locate_account(party)
    if account.waiting:
        words = f"an earlier version's is beside {party.path}; the next run moves it to {account.folder}"
        yield Diagnosis("note", "account", words, "back up both until then")
    if not account.begun:
        yield Diagnosis("fine", "account", f"nothing spent yet; it will be in {account.folder}")
        return
    spent, most = account.spent.epsilon(allowed.delta), allowed.max_epsilon
    limit = "no max_epsilon in [allow]" if most is None else f"max_epsilon = {most:g}"
    words = f"epsilon {spent:.3g} spent at delta {allowed.delta:g} ({limit}), in {account.folder}"
    if most is not None and spent > _NEARLY * most:
        yield Diagnosis("note", "account", words, "runs that would pass the limit are refused")
    else:
        yield Diagnosis("fine", "account", words, "back it up: without it, what was spent is forgotten")


CHECKS: tuple[Check, ...] = (check_machine, check_account, check_ids, check_columns)
"""Each looks at one party file and what it names; add a check here, and the command makes it."""


def _check_no_data(party: PartyFile) -> Iterator[Diagnosis]:
    words = f"{party.name} has no [data]: fit for plans on public data sets only, of which it takes its share"
    yield Diagnosis("note", "data", words, "say source and key in [data] for rows of its own")


def examine(party: PartyFile) -> Iterator[Diagnosis]:
    """Everything that the checks find at one party; a check that cannot go on says why, and the next goes on."""
    for check in CHECKS if party.data is not None or not party.path else (check_machine, check_account, _check_no_data):
        try:
            yield from check(party)
        except LaconicError as problem:
            yield Diagnosis("wrong", check.__name__.removeprefix("check_"), str(problem))


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of several parties, matched.

    Attributes:
        shared: how many rows all have.
        rows: how many each has. some: how many of a party's rows some other has, but not every one.
        fingerprints: of the alignment, by party; equal if all hold the same rows in the same order.
    """

    shared: int
    rows: Mapping[str, int]
    some: Mapping[str, int]
    fingerprints: Mapping[str, str]


class Agreed(msgspec.Struct, frozen=True, kw_only=True):
    """What parties with other people agree on.

    Attributes:
        columns: how many columns. classes: what the label can be; none for a number. label: what it is called.
        rows: how many each learns from.
    """

    columns: int
    classes: tuple[str, ...]
    label: str
    rows: Mapping[str, int]


def agree_parties(paths: Sequence[Path | str]) -> Agreed | None:
    """Let parties that all have labels agree on columns, within this process; None if only one has labels."""
    labelled = [one for one in map(read_party, paths) if one.data is not None and one.data.label is not None]
    if len(labelled) < 2:
        return None
    made = rows_from_party_files(paths, DataPlan(files=tuple(map(str, paths))), seed=0)
    hub = Party(made.hub, made.tables[made.hub], 0)
    others = tuple(Party(name, table, 0) for name, table in made.tables.items() if name != made.hub)
    align, log = SameColumns(), WireLog()
    log.phase = "align"
    with open_calls(others) as carrier:
        peers = Peers(align, hub, carrier, log, carrier.names)
        align.match(hub, peers)
        align.confirm(hub, peers)
    rows = {one.name: len(one.data.cut("train")) for one in others}
    task = task_of(hub)
    return Agreed(columns=len(hub.data.columns), classes=task.classes, label=task.label, rows=rows)


def match_parties(paths: Sequence[Path | str]) -> Together:
    """Match the rows of parties whose files are all here, in the clear and within this process.

    Raises:
        PlanError: the party files do not fit together.
        DataError: rows cannot be read, or nobody is at every party.
    """
    return match_federation(from_party_files(paths))


def match_federation(made: Federation) -> Together:
    """The same for parties whose rows are read already."""
    parties = {name: Party(name, table, 0) for name, table in made.tables.items()}
    hub = parties[made.hub]
    others = tuple(party for party in parties.values() if party is not hub)
    align, log = ExactMatch(), WireLog()
    log.phase = "align"
    with open_calls(others) as carrier:
        hub.turn("align", 0)  # As a run begins, so that its fingerprint is the same.
        peers = Peers(align, hub, carrier, log, carrier.names)
        found: dict[str, Any] = align.match(hub, peers)
        align.confirm(hub, peers)
    prints = {name: fingerprint(party.data) for name, party in parties.items()}
    return Together(shared=found["shared"], rows=found["rows"], some=found["some"], fingerprints=prints)


class FilesFound(msgspec.Struct, frozen=True, kw_only=True):
    """What plain files hold.

    Attributes:
        readings: what each column is and what looks odd, by party.
        notes: what was decided when reading and should be looked at.
        wrong: why a run on them would end with an error; empty if it would not.
        together: their rows, matched; None without an id, in a horizontal federation, or if something is wrong.
    """

    readings: Mapping[str, FileReading]
    notes: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    together: Together | None = None


def look_at_files(
    paths: Sequence[str], id_name: str | None = None, label: str | None = None, event: str | None = None
) -> FilesFound:
    """Read plain files as a run would: each by itself and, where a label is named, as a federation."""
    named = by_party(paths)
    readings: dict[str, FileReading] = {}
    wrong = []
    for party, path in named.items():
        try:
            frame = with_text_names(read_file(party, path, id_name, [one for one in (label, event) if one is not None]))
            check_frame(party, frame)
            readings[party] = frame_reading(frame, [name for name in frame.columns if name == id_name])
        except LaconicError as problem:
            wrong.append(str(problem))
    if label is None or wrong:
        return FilesFound(readings=readings, wrong=tuple(wrong))
    try:
        made = federation(named, label=label, event=event, id=id_name)
        matched = match_federation(made) if made.kind == "vertical" else None
    except LaconicError as problem:
        return FilesFound(readings=readings, wrong=(str(problem),))
    return FilesFound(readings=made.readings, notes=made.notes, together=matched)

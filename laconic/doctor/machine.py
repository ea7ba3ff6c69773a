"""Is a party's machine ready: versions, certificates, ports and clock. For party files that lie in a site."""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from laconic.deploy.party_files import PartyFile, PartySite, open_site
from laconic.doctor.columns import Diagnosis, Level

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

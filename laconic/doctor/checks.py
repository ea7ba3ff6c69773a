"""All that `laconic doctor` looks at, in order; at its end, what the party has spent of its people's privacy."""

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from laconic.align.alignment import ExactMatch
from laconic.align.schema import SameColumns
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.traffic import WireLog
from laconic.data.federation import Federation
from laconic.data.readers.aloud import FileReading, frame_reading
from laconic.data.readers.batches import column_names
from laconic.data.readers.federate import by_party, federation, read_file
from laconic.data.readers.frames import with_text_names
from laconic.data.readers.ids import read_ids
from laconic.data.readers.source_table import check_frame, own_columns, own_frame, read_own
from laconic.data.schema import ColumnKind, IdRules, OwnData
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
from laconic.errors import DataError, LaconicError, PlanError
from laconic.plan.plan import DataPlan
from laconic.tables.table import fingerprint
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import Series


Level: TypeAlias = Literal["fine", "note", "wrong"]


class Diagnosis(msgspec.Struct, frozen=True):
    """One finding about one thing.

    Attributes:
        level: `fine` needs nothing; `note` works, but should be known; `wrong` would end or spoil a run.
        about: what it is about: a column, a file, a port.
        words: what was found.
        remedy: what to do; empty if nothing.
    """

    level: Level
    about: str
    words: str
    remedy: str = ""


Check: TypeAlias = Callable[[PartyFile], Iterable[Diagnosis]]
"""Looks at one party and says what it found; it reads, and changes nothing."""


def check_columns(party: PartyFile) -> Iterable[Diagnosis]:
    """Read the rows as a run would, and say what each column is and what would be made of it."""
    if party.data is None:
        return
    data = party.data
    try:
        kinds = own_columns(party.name, data)
        own = read_own(party.name, data)
    except DataError as problem:
        yield Diagnosis("wrong", "data", str(problem), "as it says")
        return
    table = own.table
    yield Diagnosis("fine", "rows", f"{own.rows:,} in the source, {table.rows:,} can be used")
    if not data.columns:
        words = f"the kinds of {len(kinds)} columns were inferred from their cells"
        remedy = "approve them: laconic doctor --write adds them to the party file, where you can correct them"
        yield Diagnosis("note", "data.columns", words, remedy)
    unused = set(column_names(party.name, data)) - set(kinds) - {*data.keys, *data.labels}
    if unused:
        words = f"not used, as data.columns does not name them: {', '.join(sorted(unused))}"
        yield Diagnosis("fine", "other columns", words)
    for one in () if own.reading is None else own.reading.columns:
        if one.role in ("column", "left out"):
            name, _, words = one.line.partition(": ")
            remedy = "leave it so, correct the source, or leave it out of data.columns" if one.odd else ""
            yield Diagnosis("note" if one.odd else "fine", name, words, remedy)
    for note in own.notes:
        yield Diagnosis("note", "reading", note, "correct the source, or leave it so")
    if table.task is not None:
        words = f"{table.task.kind}" + (f": {', '.join(table.task.classes[:6])}" if table.task.classes else "")
        yield Diagnosis("fine", table.task.label, f"label, {words}")


def write_columns(party: PartyFile) -> dict[str, ColumnKind]:
    """Add the columns and kinds inferred from the cells to a party file that names none, for a person to approve."""
    path = Path(party.path)
    if party.own_data.columns:
        raise PlanError(f"{path} names its columns already, in data.columns; correct them there")
    kinds = own_columns(party.name, party.own_data)
    note = "# Inferred from the cells by `laconic doctor`; correct what is wrong, and delete what should not be used."
    before = path.read_text(encoding="utf-8").rstrip()
    lines = [f'{_key(name)} = "{kind}"' for name, kind in kinds.items()]
    part = path.with_suffix(".toml.part")
    try:
        part.write_text("\n".join((before, "", note, "[data.columns]", *lines, "")), encoding="utf-8")
        read_party(part)
    except PlanError as problem:
        part.unlink()
        raise PlanError(f"nothing could be added at the end of {path}: write [data] as a table of its own") from problem
    part.replace(path)
    return kinds


def _key(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    return name if plain else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


PATTERNS = {
    "digits": r"^\d+$",
    "leading zero": r"^0\d+$",
    "upper case": r"[A-Z]",
    "lower case": r"[a-z]",
    "space inside": r"\S\s+\S",
    "point zero": r"^\d+\.0+$",
    "rounded": r"^\d(?:\.\d+)?[eE]\+?\d+$",
    "iso": r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?$",
    "day_first": r"^(?:1[3-9]|2\d|3[01])[./]\d{1,2}[./]\d{4}",
    "month_first": r"^\d{1,2}[./](?:1[3-9]|2\d|3[01])[./]\d{4}",
    "either first": r"^\d{1,2}[./]\d{1,2}[./]\d{4}",
}
"""Forms of ids that matter when two parties' ids are compared, as regular expressions on text without outer space."""


class Forms(NamedTuple):
    """How a column of ids is written.

    Attributes:
        rows: how many cells there are. known: how many have an id.
        counts, examples: by form, for the forms that occur; also for `space around`.
        lengths: of the shortest and of the longest id; 0 if there is none.
    """

    rows: int
    known: int
    counts: dict[str, int]
    examples: dict[str, str]
    lengths: tuple[int, int]

    def some(self, form: str) -> str:
        """How many ids have a form, with an example."""
        return f"{self.counts[form]:,} of {self.known:,} ids, such as {self.examples[form]!r},"


def forms_of(series: "Series") -> Forms:
    """Count the forms of a column of ids."""
    given = series.astype("string").fillna("")
    text = given.str.strip()
    known = text[text != ""]
    around = given[(given != text) & (text != "")]
    found = {form: known[known.str.contains(pattern, regex=True)] for form, pattern in PATTERNS.items()}
    found = {form: some for form, some in (found | {"space around": around}).items() if len(some)}
    lengths = known.str.len() if len(known) else [0]
    return Forms(
        rows=len(text),
        known=len(known),
        counts={form: len(some) for form, some in found.items()},
        examples={form: str(some.iloc[0]) for form, some in found.items()},
        lengths=(int(min(lengths)), int(max(lengths))),
    )


def check_ids(party: PartyFile) -> Iterable[Diagnosis]:
    """Look at every column of the key, and at the key as a whole."""
    if party.data is None:
        yield Diagnosis("fine", "data", "none: a server, which has no rows")
        return
    data = party.data
    there = column_names(party.name, data)
    missing = [key for key in data.keys if key not in there]
    if missing:
        words = f"{data.source} has no such column; it has {', '.join(there[:20])}"
        yield Diagnosis("wrong", missing[0], words, "name the column that says who a row is about in data.key")
        return
    frame = own_frame(party.name, data, data.keys)
    try:
        ids = read_ids(frame, data.keys, data.ids, party.name)
    except DataError as problem:
        yield Diagnosis("wrong", "key", str(problem), "correct the cell, or data.ids.dates")
        return
    for key in data.keys:
        yield from _of_column(key, forms_of(frame[key]), data)
    yield from _of_key(data, read_ids(frame, data.keys, IdRules(), party.name), ids)


def _of_column(key: str, forms: Forms, data: OwnData) -> Iterator[Diagnosis]:
    rules, counts = data.ids, forms.counts
    yield Diagnosis("fine", key, _describe(forms))
    if forms.known < forms.rows:
        words = f"{forms.rows - forms.known:,} of {forms.rows:,} rows have no id"
        if data.on_empty == "drop":
            yield Diagnosis("note", key, words)
        else:
            remedy = "fill them in, or say data.on_empty = 'drop' to leave those rows out"
            yield Diagnosis("wrong", key, words, remedy)
    if key in rules.dates:
        yield Diagnosis("note", key, f"dates are read as {rules.dates[key]} and compared as 2013-01-31")
        return
    if "rounded" in counts:
        words = f"{forms.some('rounded')} are rounded numbers, as spreadsheets write long ids"
        yield Diagnosis("wrong", key, words, "export the column again as text")
    if "point zero" in counts:
        words = f"{forms.some('point zero')} end in .0, as whole numbers do that were read as decimals"
        yield Diagnosis("wrong", key, words, "export the column again as text or whole numbers")
    if "space around" in counts:
        words = f"{forms.some('space around')} have white space around them, which is dropped"
        yield Diagnosis("note", key, words)
    yield from _rule(key, forms, "space inside", "have white space inside", rules.spaces == "drop", "spaces = 'drop'")
    if "lower case" in counts:
        yield from _rule(key, forms, "upper case", "have capital letters", rules.case == "lower", "case = 'lower'")
    yield from _rule(key, forms, "leading zero", "begin with 0", rules.zeros == "drop", "zeros = 'drop'")
    yield from _of_dates(key, forms)


def _rule(key: str, forms: Forms, form: str, words: str, on: bool, setting: str) -> Iterator[Diagnosis]:
    """What a rule changes if it is on, or could change if it were."""
    if form in forms.counts and on:
        yield Diagnosis("note", key, f"{forms.some(form)} {words}, which data.ids.{setting} takes out")
    elif form in forms.counts:
        words = f"{forms.some(form)} {words}, and are compared as they are"
        remedy = f"if another party writes them differently, say data.ids.{setting} at every party"
        yield Diagnosis("note", key, words, remedy)


def _of_dates(key: str, forms: Forms) -> Iterator[Diagnosis]:
    examples = forms.examples
    found = [form for form in ("iso", "day_first", "month_first") if form in examples]
    if {"day_first", "month_first"} <= set(found):
        words = f"dates have the day first ({examples['day_first']}) and the month first ({examples['month_first']})"
        yield Diagnosis("wrong", key, words, "write all dates one way, best as 2013-01-31")
    elif found or "either first" in examples:
        form, example = (found[-1], found[-1]) if found else ("day_first' or 'month_first", "either first")
        words = f"ids like {examples[example]!r} look like dates, and are compared as they are"
        remedy = f"say data.ids.dates.{key} = '{form}' so that they are written in the same way at every party"
        yield Diagnosis("note", key, words, remedy)


def _of_key(data: OwnData, plain: Array, ids: Array) -> Iterator[Diagnosis]:
    key = " + ".join(data.keys)
    different, times = np.unique(ids[ids != ""].astype(str), return_counts=True)
    if not len(different):
        yield Diagnosis("wrong", key, "no row has an id", "check data.key and the file")
        return
    merged = len(np.unique(plain[plain != ""].astype(str))) - len(different)
    if merged > 0:
        words = f"{merged:,} ids become the same as another when they are written by data.ids"
        yield Diagnosis("note", key, words, "if these are different people, take that rule back")
    repeated = different[times > 1]
    words = f"{len(repeated):,} ids occur more than once, such as {', '.join(repeated[:3])}"
    handled = {"first": "; the first row of each is kept", "aggregate": "; their rows are made one"}
    if not len(repeated):
        yield Diagnosis("fine", key, f"{len(different):,} ids, all different")
    elif data.on_duplicate in handled:
        yield Diagnosis("note", key, words + handled[data.on_duplicate])
    else:
        remedy = "keep one row for each id, or say data.on_duplicate = 'first' or 'aggregate'"
        yield Diagnosis("wrong", key, words, remedy)


def _describe(forms: Forms) -> str:
    digits, (shortest, longest) = forms.counts.get("digits", 0), forms.lengths
    kind = "all digits" if digits == forms.known else f"text, but {digits:,} are all digits" if digits else "text"
    long = f"{shortest} to {longest}" if shortest < longest else f"{longest}"
    return f"{forms.known:,} ids, {kind}, {long} long" if forms.known else "no ids"


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

"""Everything that left one party, for those who answer for its data: as JSON, and as a page."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laconic.atomic_files import write_whole
from laconic.audit.attacks import Finding
from laconic.core.ledger import Entry, Ledger
from laconic.deploy.one_run import cover_words
from laconic.deploy.result import Leakage, Release, Result, ledgers_of
from laconic.errors import DataError
from laconic.inference.bundle import Part
from laconic.privacy.accounting import price
from laconic.report.words import leakage_line, rows_of, rows_were_matched, said_date
from laconic.shown import counted, html_table, in_bytes

_DELTA = 1e-5


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One array or value of what left: its name if it had one, its type, and its shape (the last time it was sent)."""

    name: str
    type: str
    shape: tuple[int, ...]


class Disclosed(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of thing that left a party.

    Attributes:
        phase, step: when it left, and by which question.
        to: who received it: `hub`, `peers`, or whoever is named.
        purpose: what it is and what it gives away, in the step's own words.
        pieces: types and shapes, the last time it was sent.
        times, bytes: how often it was sent, and its bytes in all.
        protection: in words, what noise covers it, or that nothing does.
        epsilon: of this alone, for one unit; None if no noise with a proven price is on it.
        delta: the probability that the loss is greater than epsilon; None without one.
        unit: whose influence epsilon bounds.
        digest: of the bytes that left (BLAKE2b, 128 bits), by which the receiver's copy can be checked; for what was
            sent more than once, digests of one after the other. Empty for what stayed, such as a model.
        label: `open`, `noised` or `cryptographic`.
    """

    phase: str
    step: str
    to: str
    purpose: str
    pieces: tuple[Piece, ...]
    times: int
    bytes: int
    protection: str
    epsilon: float | None
    delta: float | None
    unit: str
    digest: str
    label: str = "open"


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, tag="audit"):
    """What `laconic audit --save` writes: how attacks on a run did, and which run that was.

    Attributes:
        when: when it was done, in UTC.
        known, shadows: rows that an attacker knew in full, and models that one trained.
        findings: the attacks, each beside what is possible without what was released.
        digests: of what each party released while fitting, by which a record shows that it is of the same run.
    """

    when: str
    known: int
    shadows: int
    findings: tuple[Finding, ...]
    digests: dict[str, tuple[str, ...]]


class Disclosure(msgspec.Struct, frozen=True, kw_only=True):
    """Everything made from rows that left one party in one run.

    Attributes:
        party: who gave it.
        method, data, label: what was run, on what, to predict what.
        hub, others: who else took part.
        seed, versions: what repeats the run.
        left: what left, in the order of its first release.
        bytes: of all that left.
        open: how many kinds of thing left without noise that has a proven price.
        epsilon: of all this party's priced releases together, at `delta`; None if there are none or a proof fails.
        secure: whether all noise came from a secure generator; None if there was none.
        absences: how many questions it did not answer.
        when: when the run ended, or the model was saved, in UTC; empty if that is not known.
        people: how many of the party's rows were used; 0 if that is not known.
        columns: the party's columns that were used; empty if the record does not name them.
        why: what everything was sent for, in words.
        recipients: who received something.
        retention: how long what left is kept, as far as that is known.
        uses: how often the model was used since; None for a run.
        signed: whether the party signed this ledger in the run.
        leakage: how well the party's columns can be rebuilt from what it sent in the open; empty if nobody measured it.
        audit: how attacks on the run did; None if none is at hand.
    """

    party: str
    method: str
    data: str
    label: str
    hub: str
    others: tuple[str, ...]
    seed: int
    versions: dict[str, str]
    left: tuple[Disclosed, ...]
    bytes: int
    open: int
    epsilon: float | None
    delta: float | None
    secure: bool | None
    absences: int
    when: str = ""
    people: int = 0
    columns: tuple[str, ...] = ()
    why: str = ""
    recipients: tuple[str, ...] = ()
    retention: str = ""
    uses: int | None = None
    signed: bool = False
    leakage: tuple[Leakage, ...] = ()
    audit: AuditRecord | None = None

    def __repr__(self) -> str:
        sent = [one for one in self.left if one.digest]
        covered = "no epsilon" if self.epsilon is None else f"epsilon {self.epsilon:.4g}"
        what = f"{counted(len(sent), 'kind')} of release, {self.open} open, {in_bytes(self.bytes)}; {covered}"
        return f"<Disclosure of {self.party}, {self.method}: {what}>"

    def _repr_html_(self) -> str:
        lines = [(one.purpose, one.to, one.protection, one.times, in_bytes(one.bytes)) for one in self.left]
        return html_table(f"What left {self.party}", ("what", "to", "protection", "times", "bytes"), lines)


_Given = tuple[Disclosure, Disclosed, Path | None]
"""What left, the record that it is of, and, among several records, where that one came from."""


def write_audit(file: Path, result: Result, findings: Sequence[Finding], *, known: int, shadows: int) -> None:
    """Keep what attacks on a run found, for the record of each party."""
    digests = {party: _fitted(disclose(result, party)) for party in result.parties}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = AuditRecord(when=now, known=known, shadows=shadows, findings=tuple(findings), digests=digests)
    write_whole(file, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def with_audit(disclosure: Disclosure, file: Path) -> Disclosure:
    """A record with the attacks on its run, as `write_audit` kept them.

    Raises:
        DataError: the file holds no audit, or one of another run.
    """
    try:
        found = msgspec.json.decode(file.read_bytes(), type=AuditRecord)
    except (OSError, msgspec.MsgspecError):
        raise DataError(f"{file} holds no audit; write one with: laconic audit RESULT.json --save {file}") from None
    audited = found.digests.get(disclosure.party)
    if audited is None or not set(audited) <= set(_fitted(disclosure)):
        what = "in a run in which it took no part" if audited is None else "in another run"
        raise DataError(f"{file} is about what {disclosure.party} sent {what}; attack this one with: laconic audit")
    return msgspec.structs.replace(disclosure, audit=found)


def _fitted(disclosure: Disclosure) -> tuple[str, ...]:
    return tuple(one.digest for one in disclosure.left if one.phase in ("align", "fit") and one.digest)


def disclose(result: Result, party: str) -> Disclosure:
    """What left a party in a run."""
    if party not in result.parties:
        raise DataError(f"{party!r} took no part in this run; the parties are {', '.join(result.parties)}")
    released = [one for one in result.releases if one.party == party]
    left = tuple(_disclosed(result, one) for one in released)
    paid = result.privacy
    epsilon = None if paid is None or paid.epsilon is None else paid.by_party.get(party)
    noises = [one.noise for one in released if one.noise is not None]
    return Disclosure(
        party=party,
        method=str(result.method["type"]),
        data=str(result.data.get("name", "data")),
        label=result.task.label,
        hub=result.hub,
        others=tuple(name for name in result.parties if name not in (party, result.hub)),
        seed=result.seed,
        versions=result.versions,
        left=left,
        bytes=sum(one.bytes for one in left),
        open=sum(one.label == "open" and one.digest != "" for one in left),
        epsilon=epsilon,
        delta=None if paid is None or epsilon is None else paid.delta,
        secure=all(noise.secure for noise in noises) if noises else None,
        absences=sum(absence.party == party for absence in result.absences),
        when=result.ended,
        people=_people(result, party),
        columns=_columns(result, party),
        why=_why(str(result.method["type"]), result.task.label, [one.phase for one in released]),
        recipients=_recipients(result.hub, tuple(one for one in result.parties if one != party), left),
        retention=_NOT_DELETED,
        signed=party in result.statements,
        leakage=tuple(one for one in result.leakage if one.party == party),
    )


def disclose_part(part: Part, uses: int) -> Disclosure:
    """What left a party for a saved model: in training, and with every use since."""
    about, ledgers = part.about, {part.about.party: part.ledger}
    to = "peers" if about.party == about.hub else "hub"
    left = tuple(_from_entry(one, to) for one in part.ledger.entries)
    paid = price(ledgers, _DELTA)
    noises = [one.noise for one in part.ledger.entries if one.noise is not None]
    label = "" if about.task is None else about.task.label
    if about.people:
        ids = (Piece(name="ids, at least as many:", type="text", shape=(about.people,)),)
        left = tuple(msgspec.structs.replace(one, pieces=ids) if one.step == "show_ids" else one for one in left)
    return Disclosure(
        party=about.party,
        method=str(about.method["type"]),
        data="a saved model",
        label=label or f"what {about.hub} predicts",
        hub=about.hub,
        others=tuple(name for name in about.peers if name != about.party),
        seed=about.seed,
        versions={},
        left=left,
        bytes=sum(one.bytes for one in left),
        open=sum(one.label == "open" and one.digest != "" for one in left),
        epsilon=paid.by_party.get(about.party),
        delta=_DELTA if about.party in paid.by_party else None,
        secure=all(noise.secure for noise in noises) if noises else None,
        absences=0,
        when=about.saved,
        people=about.people,
        columns=tuple(column.name for column in about.columns),
        why=_why(str(about.method["type"]), label, [one.phase for one in part.ledger.entries]),
        recipients=_recipients(about.hub, about.peers, left),
        retention=_NOT_DELETED if about.party == about.hub else _KEPT_AT_HUB.format(hub=about.hub, party=about.party),
        uses=uses,
    )


_NOT_DELETED = "Laconic deletes nothing that was sent: agree with each recipient how long it is kept."
_KEPT_AT_HUB = (
    "{hub} may keep what was sent in its part of the model, until you run: laconic forget {party} MODEL. Nothing is "
    "known of copies."
)


def _why(method: str, label: str, phases: Sequence[str]) -> str:
    """What everything was sent for, in words."""
    said = {
        "align": "to find out which people the parties share",
        "fit": f"to learn a model that predicts {label or 'the label'} ({method})",
        "look": "to score the model while it was learnt",
        "final": "to predict: rows held out to score the model, and every row asked for since",
    }
    return "; ".join(words for phase, words in said.items() if phase in phases) or "nothing was sent"


def _recipients(hub: str, others: Sequence[str], left: Sequence[Disclosed]) -> tuple[str, ...]:
    """Who received something, by name where the ledger says only `hub` or `peers`."""
    names = {"hub": [hub], "peers": [one for one in others if one != hub]}
    return tuple(dict.fromkeys(name for one in left if one.digest for name in names.get(one.to, [one.to])))


def _people(result: Result, party: str) -> int:
    """How many of a party's rows were used, as far as the record says."""
    if rows_were_matched(result) and party in result.data["alignment"]["rows"]:
        return rows_of(result, party)[2]
    own = dict(result.data.get("own") or {}).get(party)
    if own:
        return int(own)
    counts = result.data.get("rows")
    return sum(one for one in counts.values() if isinstance(one, int)) if isinstance(counts, dict) else 0


def _columns(result: Result, party: str) -> tuple[str, ...]:
    """The party's columns by name, where the record says them."""
    own = dict(result.data.get("kinds") or {}).get(party, {})
    return tuple(own) if isinstance(own, dict) else ()


def show_disclosure(one: Disclosure) -> RenderableType:
    """A record for a terminal: first what nothing protects and who has it, then what is covered, then the rest."""
    title = f"What left {one.party}: {one.method} on {one.data}, to predict {one.label}"
    groups = _by_words([(one, left, None) for left in one.left])
    open_ones = [group for group in groups if group[0][1].label == "open"]
    rest = [group for group in groups if group[0][1].label != "open"]
    parts: list[RenderableType] = [Text(title, "bold")]
    if open_ones:
        parts += [
            Text(f"\nOpen: nothing protects it from {', '.join(one.recipients)}", "bold"),
            *map(_group, open_ones),
        ]
    if rest:
        parts += [Text("\nCovered, as far as the words say", "bold"), *map(_group, rest)]
    return Group(*parts, "", *(Text(line) for line in _facts(one)))


def _facts(one: Disclosure) -> Iterator[str]:
    """Epsilon, when, who, why, columns, retention, signature and attacks, a line each."""
    noised = "for what is noised; it says nothing of what is open"
    yield (
        "No epsilon can be given."
        if one.epsilon is None
        else f"Epsilon {one.epsilon:.4g}, delta {one.delta:g}: {noised}."
    )
    if one.secure is False:
        yield "The noise came from the run's seed, which undoes it: for studies only."
    if one.when:
        yield f"{'Ended' if one.uses is None else 'Saved'} on {said_date(one.when)}, seed {one.seed}."
    if one.uses is not None:
        yield f"Used since: {one.uses:,} times." if one.uses != 1 else "Used since: once."
    yield (
        f"About {one.people:,} people; {in_bytes(one.bytes)} in all."
        if one.people
        else f"{in_bytes(one.bytes)} in all."
    )
    yield f"Received by {', '.join(one.recipients) or 'nobody'}, {one.why}."
    if one.columns:
        yield f"Columns used ({len(one.columns)}): {', '.join(one.columns)}."
    yield f"Kept: {one.retention}"
    yield f"{one.party} {'signed this ledger in the run' if one.signed else 'has not signed this ledger'}."
    if one.absences:
        yield f"{one.party} left {counted(one.absences, 'question')} unanswered."
    if one.audit is None:
        yield "Not attacked for this record: laconic audit RESULT.json --save FILE, then laconic disclose --audit FILE."
    else:
        yield f"Attacks on this run, {said_date(one.audit.when)}; in brackets, a guess without what was released:"
        for found in one.audit.findings:
            yield f"  {found.attack}, by {found.knows}: {found.measure} {found.success:.3f} ({found.baseline:.3f})"


def show_given(party: str, found: Sequence[tuple[Path, Disclosure]]) -> RenderableType:
    """All that a party gave in several runs and models: each kind of release once, and when, from where and to whom."""
    groups = _by_words([(one, left, source) for source, one in found for left in one.left])
    return Group(Text(f"All that {party} gave", "bold"), "", *map(_group, groups))


def _by_words(given: Sequence[_Given]) -> list[list[_Given]]:
    """Releases of the same label, words and protection together; open ones first."""
    found: dict[str, dict[tuple[str, str], list[_Given]]] = {label: {} for label in ("open", "noised", "cryptographic")}
    for one in given:
        found[one[1].label].setdefault((one[1].purpose, one[1].protection), []).append(one)
    return [group for groups in found.values() for group in groups.values()]


def _group(group: Sequence[_Given]) -> RenderableType:
    left = group[0][1]
    words = [] if left.label == "open" and left.protection.startswith("open release") else [left.protection]
    rebuilt = left.protection.partition("; ")[2] if left.label == "open" else ""
    table = Table.grid(padding=(0, 2))
    table.add_row(Text(left.label, "yellow" if left.label == "open" else "green"), Text(left.purpose))
    for line in filter(None, (*words, rebuilt)):
        table.add_row("", Text(line))
    for record, one, source in group:
        names = {"hub": record.hub, "peers": ", ".join(record.recipients)}
        form = "; ".join(_shape(piece) for piece in one.pieces)
        sent = "stays" if not one.digest else f"{counted(one.times, 'time')}, {in_bytes(one.bytes)}"
        where = (
            [
                said_date(record.when) if record.when else "time not known",
                f"{source}, {record.method}, seed {record.seed}",
            ]
            if source
            else []
        )
        digest = [] if source or not one.digest else [f"digest {one.digest}"]
        when = one.phase if source else f"{one.phase} ({one.step})"
        said = [*where, when, f"to {names.get(one.to, one.to)}", form, sent, *digest]
        table.add_row("", Text("; ".join(filter(None, said)), "dim"))
    return table


def _shape(piece: Piece) -> str:
    kind = {"str": "text"}.get(piece.type, piece.type)
    return " ".join(filter(None, (piece.name, kind, " x ".join(f"{side:,}" for side in piece.shape))))


def render_disclosure(disclosures: Sequence[Disclosure]) -> str:
    """A page for a data-protection officer: one party, one run or several."""
    from laconic.report.page.view import fill

    party, runs = disclosures[0].party, [_view(one) for one in disclosures]
    return fill("disclosure.html", {"party": party, "runs": runs, "title": f"What left {party}"})


def pieces_of(form: str) -> tuple[Piece, ...]:
    """The types and shapes in a ledger's form, such as `float32 512x8` or `codes: int8 90, count: int`."""
    return tuple(_piece(part) for part in re.split(r", (?=[^,]*: )", form) if part)


def _piece(text: str) -> Piece:
    name, _, rest = text.rpartition(": ")
    found = re.fullmatch(r"(\S+) (\d+(?:x\d+)*)", rest)
    if found is None or not found[1][0].isalpha():
        return Piece(name=name, type=rest.removesuffix(" number"), shape=())
    return Piece(name=name, type=found[1], shape=tuple(int(side) for side in found[2].split("x")))


def _disclosed(result: Result, release: Release) -> Disclosed:
    epsilon, delta = _epsilon(result, release)
    same = {name: getattr(release, name) for name in ("phase", "step", "to", "times", "bytes", "digest")}
    pieces = pieces_of(release.form)
    if release.step == "show_ids" and rows_were_matched(result):
        # All ids cross as one text; what an officer asks is how many people that names.
        pieces = (Piece(name="ids", type="text", shape=(rows_of(result, release.party)[0],)),)
    return Disclosed(
        **same,
        label=release.label,
        purpose=release.words,
        pieces=pieces,
        protection="; ".join(filter(None, (release.covered, leakage_line(result, [release])))),
        epsilon=epsilon,
        delta=delta,
        unit="" if release.noise is None else release.noise.unit,
    )


def _from_entry(entry: Entry, to: str) -> Disclosed:
    """An entry of a part's ledger, as `_disclosed` puts those of a run."""
    priced = entry.noise is not None and entry.noise.multiplier is not None and entry.noise.proven
    epsilon = price({"": Ledger((entry,))}, _DELTA).epsilon if priced else None
    same = {name: getattr(entry, name) for name in ("phase", "step", "times", "bytes", "digest", "label")}
    return Disclosed(
        **same,
        to=entry.to or to,
        purpose=entry.words,
        pieces=pieces_of(entry.form),
        protection=cover_words(entry),
        epsilon=epsilon,
        delta=_DELTA if priced else None,
        unit="" if entry.noise is None else entry.noise.unit,
    )


def _epsilon(result: Result, release: Release) -> tuple[float | None, float | None]:
    """The price of one release alone; nothing where its noise has none, or no proof."""
    if release.noise is None or release.noise.multiplier is None or not release.noise.proven:
        return None, None
    delta = _DELTA if result.privacy is None else result.privacy.delta
    return price(ledgers_of(msgspec.structs.replace(result, releases=(release,))), delta).epsilon, delta


def _view(one: Disclosure) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    for shown, piece in zip(plain["left"], one.left, strict=True):
        shown["form"] = "; ".join(map(_shape, piece.pieces))
    plain["when"] = said_date(one.when) if one.when else ""
    if one.audit is not None:
        plain["audit"]["when"] = said_date(one.audit.when)
    return plain

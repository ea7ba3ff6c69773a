"""Everything that left one party, for those who answer for its data: as JSON, and as a page."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from laconic.core.result import Release, Result
from laconic.errors import DataError
from laconic.privacy.accounting import ledgers_of, price

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
        open=sum(one.epsilon is None and one.digest != "" for one in left),
        epsilon=epsilon,
        delta=None if paid is None or epsilon is None else paid.delta,
        secure=all(noise.secure for noise in noises) if noises else None,
        absences=sum(absence.party == party for absence in result.absences),
    )


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
    return Disclosed(
        **same,
        purpose=release.words,
        pieces=pieces_of(release.form),
        protection=release.covered,
        epsilon=epsilon,
        delta=delta,
        unit="" if release.noise is None else release.noise.unit,
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
        shown["form"] = "; ".join(
            " ".join(filter(None, (part.name, part.type, " x ".join(f"{side:,}" for side in part.shape))))
            for part in piece.pieces
        )
    return plain

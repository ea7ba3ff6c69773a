"""The ledger: what a party gave away, in words a data owner understands, and under what noise."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from laconic.shown import counted, html_table, in_bytes

T = TypeVar("T")

EVERY_ROW = "every row"
"""The `people` of noise on rows that may be of any cut: it counts against everyone."""


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """The noise put on a release.

    Attributes:
        mechanism: its name, such as `gaussian`.
        scale: standard deviation of the noise on each number.
        sensitivity: how far one unit can move the whole release (L2), or None where that was never bounded.
        unit: whose influence the sensitivity bounds, such as `one row at this party`.
        caveat: what this noise does not cover.
        rate: the probability with which each unit took part; 1 if all did.
        count: how many such noisy answers were made for one release, each with a fresh draw of who takes part; 0 for
            what was made from noisy values alone, which costs nothing more.
        people: the cut of rows that it is about; cuts are of different people, so that their losses do not add up. What
            is about `EVERY_ROW` counts with each cut.
        proven: whether the sensitivity is proven; False where its authors claim it but the proof does not cover it.
        secure: whether the noise came from a secure generator; False if whoever knows the run's seed can take it off.
        once: whether it was drawn once, and all that bears it was worked out from that one noisy value: then only the
            first release costs.
    """

    mechanism: str
    scale: float
    sensitivity: float | None
    unit: str
    caveat: str
    rate: float = 1.0
    count: int = 1
    people: str = "train"
    proven: bool = True
    secure: bool = False
    once: bool = False

    @property
    def multiplier(self) -> float | None:
        """The scale of the noise in units of the sensitivity, from which its price follows; None if it has no price."""
        return None if self.sensitivity is None else self.scale / self.sensitivity


@dataclass(frozen=True, eq=False)
class Noised(Generic[T]):
    """A value with noise on it, ready to leave a party. Only `laconic.privacy` makes these.

    Attributes:
        bare: whether some of it bears no noise after all, and so is an open release beside.
    """

    value: T
    noise: Noise
    bare: bool = False


HIDDEN = "hidden in a sum"
"""In the words of a release that says nothing by itself: its receiver reads the sum over several parties alone."""

NOT_FROM_ROWS = "nothing made from its rows"
"""In the words of an answer that says nothing of rows, such as keys."""


@dataclass(frozen=True, eq=False)
class Masked(Generic[T]):
    """A value that says nothing without those of other parties, ready to leave a party; its noise, if any, is inside.

    Attributes:
        words: in what it is hidden, and from whom; for the ledger.
    """

    value: T
    words: str


def words_of(value: Any, gives: str) -> str:
    """What an answer gives away, in words: as its step says, and in what it is hidden."""
    return f"{gives}; {value.words}" if isinstance(value, Masked) else gives


def unwrap(value: Any) -> tuple[Any, tuple[Noise | None, ...]]:
    """A value as it crosses, and the different noises on its parts, None for a part without; looks into dicts.

    Words and whole numbers count as public and bear no noise, as in questions.
    """
    if isinstance(value, Masked):
        return unwrap(value.value)
    if isinstance(value, Noised):
        return value.value, (value.noise, None) if value.bare else (value.noise,)
    if isinstance(value, dict):
        parts = {key: unwrap(inner) for key, inner in value.items()}
        noises = dict.fromkeys(noise for _, found in parts.values() for noise in found)
        return {key: plain for key, (plain, _) in parts.items()}, tuple(noises)
    return value, () if isinstance(value, str | int | None) else (None,)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of release, and how often it was made; without noise it is an open release.

    Attributes:
        words: what was given, in the step's own words.
        form: shape and type of the last one.
        times: how many questions it answered, or asked. bytes: their bytes in all.
        to: who gets it; None for the other end of the question.
        digest: of the bytes that crossed, by which a receiver can show what it was given; of several, one after the
            other (see `Ledger.write`). Empty for what stays at its party, such as a model.
        hides: what cryptography keeps from whoever receives it: what, and from whom. Empty if nothing does.
    """

    phase: str
    step: str
    words: str
    form: str
    times: int
    bytes: int
    noise: Noise | None
    to: str | None = None
    digest: str = ""
    hides: str = ""

    @property
    def label(self) -> str:
        """What protects it, in a word: `open`, `noised`, `cryptographic`, or `no rows` if it is not about rows."""
        if self.noise is not None:
            return "noised"
        hidden = self.hides or HIDDEN in self.words
        return "no rows" if NOT_FROM_ROWS in self.words else "cryptographic" if hidden else "open"


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A party's signature, in hex, of its ledger in a plan's run, by the key with this fingerprint.

    Attributes:
        run: the name of an online run; empty by envelope.
        signer: whose key it is; in a run on a public set, parties have made-up names.
        final: whether the party answers nothing more in this run: then there is no later ledger that says more.
    """

    plan: str
    key: str
    signature: str
    run: str = ""
    signer: str = ""
    final: bool = False


class Ledger:
    """All that one party gave away, one entry for each phase, step and noise; and what the party signed of it."""

    def __init__(self, entries: tuple[Entry, ...] = (), statement: Statement | None = None) -> None:
        self._entries = {_key(entry): entry for entry in entries}
        self.statement = statement

    def __repr__(self) -> str:
        size = in_bytes(sum(one.bytes for one in self.entries))
        return f"<Ledger: {counted(len(self._entries), 'kind')} of release, {size}>"

    def _repr_html_(self) -> str:
        lines = [(one.phase, one.step, one.words, one.label, one.times, in_bytes(one.bytes)) for one in self.entries]
        headings = ("phase", "step", "what left, in the step's words", "protection", "times", "bytes")
        return html_table("What one party gave away", headings, lines)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries in the order of their first release."""
        return tuple(self._entries.values())

    def write(self, entry: Entry) -> None:
        """Add a release; the same release made again adds to its count, its bytes and its digest."""
        before = self._entries.get(_key(entry))
        if before is not None:
            entry = msgspec.structs.replace(
                entry,
                times=before.times + entry.times,
                bytes=before.bytes + entry.bytes,
                digest=digest_of(f"{before.digest}{entry.digest}".encode()) if entry.digest else before.digest,
            )
        self._entries[_key(entry)] = entry

    def write_parts(self, entry: Entry, noises: tuple[Noise | None, ...]) -> None:
        """Add a release whose parts bear these noises: an entry for each, all bytes counted with the first."""
        for number, noise in enumerate(noises or (None,)):
            self.write(msgspec.structs.replace(entry, noise=noise, bytes=0 if number else entry.bytes))


def digest_of(blob: bytes) -> str:
    """A digest of a blob, in 32 letters."""
    return blake2b(blob, digest_size=16).hexdigest()


def entry_of(phase: str, step: str, words: str, form: str, blob: bytes, hides: str = "") -> Entry:
    """The entry of one release, before it is known what noise it bears."""
    return Entry(
        phase=phase,
        step=step,
        words=words,
        form=form,
        times=1,
        bytes=len(blob),
        noise=None,
        digest=digest_of(blob),
        hides=hides,
    )


def _key(entry: Entry) -> tuple[str, str, str, Noise | None]:
    return entry.phase, entry.step, entry.words, entry.noise

"""Private set intersection: parties find the rows they share and show no other id, by Diffie-Hellman on a curve.

Every id is hashed to a point of a group and multiplied by a secret of its party. Each party's points then go through
all other parties, each of whom multiplies them by its own secret and shuffles them. In the end the points of one id are
the same whoever had it, and nobody can tell which id a point stands for. The hub compares the lists, and marks travel
back through the shuffles to their owners: shared, or not. Safe against parties that are curious but keep to the script;
a party that makes up ids learns whether the others have them.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

import numpy as np

from laconic.align.alignment import (
    AT_RANDOM,
    Align,
    HeldOut,
    choose_held_out,
    fitting_seed,
    keep_shared,
    keys_of,
    pair_counts,
)
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, Step, step
from laconic.core.wire import describe
from laconic.data.federation import HELD_OUT
from laconic.errors import DataError, MissingExtra, PlanError, Refused, WireError
from laconic.tables.table import PAIRED, paired_with
from laconic.values import Array, Rng, track

POINT = 32
"""Bytes of a point."""

_SLICE = 1024  # points between two looks at the clock: small enough to share among threads evenly


def new_secret(random: bytes | None = None) -> bytes:
    """A number that only this party knows, from 64 random bytes, or from the operating system without any.

    The bytes must not follow from a run's seed, or the seed would give the number away.
    """
    secret: bytes = _library().crypto_core_ristretto255_scalar_reduce(os.urandom(64) if random is None else random)
    return secret


def shuffled(random: bytes) -> Array:
    """A random order, of one thing for every eight random bytes."""
    return np.argsort(np.frombuffer(random, dtype=np.uint64), kind="stable").astype(np.uint32)


def hide_ids(ids: Sequence[str], secret: bytes, threads: int = 0) -> Array:
    """Hash each id, as normalised text, to a point and multiply it by the secret, on so many threads or all cores."""
    library = _library()

    def hide(some: slice) -> bytes:
        hashes = (blake2b(one.encode(), person=b"laconic psi v1").digest() for one in ids[some])
        points = (library.crypto_core_ristretto255_from_hash(one) for one in hashes)
        return b"".join([library.crypto_scalarmult_ristretto255(secret, point) for point in points])

    return _in_slices(hide, len(ids), threads)


def multiply(points: Array, secret: bytes, threads: int = 0) -> Array:
    """Each point times the secret."""
    check_points(points)
    library, blob = _library(), points.tobytes()

    def times(some: slice) -> bytes:
        starts = range(some.start * POINT, some.stop * POINT, POINT)
        return b"".join([library.crypto_scalarmult_ristretto255(secret, blob[at : at + POINT]) for at in starts])

    try:
        return _in_slices(times, len(points), threads)
    except RuntimeError as problem:
        raise WireError("some of the bytes received are not points of the group; start the match again") from problem


def check_points(points: object) -> None:
    """Refuse what does not even have the form of points."""
    if not (isinstance(points, np.ndarray) and points.dtype == np.uint8 and points.shape[1:] == (POINT,)):
        raise WireError(f"points are rows of {POINT} bytes, not {getattr(points, 'shape', type(points).__name__)}")


def shared_points(lists: Sequence[Array]) -> list[Array]:
    """For each list of points, which of its points are in all lists: true or false for each.

    Raises:
        WireError: a list names a point twice, which honest lists of different ids never do.
    """
    texts = [np.ascontiguousarray(points).view(f"S{POINT}").reshape(-1) for points in lists]
    common = np.sort(texts[0])
    for text in texts:
        ordered = np.sort(text)
        if (ordered[1:] == ordered[:-1]).any():
            raise WireError("a party sent the same point twice; its ids must all differ")
        common = common[_among(common, ordered)]
    return [_among(text, common) for text in texts]


def _among(wanted: Array, ordered: Array) -> Array:
    """Which of the wanted are in an ordered list; `numpy.isin` would take a sorted copy of both together."""
    if len(ordered) == 0:
        return np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.asarray(ordered[places] == wanted)


def _in_slices(work: Callable[[slice], bytes], count: int, threads: int) -> Array:
    """Points made slice by slice, several at a time: the library lets go of Python's lock while it multiplies."""
    slices = [slice(start, min(start + _SLICE, count)) for start in range(0, count, _SLICE)]
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        blob = b"".join(pool.map(work, slices))
    return np.frombuffer(blob, dtype=np.uint8).reshape(count, POINT)


@cache
def _library() -> ModuleType:
    try:
        import rbcl
        from rbcl import _sodium
    except ImportError as problem:
        raise MissingExtra("rbcl", "psi") from problem
    # The binding unpacks libsodium to a file, loads it, and leaves the file behind; loaded, it is needed no more.
    with suppress(OSError):  # Windows does not delete what is loaded.
        Path(_sodium._name).unlink()
    library: ModuleType = rbcl
    return library


_MEMORY = "psi"


_HIDES = "the ids, from everyone who does not hold them too; not how many there are"
"""What blinding keeps from whoever receives points."""


class PrivateMatch(Align, frozen=True):
    """Rows that all parties share are found without showing the ids of any other.

    The hub relays everything. It learns how many ids each party has and, from three parties on, how many ids each group
    of parties shares, but not which. Whoever is to learn the intersection learns which of its own rows are in it.

    Attributes:
        test: share of the shared rows held out for the final score.
        valid: share of the rest that methods may use to stop early.
        learns: who learns which of its rows are shared: all parties, as training needs; the hub alone; or nobody, for
            the count alone.
        pairs: let each party learn, too, which of its other rows the hub has, and the hub which of its rows each party
            has; the hub then learns from rows that only some parties share. False tells neither.
        held_out: as for `ExactMatch`; by a column of the label holder, the hub must be the label holder, without pairs.
        chunk: how many points one message carries; 32 bytes each.
        threads: how many processors a party multiplies on; 0 for all it has.
    """

    test: float = HELD_OUT
    valid: float = 0.1
    held_out: HeldOut = AT_RANDOM
    learns: Literal["all", "hub", "nobody"] = "all"
    pairs: bool = False
    chunk: int = 32_768
    threads: int = 0

    guesses_begin: ClassVar[str] = "begin"

    def guesses_in(self, step: str, payload: Mapping[str, Any], /) -> int:
        """Every point that is brought: whoever made it up learns whether the party has the id."""
        points = payload.get("points")
        return len(points) if step == "take_points" and isinstance(points, np.ndarray | list) else 0

    def __post_init__(self) -> None:
        """Refuse messages of nothing, and pairs that nobody may learn."""
        if self.pairs and self.learns != "all":
            raise ValueError(f"pairs = true needs learns = 'all', not {self.learns!r}")
        if self.chunk < 1 or self.threads < 0:
            raise ValueError(f"chunk must be 1 or more and threads 0 or more, not {self.chunk} and {self.threads}")

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        """Pass every party's points through all others, compare, and send each owner its marks."""
        if self.learns == "hub" and not hub.data.rows:
            raise PlanError("learns = 'hub' needs a hub with rows; this one is a server without any")
        if self.held_out is not AT_RANDOM and not hub.data.rows:
            raise PlanError(
                "with PrivateMatch, rows are parted by a column of the label holder only where that is the hub; use "
                "ExactMatch, AgreedIds or another method, or leave split_by and group out"
            )
        if self.held_out is not AT_RANDOM and self.pairs:
            raise PlanError(
                "pairs cannot be used where rows are parted by a column: leave out match.pairs, or the column"
            )
        before = hub.data.rows
        ring = _Ring(self, hub, peers)
        sizes = ring.all(self.begin)
        lists = ring.collect(self.show_points, sizes, "hiding ids")
        for hop in range(1, len(ring.names)):
            lists = ring.pass_on(lists, hop)
        marks = dict(zip(lists, shared_points(list(lists.values())), strict=True))
        shared = int(next(iter(marks.values())).sum())
        paired = self._return_pairs(ring, lists, marks) if self.pairs and hub.data.rows and shared else {}
        seed: int | Array = int(hub.rng.integers(2**31))
        for name in {"all": ring.names, "hub": (hub.name,), "nobody": ()}[self.learns]:
            if shared:
                seed = self._return_marks(ring, name, marks[name], seed)
        ring.all(self.forget)
        if not shared:
            counts = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
            raise DataError(
                f"no id is at every party (ids: {counts}). Check that the id columns mean the same and are written in "
                "the same way: run `laconic doctor` at each party and compare what it says"
            )
        barred = before - hub.data.rows  # by a column of the hub; see `barred_rows`
        found: dict[str, Any] = {"shared": shared, "rows": sizes} | ({"barred": {hub.name: barred}} if barred else {})
        return found | pair_counts(paired)

    def match_opening(self, rng: Rng, *, server: bool) -> Opening:
        """A party can hide its ids before it is asked; how many messages follow depends on everybody's rows."""
        return Opening((Ask.known(self.begin), Ask.known(self.show_points, part=0)))

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        """As for any match; but parties who may not learn which rows are shared cannot train on them."""
        if self.learns != "all":
            raise PlanError(f"training needs learns = 'all', not learns = {self.learns!r}, which is for counting first")
        return super().confirm(hub, peers)

    def _return_pairs(self, ring: "_Ring", lists: Mapping[str, Array], shared: Mapping[str, Array]) -> dict[str, Array]:
        """Let hub and party note which rows the two of them have, but not all; returns the marks of each party."""
        found, hub = {}, ring.hub.name
        for name in ring.others(hub):
            own, theirs = shared_points([lists[hub], lists[name]])
            found[name] = np.flatnonzero(theirs & ~shared[name])
            for owner, cut, marks in ((hub, paired_with(name), own), (name, PAIRED, theirs)):
                bits = self._unshuffled(ring, owner, marks & ~shared[owner])
                ring.one(owner, self.note_pairs, cut=cut, marks=bits)
        return found

    def _unshuffled(self, ring: "_Ring", owner: str, marks: Array) -> Array:
        """Marks on a party's points, brought back through everyone's shuffle, last first."""
        bits = np.packbits(marks)
        for other in reversed(ring.others(owner)):
            bits = ring.one(other, self.unshuffle, owner=owner, marks=bits)
        return bits

    def _return_marks(self, ring: "_Ring", owner: str, marks: Array, seed: int | Array) -> int | Array:
        """Bring marks on a party's points back to the party itself.

        Returns:
            The seed to part rows by: the hub, whose turn is first, has labels and may find a better one. Where a column
            of the hub decides, which rows are held out by it.
        """
        bits = self._unshuffled(ring, owner, marks)
        if owner == ring.hub.name and isinstance(seed, int):
            choose = fitting_seed if self.held_out is AT_RANDOM else choose_held_out
            seed = choose(ring.hub, _marked(ring.hub, bits), seed, test=self.test, valid=self.valid)
        if isinstance(seed, int):
            ring.one(owner, self.keep_rows, marks=bits, seed=seed)
        else:
            ring.one(owner, self.keep_parted_rows, marks=bits, held=seed)
        return seed

    @step(takes=None, gives="how many ids it has")
    def begin(self, party: Party) -> int:
        """Draw a secret and an order."""
        count = len(keys_of(party))
        secret, order = new_secret(party.secret_bytes(64)), shuffled(party.secret_bytes(8 * count))
        party.memory[_MEMORY] = {"secret": secret, "order": order, "from": {}}
        return count

    @step(takes=None, gives="its ids as points multiplied by a secret that only it knows, in random order",
          hides=_HIDES)  # fmt: skip
    def show_points(self, party: Party, part: int) -> Array:
        """One chunk of its hidden ids."""
        memory = _begun(party)
        rows = memory["order"][self._part(part)]
        return hide_ids(keys_of(party)[rows].tolist(), memory["secret"], self.threads)

    @step(takes="another party's ids as points hidden by secrets; their number is how many ids it has", gives=None,
          hides=_HIDES)  # fmt: skip
    def take_points(self, party: Party, owner: str, part: int, points: Array) -> None:
        """Multiply one chunk of another party's points by its own secret too, and keep it until all are there.

        Safe to be asked again, as when a hub starts again after a crash: the first chunk begins a new list.
        """
        memory = _begun(party)
        if part == 0:
            memory["from"][owner] = {"parts": {}}
        taken = _brought(party, owner)
        if "parts" not in taken:
            raise WireError(f"the points of {owner} were all brought to {party.name} already; start the match again")
        taken["parts"][str(part)] = multiply(points, memory["secret"], self.threads)

    @step(takes=None, gives="another party's points multiplied by its secret as well, and shuffled: the hub can count "
          "how many ids groups of parties share, but not tell which", hides=_HIDES)  # fmt: skip
    def hand_on(self, party: Party, owner: str, part: int) -> Array:
        """One chunk of another party's points, in an order that only this party knows."""
        taken = _brought(party, owner)
        if "order" not in taken:
            parts = taken.pop("parts")
            points = np.concatenate([parts[number] for number in sorted(parts, key=int)])
            taken["order"] = shuffled(party.secret_bytes(8 * len(points)))
            taken["points"] = points[taken["order"]]
        chunk: Array = taken["points"][self._part(part)]
        return chunk

    @step(takes="for each of another party's points whether it is shared, one bit each, as shuffled here",
          gives="the same bits as they were before it shuffled")  # fmt: skip
    def unshuffle(self, party: Party, owner: str, marks: Array) -> Array:
        """Put the bits back in the order in which the points came."""
        order = _brought(party, owner).get("order", np.empty(0, dtype=np.uint32))
        before = np.empty(len(order), dtype=bool)
        before[order] = _bits(marks, len(order))
        return np.packbits(before)

    @step(takes="for each of its points whether the hub has it, but not every party, one bit each", gives=None)
    def note_pairs(self, party: Party, cut: str, marks: Array) -> None:
        """Note which rows hub and party have, until rows are cut; no more than the other brought points."""
        if not self.pairs:
            raise Refused(f"{party.name} learns of no pairs: the plan does not say pairs = true")
        memory, places = _begun(party), _marked(party, marks)
        brought = max((len(taken["order"]) for taken in memory["from"].values() if "order" in taken), default=0)
        if len(places) > brought or (cut != PAIRED and not cut.startswith(paired_with(""))):
            raise Refused(f"{party.name} was brought {brought:,} points at most, and is given {len(places):,} pairs")
        memory.setdefault("paired", {})[cut] = places

    @step(takes="for each of its points whether every party has it, one bit each", gives=None)
    def keep_rows(self, party: Party, marks: Array, seed: int) -> None:
        """Put the shared rows first, cut the same way at every party; no more than any other party brought points."""
        paired = _begun(party).get("paired")
        keep_shared(party, self._checked(party, marks), seed, test=self.test, valid=self.valid, paired=paired)

    @step(
        takes="for each of its points whether every party has it, one bit each, and which of the shared rows are held "
        "out by a column of the label holder: which are the last in time, or stay together",
        gives=None,
    )
    def keep_parted_rows(self, party: Party, marks: Array, held: Array) -> None:
        """The same, with the rows held out that the label holder names."""
        keep_shared(party, self._checked(party, marks), 0, test=self.test, valid=self.valid, held=held)

    def _checked(self, party: Party, marks: Array) -> Array:
        """The rows that are marked as shared, if as many points were brought."""
        shared = _marked(party, marks)
        brought = [len(taken["order"]) for taken in _begun(party)["from"].values() if "order" in taken]
        if len(shared) > min(brought, default=0):
            raise Refused(
                f"{party.name} is asked to take {len(shared):,} of its rows as shared, and was brought "
                f"{min(brought, default=0):,} points to compare; match as the plan says"
            )
        return shared

    @step(takes=None, gives=None)
    def forget(self, party: Party) -> None:
        """Throw the secret and the orders away."""
        party.memory.pop(_MEMORY, None)

    def _part(self, number: int) -> slice:
        return slice(number * self.chunk, (number + 1) * self.chunk)


def _marked(party: Party, marks: Array) -> Array:
    """The positions of the rows whose points are marked."""
    order = _begun(party)["order"]
    return np.sort(order[_bits(marks, len(order))]).astype(np.int64)


class _Ring:
    """The parties with rows, in a ring; the hub among them is asked without the wire, and everything goes by chunks."""

    def __init__(self, script: PrivateMatch, hub: Party, peers: Peers) -> None:
        self.names = ((hub.name,) if hub.data.rows else ()) + peers.names
        self.hub = hub
        self._script, self._peers = script, peers
        if len(self.names) < 2:
            raise DataError(f"rows are matched between two parties or more; only {', '.join(self.names)} has rows")

    def others(self, owner: str) -> tuple[str, ...]:
        """Whom the owner's points pass through, in order."""
        at = self.names.index(owner)
        return self.names[at + 1 :] + self.names[:at]

    def all(self, question: Step) -> dict[str, Any]:
        """Ask everybody the same."""
        return self.each(question, {name: {} for name in self.names})

    def one(self, name: str, question: Step, **payload: Any) -> Any:
        """Ask one party."""
        return self.each(question, {name: payload})[name]

    def each(self, question: Step, payloads: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Ask several parties at once, in one round."""
        asked = {name: payload for name, payload in payloads.items() if name != self.hub.name}
        answers = self._peers.ask_each(question, asked) if asked else {}
        if self.hub.name in payloads:
            answers[self.hub.name] = question(self.hub, **payloads[self.hub.name])
        return {name: answers[name] for name in payloads}

    def collect(self, question: Step, sizes: dict[str, int], what: str) -> dict[str, Array]:
        """Everybody's points, chunk by chunk."""
        lists = {name: np.empty((size, POINT), dtype=np.uint8) for name, size in sizes.items()}
        for part, names in self._parts(sizes, what):
            answers = self.each(question, {name: {"part": part} for name in names})
            for name, points in answers.items():
                self._put(lists[name], part, points, name)
        return lists

    def pass_on(self, lists: dict[str, Array], hop: int) -> dict[str, Array]:
        """Send each list to the party `hop` places after its owner, and take it back multiplied and shuffled."""
        sizes = {name: len(points) for name, points in lists.items()}
        goes_to = {name: self.others(name)[hop - 1] for name in lists}
        what = f"passing ids on ({hop} of {len(lists) - 1})"
        for part, names in self._parts(sizes, what):
            some = self._script._part(part)
            self.each(
                self._script.take_points,
                {goes_to[name]: {"owner": name, "part": part, "points": lists[name][some]} for name in names},
            )
        for part, names in self._parts(sizes, "taking them back"):
            asked = {goes_to[name]: {"owner": name, "part": part} for name in names}
            answers = self.each(self._script.hand_on, asked)
            for name in names:
                self._put(lists[name], part, answers[goes_to[name]], goes_to[name])
        return lists

    def _parts(self, sizes: dict[str, int], what: str) -> Iterator[tuple[int, list[str]]]:
        """Each chunk's number, and the parties whose lists reach that far."""
        chunk = self._script.chunk
        for part in track(ceil(max(sizes.values()) / chunk), what):
            yield part, [name for name, size in sizes.items() if part * chunk < size]

    def _put(self, into: Array, part: int, points: Array, name: str) -> None:
        check_points(points)
        place = into[self._script._part(part)]
        if len(points) != len(place):
            raise WireError(f"{name} sent {len(points)} points where {len(place)} were due; start the match again")
        place[:] = points


def _begun(party: Party) -> dict[str, Any]:
    memory: dict[str, Any] | None = party.memory.get(_MEMORY)
    if memory is None:
        raise WireError(f"no match has begun at {party.name}; ask it to begin first")
    return memory


def _brought(party: Party, owner: str) -> dict[str, Any]:
    taken: dict[str, Any] | None = _begun(party)["from"].get(owner)
    if taken is None:
        raise WireError(f"no points of {owner} were brought to {party.name}; start the match again")
    return taken


def _bits(packed: Array, count: int) -> Array:
    if not isinstance(packed, np.ndarray) or packed.dtype != np.uint8 or packed.shape != (ceil(count / 8),):
        raise WireError(f"marks for {count} points are {ceil(count / 8)} bytes, not {describe(packed)}")
    return np.unpackbits(packed, count=count).astype(bool)

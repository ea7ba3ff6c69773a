"""Answers that come by envelope: a runtime for parties that are never connected.

What was answered is taken from the envelopes at hand. What was not is written out as question envelopes, and the run
stops; started again when the answers are in, it goes on from its journal. Methods notice none of this.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from laconic.core.ledger import Ledger
from laconic.core.step import Script
from laconic.core.wire import Blob, outline, read_heading
from laconic.deploy.transports.envelopes.keys import CoverMismatch, Replayed, SecretKey
from laconic.deploy.transports.envelopes.opening import Envelope, Opened
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import Waiting, WireError

ENDING = ".envelope"
"""How the names of envelopes end."""


class Answering(Protocol):
    """A party that is at hand, beside the hub."""

    def reply(self, script: Script, question: bytes) -> bytes:
        """Its answer."""
        ...

    def ledger(self) -> Ledger:
        """What it gave away."""
        ...


class Arrived:
    """The answers in all envelopes that were accepted, found by question; none is held in memory.

    Args:
        own: the keys that open them.
    """

    def __init__(self, own: SecretKey) -> None:
        self._own = own
        self._places: dict[tuple[str, str], tuple[Envelope, int]] = {}
        self._numbers: dict[str, Path] = {}
        self._ledgers: dict[str, tuple[int, Ledger]] = {}

    def add(self, envelope: Envelope, opened: Opened) -> None:
        """Take in an envelope that was checked.

        Raises:
            Replayed: it is a copy, or answers what another one answered.
        """
        name, cover = envelope.sender.name, envelope.cover
        if cover.number in self._numbers:
            raise Replayed(f"{envelope.path} is a copy of {self._numbers[cover.number]}; take one of them away")
        for blob in opened.content.blobs:
            if (name, blob.question) in self._places:
                other = self._places[name, blob.question][0].path
                raise Replayed(
                    f"{envelope.path} answers `{blob.step}` of {blob.phase} {blob.round}, as {other} does; keep the "
                    "one that its sender says is right, and take the other away"
                )
        self._numbers[cover.number] = envelope.path
        for number, blob in enumerate(opened.content.blobs):
            self._places[name, blob.question] = envelope, number
        ledger = Ledger(opened.content.ledger)
        given = sum(entry.times for entry in ledger.entries)
        # A later envelope's ledger holds all that an earlier one's does.
        if given >= self._ledgers.get(name, (0, ledger))[0]:
            self._ledgers[name] = given, ledger

    def find(self, name: str, question: str) -> tuple[Envelope, Callable[[], Blob]] | None:
        """The envelope with a party's answer to a question, and how to read it; None if it has not come."""
        place = self._places.get((name, question))
        if place is None:
            return None
        return place[0], lambda: self._read(*place)

    def ledgers(self) -> dict[str, Ledger]:
        """What each sender says that it gave away."""
        return {name: ledger for name, (_, ledger) in self._ledgers.items()}

    def _read(self, envelope: Envelope, number: int) -> Blob:
        with envelope.open(self._own) as opened:
            for at, (told, pieces) in enumerate(opened.blobs()):
                if at == number:
                    return _as_told(_joined(pieces, told.size), told.form, envelope)
                for _ in pieces:
                    pass
        raise IndexError(f"{envelope.path} has no blob {number}")


def _joined(pieces: Iterable[bytes], size: int) -> memoryview:
    """All pieces as one, put together where they stay: an answer may be as large as memory."""
    whole, at = bytearray(size), 0
    for piece in pieces:
        whole[at : at + len(piece)] = piece
        at += len(piece)
    return memoryview(whole)


def _as_told(reply: memoryview, form: str, envelope: Envelope) -> memoryview:
    """An answer whose form is what its cover says."""
    try:
        found = outline(reply)
    except WireError as problem:
        raise CoverMismatch(f"an answer in {envelope.path} cannot be read: {problem}") from problem
    if found != form:
        raise CoverMismatch(f"the cover of {envelope.path} says {form}, but inside is {found}; ask its sender why")
    return reply


class Mailbox:
    """A carrier whose parties answer by envelope.

    Args:
        names: whom the hub may ask, in the order of the federation.
        arrived: the answers that came.
        here: parties that are at hand, by name.
        without: parties that the run is to do without.
        approve: asked before an envelope's answer is used; raises if it may not be.
        post: writes out the questions that nobody has answered yet.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        arrived: Arrived,
        *,
        here: Mapping[str, Answering],
        without: tuple[str, ...],
        approve: Callable[[Envelope], None],
        post: Callable[[Script, Mapping[str, bytes]], None],
    ) -> None:
        self.names = names
        self._arrived, self._here, self._without = arrived, here, without
        self._approve, self._post = approve, post

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Yield the answers that are in; stop the run if others are not."""
        missing: dict[str, bytes] = {}
        for name, blob in blobs.items():
            if name in self._without:
                continue
            if name in self._here:
                yield name, self._here[name].reply(script, blob)
                continue
            found = self._arrived.find(name, question_id(script, name, blob))
            if found is None:
                missing[name] = blob
                continue
            envelope, read = found
            self._approve(envelope)
            yield name, read()
        if missing:
            self._post(script, missing)
            raise Waiting(tuple(missing), read_heading(next(iter(missing.values()))).step)

    def ledgers(self) -> dict[str, Ledger]:
        """What each party says that it gave away, as far as it is known."""
        return self._arrived.ledgers() | {name: party.ledger() for name, party in self._here.items()}

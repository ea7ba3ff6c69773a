"""Peers: the only way in which a hub reaches other parties."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from laconic.core.ledger import Entry, Ledger, Noise, digest_of, unwrap
from laconic.core.party import Party
from laconic.core.step import Declared, Script, Step, check_payload, declared
from laconic.core.traffic import Crossing, WireLog
from laconic.core.wire import Blob, Question, decode, describe, encode
from laconic.errors import PartyAbsent, StepError


class Carrier(Protocol):
    """How a question reaches a party, and nothing else: what a runtime implements."""

    @property
    def names(self) -> tuple[str, ...]:
        """The parties it reaches, in the order of the federation."""
        ...

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Bring each blob to its party; yield answers as they come. Who is late or lost is left out.

        `deadline` is in seconds; None is whatever the runtime was set to.
        """
        ...

    def ledgers(self) -> dict[str, Ledger]:
        """Each party's own ledger."""
        ...


class _Written(NamedTuple):
    """A question as it crosses, and what the hub's ledger says of it, if anything."""

    blob: bytes
    entry: Entry | None
    noises: tuple[Noise | None, ...]


class Peers:
    """All parties but the hub, or a cohort of them.

    Attributes:
        names: whom a question goes to, in the order of the federation.
        log: what crossed.
    """

    def __init__(
        self,
        script: Script,
        hub: Party,
        carrier: Carrier,
        log: WireLog,
        names: tuple[str, ...],
        *,
        tolerant: bool = False,
        deadline: float | None = None,
    ) -> None:
        self.names = names
        self.log = log
        self._script, self._hub, self._carrier = script, hub, carrier
        self._tolerant, self._deadline = tolerant, deadline

    def ask(self, question: Step, /, **payload: Any) -> dict[str, Any]:
        """Ask all the same and wait for all: one round. Answers come in the order of `names`."""
        return self.ask_each(question, dict.fromkeys(self.names, payload))

    def ask_each(self, question: Step, payloads: Mapping[str, Mapping[str, Any]], /) -> dict[str, Any]:
        """Ask each party named its own payload and wait for all: one round."""
        answers = dict(self.as_ready(question, payloads))
        return {name: answers[name] for name in payloads if name in answers}

    def as_ready(self, question: Step, payloads: Mapping[str, Mapping[str, Any]], /) -> Iterator[tuple[str, Any]]:
        """Ask each party named, and take answers as they come: one round, for asynchronous methods."""
        words = declared(question)
        name = question.__name__
        self._refuse_strangers(payloads)
        number = self.log.next_round()
        blobs = self._write_all(name, words, number, payloads)
        waiting = dict.fromkeys(payloads)
        for party, blob in self._carrier.carry(self._script, blobs, self._deadline):
            if party not in waiting:
                continue
            del waiting[party]
            self._book(name, words, number, party, len(blobs[party]), len(blob))
            yield party, decode(blob)
        for party in waiting:
            self._book(name, words, number, party, len(blobs[party]), None)
        if waiting and not self._tolerant:
            raise PartyAbsent(tuple(waiting), name)

    def only(self, names: tuple[str, ...]) -> "Peers":
        """A cohort of these peers."""
        cohort = tuple(name for name in self.names if name in names)
        return self._like(names=cohort)

    @property
    def tolerant(self) -> "Peers":
        """The same peers, but a party that is late or lost is left out of the answers instead of ending the run."""
        return self._like(tolerant=True)

    def within(self, seconds: float) -> "Peers":
        """The same peers, who are absent if they take longer than this to answer."""
        if seconds <= 0:
            raise ValueError(f"a deadline must be above 0 seconds, not {seconds}")
        return self._like(deadline=seconds)

    def speaking(self, script: Script) -> "Peers":
        """The same peers, asked the steps of another script."""
        return self._like(script=script)

    def ledgers(self) -> dict[str, Ledger]:
        """Each peer's own ledger, for the report of a run."""
        return self._carrier.ledgers()

    def _like(
        self,
        script: Script | None = None,
        names: tuple[str, ...] | None = None,
        tolerant: bool | None = None,
        deadline: float | None = None,
    ) -> "Peers":
        return Peers(
            self._script if script is None else script,
            self._hub,
            self._carrier,
            self.log,
            self.names if names is None else names,
            tolerant=self._tolerant if tolerant is None else tolerant,
            deadline=self._deadline if deadline is None else deadline,
        )

    def _refuse_strangers(self, payloads: Mapping[str, object]) -> None:
        strangers = [name for name in payloads if name not in self.names]
        if strangers:
            raise StepError(f"there is no peer {' or '.join(strangers)} here; the peers are {', '.join(self.names)}")

    def _write_all(
        self, name: str, words: Declared, number: int, payloads: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, bytes]:
        """The question to each party, which is written once for all who are asked the very same."""
        blobs: dict[str, bytes] = {}
        written: tuple[Mapping[str, Any], _Written] | None = None
        for party, payload in payloads.items():
            if written is None or written[0] is not payload:
                written = payload, self._write(name, words, number, dict(payload))
            blobs[party], entry, noises = written[1]
            if entry is not None:
                self._hub.ledger.write_parts(entry, noises)
        return blobs

    def _write(self, name: str, words: Declared, number: int, payload: dict[str, Any]) -> "_Written":
        payload, noises = unwrap(payload)
        check_payload(name, words, payload)
        blob = encode(Question(name, self.log.phase, number, payload))
        if words.takes is None:
            return _Written(blob, None, ())
        entry = Entry(
            phase=self.log.phase,
            step=name,
            words=words.takes,
            form=describe(payload),
            times=1,
            bytes=len(blob),
            noise=None,
            digest=digest_of(blob),
        )
        return _Written(blob, entry, noises)

    def _book(self, name: str, words: Declared, number: int, party: str, down: int, up: int | None) -> None:
        self.log.write(
            Crossing(
                phase=self.log.phase,
                round=number,
                step=name,
                party=party,
                down=down,
                up=up,
                takes=words.takes,
                gives=words.gives,
            )
        )

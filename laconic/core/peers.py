"""Peers: the only way in which a hub reaches other parties."""

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, Protocol

from laconic.core.ledger import Ledger, entry_of, unwrap
from laconic.core.party import Party
from laconic.core.step import Declared, Script, Step, check_payload, declared
from laconic.core.traffic import WireLog
from laconic.core.wire import Blob, Question, decode, describe, encode
from laconic.errors import PartyAbsent, StepError, WireError


class Carrier(Protocol):
    """How a question reaches a party, and nothing else: what a runtime implements."""

    @property
    def names(self) -> tuple[str, ...]:
        """The parties it reaches, in the order of the federation."""

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Bring each blob to its party; yield answers as they come. Who is late or lost is left out.

        `deadline` is in seconds; None is whatever the runtime was set to.
        """

    def ledgers(self) -> dict[str, Ledger]:
        """Each party's own ledger."""


class Peers:
    """All parties but the hub, or a cohort of them.

    Attributes:
        names: whom a question goes to, in the order of the federation.
        log: what crossed.
    """

    def __init__(self, script: Script, hub: Party, carrier: Carrier, log: WireLog, names: tuple[str, ...]) -> None:
        self.names, self.log = names, log
        self._script, self._hub, self._carrier = script, hub, carrier
        self._tolerant = False
        self._deadline: float | None = None

    def ask(self, question: Step, /, **payload: Any) -> dict[str, Any]:
        """Ask all the same and wait for all: one round. Answers come in the order of `names`."""
        answers = dict(self.as_ready(question, dict.fromkeys(self.names, payload)))
        return {name: answers[name] for name in self.names if name in answers}

    def ask_each(self, question: Step, payloads: Mapping[str, Mapping[str, Any]], /) -> dict[str, Any]:
        """Ask each party named its own payload and wait for all: one round."""
        answers = dict(self.as_ready(question, payloads))
        return {name: answers[name] for name in payloads if name in answers}

    def as_ready(self, question: Step, payloads: Mapping[str, Mapping[str, Any]], /) -> Iterator[tuple[str, Any]]:
        """Ask each party named, and take answers as they come: one round, for asynchronous methods."""
        words, name = declared(question), question.__name__
        strangers = [party for party in payloads if party not in self.names]
        if strangers:
            raise StepError(f"there is no peer {' or '.join(strangers)} here; the peers are {', '.join(self.names)}")
        number = self.log.next_round()
        blobs = self._write_all(name, words, number, payloads)
        waiting = dict.fromkeys(payloads)
        if self.log.watcher is not None:
            self.log.watcher.asked(self.log.phase, number, name, tuple(payloads))
        for party, blob in self._carrier.carry(self._script, blobs, self._deadline):
            if party not in waiting:
                continue
            del waiting[party]
            self.log.book(name, words.takes, words.gives, number, party, down=len(blobs[party]), up=len(blob))
            yield party, read_answer(party, name, blob)
        for party in waiting:
            self.log.book(name, words.takes, words.gives, number, party, down=len(blobs[party]), up=None)
        if waiting and not self._tolerant:
            method = type(self._script).__name__
            raise PartyAbsent(tuple(waiting), name, matching=self.log.phase == "align", method=method)

    def only(self, names: tuple[str, ...]) -> "Peers":
        """A cohort of these peers."""
        cohort = copy(self)
        cohort.names = tuple(name for name in self.names if name in names)
        return cohort

    @property
    def tolerant(self) -> "Peers":
        """The same peers, but a party that is late or lost is left out of the answers instead of ending the run."""
        peers = copy(self)
        peers._tolerant = True
        return peers

    def within(self, seconds: float | None) -> "Peers":
        """The same peers, who are absent if they take longer than this to answer; None is as the runtime was set."""
        if seconds is not None and seconds <= 0:
            raise ValueError(f"a deadline must be above 0 seconds, not {seconds}")
        peers = copy(self)
        peers._deadline = seconds
        return peers

    def speaking(self, script: Script) -> "Peers":
        """The same peers, asked the steps of another script."""
        peers = copy(self)
        peers._script = script
        return peers

    def ledgers(self) -> dict[str, Ledger]:
        """Each peer's own ledger, for the report of a run."""
        return self._carrier.ledgers()

    def _write_all(
        self, name: str, words: Declared, number: int, payloads: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, bytes]:
        """The question to each party, which is written once for all who are asked the very same."""
        blobs: dict[str, bytes] = {}
        last: Mapping[str, Any] | None = None
        for party, payload in payloads.items():
            if payload is not last:
                last, (plain, noises) = payload, unwrap(dict(payload))
                check_payload(name, words, plain)
                blob, takes = encode(Question(name, self.log.phase, number, plain)), words.takes
                entry = (
                    None if takes is None else entry_of(self.log.phase, name, takes, describe(plain), blob, words.hides)
                )
            blobs[party] = blob
            if entry is not None:
                self._hub.ledger.write_parts(entry, noises)
        return blobs


_REMEDY = "it was not used: ask that party to look into it, then start the run again, with it or without"


def read_answer(party: str, step: str, blob: Blob) -> Any:
    """What a party answered; one that cannot be read is an error that names the party."""
    try:
        return decode(blob)
    except WireError as problem:
        raise WireError(f"the answer of {party} to `{step}` cannot be read: {problem}; {_REMEDY}") from problem

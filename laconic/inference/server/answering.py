"""What the hub's server does with a request: predict from what is stored, or ask the parties."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram

from laconic.core.peers import Carrier
from laconic.core.traffic import WireLog
from laconic.inference.absent import AnyAbsent, Store
from laconic.inference.predict import Model, Scores
from laconic.tables.table import Table

_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Counts:
    """What a server did: counters, and a histogram of how long predictions took, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests, by whether they were let in.", "let_in")
        self.people = self._counter("people", "People asked about, by what predicted them.", "answered_by")
        self.bytes = self._counter("bytes", "Bytes that crossed, both ways.", "party")
        self.absences = self._counter("absences", "Questions that a party did not answer.", "party")
        words = "Seconds that a request for predictions took."
        self.seconds = Histogram("laconic_predict_seconds", words, buckets=_EDGES, registry=self.registry)

    def _counter(self, name: str, words: str, label: str) -> Counter:
        return Counter(f"laconic_{name}", words, [label], registry=self.registry)


@dataclass(frozen=True)
class Live:
    """Parties that can be asked while the server runs.

    Attributes:
        rows: the hub's own rows, among which people are looked up.
        carrier: how to reach the others.
        deadline: seconds to wait for each answer; who is later is absent.
    """

    rows: Table
    carrier: Carrier
    deadline: float
    lock: Lock = field(default_factory=Lock)
    log: WireLog = field(default_factory=WireLog)


@dataclass(frozen=True)
class Answering:
    """A model ready to answer requests, from several threads.

    Attributes:
        live: parties to ask about people whom nothing is stored about; None to ask nobody.
        counts: what was done.
        known: scores of everybody who is stored, by what was done about absent parties.
    """

    model: Model
    live: Live | None = None
    counts: Counts = field(default_factory=Counts)
    lock: Lock = field(default_factory=Lock)
    known: dict[str, Scores] = field(default_factory=dict)

    def predict(self, ids: Sequence[str], absent: AnyAbsent) -> Scores:
        """Scores for these people, in this order: from what is stored if everybody's answers are, else by asking."""
        scores = self._stored(ids, absent)
        if self.live is not None:
            scores = self._asked_anew(self.live, scores, absent)
        for how in dict.fromkeys(scores.how):
            self.counts.people.labels(how).inc(scores.how.count(how))
        return scores

    def get_ready(self, absent: AnyAbsent) -> Scores:
        """Everybody's scores from what is stored, worked out once: it does not change while the server runs."""
        with self.lock:
            if absent.word not in self.known:
                store = self.model.part.store
                everybody = [] if store is None else sorted({*store.own.keys.tolist(), *_heard_of(store)})
                self.known[absent.word] = (
                    self.model.predict_stored(everybody, absent=absent) if everybody else self._nothing(())
                )
            return self.known[absent.word]

    def _stored(self, ids: Sequence[str], absent: AnyAbsent) -> Scores:
        known, nothing = self.get_ready(absent), self._nothing(ids)
        there = [place for place, one in enumerate(ids) if one in known.places]
        if len(there) == len(ids):
            return known.take(ids)
        return nothing.with_others(there, known.take([ids[place] for place in there])) if there else nothing

    def _nothing(self, ids: Sequence[str]) -> Scores:
        task, count = self.model.task, len(ids)
        nothing = np.full(task.shape(count), np.nan)
        return Scores(tuple(ids), nothing, ((),) * count, ("unknown to the hub",) * count, task)

    def _asked_anew(self, live: Live, scores: Scores, absent: AnyAbsent) -> Scores:
        """The scores, with those that not all parties had a say in made anew by asking, if the hub knows the people."""
        known = set(scores.ids) if not live.rows.columns else live.rows.places.keys()
        places = [at for at, how in enumerate(scores.how) if how != "all" and scores.ids[at] in known]
        if not places:
            return scores
        return scores.with_others(places, self._ask(live, [scores.ids[at] for at in places], absent))

    def _ask(self, live: Live, ids: list[str], absent: AnyAbsent) -> Scores:
        with live.lock:
            try:
                # One log for all requests: its rounds go on counting, so that randomness is fresh for each.
                return self.model.ask(live.rows, live.carrier, ids, absent=absent, log=live.log, deadline=live.deadline)
            finally:
                for one in live.log.crossings:
                    self.counts.bytes.labels(one.party).inc(one.down + (one.up or 0))
                    if one.up is None:
                        self.counts.absences.labels(one.party).inc()
                live.log.crossings.clear()


def _heard_of(store: Store) -> set[str]:
    """People whom parties have answered about, if the hub can predict them without columns of its own."""
    return set() if store.own.columns else {one for answers in store.answers.values() for one in answers.ids}

"""The contract that every method passes: `check_method`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from laconic.canary import find_leak
from laconic.core.errors import ContractBroken, LaconicError
from laconic.core.ledger import Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier
from laconic.core.result import Result
from laconic.core.script import Script, steps_of
from laconic.core.wire import Blob, encode
from laconic.data.federation import Federation
from laconic.runtime.inprocess import InProcess
from laconic.runtime.processes import Processes
from laconic.simulation import simulate


def check_method(method: Method, federation: Federation | None = None, *, seed: int = 7) -> Result:
    """Hold a method to the contract, and return the last of its runs.

    The clauses: its steps say what they take and give; it gives the same numbers and bytes with parties truly apart and
    all in one process; the same seed gives the same run; looking does not change learning; promised rounds are kept;
    settings stay as they were; a party remembers plain values only; raw columns and labels cross only in steps that say
    so; every row gets one prediction; and it does better than chance on each kind of task it names.

    Args:
        federation: what to try it on; None tries small data sets that ship with scikit-learn, one for each kind
            of task.

    Raises:
        ContractBroken: names the clause and what was seen.
    """
    federations = [federation] if federation is not None else [_small(method, kind) for kind in method.tasks]
    _check_words(method)
    result = None
    for one in federations:
        result = _check_on(method, one, seed)
    if result is None:
        raise ContractBroken(f"{type(method).__name__} names no kind of task that it can do")
    return result


def small_federation(kind: str) -> Federation:
    """Three parties on a small data set of a kind of task, all from scikit-learn."""
    from laconic.data.deal import deal
    from laconic.data.sources import load
    from laconic.data.vertical import Equal

    name = {"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}[kind]
    return deal(load(name), Equal(parties=3), seed=3, test=0.3)


def small_horizontal(kind: str) -> Federation:
    """Three parties and a server on a small data set of a kind of task, rows dealt with a slight label skew."""
    from laconic.data.horizontal import Dirichlet, Iid, deal_rows
    from laconic.data.sources import load

    name = {"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}[kind]
    return deal_rows(load(name), Iid(parties=3) if kind == "regression" else Dirichlet(parties=3, beta=2.0), seed=3)


def _small(method: Method, kind: str) -> Federation:
    return small_horizontal(kind) if method.kind == "horizontal" else small_federation(kind)


def _check_on(method: Method, federation: Federation, seed: int) -> Result:
    # Apart comes first: what a run in this process leaves behind could hide that a method smuggles state.
    apart = _attempt(method, lambda: simulate(method, federation, seed=seed, runtime=Processes()))
    recorder = Recorder()
    together = _attempt(method, lambda: simulate(method, federation, seed=seed, runtime=recorder))
    _same("with parties apart and together", method, apart, together)
    again = _attempt(method, lambda: simulate(method, federation, seed=seed))
    _same("twice with the same seed", method, together, again)
    looked = _attempt(method, lambda: simulate(method, federation, seed=seed, look_every=1))
    _same("with and without looking", method, together, looked)
    if method.rounds is not None and together.fit.rounds != method.rounds:
        raise ContractBroken(f"{type(method).__name__} promised {method.rounds} rounds and took {together.fit.rounds}")
    _check_leaks(method, federation, recorder)
    _check_chance(method, federation, together)
    return together


def _attempt(method: Method, runs: Callable[[], Result]) -> Result:
    settings = msgspec.json.encode(method)
    try:
        result = runs()
    except (LaconicError, ValueError) as problem:
        raise ContractBroken(f"a run ended with an error: {problem}") from problem
    if msgspec.json.encode(method) != settings:
        raise ContractBroken(f"{type(method).__name__} changed its own settings while it ran; keep state in memory")
    return result


def _check_words(method: Method) -> None:
    for name, words in steps_of(method).items():
        if words.takes == "" or words.gives == "":
            raise ContractBroken(f"step `{name}` declares an empty text; say what crosses, or None for nothing")


def _same(how: str, method: Method, one: Result, other: Result) -> None:
    def figures(result: Result) -> dict[str, Any]:
        counted = {
            f"{phase} {what}": getattr(getattr(result, phase), what)
            for phase in ("align", "fit", "final")
            for what in ("bytes_up", "bytes_down", "rounds", "uploads", "downloads")
        }
        return {"score": result.score.value, "predictions": result.predictions} | counted

    seen, expected = figures(one), figures(other)
    apart = [f"{key} {seen[key]} against {expected[key]}" for key in seen if seen[key] != expected[key]]
    if apart:
        raise ContractBroken(f"{type(method).__name__} differs {how}: {'; '.join(apart)}")


def _check_leaks(method: Method, federation: Federation, recorder: "Recorder") -> None:
    for party, step, direction, blob in recorder.crossings:
        words = steps_of(method)[step]
        said = (words.gives if direction == "up" else words.takes) or ""
        owner = federation.tables[party if direction == "up" else federation.hub]
        leak = find_leak(blob, owner)
        if leak is not None and leak.kind not in said:
            raise ContractBroken(
                f"step `{step}` carries {leak.kind} ({leak.name}) of {owner.party} but does not say so: {said!r}"
            )


def _check_chance(method: Method, federation: Federation, result: Result) -> None:
    y = federation.labels("test")
    if federation.task.kind == "regression":
        good, seen = result.metrics["r2"] > 0.05, f"R2 {result.metrics['r2']:.3f}"
    else:
        common = max((y == label).mean() for label in set(y.tolist()))
        good = result.metrics["accuracy"] > common + 0.02
        seen = f"accuracy {result.metrics['accuracy']:.3f} where always the commonest class gives {common:.3f}"
    if not good:
        raise ContractBroken(f"{type(method).__name__} is no better than chance on {federation.name}: {seen}")


class Recorder:
    """The in-process runtime, with every blob kept and every memory checked to be plain values."""

    def __init__(self) -> None:
        self.crossings: list[tuple[str, str, str, bytes]] = []
        self._within = InProcess()

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator[Carrier]:
        """Reach these parties, and write down what is said."""
        with self._within.open(parties) as carrier:
            yield _Recording(carrier, parties, self.crossings)


class _Recording:
    def __init__(
        self, carrier: Carrier, parties: tuple[Party, ...], crossings: list[tuple[str, str, str, bytes]]
    ) -> None:
        self._carrier, self._parties, self._crossings = carrier, parties, crossings

    @property
    def names(self) -> tuple[str, ...]:
        return self._carrier.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        from laconic.core.wire import decode_question

        for name, reply in self._carrier.carry(script, blobs, deadline):
            step = decode_question(blobs[name]).step
            if step in steps_of(script) and isinstance(script, Method):
                self._crossings += [(name, step, "down", blobs[name]), (name, step, "up", bytes(reply))]
            yield name, reply
        for party in self._parties:
            try:
                encode(party.memory)
            except LaconicError as problem:
                raise ContractBroken(f"{party.name} remembers what cannot be stored: {problem}") from problem

    def ledgers(self) -> dict[str, Ledger]:
        return self._carrier.ledgers()

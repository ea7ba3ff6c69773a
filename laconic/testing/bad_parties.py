"""A party that sends something else than it should, to see what becomes of a run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.peers import Carrier
from laconic.core.step import Script
from laconic.core.wire import Blob, decode, encode
from laconic.data.federation import Federation
from laconic.deploy.transports.inprocess import open_calls
from laconic.tables.table import Table
from laconic.values import Array

Badness = Literal["constant", "scaled", "noisy", "shuffled", "not a number"]


@dataclass(frozen=True)
class BadParty:
    """A runtime in which one party's answers are altered on their way, while fitting and while predicting.

    Attributes:
        name: the bad party.
        how: what it does to every array of numbers that it sends. `constant`: all numbers are 1. `scaled`: a thousand
            times as large, with the other sign. `noisy`: noise of the same mean and spread instead. `shuffled`: the
            right numbers for the wrong rows. `not a number`: some are none.
        seed: of noise and order.
    """

    name: str
    how: Badness
    seed: int = 0

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator[Carrier]:
        """Reach these parties in this process."""
        with open_calls(parties) as carrier:
            yield _Altered(carrier, self)

    def alter(self, value: Any) -> Any:
        """The same value with every array of numbers in it made bad."""
        if isinstance(value, dict):
            return {key: self.alter(inner) for key, inner in value.items()}
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
            return self._bad(value).astype(value.dtype)
        return value

    def _bad(self, values: Array) -> Array:
        rng = np.random.default_rng([self.seed, *values.shape])
        match self.how:
            case "constant":
                return np.ones_like(values)
            case "scaled":
                return np.clip(-1000.0 * values.astype(np.float64), -6e4, 6e4)
            case "noisy":
                return rng.normal(values.mean(axis=0), values.std(axis=0) + 1e-6, values.shape)
            case "shuffled":
                return rng.permutation(values, axis=0)
        return np.where(rng.random(values.shape) < 0.1, np.nan, values)


class _Altered:
    def __init__(self, carrier: Carrier, bad: BadParty) -> None:
        self._carrier, self._bad = carrier, bad

    @property
    def names(self) -> tuple[str, ...]:
        return self._carrier.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        for name, blob in self._carrier.carry(script, blobs, deadline):
            yield name, encode(self._bad.alter(decode(blob))) if name == self._bad.name else blob

    def ledgers(self) -> dict[str, Ledger]:
        return self._carrier.ledgers()


def flip_labels(federation: Federation, party: str) -> Federation:
    """The same rows, but one party's training labels are all wrong: each class is called the next one."""
    table = federation.tables[party]
    if table.y is None:
        raise ValueError(f"{party} has no labels to flip; those of parties with other rows can be flipped")
    flipped = table.y.copy()
    rows = table.cut("train")
    flipped[rows] = (flipped[rows] + 1) % max(2, len(federation.task.classes))
    wrong = Table(
        table.raw,
        table.columns,
        ids=table.ids,
        y=flipped,
        task=table.task,
        cuts=table.cuts,
        party=party,
        recipe=table.recipe,
    )
    return replace(federation, tables=federation.tables | {party: wrong})


def leave_out(federation: Federation, party: str) -> Federation:
    """The same federation without a party: what leaving it out by hand gives."""
    tables = {name: table for name, table in federation.tables.items() if name != party}
    return replace(federation, tables=tables)

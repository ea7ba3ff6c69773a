"""Reaching the parties of a saved model whose folders are at hand: for trials, and for parties on one machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from laconic.core.errors import DataError
from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.peers import Carrier
from laconic.core.script import Script
from laconic.core.table import Table
from laconic.core.wire import Blob
from laconic.model.folder import HEAD, folder_name, model_folders
from laconic.model.part import Part, load_part
from laconic.privacy.told import spent
from laconic.runtime.inprocess import InProcess
from laconic.simulation import Runtime


def parts_of(folder: Path) -> dict[str, Part]:
    """Every party's part in a folder that holds several; the part itself if it is one party's own."""
    folders = [folder] if (folder / HEAD).is_file() else model_folders(folder)
    if not folders:
        raise DataError(f"{folder} holds no model; save one with: laconic run ... --model {folder}")
    return {part.about.party: part for part in (load_part(one) for one in folders)}


@contextmanager
def reach_parts(
    hub: Part,
    parts: Mapping[str, Part],
    tables: Mapping[str, Table],
    runtime: Runtime = InProcess(),  # noqa: B008 (frozen)
) -> Iterator[Carrier]:
    """Reach all parties but the hub that have a part and rows; the others are absent.

    Every part reached counts as used, the hub's too: the next use has other chance. What a party gave away, and what it
    then remembers, is written to its part; what costs anyone anything is there before the hub has the answer.
    """
    there = [parts[name] for name in _in_order(hub, parts) if name in tables]
    reached = tuple(part.party(tables[part.about.party]) for part in there)
    # Counted at once: a use that is broken off has shown its chance too.
    for part in there:
        part.note_use()
    try:
        with runtime.open(reached) as carrier:
            yield _Keeping(carrier, {party.name: (part, party) for part, party in zip(there, reached, strict=True)})
    finally:
        for part, party in zip(there, reached, strict=True):
            part.keep(party)
    hub.note_use()


def _in_order(hub: Part, parts: Mapping[str, Part]) -> list[str]:
    asked = [name for name in hub.about.peers if name in parts]
    return asked + [name for name in parts if name not in asked and name != hub.about.party]


class _Keeping:
    """A carrier that writes down what an answer costs before it hands the answer over."""

    def __init__(self, within: Carrier, kept: Mapping[str, tuple[Part, Party]]) -> None:
        self._within, self._kept = within, kept
        self._written = {name: spent(party) for name, (_, party) in kept.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return self._within.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        for name, reply in self._within.carry(script, blobs, deadline):
            part, party = self._kept[name]
            # After a crash a row would else be told of again as if for the first time.
            if spent(party) != self._written[name]:
                part.keep(party)
                self._written[name] = spent(party)
            yield name, reply

    def ledgers(self) -> dict[str, Ledger]:
        return self._within.ledgers()


def part_folder(folder: Path, party: str) -> Path:
    """Where a party's part is, within a folder that holds several."""
    return folder / folder_name(party)

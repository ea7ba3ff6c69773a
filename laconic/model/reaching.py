"""Reaching the parties of a saved model whose folders are at hand: for trials, and for parties on one machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from laconic.core.errors import DataError
from laconic.core.peers import Carrier
from laconic.core.table import Table
from laconic.model.folder import HEAD, folder_name, model_folders
from laconic.model.part import Part, load_part
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
    then remembers, is written to its part, as far as the runtime keeps parties in this process.
    """
    there = [parts[name] for name in _in_order(hub, parts) if name in tables]
    reached = tuple(part.party(tables[part.about.party]) for part in there)
    # Counted at once: a use that is broken off has shown its chance too.
    for part in there:
        part.note_use()
    try:
        with runtime.open(reached) as carrier:
            yield carrier
    finally:
        for part, party in zip(there, reached, strict=True):
            part.keep(party)
    hub.note_use()


def _in_order(hub: Part, parts: Mapping[str, Part]) -> list[str]:
    asked = [name for name in hub.about.peers if name in parts]
    return asked + [name for name in parts if name not in asked and name != hub.about.party]


def part_folder(folder: Path, party: str) -> Path:
    """Where a party's part is, within a folder that holds several."""
    return folder / folder_name(party)

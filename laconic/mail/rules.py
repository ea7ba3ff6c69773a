"""A party's own rules at its desk: the same gate and the same ledger of epsilon as for answers given online."""

import secrets
import shutil
from pathlib import Path

from laconic.mail.place import Place
from laconic.plan.allowances import Gatekeeper, read_allowances
from laconic.plan.spending import Spending

_SPENT = "spent"
"""The ledger of epsilon beside a party's file: one for all its runs, by mail and online."""


def gate_of(place: Place, folder: Path) -> Gatekeeper:
    """The gate for one run, which is kept in `folder`."""
    return _gate(place, folder, place.home / _SPENT)


def trial_gate(place: Place, folder: Path) -> Gatekeeper:
    """The same gate for a trial in `folder`, on a copy of the ledger: what it would let through, and nothing spent."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in place.home.glob(f"{_SPENT}.*"):
        shutil.copy(path, folder / path.name)
    return _gate(place, folder, folder / _SPENT)


def run_id(folder: Path) -> str:
    """What tells this run from every other, of the same plan too."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "id"
    if not path.exists():
        path.write_text(secrets.token_hex(16))
    return path.read_text()


def _gate(place: Place, folder: Path, spending: Path) -> Gatekeeper:
    agreement = place.agreement
    guests = tuple(name for name in agreement.names if name != agreement.holder)
    allowed = read_allowances(place.file.allow, place.file.path)
    return Gatekeeper(allowed, Spending(spending), run_id(folder), agreement.holder, guests)

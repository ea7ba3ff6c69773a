"""`python -m tools.sbom`: list all that is installed for laconic, as a CycloneDX document that auditors' tools read.

The same installation gives the same bytes: the document bears no date, and its serial number is made from its content.
Each part names the hashes that `locks/` accepts for its version, as properties: which of these files an installation
came from depends on the machine.
"""

import argparse
import json
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from tools.installed import ROOT, Need, extras, needed
from tools.licences import licence_of
from tools.lock import LOCKS, read_lock

_ACCEPTED = "laconic:lock:sha256"


def document(wanted: tuple[str, ...]) -> dict[str, Any]:
    """The bill of materials of laconic with these extras.

    >>> document(())["bomFormat"]
    'CycloneDX'
    """
    parts, hashes = needed(wanted), accepted_hashes()
    refs = {name: _ref(name, need.version) for name, need in parts.items()}
    top = _ref(ROOT, version(ROOT))
    body = {
        "metadata": {"component": _own(top), "properties": [{"name": "laconic:extra", "value": one} for one in wanted]},
        "components": [_component(need, hashes.get((name, need.version), ())) for name, need in parts.items()],
        "dependencies": [
            {"ref": top, "dependsOn": sorted(refs.values())},
            *({"ref": refs[name], "dependsOn": [refs[one] for one in need.needs]} for name, need in parts.items()),
        ],
    }
    serial = uuid5(NAMESPACE_OID, json.dumps(body, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return head | body


def accepted_hashes() -> dict[tuple[str, str], tuple[str, ...]]:
    """The hashes in all locks, by name and version."""
    return {
        (name, number): hashes
        for path in LOCKS.glob("*.txt")
        for name, (number, hashes) in read_lock(path.stem).items()
    }


def _own(ref: str) -> dict[str, Any]:
    said = metadata(ROOT)
    return {
        "type": "library",
        "bom-ref": ref,
        "name": ROOT,
        "version": version(ROOT),
        "description": said["Summary"],
        "licenses": [{"expression": licence_of(ROOT)}],
    }


def _component(need: Need, hashes: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": _ref(need.name, need.version),
        "name": need.name,
        "version": need.version,
        "purl": _ref(need.name, need.version),
    }
    if licence := licence_of(need.name):
        found["licenses"] = [{"expression": licence}]
    if hashes:
        found["properties"] = [{"name": _ACCEPTED, "value": one} for one in hashes]
    return found


def _ref(name: str, number: str) -> str:
    """A package URL; a plus sign in a version must be written as a number there."""
    return f"pkg:pypi/{name}@{number.replace('+', '%2B')}"


def main() -> None:
    """Write the document, or print it."""
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description="List all that is installed for laconic.")
    parser.add_argument(
        "--extras", nargs="*", default=[], choices=extras(), metavar="EXTRA", help="such as flare, serve"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to; printed if left out")
    given = parser.parse_args()
    text = json.dumps(document(tuple(given.extras)), indent=2) + "\n"
    if given.output is None:
        print(text, end="")
    else:
        given.output.write_text(text, encoding="utf-8")
        print(given.output)


if __name__ == "__main__":
    main()

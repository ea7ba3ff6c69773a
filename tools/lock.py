"""`python -m tools.lock`: write `locks/`, in which every distribution that `make` installs has the hashes of its files.

The versions are those of `constraints.txt`. The hashes are those that the package index gives for all files of these
versions which CPython 3.11 or later can use, so that one lock serves all machines. pip installs by a lock only what
has one of its hashes.

Which index is asked is pip's own default, or `--index`. PyTorch has two locks: `torch.txt` for the builds of the index,
and `torch-cpu.txt` for builds without GPU, which the index does not have. The second is written from wheels that
`--cpu` names, and `make` prefers it wherever pip finds such a wheel.
"""

import argparse
import hashlib
import re
import tomllib
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from tools.installed import needed

HOME = Path(__file__).parents[1]
CONSTRAINTS = HOME / "constraints.txt"
LOCKS = HOME / "locks"
BESIDE = {"xgboost": "3.2.0"}
"""Installed into a folder of its own, for tests; see the Makefile."""

TORCH = "torch"

_HEAD = "# Written by `python -m tools.lock`: the versions of constraints.txt, and the hashes of their files.\n"
_LINE = re.compile(r"^([A-Za-z0-9][^=\s;]*)==([^\s;\\]+)(?:\s*;\s*([^\\]*?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_TAG = re.compile(r"cp3(1[1-9]|[2-9]\d)|py3|py2\.py3|py3\d+")


def pins() -> dict[str, str]:
    """The versions in `constraints.txt`, by name."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    found = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {str(canonicalize_name(name)): version for name, version in found}


def read_lock(name: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Version and hashes of each distribution in a lock."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in (LOCKS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if match := _LINE.match(line):
            current = match[1]
            found[current] = (match[2], ())
        elif match := _HASH.search(line):
            version, before = found[current]
            found[current] = (version, (*before, match[1]))
    return found


def build_needs() -> list[str]:
    """What `pyproject.toml` needs to build the package: `make` builds it with what the lock brought."""
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
    return [str(canonicalize_name(Requirement(text).name)) for text in project["build-system"]["requires"]]


def contents() -> dict[str, dict[str, str]]:
    """What belongs into each lock: the marker of each distribution, by name."""
    core = {need.name: need.marker for need in needed().values()} | dict.fromkeys(build_needs(), "")
    dev = {need.name: need.marker for need in needed(["dev"]).values() if need.name not in core}
    return {"torch": {TORCH: core.pop(TORCH)}, "core": core, "dev": dev, "xgboost": dict.fromkeys(BESIDE, "")}


class _Links(HTMLParser):
    """The files on a page of an index, with their hashes."""

    def __init__(self) -> None:
        super().__init__()
        self.hashes: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        place, _, found = (dict(attrs).get("href") or "").partition("#sha256=")
        if tag == "a" and re.fullmatch("[0-9a-f]{64}", found):
            self.hashes[unquote(place.rsplit("/", 1)[-1])] = found


def ask_index(index: str, name: str, version: str) -> set[str]:
    """The hashes of all files of a version that can be used."""
    with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/", timeout=60) as reply:  # noqa: S310 (pip's own index)
        page = _Links()
        page.feed(reply.read().decode())
    found = {digest for file, digest in page.hashes.items() if _usable(file, name, version)}
    if not found:
        raise SystemExit(f"the index has no file of {name} {version}; correct constraints.txt")
    return found


def _usable(file: str, name: str, version: str) -> bool:
    """Whether a file is of this version, and for a CPython that we support."""
    try:
        if not file.endswith(".whl"):
            found, number = parse_sdist_filename(file)
            return (found, str(number)) == (name, version)
        found, number, _, tags = parse_wheel_filename(file)
    except (InvalidSdistFilename, InvalidWheelFilename):
        return False
    fits = any(tag.abi == "abi3" or (_TAG.fullmatch(tag.interpreter) and not tag.abi.endswith("t")) for tag in tags)
    return (found, str(number)) == (name, version) and fits


def lock_of_wheels(files: Iterable[Path]) -> str:
    """A lock of builds of one distribution that are on this machine, by their full version, such as 2.13.0+cpu."""
    versions: dict[str, str] = {}
    hashes: dict[str, set[str]] = {}
    for file in files:
        name, version, *_ = parse_wheel_filename(file.name)
        if versions.setdefault(name, str(version)) != str(version):
            raise SystemExit(f"{file} is of version {version}, another wheel of {versions[name]}; give those of one")
        hashes.setdefault(name, set()).add(hashlib.sha256(file.read_bytes()).hexdigest())
    return write_lock(versions, dict.fromkeys(versions, ""), hashes)


def write_lock(versions: Mapping[str, str], markers: Mapping[str, str], hashes: Mapping[str, set[str]]) -> str:
    """The text of a lock."""
    lines = [_HEAD]
    for name in sorted(markers):
        start = f"{name}=={versions[name]}" + (f" ; {markers[name]}" if markers[name] else "")
        lines.append(" \\\n    ".join([start, *(f"--hash=sha256:{one}" for one in sorted(hashes[name]))]) + "\n")
    return "".join(lines)


def main() -> None:
    """Write all locks."""
    from pip._internal.models.index import PyPI

    parser = argparse.ArgumentParser(
        prog="python -m tools.lock", description="Write the locks that `make` installs by."
    )
    parser.add_argument("--index", default=PyPI.simple_url, help="the simple page of an index; pip's if left out")
    parser.add_argument("--cpu", nargs="*", type=Path, default=[], metavar="WHEEL", help="PyTorch's builds without GPU")
    given = parser.parse_args()
    versions, wanted = pins() | BESIDE, contents()
    names = sorted({name for markers in wanted.values() for name in markers})
    with ThreadPoolExecutor(8) as pool:
        found = dict(
            zip(names, pool.map(lambda name: ask_index(given.index, name, versions[name]), names), strict=True)
        )
    texts = {f"{lock}.txt": write_lock(versions, markers, found) for lock, markers in wanted.items()}
    if given.cpu:
        texts["torch-cpu.txt"] = lock_of_wheels(given.cpu)
    LOCKS.mkdir(exist_ok=True)
    for file, text in texts.items():
        (LOCKS / file).write_text(text, encoding="utf-8")
        print(f"locks/{file}: {text.count('==')} distributions, {text.count('--hash')} hashes")


if __name__ == "__main__":
    main()

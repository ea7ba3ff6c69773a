"""Work that is kept as JSON lines as it is done, and which code made each line.

What is in the file stays done, whoever stopped it and when. The code is known by a digest of a method's file and of all
of its package that this file leads to. Comments, docstrings and layout do not count: what they say changes no number.
Compiled parts and other packages are not looked at; their versions are in the result.
"""

import ast
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from laconic.atomic_files import note_written, unbroken
from laconic.core.method import Method

Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One thing to measure.

    Attributes:
        key: what it is: plain values that name it, such as data, method and seed. A job with the same key is not run
            again.
        measure: does the work and returns plain values to keep.
        code: a digest of the code that does it (see `code_digest`), kept in the record; empty for none.
    """

    key: Record
    measure: Callable[[], Record]
    code: str = ""


def run_jobs(
    jobs: Iterable[Job],
    results: Path,
    on_done: Callable[[Job, Record], object] = lambda _, __: None,
    *,
    renew: bool = False,
) -> list[Record]:
    """Run every job not yet in the file `results`, adding a line as each finishes; all jobs' records, in order.

    Args:
        results: a file of JSON lines; it may hold other jobs too. Of several records with one key, the last counts.
        on_done: called with each job that was run now, and its record.
        renew: run a job again whose record was made by other code.
    """
    done = {name_of(record["key"]): record for record in read_records(results)}
    records = []
    for job in jobs:
        name = name_of(job.key)
        if name not in done or (renew and done[name].get("code", "") != job.code):
            started = time.perf_counter()
            measured = job.measure()
            made_by = {"code": job.code} if job.code else {}
            done[name] = {"key": job.key, "seconds": round(time.perf_counter() - started, 2), **made_by, **measured}
            add_record(done[name], results)
            on_done(job, done[name])
        records.append(done[name])
    return records


def read_records(results: Path) -> list[Record]:
    """All whole lines of a results file; a line cut off by a stop is left out."""
    if not results.exists():
        return []
    records = []
    for line in results.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def add_record(record: Record, results: Path) -> None:
    """Add a line; after one that a stop cut off, on a line of its own, so that only the broken one is lost."""
    line = json.dumps(record) + "\n"
    with unbroken(), results.open("a+b") as lines:
        if lines.tell() > 0:
            lines.seek(-1, 2)
            if lines.read(1) != b"\n":
                line = "\n" + line
        lines.write(line.encode())
    note_written(results)


def name_of(key: Record) -> str:
    """A key as one text, the same for equal keys."""
    return json.dumps(key, sort_keys=True)


def code_digest(method: Method | type[Method]) -> str:
    """A digest of the modules that a method's file imports, directly or not, within its own package and ours.

    Example:
        >>> from laconic import FedOnce, SplitNN
        >>> code_digest(FedOnce) == code_digest(FedOnce(precision="float16"))
        True
        >>> code_digest(FedOnce) == code_digest(SplitNN)
        False
    """
    kind = method if isinstance(method, type) else type(method)
    whole = blake2b(digest_size=8, person=b"laconic code")
    for name in modules_of(kind.__module__):
        whole.update(f"{name}\n{_code(name)}\n".encode())
    return whole.hexdigest()


@cache
def modules_of(module: str) -> tuple[str, ...]:
    """The modules of the package that this one leads to, itself included, by name in alphabetical order."""
    packages = {module.partition(".")[0], "laconic"}
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name in found or name.partition(".")[0] not in packages or _file(name) is None:
            continue
        found.add(name)
        waiting += _imported(name)
    return tuple(sorted(found))


def _imported(name: str) -> Iterator[str]:
    """What a module imports, at its top or within a function; a name that is no module has no file, and is dropped."""
    for node in ast.walk(ast.parse(_text(name))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(name.split(".")[: -node.level]) if node.level else ""
            base = ".".join(part for part in (above, node.module) if part)
            yield base
            yield from (f"{base}.{one.name}" for one in node.names)


@cache
def _code(name: str) -> str:
    """A module's code without comments, docstrings and layout."""
    tree = ast.parse(_text(name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [one for one in node.body if not _is_text(one)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _text(name: str) -> str:
    file = _file(name)
    return "" if file is None else file.read_text(encoding="utf-8")


@cache
def _file(name: str) -> Path | None:
    """The source file of a module, without importing it; None if the name is no module, or has no source."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
    else:
        above = name.rpartition(".")[0]
        try:
            spec = find_spec(name) if not above or _is_package(above) else None
        except (ImportError, ValueError):
            spec = None
        file = None if spec is None else spec.origin
    return Path(file) if file is not None and file.endswith(".py") and Path(file).is_file() else None


def _is_package(name: str) -> bool:
    file = _file(name)
    return file is not None and file.name == "__init__.py"

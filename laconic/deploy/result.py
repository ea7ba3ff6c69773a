"""A result: the frozen record of one run, to and from JSON."""

import ast
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from laconic.atomic_files import note_written, unbroken, write_whole
from laconic.core.ledger import Entry, Ledger, Statement
from laconic.core.method import Method
from laconic.core.traffic import Traffic
from laconic.methods.families.contributions import Contribution
from laconic.privacy.accounting import Price
from laconic.shown import counted, figure, html_table, in_bytes, metric_name
from laconic.tables.task import Bin, Quality, Score, Task, Tried


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction made part way: what fitting had cost by then, and how good it was on held-out rows."""

    bytes: int
    rounds: int
    score: Score
    metrics: dict[str, float]


class Release(Entry, frozen=True, kw_only=True):
    """An entry of a party's ledger, as the result of a run holds it.

    Attributes:
        to: who received it: `hub`, or `peers` for what a question of the hub brought them.
        covered: in words, what the noise covers and what it does not, or `open release: not protected`.
    """

    party: str
    to: str
    covered: str

    def __repr__(self) -> str:
        return f"<{self.party} to {self.to}, {self.label}: {self.words}; {in_bytes(self.bytes)}>"


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """A party that did not answer a question in time."""

    phase: str
    round: int
    step: str
    party: str


class PartyTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """What crossed between the hub and one party for one step of one phase."""

    phase: str
    step: str
    party: str
    times: int
    bytes_up: int
    bytes_down: int


_FROM_LABELS = re.compile(r"\blabels?\b|\bgradients?\b")
_LABELS_THEMSELVES = re.compile(r"\bits labels\b")


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """How a run's settings were chosen: what was allowed, what was tried, and what did best on validation rows.

    Attributes:
        given: the method's settings before anything was chosen.
        trials_allowed: how many settings might be tried.
        seconds_allowed: processor seconds that all trials together might take.
        trials: how many were tried.
        of: how many different settings there were to try.
        seconds: processor seconds that this took.
        bytes: what crossed in all trials: with parties apart, tuning costs this too.
        chosen: the settings that differ from those given, by dotted key, apart from the stopping rule of all arms.
        valid: the score on validation rows of what was chosen.
        capped: why the arm might do better with a greater allowance; empty if nothing shows it.
    """

    given: dict[str, Any]
    trials_allowed: int
    seconds_allowed: float
    trials: int
    of: int
    seconds: float
    bytes: int
    chosen: dict[str, Any]
    valid: Score
    capped: str

    @property
    def allowed(self) -> tuple[int, float]:
        """Trials and processor seconds, which must be the same for all arms of a table."""
        return self.trials_allowed, self.seconds_allowed


class RebuiltColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column that can be rebuilt from what a party sent, before and after.

    Attributes:
        name: of the column, as the party's models see it.
        r2: the share of its variance that is found.
        bins: of rows with about the same true cell: `true` is the mean of these, `predicted` that of the rebuilt ones.
    """

    name: str
    r2: float
    bins: tuple[Bin, ...]


class Leakage(msgspec.Struct, frozen=True, kw_only=True):
    """How well a party's columns can be rebuilt from what it sent in the open, by someone who knows a few rows.

    Attributes:
        party, step: who sent it, and by which question.
        rows: how many rows it was about. known: how many of them the attacker knows in full.
        mean: the mean over columns of R2, the share of a column's variance that is found. best: of the column that is
            found best.
        columns: those that are found best.
    """

    party: str
    step: str
    rows: int
    known: int
    mean: float
    best: float
    columns: tuple[RebuiltColumn, ...] = ()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run: what was run, what it scored, what crossed, what was given away."""

    method: dict[str, Any]
    data: dict[str, Any]
    parties: tuple[str, ...]
    hub: str
    seed: int
    task: Task
    score: Score
    metrics: dict[str, float]
    align: Traffic
    fit: Traffic
    look: Traffic
    final: Traffic
    curve: tuple[Look, ...]
    releases: tuple[Release, ...]
    wire: tuple[PartyTraffic, ...]
    absences: tuple[Absence, ...]
    predictions: str
    """A digest of the final predictions, to the bit."""
    stopped: str
    """Why fitting ended: `finished`, or `byte budget`."""
    versions: dict[str, str]
    privacy: Price | None = None
    """What it cost in privacy; None if nothing that left bore noise with a price."""
    importance: dict[str, dict[str, float]] | None = None
    """How much each party matters, by measure (see `laconic.deploy.party_importance`); None if not known."""
    contributions: tuple[Contribution, ...] = ()
    """What was found in what parties sent, for methods that look at it."""

    tried: tuple[Tried, ...] = ()
    """The models that the hub tried on its training rows before it took one, for methods that choose."""

    by_party: dict[str, dict[str, float]] = {}
    """Where each party ends with a model of its own: every metric of each; `metrics` and `score` are their means."""

    resampled: tuple[float, ...] = ()
    """The headline figure on resamples of the rows scored on, in the order of a draw that follows from their labels:
    runs on the same rows can be compared one by one. Empty where too few rows were scored."""

    leakage: tuple[Leakage, ...] = ()
    """How well columns can be rebuilt from what left in the open, where that was measured (`laconic run --leakage`)."""

    ended: str = ""
    """When the run ended, in UTC; empty if that is not known."""

    statements: dict[str, Statement] = {}
    """What parties signed of their own ledgers, by party; see `laconic verify`."""

    quality: Quality | None = None
    """Curves of the predictions on held-out rows; None where each party has a model or a score of its own."""

    tuning: Tuning | None = None
    """How its settings were chosen; None if they were given."""

    def __repr__(self) -> str:
        fitting = f"{counted(self.fit.rounds, 'round')}, {in_bytes(self.fit.bytes)}"
        return f"<Result of {self._title}; {fitting}; {counted(len(self.releases), 'release')}; seed {self.seed}>"

    def _repr_html_(self) -> str:
        lines = [(one.party, one.to, one.phase, one.words, one.label, in_bytes(one.bytes)) for one in self.releases]
        fitting = f"fitting took {counted(self.fit.rounds, 'round')} and {in_bytes(self.fit.bytes)}"
        headings = ("party", "to", "phase", "what left, in the step's words", "protection", "bytes")
        return html_table(
            f"{self._title}: {fitting}", headings, lines, "" if self.privacy is None else repr(self.privacy)
        )

    @property
    def _title(self) -> str:
        score = f"{metric_name(self.score.metric)} {figure(self.score.value)}"
        return f"{self.method['type']} on {self.data.get('name', 'data')}, {score}"

    @property
    def label_leaks(self) -> tuple[Release, ...]:
        """What left without noise and lets its receiver read labels that are not its own, by the steps' own words.

        With one label holder, labels leave with what it sends to the others, or to a server. In a horizontal federation
        every party has labels, and they leave where they are sent themselves.
        """
        return tuple(one for one in self.releases if self._gives_labels(one))

    def _gives_labels(self, release: Release) -> bool:
        if release.noise is not None or release.phase == "align":
            return False
        if self.data.get("kind") == "horizontal" or (release.to == "hub" and self.hub == "server"):
            return bool(_LABELS_THEMSELVES.search(release.words))
        return release.to != "hub" and bool(_FROM_LABELS.search(release.words))

    def to_json(self) -> bytes:
        """One JSON object."""
        return msgspec.json.encode(self)

    @staticmethod
    def from_json(text: bytes | str) -> "Result":
        """Read back what `to_json` wrote."""
        return msgspec.json.decode(text, type=Result)

    def save(self, path: Path) -> None:
        """Write the JSON to a file, whole or not at all."""
        write_whole(path, msgspec.json.format(self.to_json(), indent=2))


def ledgers_of(result: Result) -> dict[str, Ledger]:
    """Each party's ledger, from the record of a run."""
    found: dict[str, list[Entry]] = {party: [] for party in result.parties}
    for release in result.releases:
        entry = Entry(**{name: getattr(release, name) for name in Entry.__struct_fields__})
        found[release.party].append(entry)
    return {party: Ledger(tuple(entries)) for party, entries in found.items()}


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

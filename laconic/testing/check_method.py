"""The contract that every method passes: `check_method`, which also looks for raw columns and labels on the wire.

Small federations and parties for tests of methods, on data sets of scikit-learn and drawn times; and a bad party.

A bad party sends something else than it should, to see what becomes of a run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from laconic.core.ledger import Ledger, digest_of
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.step import Script, steps_of
from laconic.core.traffic import WireLog
from laconic.core.wire import Blob, Heading, decode, decode_question, describe, encode, read_heading
from laconic.data.datasets import Dataset, load
from laconic.data.federation import Federation
from laconic.data.partition.columns import Equal, deal
from laconic.data.partition.rows import Dirichlet, Iid, deal_rows
from laconic.deploy.execute import FittedRun, roles, simulate, train
from laconic.deploy.journal import AnswerCheck
from laconic.deploy.result import Result
from laconic.deploy.session import Due, QuestionForecast
from laconic.deploy.transports import Runtime, open_runtime
from laconic.deploy.transports.inprocess import Recorder, open_calls
from laconic.errors import ContractBroken, LaconicError, StepError
from laconic.inference.absent import FromStore
from laconic.inference.bundle import Part
from laconic.inference.local_transport import parts_of, reach_parts
from laconic.inference.predict import Model, load_model
from laconic.inference.save import save_model
from laconic.plan.runtime import AnyRuntime, InProcess, Processes
from laconic.tables.columns import Column, Recipe
from laconic.tables.table import Table
from laconic.tables.task import Task, signed_times
from laconic.values import Array

_SETS: dict[str, str] = {"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}


def small_federation(kind: str) -> Federation:
    """Three parties on a small data set of a kind of task."""
    return deal(_small_set(kind), Equal(parties=3), seed=3, test=0.3)


def small_horizontal(kind: str) -> Federation:
    """Three parties and a server on a small data set of a kind of task, rows dealt with a slight label skew."""
    way = Dirichlet(parties=3, beta=2.0) if kind in ("binary", "multiclass") else Iid(parties=3)
    return deal_rows(_small_set(kind), way, seed=3)


def rows_held_out(
    parties: Mapping[str, tuple[Array, Array]], test: tuple[Array, Array], columns: Sequence[str], task: Task
) -> Federation:
    """Parties with rows of numbers and labels, and at a server those to score on: for splits that others have fixed."""
    known = tuple(Column(name) for name in columns)
    recipe = Recipe(columns=known)  # As parties with files, these still have to agree on how columns are prepared.
    tables = {
        name: Table(x, known, y=y, task=task, cuts={cut: np.arange(len(y))}, party=name, recipe=recipe)
        for name, cut, (x, y) in [("server", "test", test), *((name, "train", rows) for name, rows in parties.items())]
    }
    return Federation(name="rows", tables=tables, hub="server", aligned=False, kind="horizontal")


def drawn_times(rows: int = 400, columns: int = 6, seed: int = 5) -> Dataset:
    """Drawn rows whose hazard is the exponential of a linear map of their columns; about a third are censored."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    risk = np.exp(x @ np.linspace(1.0, -0.5, columns))
    came, left = rng.exponential(1 / risk), rng.exponential(2.0, rows)
    # Whole days, so that some times are tied.
    times = np.ceil(100 * np.minimum(came, left))
    return Dataset(
        name="drawn times",
        raw=x,
        columns=tuple(Column(f"column{i}") for i in range(columns)),
        y=signed_times(times, came <= left),
        task=Task(kind="survival", label="days", event="died"),
    )


def _small_set(kind: str) -> Dataset:
    return load(_SETS[kind]) if kind in _SETS else drawn_times()


def small_overlap() -> Federation:
    """Three parties that share sixty rows and have others alone; the label holder has labels and no columns."""
    return deal(load("breast_cancer"), Equal(parties=3), hub=None, overlap=60, seed=3, test=0.3, valid=0.03)


def bare_party(name: str = "bank", *, secret: bytes | None = None) -> Party:
    """A party without rows, for tests of what a step does with its payload."""
    return Party(name, Table.without_rows(name), seed=0, secret=secret)


@contextmanager
def open_peers(
    script: Script,
    hub: Party,
    others: Iterable[Party],
    runtime: AnyRuntime | Runtime = InProcess(),  # noqa: B008 (frozen)
) -> Iterator[Peers]:
    """The other parties as the hub's peers for as long as the block lasts, for tests of a script's parts."""
    with open_runtime(tuple(others), runtime) as carrier:
        yield Peers(script, hub, carrier, WireLog(), carrier.names)


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


_VARIED = 20
"""A column with at least so many different values is known by them, in whatever order they come."""


class Leak(NamedTuple):
    """What was found: `raw columns` or `labels`, and which."""

    kind: str
    name: str


def find_leak(blob: bytes, owner: Table) -> Leak | None:
    """The first raw column, or the labels, of `owner` found in a blob, whole, in any order; None if there is none."""
    arrays = [array for array in _arrays(decode(blob)) if array.size >= _VARIED]
    if not arrays:
        return None
    for name, column in _columns(owner):
        if any(_holds(array, column) for array in arrays):
            return Leak("raw columns", name)
    if owner.y is not None and any(_holds(array, owner.y[rows]) for rows in owner.cuts.values() for array in arrays):
        return Leak("labels", owner.task.label if owner.task else "label")
    return None


def _arrays(value: object) -> Iterator[Array]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _arrays(inner)
    elif isinstance(value, list):
        if value and all(isinstance(one, int | float) for one in value):
            yield np.array(value, dtype=np.float64)
        for inner in value:
            yield from _arrays(inner)


def _columns(owner: Table) -> Iterator[tuple[str, Array]]:
    """Every raw column, and every column as models see it, for each cut."""
    raw = owner.raw.reshape(owner.rows, -1)
    prepared = owner.x.reshape(owner.rows, -1)
    names = [column.name for column in owner.columns] if raw.shape[1] == len(owner.columns) else []
    for rows in owner.cuts.values():
        for place in range(raw.shape[1]):
            yield names[place] if names else f"pixel {place}", raw[rows, place]
        for place in range(prepared.shape[1]):
            yield f"prepared column {place}", prepared[rows, place]


def _holds(array: Array, column: Array) -> bool:
    column = column[np.isfinite(column)] if column.dtype.kind == "f" else column
    if column.size < _VARIED or array.dtype.kind not in "fiu" or len(np.unique(column)) < 2:
        return False
    cast = column.astype(array.dtype) if array.dtype.kind == "f" else column
    distinct = np.unique(cast)
    if len(distinct) >= _VARIED and array.dtype != np.float16:
        return bool(np.isin(distinct, array).mean() > 0.9)
    # Few values, or coarse ones, may match by coincidence: the column must be there row by row.
    table = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    return len(table) == len(cast) and bool((table == cast[:, None]).all(axis=0).any())


def check_method(method: Method, federation: Federation | None = None, *, seed: int = 7) -> Result:
    """Hold a method to the contract, and return the last of its runs.

    The clauses: its steps say what they take and give; it gives the same numbers and bytes with parties truly apart and
    all in one process; the same seed gives the same run; looking does not change learning; promised rounds are kept;
    the questions that it declares are those it asks; settings stay as they were; a party remembers plain values only;
    raw columns and labels cross only in steps whose words name them; every row gets one prediction; saved,
    loaded and given the rows anew it predicts the same to the bit, of a horizontal method at every party; and it does
    better than guessing on each kind of task it names.

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


def _small(method: Method, kind: str) -> Federation:
    return small_horizontal(kind) if method.kind == "horizontal" else small_federation(kind)


def _check_on(method: Method, federation: Federation, seed: int) -> Result:
    # Apart comes first: what a run in this process leaves behind could hide that a method smuggles state.
    apart = _attempt(method, lambda: simulate(method, federation, seed=seed, runtime=Processes()))
    recorder = Recorder()
    together = _attempt(method, lambda: simulate(method, federation, seed=seed, runtime=recorder))
    _same("with parties apart and together", method, apart, together)
    kept: list[FittedRun] = []

    def keep() -> Result:
        kept.append(train(method, federation, seed=seed))
        return kept[0].result

    _same("twice with the same seed", method, together, _attempt(method, keep))
    watched = Recorder()
    looked = _attempt(method, lambda: simulate(method, federation, seed=seed, look_every=1, runtime=watched))
    _same("with and without looking", method, together, looked)
    if method.rounds is not None and together.fit.rounds != method.rounds:
        raise ContractBroken(f"{type(method).__name__} promised {method.rounds} rounds and took {together.fit.rounds}")
    _check_opening(method, federation, recorder, seed, look_every=None)
    _check_opening(method, federation, watched, seed, look_every=1)
    _check_leaks(method, federation, recorder)
    _check_answers(method, federation, recorder)
    _check_beats_guessing(method, federation, together)
    _check_saved(method, kept[0])
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


def _check_opening(
    method: Method, federation: Federation, recorder: "Recorder", seed: int, look_every: int | None
) -> None:
    """Compare the questions that a method declares with those it asked, party by party."""
    hub = roles(method, federation, seed)[0].name
    schedule = QuestionForecast(method, None, hub, seed, look_every)
    predicting = schedule.predict_dues("final", "test")
    # Not the label holder's: a server may ask it more, and by envelope it answers without waiting.
    for name in federation.peers:
        asked = [blob for party, _, way, blob in recorder.crossings if (party, way) == (name, "down")]
        last = [blob for blob in asked if read_heading(blob).phase == "final"]
        _compare(method, name, asked, schedule.dues(), whole=schedule.whole)
        _compare(method, name, last, predicting, whole=method.predict_opening("test").then == "ends")


def _compare(method: Method, name: str, asked: list[bytes], dues: tuple[Due, ...], *, whole: bool) -> None:
    """The questions asked must begin with those declared, and be no more if those are said to be all."""
    for due, blob in zip_longest(dues, asked[: None if whole else len(dues)]):
        same = due is not None and blob is not None and blob == (due.blob or blob)
        if not same or read_heading(blob) != due.heading:
            declares = "nothing more" if due is None else _in_words(due.heading, due.blob)
            found = "nothing more" if blob is None else _in_words(read_heading(blob), blob)
            raise ContractBroken(
                f"{type(method).__name__} declares that it asks {name} {declares}, but it asked {found}; declare in "
                "fit_opening and predict_opening what follows from the settings alone, or nothing"
            )


def _in_words(heading: Heading, blob: bytes | None) -> str:
    """A question, with what it brings if that is known."""
    payload = {} if blob is None else decode_question(blob).payload
    shown = {key: value if isinstance(value, str | int | None) else describe(value) for key, value in payload.items()}
    return f"`{heading.step}` in {heading.phase} {heading.round}" + (f" with {shown}" if shown else "")


def _check_leaks(method: Method, federation: Federation, recorder: "Recorder") -> None:
    for party, step, direction, blob in recorder.crossings:
        words = steps_of(method)[step]
        said = (words.gives if direction == "up" else words.takes) or ""
        owner = federation.tables[party if direction == "up" else federation.hub]
        leak = find_leak(blob, owner)
        if leak is not None and leak.kind not in said:
            raise ContractBroken(
                f"step `{step}` carries {leak.kind} ({leak.name}) of {owner.party} but its words are {said!r}"
            )


def _check_answers(method: Method, federation: Federation, recorder: "Recorder") -> None:
    """What parties answer must be what a hub takes on several machines: of the type and shape that steps declare."""
    holder = Party(federation.hub, federation.tables[federation.hub], 0) if method.kind == "vertical" else None
    check, crossings = AnswerCheck(holder), iter(recorder.crossings)
    for (party, step, _, question), (_, _, _, reply) in zip(crossings, crossings, strict=True):
        try:
            check(method, party, question, reply)
        except StepError as problem:
            raise ContractBroken(
                f"{problem}. Correct what the annotation of `{step}` says that it returns, or say by_row=False if it "
                "gives something else than a row for each row asked for"
            ) from problem


def _check_saved(method: Method, trained: FittedRun) -> None:
    tables = trained.federation.tables
    new = {name: table.as_new("test") if "test" in table.cuts else table for name, table in tables.items()}
    ids = new[trained.federation.hub].keys.tolist()
    with TemporaryDirectory(prefix="laconic-") as folder:
        save_model(trained, folder, ways=())
        model = load_model(folder, method=type(method))
        rows = new.get(trained.hub.name, trained.hub.data)
        try:
            with reach_parts(model.part, parts_of(Path(folder)), new) as carrier:
                found = digest_of(model.ask(rows, carrier, ids, name="test").predictions.tobytes())
            homes = [one for one in parts_of(Path(folder)).values() if one.about.made_by]
            at_home = {digest_of(_at_home(one, method, rows, ids).tobytes()) for one in homes}
        except (LaconicError, ValueError, KeyError) as problem:
            raise ContractBroken(f"saved and loaded, it cannot predict rows that come later: {problem!r}") from problem
    if found != trained.result.predictions:
        raise ContractBroken(
            f"{type(method).__name__} predicts otherwise once saved and loaded; keep what predictions need in memory"
        )
    if at_home - {found}:
        raise ContractBroken(
            f"{type(method).__name__} predicts otherwise at a party to which the model came home; name all of "
            "hub.memory that predictions need in predicts_from"
        )


def _at_home(part: Part, method: Method, rows: Table, ids: list[str]) -> Array:
    """What a party predicts by itself, for rows that would be its own."""
    return Model(part, part.method(type(method))).ask(rows, FromStore({}), ids, name="test").predictions


def _check_beats_guessing(method: Method, federation: Federation, result: Result) -> None:
    y = federation.labels("test")
    if federation.task.kind == "regression":
        good, seen = result.metrics["r2"] > 0.05, f"R2 {result.metrics['r2']:.3f}"
    elif federation.task.kind == "survival":
        good, seen = result.score.value > 0.6, f"concordance {result.score.value:.3f}"
    else:
        common = max((y == label).mean() for label in set(y.tolist()))
        good = result.metrics["accuracy"] > common + 0.02
        seen = f"accuracy {result.metrics['accuracy']:.3f} where always the commonest class gives {common:.3f}"
    if not good:
        raise ContractBroken(f"{type(method).__name__} is no better than guessing on {federation.name}: {seen}")

"""The contract that every method passes: `check_method`, which also looks for raw columns and labels on the wire."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import numpy as np

from laconic.core.ledger import digest_of
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import steps_of
from laconic.core.wire import Heading, decode, decode_question, describe, read_heading
from laconic.data.federation import Federation
from laconic.deploy.execute import FittedRun, roles, simulate, train
from laconic.deploy.journal import AnswerCheck
from laconic.deploy.result import Result
from laconic.deploy.session import Due, QuestionForecast
from laconic.deploy.transports.inprocess import Recorder
from laconic.errors import ContractBroken, LaconicError, StepError
from laconic.inference.absent import FromStore
from laconic.inference.bundle import Part
from laconic.inference.local_transport import parts_of, reach_parts
from laconic.inference.predict import Model, load_model
from laconic.inference.save import save_model
from laconic.plan.runtime import Processes
from laconic.tables.table import Table
from laconic.testing.small_federations import small_federation, small_horizontal
from laconic.values import Array

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

"""Take a messy federation through methods and verbs, typed as a user types them, and say how each ended."""

import json
import re
import traceback
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from click.testing import CliRunner

from laconic import (
    Federation,
    Method,
    from_files,
    from_frames,
    from_party_files,
    rows_from_files,
    rows_from_frames,
    simulate,
)
from laconic.cli import main
from laconic.cli.models import WAYS
from laconic.errors import LaconicError
from laconic.methods import methods
from laconic.testing import MessyFederation, Misread, compare_new_rows, compare_reading, frame_of, write_public
from laconic.testing.messy import USABLE

Ended: TypeAlias = Literal["result", "clear error", "result due", "traceback", "misreading"]

WAITING = 3
_TURNS = 8
_BY_MAIL = ("FedOnce", "Linear", "Rap", "OneShot", "LateFusion")
_MAY_REFUSE = ("absent", "stored", "add", "forget", "audit", "doctor")
"""Steps that some methods cannot do, and say so."""
_SHORT = ("trainer.epochs=15", "epochs=15", "trees.trees=10", "least_rows=1")
"""Settings for little time and few rows, which these federations have."""


class Outcome(msgspec.Struct, frozen=True):
    """How one step ended.

    Attributes:
        step: what was done, such as `run FedOnce`.
        ended: `result due` is a clear error of a federation that owes a result.
        kind: the error in few words, without names and numbers; empty for a result.
        words: the whole error, or the score.
    """

    step: str
    ended: Ended
    kind: str = ""
    words: str = ""


class Tour:
    """One federation on its way: its files in a folder, and how each step ended."""

    def __init__(self, federation: MessyFederation, folder: Path, method: type[Method]) -> None:
        self.federation, self.folder, self.method = federation, folder, method
        self.outcomes: list[Outcome] = []
        self.paths = federation.write(folder)
        self.new = federation.write(folder, new=True)
        self.public = write_public(federation, folder)
        self.owed = owes_result(federation)

    def step(self, words: str, work: Callable[[], object]) -> Any:
        """Do something, note how it ended, and return what came of it; None after an error."""
        try:
            found = work()
        except Misread as problem:
            self._note(words, "misreading", problem)
        except Exception as problem:  # Every error there is must be noted; none is passed over.
            clear = is_clear(problem)
            owed = self.owed and words.split(maxsplit=1)[0] not in _MAY_REFUSE
            self._note(words, ("result due" if owed else "clear error") if clear else "traceback", problem)
        else:
            self.outcomes.append(Outcome(words, "result"))
            return found
        return None

    def laconic(self, *words: object, code: tuple[int, ...] = (0,), as_step: str = "") -> str | None:
        """Type a command; its output, or None after an error. `as_step` is what to note it as, if not as its verb."""
        typed = [str(word) for word in words]
        step = f"{as_step or typed[0]} {self.method.__name__}"

        def call() -> str:
            outcome = CliRunner().invoke(main, [*typed, "--debug"])
            if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
                raise outcome.exception
            if outcome.exit_code not in code:
                raise RuntimeError(f"{' '.join(typed)} ended with code {outcome.exit_code}: {outcome.output[-600:]}")
            return outcome.output

        said: str | None = self.step(step, call)
        return said

    def _note(self, step: str, ended: Ended, problem: BaseException) -> None:
        where = "" if ended == "clear error" else _place(problem)
        words = f"{type(problem).__name__}: {problem}"
        self.outcomes.append(Outcome(step, ended, shorten(words) + where, words + where))


def is_clear(problem: BaseException) -> bool:
    """Whether an error was raised on purpose: one of ours, or a `ValueError` that our code raises itself."""
    if isinstance(problem, LaconicError):
        return True
    last = traceback.extract_tb(problem.__traceback__)[-1]
    ours = "/laconic/" in last.filename and (last.line or "").startswith("raise ")
    return ours and isinstance(problem, ValueError)


def shorten(words: str) -> str:
    """An error without what differs from file to file."""
    plain = re.sub(r"\(.*", "", words, flags=re.DOTALL)
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|/\S+", "…", plain)
    return re.sub(r"\d[\d.,e+-]*", "N", plain)[:110].strip()


def _place(problem: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if "/laconic/" in frame.filename]
    return f" at {frames[-1].filename.rpartition('/laconic/')[2]}:{frames[-1].lineno}" if frames else ""


def suited(federation: MessyFederation) -> list[type[Method]]:
    """The methods that can be used on it: of its kind, for its labels, and with the rows that they need."""
    task = {0: "regression", 2: "binary"}.get(len(federation.classes), "multiclass")
    return [
        method
        for method in methods().values()
        if method.kind == federation.kind
        and task in method.tasks
        and (federation.public or federation.kind == "vertical" or "public" not in method().uses)
    ]


def owes_result(federation: MessyFederation) -> bool:
    """Whether every method must give a result: 50 rows, two labels, and a usable column at every party."""
    truth, vertical = federation.truth, federation.kind == "vertical"
    rows = [
        (key, None if party.label is None else party.label.values[at])
        for party in truth.parties.values()
        for at, key in enumerate(party.ids)
        if not vertical or key in truth.shared
    ]
    held = len(truth.shared) if vertical else len(rows)
    usable = all(any(column.trait in USABLE for column in party.columns) for party in federation.parties)
    return held >= 50 and usable and len({label for _, label in rows} - {None}) >= 2


def needs_rules(federation: MessyFederation) -> bool:
    """Whether rows of one id differ, so that a party file should say what to do about them."""
    return federation.kind == "vertical" and any(party.duplicates == "other" for party in federation.parties)


def read(tour: Tour) -> None:
    """Read the files and the frames, and compare every cell with what was written."""
    federation = tour.federation
    tour.step("read files", lambda: compare_reading(_from_files(tour), federation.truth))
    tour.step("read frames", lambda: compare_reading(frames_of(federation), federation.truth))


def run(tour: Tour) -> None:
    """Run the method on the frames or on the files, show what it gave away, and attack it."""
    if tour.federation.framed:
        tour.step(
            f"simulate {tour.method.__name__}", lambda: simulate(_for_few_rows(tour.method), frames_of(tour.federation))
        )
        return
    saved = tour.folder / "result.json"
    if tour.laconic("run", tour.method.__name__, *_data(tour), *_quick(tour.method), "--save", saved) is None:
        return
    tour.laconic("report", saved, "-o", tour.folder / "page.html")
    for name in tour.paths:
        tour.laconic("disclose", saved, "--party", name, "-o", tour.folder / "left.html")
    if tour.federation.kind == "vertical":
        tour.laconic("audit", saved, "--known", 10)


def compare(tour: Tour) -> None:
    """Compare the method with the yardsticks, and run it from a plan."""
    with chdir(tour.folder):
        quick = _quick(tour.method)
        tour.laconic("compare", tour.method.__name__, *_data(tour), *quick, "--seeds", 1, "--report", "page.html")
        text = tour.laconic("plan", tour.method.__name__, *_data(tour), *quick)
        if text is not None:
            Path("plan.toml").write_text(text, encoding="utf-8")
            tour.laconic("run", "plan.toml", "--json")


def after(tour: Tour) -> None:
    """Save a model, predict new rows, serve it, add the rows, let a party go, and predict again."""
    model = tour.folder / "model"
    if tour.laconic("run", tour.method.__name__, *_data(tour), *_quick(tour.method), "--model", model) is None:
        return
    tour.step("read new rows", lambda: _compare_new(tour, model))
    # With the same columns everywhere, one file of any party will do.
    new = [*tour.new.values()][: 1 if tour.federation.kind == "horizontal" else None]
    tour.laconic("predict", model, "--files", *new, "--out", tour.folder / "scores.csv")
    tour.step(f"serve {tour.method.__name__}", lambda: _serve(model))
    if tour.federation.kind == "horizontal":
        return
    gone = tour.federation.parties[-1].name
    there = [path for name, path in tour.new.items() if name != gone]
    # A model that learnt from shared rows alone refuses "gaps", which would not count as a result.
    ways = [one for one in WAYS if one != "gaps"]
    way = ways[tour.federation.seed % len(ways)]
    tour.laconic("predict", model, "--files", *there, "--absent", way, as_step="absent")
    tour.laconic("predict", model, "--without", gone, "--absent", way, as_step="stored")
    tour.laconic("add", model, "--files", *tour.new.values())
    if tour.laconic("forget", gone, model, "--accept") is not None:
        tour.laconic("predict", model, "--files", *there, "--out", tour.folder / "after.csv")


def mail(tour: Tour) -> None:
    """Examine the party files, and train by envelopes; horizontal federations have no party files yet."""
    if tour.federation.kind == "horizontal":
        return after(tour)
    files = _party_files(tour)
    tour.laconic("doctor", *files.values(), code=(0, 1))
    if tour.method.__name__ not in _BY_MAIL:
        return None
    _share_keys(files)
    plan = [tour.method.__name__, "--files", *(f"{name}.toml" for name in files), *_quick(tour.method)]
    text = tour.laconic("plan", *plan, "--set", "data.match.type=AgreedIds")
    if text is not None:
        (tour.folder / "plan.toml").write_text(text, encoding="utf-8")
        _by_mail(tour, files)
    return None


CHAINS: dict[str, Callable[[Tour], None]] = {"run": run, "after": after, "mail": mail, "compare": compare}

VERBS = {
    "run": ("run", "report", "disclose", "audit"),
    "after": ("run", "read", "predict", "serve", "add", "forget"),
    "mail": ("doctor", "plan", "seal", "open", "host"),
    "compare": ("compare", "plan", "run"),
}
"""What a vertical federation goes through in each chain, with a method that keeps answers and can go by mail."""


def _from_files(tour: Tour) -> Federation:
    federation = tour.federation
    if federation.kind == "horizontal":
        return rows_from_files(tour.paths, label=federation.label, id=federation.id, public=tour.public)
    if needs_rules(federation):
        return from_party_files([*_party_files(tour).values()])
    return from_files(tour.paths, id=federation.id or "", label=federation.label)


def frames_of(federation: MessyFederation) -> Federation:
    """The federation read from frames."""
    if federation.kind == "vertical":
        return from_frames(federation.frames(), id=federation.id or "", label=federation.label)
    shown = federation.truth.public
    public = None if shown is None else frame_of(federation, federation.parties[0], shown)
    return rows_from_frames(federation.frames(), id=federation.id, label=federation.label, public=public)


def _data(tour: Tour) -> list[object]:
    """The options that name files, id and label."""
    federation = tour.federation
    if needs_rules(federation):
        return ["--files", *_party_files(tour).values()]
    words: list[object] = ["--files", *tour.paths.values(), "--label", federation.label]
    words += [] if federation.id is None else ["--id", federation.id]
    return words + ([] if tour.public is None else ["--public", tour.public])


def _for_few_rows(method: type[Method]) -> Method:
    return method(**({"least_rows": 1} if "least_rows" in method.__struct_fields__ else {}))


def _quick(method: type[Method]) -> list[str]:
    """Settings with which the method trains a short while."""
    fields = {field.name for field in msgspec.structs.fields(method)}
    return [word for one in _SHORT if one.split(".")[0].split("=")[0] in fields for word in ("--set", f"method.{one}")]


def _party_files(tour: Tour) -> dict[str, Path]:
    files = {}
    for name, path in tour.paths.items():
        home = tour.folder / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        lines = [f"name = {_quoted(name)}", 'seed = "plan"', "[data]", f"source = {_quoted(str(path))}"]
        lines += [f"key = {_quoted(tour.federation.id or '')}", 'on_duplicate = "first"']
        lines += [f"label = {_quoted(tour.federation.label)}"] if name == tour.federation.hub else []
        lines += ["[allow]", f'methods = ["{tour.method.__name__}", "AgreedIds", "ExactMatch"]']
        files[name] = home / f"{name}.toml"
        files[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return files


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # JSON's strings are TOML's too


def _share_keys(files: dict[str, Path]) -> None:
    """Keys for everybody, beside the party files, and everybody trusts everybody."""
    from laconic.deploy import make_key, save_key, trust

    made = {name: make_key(name) for name in files}
    rings = {name: path.parent / "keys" for name, path in files.items()}
    for name, key in made.items():
        save_key(key, rings[name])
    for name, ring in rings.items():
        for other, key in made.items():
            if other != name:
                trust(ring, rings[other] / f"{other}.public", key.public.fingerprint)


def _by_mail(tour: Tour, files: dict[str, Path]) -> None:
    from laconic.deploy.transports.envelopes.mailbox import QUESTIONS, posted

    inbox = tour.folder / "inbox"
    inbox.mkdir()
    agreed = tour.folder / "ids.txt"
    agreed.write_text("\n".join(tour.federation.truth.shared) + "\n", encoding="utf-8")
    plan, hub = tour.folder / "plan.toml", tour.federation.hub

    def at(name: str) -> list[object]:
        return ["--party", files[name], "--ids", agreed]

    for name in files:
        if name != hub and tour.laconic("seal", plan, *at(name), "-o", inbox / f"{name}-0.envelope") is None:
            return
    tour.laconic("open", plan, inbox, *at(hub))
    answered: set[Path] = set()
    for turn in range(1, _TURNS):
        saved = tour.folder / "mailed.json"
        if tour.laconic("host", plan, "--envelopes", inbox, *at(hub), "--save", saved, code=(0, WAITING)) is None:
            return
        if saved.exists():
            return
        asked = [(name, path) for name in files for path in posted(inbox / QUESTIONS, name) if path not in answered]
        for name, question in asked:
            answered.add(question)
            out = inbox / f"{name}-{turn}.envelope"
            if tour.laconic("answer", plan, question, *at(name), "-o", out) is None:
                return
    tour.step("host in time", lambda: _never_done(hub))


def _never_done(hub: str) -> None:
    raise TimeoutError(f"{hub} still asked after {_TURNS} turns")


def _compare_new(tour: Tour, model: Path) -> None:
    from laconic.cli.models import files_by_party, read_new_files
    from laconic.inference import parts_of

    parts = parts_of(model)
    named = files_by_party(tuple(map(str, tour.new.values())), list(parts))
    compare_new_rows(read_new_files(parts, named), tour.federation.new_truth)


def _serve(model: Path) -> None:
    from starlette.testclient import TestClient

    from laconic import load_model
    from laconic.inference import Access, Limits, Refit, make_app, read_tokens
    from laconic.inference.server.app import Answering

    token = "a token that is long enough"  # noqa: S105
    loaded = load_model(model)
    app = make_app(Answering(loaded), absent=Refit(), access=Access(tokens=read_tokens(token)), limits=Limits())
    ids = [] if loaded.part.store is None else loaded.part.store.own.keys.tolist()[:5]
    client = TestClient(app, headers={"Authorization": f"Bearer {token}"})
    answer = client.post("/predict", json={"ids": [*ids, "nobody"]})
    if answer.status_code != 200:
        raise RuntimeError(f"serving ended with {answer.status_code}: {answer.text[:300]}")
    known = [one["prediction"] for one in answer.json()["scores"]][:-1]
    if len(known) != len(ids) or None in known:
        raise RuntimeError(f"serving did not predict people it knows: {known}")

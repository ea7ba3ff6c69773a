"""Random acts of a hub on one to three processes of a party, and a count of what it got by them.

What left is counted here by itself: how many different noisy numbers about each person reached the hub. In most
sequences processes are objects that share nothing but the disk, and a crash drops one of them at a random write; in
some they are real processes, which SIGKILL ends.
"""

import copy
import dataclasses
import os
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Condition, Thread, get_ident
from typing import Any

import numpy as np
import pytest

from laconic.core import Ledger, Question, decode, encode
from laconic.deploy import PartyFolder, make_key, party_files, save_key, seal_plan, trust
from laconic.deploy.party_account import Limit
from laconic.deploy.party_context import open_context
from laconic.deploy.responder import open_kept
from laconic.deploy.session import read_rows
from laconic.deploy.store import Store, copy_kept
from laconic.errors import LaconicError
from laconic.inference.bundle import load_part, save_part
from laconic.inference.predict import cut_name
from laconic.inference.server.party import Answerer
from laconic.plan import read_plan
from laconic.privacy import compose, epsilon_of
from tests.attacks import harness
from tests.attacks.harness import DELTA, FORK, HUB, LIMITED, NOISY_ROWS, Hub, Trial, make_model, people

PEOPLE, SIGMA = 20, 4.0
LENGTH = 10
"""How many acts a sequence has."""
REAL = 20
"""One in so many sequences has real processes."""
CUTS = ("train", "valid", "test", "own", "shared", "train+test")
ACTS = {
    "greet": 3, "cut": 6, "learn": 3, "represent": 6, "restart": 2, "crash": 4, "together": 4, "lose": 2, "put back": 4,
    "anew": 1, "seal": 2, "serve": 3,
}  # fmt: skip
"""What may happen, and how often beside the others."""
ALIKE = 1e-6
"""By which part two ways to work out the same epsilon may differ."""


@cache
def loss(times: int) -> float:
    """What so many releases about a person cost."""
    return epsilon_of(compose([1 / SIGMA] * times), DELTA) if times else 0.0


class Crashed(BaseException):
    """A process has ended amid its work; nothing in it can catch this."""


class Process:
    """One process of the party: what it has in memory, and a hub's channels to it in every run."""

    def __init__(self, trial: Trial, rounds: dict[str, dict[str, int]]) -> None:
        self.trial = copy.copy(trial)
        self.trial.desks = {"shop": trial.desk("shop")}
        self.answerer: Answerer | None = None
        self.hubs = {run: Hub(self.trial, "shop", run) for run in rounds}
        for run, hub in self.hubs.items():
            hub.rounds = rounds[run]

    def end(self) -> None:
        """Let its threads go."""
        self.trial.desks["shop"]._worker.shutdown(wait=True)


class Sequence:
    """A party with a limit on epsilon, and what a hub does to it; of several runs, some have the same name again."""

    def __init__(self, folder: Path, seed: int, *, real: bool) -> None:
        self.rng, self.real, self.root = np.random.default_rng([seed, 25]), real, folder
        # Some acts never happen in a sequence: with all of them, what one hides another would pay for.
        weights = np.array(list(ACTS.values())) * (self.rng.random(len(ACTS)) < 0.4)
        weights[list(ACTS).index("represent")] += 1
        self.chances = weights / weights.sum()
        crowded = bool(weights[list(ACTS).index("together")]) and seed % 3 > 0
        tight, runs = (0.8, [0, 0.2, 0.8]) if crowded else (0.2, [0.6, 0.3, 0.1])
        self.limit = 1.05 * loss(int(self.rng.integers(1, 12))) if self.rng.random() < tight else 100.0
        self.allow = f"{LIMITED}max_epsilon = {self.limit}\n"
        self.trial = _copy_trial(folder, self.allow)
        # A run more charges everybody for all cuts of all runs, which may hide what went wrong in one of them.
        names = ("one", "two", "three")[: int(self.rng.choice([1, 2, 3], p=runs))]
        self.rounds = {run: dict.fromkeys(("align", "fit", "look", "final"), 0) for run in names}
        self.processes = [Process(self.trial, self.rounds) for _ in range(1 + seed % 3)]
        self.asked: dict[str, tuple[bytes, Any]] = {}
        self.got: dict[str, set[bytes]] = defaultdict(set)
        self.copies: set[str] = set()
        self.done: list[str] = []
        self.usual = str(self.rng.choice(CUTS[:3])) if self.rng.random() < 0.5 else ""
        self.at = self.processes[0]
        self.cut("one")
        self.put_back("one")
        self.learn("one")

    def act(self) -> None:
        """One random act, at one of the processes and in one of the runs."""
        act = str(self.rng.choice(list(ACTS), p=self.chances))
        self.done.append(act)
        self.at = self.processes[int(self.rng.integers(len(self.processes)))]
        self._do(act, str(self.rng.choice(list(self.rounds))))

    def _do(self, act: str, run: str) -> None:
        getattr(self, act.replace(" ", "_"))(run)

    def end(self) -> None:
        for process in self.processes:
            process.end()

    @property
    def left(self) -> float:
        """The loss of the person of whom the hub has most."""
        return loss(max(map(len, self.got.values()), default=0))

    # What a hub does.

    def greet(self, run: str) -> None:
        self.at.hubs[run].greet()

    def cut(self, run: str) -> None:
        """Have rows matched, with ids shown or not."""
        shared, seed = int(self.rng.integers(10, PEOPLE + 1)), int(self.rng.integers(100))
        self.greet(run)
        if self.rng.random() < 0.9:
            self.ask(run, None, "show_ids", "align")
        self.ask(run, None, "keep_rows", "align", shared=np.arange(shared), some=np.arange(0), seed=seed)

    def learn(self, run: str) -> None:
        self.ask(run, "all", "learn_and_send", "fit")

    def represent(self, run: str) -> None:
        self.ask(run, *self.question())

    def question(self) -> tuple[str, str, str]:
        """The rows of the cut that this sequence asks for most, or of any."""
        usual = self.usual and self.rng.random() < 0.7
        return self.usual if usual else str(self.rng.choice(CUTS)), "represent", "final"

    def ask(self, run: str, cuts: str | None, step: str, phase: str, **payload: Any) -> None:
        """Ask a question; `cuts` are those that its answer is about."""
        if step == "represent":
            payload["rows"] = cuts
        self.asked[run] = self.at.hubs[run].unsigned_question(step, phase, **payload), cuts
        self.ask_again(run)

    def ask_again(self, run: str) -> None:
        plain, cuts = self.asked[run]
        self.note(run, cuts, self.at.hubs[run].say(plain))

    def note(self, run: str, cuts: str | None, said: dict[str, Any]) -> None:
        """Count what an answer says about each person."""
        if said["type"] != "Answer" or cuts is None:
            return
        kept = PartyFolder(self.site / "runs" / run / "memory")
        table = kept.load().data
        answer = decode(said["data"])
        for rows, numbers in answer.items() if cuts == "all" else [(cuts, answer)]:
            places = np.concatenate([table.cut(one) for one in rows.split("+")])
            self.count(table.keys[places].tolist(), numbers)
        kept._store.close()

    def count(self, ids: list[str], numbers: Any) -> None:
        for person, one in zip(ids, numbers, strict=True):
            self.got[person].add(one.tobytes())

    def together(self, run: str) -> None:
        """All processes are asked at the same moment, in different runs if there are as many."""
        names = list(self.rounds)[::-1]  # The last ones first, which may not have begun.
        runs = [names[number % len(names)] for number in range(len(self.processes))]
        step = self.question() if self.rng.random() < 0.3 else ("all", "learn_and_send", "fit")
        for process, one in zip(self.processes, runs, strict=True):
            self.at = process
            self.cut(one)
        asked = []
        for process, one in zip(self.processes, runs, strict=True):
            payload = {"rows": step[0]} if step[1] == "represent" else {}
            asked.append((process.hubs[one], process.hubs[one].unsigned_question(*step[1:], **payload)))
        said = _in_processes(asked) if self.real else _in_threads(asked)
        for one, reply in zip(runs, said, strict=True):
            self.note(one, step[0], reply)

    # What happens to a party.

    def restart(self, run: str) -> None:
        number = self.processes.index(self.at)
        self.at.end()
        self.at = self.processes[number] = Process(self.trial, self.rounds)

    def restart_all(self) -> None:
        self.end()
        self.processes = [Process(self.trial, self.rounds) for _ in self.processes]
        self.at = self.processes[0]

    def crash(self, run: str) -> None:
        """A process ends amid an act, at a random write; then the hub may ask the same again."""
        act = str(self.rng.choice(["represent", "learn", "cut", "greet", "serve", "seal"], p=[0.4, 0.2, *[0.1] * 4]))
        self.done[-1] += f" in {act}"
        if self.real:
            self._kill(run)
        else:
            with suppress(Crashed), _ending_at(int(self.rng.integers(14)), _raise):
                self._do(act, run)
            self.restart(run)
        if run in self.asked and self.rng.random() < 0.8:
            self.greet(run)
            self.ask_again(run)

    def _kill(self, run: str) -> None:
        """The same for a real process: it ends at a random write, or a random time."""
        cuts, step, phase = self.question()
        hub = self.at.hubs[run]
        plain = hub.unsigned_question(step, phase, rows=cuts)
        self.asked[run] = plain, cuts
        here, there = FORK.Pipe(duplex=False)
        write, delay = int(self.rng.integers(14)), float(self.rng.uniform(0, 0.03))
        timed = bool(self.rng.random() < 0.5)

        def answer() -> None:
            hub.trial.restart("shop")
            with _ending_at(999 if timed else write, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                hub.greet()
                there.send(hub.say(plain))

        child = FORK.Process(target=answer)
        child.start()
        if timed:
            time.sleep(delay)
            child.kill()
        child.join()
        there.close()
        with suppress(EOFError):
            self.note(run, cuts, here.recv())
        self.restart(run)

    def lose(self, run: str) -> None:
        """The folder of a run is deleted, and its name used again."""
        self.end()
        shutil.rmtree(self.site / "runs" / run, ignore_errors=True)
        self.restart_all()

    def put_back(self, run: str) -> None:
        """A run's folder, or a model's, is copied, or replaced by a copy from before."""
        at = self.site / "runs" / run
        if self.rng.random() < 0.3 and self.model.exists():
            at, run = self.model, "model"
        before = self.root / f"copy of {run}"
        if run in self.copies:
            self.end()
            shutil.rmtree(at, ignore_errors=True)
            shutil.copytree(before, at)
            self.restart_all()
        elif at.exists():
            copy_kept(at, before)
            self.copies.add(run)

    def anew(self, run: str) -> None:
        """Certificates have expired: the site is made anew, and rows and keys, which are the party's own, stay."""
        self.end()
        kept = self.site.rename(self.root / f"old {len(self.done)}")
        self.trial.make_site("shop", self.allow)
        shutil.copytree(kept / "keys", self.site / "keys", dirs_exist_ok=True)
        shutil.copy(kept / "rows.csv", self.site / "rows.csv")
        self.restart_all()

    def seal(self, run: str) -> None:
        """The party answers a plan by envelope; one of few plans, which may be sealed a second time."""
        plan, number = self.root / "mail.toml", int(self.rng.integers(3))
        out = self.root / f"{len(self.done)}-{time.monotonic_ns()}.envelope"
        plan.write_text(self.trial.plan.replace("ExactMatch", "AgreedIds").replace("seed = 3", f"seed = {number}"))
        context = open_context(plan, self.site / "party.toml", self.root / "mail keys")
        with suppress(LaconicError):
            sealed = seal_plan(context, out)
            kept = open_kept(context.folder)
            table = kept.load().data
            for blob in sealed.content.blobs:
                numbers = decode(kept.reply(blob.question))
                if blob.step in ("learn_and_send", "represent"):
                    for rows, block in numbers.items() if isinstance(numbers, dict) else [("test", numbers)]:
                        self.count(table.keys[table.cut(rows)].tolist(), block)
            kept._store.close()

    def serve(self, run: str) -> None:
        """A model in use is asked about some people, by the same rules and account."""
        if not self.model.exists():
            shutil.copytree(_model() / "model" / "shop", self.model)
        ids = self.rng.choice(people(PEOPLE), size=5, replace=False).tolist()
        with suppress(LaconicError):
            if self.at.answerer is None:
                file = self.trial.desk("shop").site.party_file
                part = load_part(self.model)
                rows = read_rows(read_plan(self.trial.plan), "shop", file, part.about.recipe)
                self.at.answerer = Answerer(part, rows, file)
            for step, more in (("find_rows", {"ids": ids}), ("represent", {}), ("represent", {})):
                asked = Question(step, "final", 1, {"rows": cut_name(ids), **more})
                answer = decode(self.at.answerer.answer(encode(asked), "somebody"))
                if step == "represent":
                    self.count(ids, answer)

    @property
    def site(self) -> Path:
        return self.trial.site("shop")

    @property
    def model(self) -> Path:
        return self.root / "model"


def _raise() -> None:
    raise Crashed


@contextmanager
def _ending_at(write: int, end: Any) -> Any:
    """A process that ends when it has begun, made or finished so many writes of the store."""
    seen, put, writing = [0], Store.put, Store.writing

    def tick() -> None:
        seen[0] += 1
        if seen[0] > write:
            end()

    def counted_put(store: Store, *given: Any, **more: Any) -> Any:
        tick()
        return put(store, *given, **more)

    @contextmanager
    def counted_writing(store: Store) -> Any:
        tick()
        with writing(store):
            yield
            tick()
        tick()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "put", counted_put)
        patch.setattr(Store, "writing", counted_writing)
        yield


class Meeting:
    """Processes that, once they have looked at the limit, wait until all others have, or cannot before they go on."""

    def __init__(self, processes: int) -> None:
        self.processes, self.changed = processes, Condition()
        self.arrived: set[int] = set()
        self.blocked: set[int] = set()
        self.ended = 0

    @contextmanager
    def held(self) -> Any:
        refuse, wait = Limit.refuse, Store._wait

        def arrive(limit: Limit, total: float) -> None:
            refuse(limit, total)
            with self.changed:
                if get_ident() not in self.arrived:
                    self.arrived.add(get_ident())
                    self.changed.notify_all()
                    self.changed.wait_for(self._all_here, timeout=0.5)

        def queue(store: Store, connection: Any, statement: str) -> None:
            if store.path.stem == "spent" and statement.startswith("BEGIN"):
                with self.changed:
                    self.blocked.add(get_ident())
                    self.changed.notify_all()
            wait(store, connection, statement)
            self.blocked.discard(get_ident())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Limit, "refuse", arrive)
            patch.setattr(Store, "_wait", queue)
            yield

    def _all_here(self) -> bool:
        return len(self.arrived | self.blocked) + self.ended >= self.processes

    def end(self) -> None:
        """A process has answered, or refused to."""
        with self.changed:
            self.ended += 1
            self.changed.notify_all()


def _in_threads(asked: list[tuple[Hub, bytes]]) -> list[dict[str, Any]]:
    """What each process says to its question, all asked at once."""
    meeting, said = Meeting(len(asked)), [{"type": "none"} for _ in asked]

    def ask(number: int, hub: Hub, plain: bytes) -> None:
        said[number] = hub.say(plain)
        meeting.end()

    threads = [Thread(target=ask, args=(number, *one)) for number, one in enumerate(asked)]
    with meeting.held():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return said


def _in_processes(asked: list[tuple[Hub, bytes]]) -> list[dict[str, Any]]:
    """The same with real processes."""
    gate, said = FORK.Barrier(len(asked)), FORK.SimpleQueue()

    def ask(number: int, hub: Hub, plain: bytes) -> None:
        reply = {"type": "none"}
        try:
            hub.trial.restart("shop")
            gate.wait(60)
            hub.greet()
            reply = hub.say(plain)
        finally:
            said.put((number, reply))

    running = [FORK.Process(target=ask, args=(number, *one)) for number, one in enumerate(asked)]
    for process in running:
        process.start()
    found = dict(said.get() for _ in running)
    for process in running:
        process.join()
    return [found[number] for number in range(len(asked))]


_made: dict[str, tempfile.TemporaryDirectory[str]] = {}
"""What all sequences of this process begin with."""


def _folder(name: str) -> tuple[Path, bool]:
    """A folder for the life of this process, and whether it is new."""
    new = name not in _made
    if new:
        _made[name] = tempfile.TemporaryDirectory(prefix="laconic-")
    return Path(_made[name].name), new


def _copy_trial(root: Path, allow: str) -> Trial:
    """A trial in a folder, with keys and rows that were made once."""
    folder, new = _folder("trial")
    if new:
        _made_trial[0] = Trial(folder / "trial", method=NOISY_ROWS, rows=PEOPLE, allow=allow)
        keys = {name: make_key(name) for name in (HUB, "shop")}
        save_key(keys["shop"], folder / "trial" / "mail keys")
        save_key(keys[HUB], folder / "bank keys")
        trust(folder / "trial" / "mail keys", folder / "bank keys" / f"{HUB}.public", keys[HUB].public.fingerprint)
    shutil.copytree(folder / "trial", root)
    trial = copy.copy(_made_trial[0])
    trial.root = root
    trial.write_party("shop", allow)
    return trial


_made_trial: list[Trial] = [None]  # type: ignore[list-item]


def _model() -> Path:
    """A model of the same people in `model/shop`, of whose training nobody knows."""
    folder, new = _folder("model")
    if new:
        settings = ("encoder.type=PublicProjection", "encoder.dim=2", "noise.type=ClippedGaussian")
        settings += (f"noise.sigma={SIGMA}", "trainer.epochs=1")
        make_model(folder, "FedOnce", *(word for one in settings for word in ("--set", f"method.{one}")), rows=PEOPLE)
        part = load_part(folder / "model" / "shop")
        shutil.rmtree(folder / "model" / "shop")
        save_part(folder / "model", dataclasses.replace(part, ledger=Ledger(), path=None))
    return folder


@contextmanager
def _reading_once() -> Any:
    """Settings are read again when their text has changed, and not each time: that took a third of the time."""

    @cache
    def read_text(read: Any, text: str, *path: Path) -> Any:
        return read(*path) if path else read(text)

    def of_file(read: Any) -> Any:
        return lambda path: read_text(read, path.read_text(), path)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("read_party", "read_consortium"):
            patch.setattr(party_files, name, of_file(getattr(party_files, name)))
        for module in (party_files, harness):
            patch.setattr(module, "read_plan", lambda text: read_text(read_plan, text))
        yield


def is_real(seed: int) -> bool:
    """Whether a sequence has real processes."""
    return seed % REAL == REAL - 1


def run_sequence(folder: Path, seed: int) -> str:
    """What is wrong after any act of a sequence; empty if the account never falls, and is not below what left."""
    with _reading_once():
        return _run_sequence(folder, seed)


def _run_sequence(folder: Path, seed: int) -> str:
    sequence = Sequence(folder / str(seed), seed, real=is_real(seed))
    try:
        before = 0.0
        for _ in range(LENGTH):
            sequence.act()
            spent = sequence.trial.spent()
            least = max(sequence.left, before) * (1 - ALIKE)
            if not least <= spent <= sequence.limit * (1 + ALIKE):
                said = f"{sequence.left:.3g} left, the account said {before:.3g} and says {spent:.3g}"
                return f"{said}, its limit is {sequence.limit:.3g}: {', '.join(sequence.done)}"
            before = spent
    finally:
        sequence.end()
    return ""

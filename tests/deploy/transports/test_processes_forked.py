"""Forked workers give what one process gives."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from laconic import FedKt, Scaffold, SplitNN, VimAdmm
from laconic.core import Party, Script, step
from laconic.deploy.execute import simulate
from laconic.deploy.transports import InProcess, processes, suited
from laconic.deploy.transports.processes import Forked
from laconic.errors import StepError
from laconic.learn import Logistic, Sgd
from laconic.tables import Column, Table
from laconic.testing import open_peers, small_federation, small_horizontal


@pytest.mark.parametrize(
    ("method", "federation"),
    [
        (FedKt(model=Logistic()), small_horizontal("binary")),
        (Scaffold(exchanges=2, trainer=Sgd(epochs=1, optimizer="sgd", lr=0.1)), small_horizontal("multiclass")),
        (SplitNN(trainer=Sgd(epochs=1)), small_federation("binary")),
        (VimAdmm(epochs=2, batch=16, local_steps=3), small_federation("multiclass")),
    ],
    ids=["one exchange", "memory between exchanges", "vertical", "vertical with memory"],
)
def test_numbers_bytes_and_ledgers_are_those_of_one_process(method, federation):
    alone, forked = simulate(method, federation), simulate(method, federation, runtime=Forked(workers=2))
    assert forked.predictions == alone.predictions
    assert forked.fit.bytes == alone.fit.bytes
    assert forked.releases == alone.releases


def test_an_error_in_a_worker_names_the_party():
    federation = small_horizontal("binary")
    del federation.tables["party2"].cuts["train"]
    with pytest.raises(StepError, match="party2"):
        simulate(FedKt(model=Logistic()), federation, runtime=Forked())


class Slow(Script, frozen=True):
    """A question that one party takes long to answer, or never."""

    seconds: float
    ends: bool = False
    note: str = os.devnull

    @step(takes=None, gives="its name")
    def name(self, party: Party) -> str:
        if party.name == "party2":
            if self.ends:
                os._exit(1)
            Path(self.note).write_text(str(os.getpid()))
            time.sleep(self.seconds)
        return party.name


def ask(script, workers, deadline=None):
    parties = tuple(Party(name, table, 0) for name, table in small_horizontal("binary").tables.items())
    with open_peers(script, parties[0], parties[1:], Forked(workers=workers)) as peers:
        return tuple((peers if deadline is None else peers.within(deadline)).tolerant.ask(script.name))


def test_a_party_that_misses_the_deadline_is_absent_and_its_worker_is_gone(tmp_path):
    note = tmp_path / "worker"
    assert ask(Slow(seconds=600, note=str(note)), workers=3, deadline=2.0) == ("party1", "party3")
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
    assert ask(Slow(seconds=0), workers=2, deadline=60.0) == ("party1", "party2", "party3")


def test_a_worker_that_dies_is_an_error_and_not_a_wait():
    with pytest.raises(StepError, match="ended before it had answered"):
        ask(Slow(seconds=0, ends=True), workers=2)


def test_no_workers_are_refused():
    with pytest.raises(ValueError, match="1 or more"):
        Forked(workers=0)


class Telling(Script, frozen=True):
    """Questions about the worker itself."""

    again: bool = False

    @step(takes=None, gives="the process it is in, how often it was asked, and what it drew in secret")
    def tell(self, party: Party) -> list[object]:
        party.memory["asked"] = party.memory.get("asked", 0) + 1
        return [os.getpid(), party.memory["asked"], party.secret_bytes(8)]

    @step(takes=None, gives="nothing in time, at one party")
    def linger(self, party: Party) -> None:
        party.memory["asked"] = 100
        if party.name == "party2":
            time.sleep(600)

    @step(takes=None, gives="its name, except from one party")
    def fail(self, party: Party) -> str:
        if party.name == "party1":
            raise ValueError("not today")
        return party.name

    @step(takes=None, gives="nothing: it is interrupted")
    def stop(self, party: Party) -> None:
        raise KeyboardInterrupt


@contextmanager
def telling(workers=2):
    parties = tuple(Party(name, table, 0) for name, table in small_horizontal("binary").tables.items())
    with open_peers(Telling(), parties[0], parties[1:], Forked(workers=workers)) as peers:
        yield parties[1:], peers


def test_workers_stay_from_question_to_question_and_memory_comes_back_in_the_end():
    with telling() as (parties, peers):
        first, second = peers.ask(Telling().tell), peers.ask(Telling().tell)
        assert [one[0] for one in first.values()] == [one[0] for one in second.values()]
        assert len({one[0] for one in first.values()}) == 2
    assert [party.memory["asked"] for party in parties] == [2, 2, 2]


def test_another_script_finds_what_the_one_before_remembered_and_draws_other_secrets():
    with telling() as (_, peers):
        first = peers.ask(Telling().tell)
        second = peers.speaking(Telling(again=True)).ask(Telling(again=True).tell)
    assert [one[1] for one in second.values()] == [2, 2, 2]
    assert all(first[name][2] != second[name][2] for name in first)


def test_after_a_failed_step_the_next_question_gets_its_own_answers():
    with telling() as (_, peers):
        with pytest.raises(StepError, match="party1: ValueError: not today"):
            peers.ask(Telling().fail)
        assert [one[1] for one in peers.ask(Telling().tell).values()] == [1, 1, 1]


def test_answers_that_nobody_waited_for_are_not_taken_for_others():
    with telling() as (parties, peers):
        asked = {name: {} for name in peers.names}
        assert next(iter(peers.as_ready(Telling().tell, asked)))[0] == "party1"
        assert [one[1] for one in peers.ask(Telling().tell).values()] == [2, 2, 2]
    assert [party.memory["asked"] for party in parties] == [2, 2, 2]


def test_answers_come_in_the_order_of_the_questions_whoever_is_quickest():
    assert ask(Slow(seconds=0.3), workers=3) == ("party1", "party2", "party3")


def test_a_party_that_is_late_remembers_what_it_knew_before_the_question():
    with telling(workers=3) as (parties, peers):
        peers.ask(Telling().tell)
        assert tuple(peers.tolerant.within(1.0).ask(Telling().linger)) == ("party1", "party3")
        assert [one[1] for one in peers.ask(Telling().tell).values()] == [101, 2, 101]
    assert [party.memory["asked"] for party in parties] == [101, 2, 101]


def test_an_interrupted_worker_leaves_the_callers_lines_to_the_caller(tmp_path):
    note = tmp_path / "note"
    try:
        with pytest.raises(StepError, match="ended before it had answered"), telling() as (_, peers):
            peers.ask(Telling().stop)
    finally:
        with note.open("a") as file:
            file.write("ended\n")
    assert note.read_text() == "ended\n"


def test_workers_answer_though_threads_were_just_ending_when_they_were_forked():
    """Such a thread holds locks of Intel's memory for a moment, and a process forked then waits for them for ever."""
    rows, weights = torch.ones(16, 30), torch.ones(30, 64)
    for _ in range(10):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: rows @ weights, range(8)))
        assert ask(Slow(seconds=0), workers=2) == ("party1", "party2", "party3")


def parties_with(count, rows):
    tables = [Table(np.arange(rows, dtype=float)[:, None], [Column("age")]) for _ in range(count)]
    return tuple(Party(f"party{number}", table, 0) for number, table in enumerate(tables))


def test_many_parties_that_train_for_long_get_a_worker_per_core_unless_something_is_said(monkeypatch):
    monkeypatch.setattr("laconic.deploy.transports.inprocess.cores", lambda: 2)
    many, few, small = parties_with(8, 12_500), parties_with(7, 50_000), parties_with(50, 20)
    assert suited(InProcess(), FedKt(), many) == Forked(workers=2)
    assert suited(InProcess(workers=1), FedKt(), many) == InProcess(workers=1)
    kept = [
        suited(InProcess(), FedKt(), few),
        suited(InProcess(), FedKt(), small),
        suited(InProcess(), VimAdmm(), many),
    ]
    monkeypatch.setattr("laconic.deploy.transports.inprocess.cores", lambda: 1)
    assert [*kept, suited(InProcess(), FedKt(), many)] == [InProcess()] * 4


def test_a_worker_that_inherits_a_held_lock_is_replaced(monkeypatch, tmp_path):
    def waits_once():
        if not (tmp_path / "waited").exists():
            (tmp_path / "waited").write_text("")
            time.sleep(600)

    monkeypatch.setattr(processes, "_multiply", waits_once)
    monkeypatch.setattr(processes, "_PATIENCE", (1.0, 60.0))
    assert ask(Slow(seconds=0), workers=2) == ("party1", "party2", "party3")
    monkeypatch.setattr(processes, "_multiply", lambda: time.sleep(600))
    monkeypatch.setattr(processes, "_PATIENCE", (0.1, 0.1))
    with pytest.raises(StepError, match=r"runtime.workers=1"):
        ask(Slow(seconds=0), workers=2)

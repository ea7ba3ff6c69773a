import os
import subprocess
import sys
import time

import numpy as np
import pytest

from laconic import Linear
from laconic.core import Party, Script, step
from laconic.deploy.execute import simulate
from laconic.deploy.transports.processes import Processes, open_processes
from laconic.errors import PartyAbsent, StepError
from laconic.tables import Column, Table
from laconic.testing import open_peers, small_federation

COUNTED = {"calls": 0}


class Probe(Script, frozen=True):
    @step(takes=None, gives="its process")
    def where(self, party: Party) -> list[int]:
        return [os.getpid(), os.getppid()]

    @step(takes=None, gives="how often it was asked")
    def count(self, party: Party) -> list[int]:
        COUNTED["calls"] += 1
        party.memory["calls"] = party.memory.get("calls", 0) + 1
        return [COUNTED["calls"], party.memory["calls"]]

    @step(takes=None, gives="nothing it lives to tell")
    def fail(self, party: Party) -> int:
        raise RuntimeError("the disk is full")

    @step(takes=None, gives="nothing it lives to tell")
    def die(self, party: Party) -> int:
        os._exit(3)

    @step(takes=None, gives="its name, late")
    def sleep(self, party: Party, who: str) -> str:
        party.memory["slept"] = True
        if party.name == who:
            time.sleep(30)
        return party.name

    @step(takes=None, gives="whether it slept")
    def has_slept(self, party: Party) -> bool:
        return "slept" in party.memory


def federation() -> tuple[Party, tuple[Party, ...]]:
    table = Table(np.arange(3.0)[:, None], (Column(name="a", kind="numeric"),))
    return Party("bank", table, 0), tuple(Party(name, table, 0) for name in ("shop", "insurer"))


@pytest.fixture(scope="module")
def peers():
    hub, parties = federation()
    with open_peers(Probe(), hub, parties, Processes()) as peers:
        yield peers


def test_every_party_has_a_process_of_its_own_and_every_question_a_fresh_one(peers):
    first, second = peers.ask(Probe().where), peers.ask(Probe().where)
    assert len({pid for pid, _ in [*first.values(), *second.values()]}) == 4
    assert len({parent for _, parent in first.values()}) == 2
    assert os.getpid() not in {pid for pids in first.values() for pid in pids}


def test_globals_are_forgotten_and_memory_is_kept(peers):
    counts = [peers.ask(Probe().count)["shop"] for _ in range(3)]
    assert counts == [[1, 1], [1, 2], [1, 3]]


def test_an_error_at_a_party_comes_with_its_name_and_trace(peers):
    with pytest.raises(StepError, match=r"failed at (shop|insurer): the disk is full\n(.|\n)*in fail"):
        peers.ask(Probe().fail)


def test_a_process_that_dies_is_an_error_not_a_hang(peers):
    with pytest.raises(StepError, match="died"):
        peers.ask(Probe().die)


def test_a_late_party_is_absent_keeps_its_old_memory_and_can_be_asked_again():
    hub, parties = federation()
    with open_peers(Probe(), hub, parties, Processes()) as peers:
        with pytest.raises(PartyAbsent, match="insurer"):
            peers.within(4.0).ask(Probe().sleep, who="insurer")
        assert peers.ask(Probe().has_slept) == {"shop": True, "insurer": False}


def test_results_are_those_of_one_process_to_the_bit():
    cancer = small_federation("binary")
    apart, together = simulate(Linear(), cancer, runtime=Processes()), simulate(Linear(), cancer)
    assert apart.predictions == together.predictions
    assert [release.bytes for release in apart.releases] == [release.bytes for release in together.releases]


def test_stopping_by_hand_while_processes_start_leaves_none_behind(monkeypatch):
    from laconic.deploy.transports import processes

    started = []

    def stop(_):
        raise KeyboardInterrupt

    start = processes._start
    monkeypatch.setattr(processes, "_idle", [])
    monkeypatch.setattr(processes, "_start", lambda: started.append(start()) or started[-1])
    monkeypatch.setattr(processes, "read_frame", stop)
    with pytest.raises(KeyboardInterrupt), open_processes(federation()[1], Processes()):
        pass
    assert [process.poll() is not None for process in started] == [True, True]


@pytest.mark.slow
def test_a_process_whose_hub_is_gone_ends_without_a_word():
    process = subprocess.Popen(
        [sys.executable, "-m", "laconic.deploy.transports.processes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.wait(60) == 1
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()

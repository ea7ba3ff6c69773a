"""The engine is killed in the middle of a run, at the hub or at a party; the run ends as if nothing had been."""

import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from benchmarks.crashes import same
from laconic import DataPlan, Plan, Result, SplitNN, write_plan
from laconic.atomic_files import read_sealed
from laconic.deploy.execute import execute
from laconic.deploy.party_files import Consortium, HubAddress, open_site
from laconic.deploy.transports.flare import system as engine
from laconic.deploy.transports.flare.operating import provision
from laconic.learn import Sgd
from tests.deploy.sites import ALL, free_port

pytestmark = pytest.mark.slow
PLAN = Plan(
    method=SplitNN(trainer=Sgd(epochs=40, batch=100, patience=None)), data=DataPlan(name="breast_cancer", parties=3)
)
PARTIES = ("shop", "insurer")


@pytest.fixture
def sites(tmp_path):
    consortium = Consortium(
        project="kills", hub=HubAddress(name="bank", address="localhost", port=free_port()), parties=PARTIES
    )
    provision(consortium, tmp_path)
    for name in ("bank", *PARTIES):
        (tmp_path / name / "party.toml").write_text(f'name = "{name}"\n{ALL}')
        (tmp_path / name / "plans" / "plan.toml").write_text(write_plan(PLAN))
    found = {name: open_site(tmp_path / name) for name in ("bank", *PARTIES)}
    yield found
    for site in found.values():
        engine.stop(site.kit)


def laconic(*words):
    return subprocess.Popen([sys.executable, "-m", "laconic", *map(str, words)], stdout=subprocess.PIPE, text=True)


def rounds_done(site):
    """How many rounds the hub says are done; 0 before the first."""
    said = [one.read_text() for one in site.folder.glob("runs/*/progress")]
    return max((int(word) for text in said for word in text.split() if word.isdigit()), default=0)


@pytest.mark.parametrize("victim", ["bank", "shop"])
def test_a_run_whose_engine_is_killed_ends_like_one_that_nothing_disturbed(sites, victim):
    bank = sites["bank"]
    parties = [laconic("join", sites[name].folder) for name in PARTIES]
    hub = laconic("host", bank.folder / "plans" / "plan.toml", "--site", bank.folder)
    try:
        ends = time.monotonic() + 120
        while rounds_done(bank) < 20 and time.monotonic() < ends:
            time.sleep(0.05)
        assert rounds_done(bank) >= 20
        assert not list(bank.folder.glob("runs/*/result"))
        killed = engine.processes_of(sites[victim].kit)
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        said, _ = hub.communicate(timeout=300)
        assert hub.returncode == 0, said
    finally:
        for process in (hub, *parties):
            process.terminate()
            process.wait(60)
    (found,) = bank.folder.glob("runs/*/result")
    assert same(msgspec.json.decode(read_sealed(found), type=Result), execute(PLAN))

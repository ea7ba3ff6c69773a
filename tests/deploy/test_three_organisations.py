"""Does what docs/three_organisations.md says, with network namespaces in the place of machines."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from laconic import read_plan
from laconic.deploy.execute import execute
from laconic.deploy.transports.flare.system import stop
from tests.needs import NAMESPACES

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "three_organisations.md"
PLACES = {"bank": "10.213.77.1", "shop": "10.213.77.2", "insurer": "10.213.77.3"}
MARK = f"lac{os.getpid()}"
SWITCH = f"{MARK}-switch"
IP = shutil.which("ip") or ""


def ip(*words):
    subprocess.run([IP, *words], check=True, capture_output=True)


def why_not():
    """Why namespaces cannot be made here; nothing if they can."""
    if not IP:
        return NAMESPACES
    trial = subprocess.run([IP, "netns", "add", f"{MARK}-trial"], capture_output=True, text=True, check=False)
    if trial.returncode:
        return f"{NAMESPACES} ({trial.stderr.strip()})"
    ip("netns", "del", f"{MARK}-trial")
    return ""


@pytest.fixture
def network():
    """A switch, and three machines on it that know each other by name and by nothing else."""
    with switched(PLACES) as names:
        yield names


@contextmanager
def switched(places):
    """A switch, and machines on it, each at an address."""
    if why := why_not():
        pytest.skip(why)
    names = {place: f"{MARK}-{place}" for place in places}
    hosts = "127.0.0.1 localhost\n" + "".join(f"{at} {name}.example.org\n" for name, at in places.items())
    try:
        ip("netns", "add", SWITCH)
        ip("-n", SWITCH, "link", "add", "switch", "type", "bridge")
        ip("-n", SWITCH, "link", "set", "switch", "up")
        for place, name in names.items():
            ip("netns", "add", name)
            ip("-n", SWITCH, "link", "add", place, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", SWITCH, "link", "set", place, "master", "switch", "up")
            ip("-n", name, "addr", "add", f"{places[place]}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                ip("-n", name, "link", "set", device, "up")
            Path("/etc/netns", name).mkdir(parents=True)
            Path("/etc/netns", name, "hosts").write_text(hosts)
        yield names
    finally:
        for name in (SWITCH, *names.values()):
            subprocess.run([IP, "netns", "del", name], capture_output=True, check=False)
            shutil.rmtree(Path("/etc/netns", name), ignore_errors=True)


def blocks():
    """What the page says to write and to type: kind, where, which file or whether to let it run, and the text."""
    for kind, text in re.findall(r"```(toml|sh)\n(.*?)```", PAGE.read_text(), flags=re.S):
        first, rest = text.split("\n", 1)
        where, more = re.fullmatch(r"# at the (bank|shop|insurer)(?:, (?:in |and )(.*))?", first).groups()
        yield kind, where, more, rest


def write_rows(folder, place):
    rng = np.random.default_rng(5)
    everyone, weights = rng.normal(size=(500, 6)), np.array([1.5, -1, 1, -1, 1, 0.5])
    churned = everyone @ weights + rng.normal(size=500) > 0
    columns = dict(zip(PLACES, np.split(everyone, 3, axis=1), strict=True))[place]
    known = np.random.default_rng(list(PLACES).index(place)).permutation(500)[:430]
    head = "customer,first,second" + (",churned" if place == "bank" else "")
    lines = [
        f"c{one:04},{columns[one, 0]:.6f},{columns[one, 1]:.6f}"
        + (f",{'yes' if churned[one] else 'no'}" if place == "bank" else "")
        for one in known
    ]
    (folder / "rows.csv").write_text("\n".join([head, *lines]) + "\n")


class Machine:
    def __init__(self, place, namespace, folder):
        self.place, self.namespace, self.folder = place, namespace, folder
        self.running = []
        bin_folder = folder / "bin"
        bin_folder.mkdir(parents=True)
        (bin_folder / "laconic").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m laconic "$@"\n')
        (bin_folder / "laconic").chmod(0o755)
        path = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
        self.environment = os.environ | {"PATH": path, "PYTHONPATH": str(PAGE.parents[1]), "OMP_NUM_THREADS": "1"}

    def type(self, text, let_run, read_out=""):
        command = [IP, "netns", "exec", self.namespace, "sh", "-ec", text]
        log = (self.folder / f"typed{len(list(self.folder.glob('typed*')))}").open("w")
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            text=True,
        )
        with suppress(BrokenPipeError):
            process.stdin.write(read_out)
            process.stdin.close()
        if let_run:
            self.running.append(process)
            return ""
        code = process.wait(400)
        said = Path(log.name).read_text()
        assert code == 0, f"at the {self.place}: {text}\n{said}"
        return said


class Post:
    """What the page says that people do: they send files, and read out digits by phone."""

    def __init__(self, machines):
        self.machines, self.digits = machines, {}

    def read_out(self, text):
        """What whoever types this has heard by phone."""
        if "provision" in text:
            return f"{self.digits['shop']}\n{self.digits['insurer']}\n"
        return f"{self.digits['bank']}\n" if "accept" in text else ""

    def carry(self, where, text, said):
        bank = self.machines["bank"].folder
        if "request " in text:
            (bank / "requests").mkdir(exist_ok=True)
            shutil.move(self.machines[where].folder / where / f"{where}.request", bank / "requests")
        if "provision" in text:
            for place in ("shop", "insurer"):
                shutil.move(bank / "sites" / f"{place}.reply", self.machines[place].folder)
        if "laconic verify" in text and where == "bank":
            for name in ("result.json", "result.json.signature"):
                shutil.copy(bank / name, self.machines["shop"].folder)
        if "request " in text or "provision" in text:
            self.digits[where] = said.strip().splitlines()[-1].strip()


class Watch(threading.Thread):
    """Looks again and again who can be reached from outside: the addresses other than loopback that are listened at."""

    def __init__(self, machines):
        super().__init__(daemon=True)
        self.machines, self.open, self.done = machines, {place: set() for place in machines}, threading.Event()

    def run(self):
        while not self.done.wait(0.5):
            for place, machine in self.machines.items():
                command = [IP, "netns", "exec", machine.namespace, "cat", "/proc/net/tcp", "/proc/net/tcp6"]
                lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
                fields = [line.split() for line in lines]
                listening = {one[1] for one in fields if len(one) > 3 and one[3] == "0A"}
                self.open[place] |= {one for one in listening if not one.startswith(LOOPBACK)}


LOOPBACK = ("0100007F:", "00000000000000000000000001000000:")
"""How Linux writes 127.0.0.1 and ::1."""


def test_the_page_works_as_it_stands(network, tmp_path):
    machines = {place: Machine(place, name, tmp_path / place) for place, name in network.items()}
    said, post, watch = "", Post(machines), Watch(machines)
    watch.start()
    try:
        for kind, where, more, text in blocks():
            machine = machines[where]
            if kind == "toml":
                # With the plan's seed, so that predictions can be compared with those of one process.
                compared = 'seed = "plan"\n' if more.endswith("party.toml") else ""
                (machine.folder / more).write_text(compared + text)
                write_rows((machine.folder / more).parent, where)
                continue
            heard = machine.type(text, more == "let it run", post.read_out(text))
            post.carry(where, text, heard)
            said += heard
        for machine in machines.values():
            for process in machine.running:
                assert process.wait(180) == 0, "stopped by `laconic stop`, a party ends in peace"
    finally:
        watch.done.set()
        for place, machine in machines.items():
            for process in machine.running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            stop((machine.folder / ("sites/bank" if place == "bank" else place)) / "kit")
    assert "finished, auc" in said
    assert said.count("confirmed: signed by bank") == 2
    assert (said.count("shop: confirmed: signed by shop"), said.count("insurer: confirmed")) == (2, 1)
    assert said.count("holds your signature") == 2
    assert watch.open["bank"], "the bank's one port was seen"
    assert (watch.open["shop"], watch.open["insurer"]) == (set(), set())
    keys = [str(path.relative_to(tmp_path)) for path in (tmp_path / "bank").rglob("*.key")]
    assert not [path for path in keys if "shop" in path or "insurer" in path]
    result = json.loads((machines["bank"].folder / "result.json").read_text())
    assert result["data"]["alignment"]["shared"] > 200
    assert result["predictions"] == in_process(machines, tmp_path)["predictions"]


def in_process(machines, folder):
    """The same plan with all party files at hand."""
    text = (machines["bank"].folder / "plan.toml").read_text()
    places = {"bank": "bank/sites/bank", "shop": "shop/shop", "insurer": "insurer/insurer"}
    for place, where in places.items():
        text = text.replace(f'{place} = "party.toml"', f'{place} = "{folder / where / "party.toml"}"')
    return json.loads(execute(read_plan(text)).to_json())

"""Kill server, parties and engine of hospitals with other patients; the run must end as if nothing had been.

    python -m benchmarks.site_crashes [--runs 20] [--kills 3] [--limit 300] [--out FILE]

Three hospitals with files of their own and a server without rows are provisioned in a folder, and `laconic join` and
`laconic host` run with NVIDIA FLARE between them. SIGKILL comes at random moments of a FedAvg of many exchanges: to a
command, or to the engine of the server or of a hospital with all processes of its jobs. Commands that died are given
again. A seed decides who dies and when. The run must end with the scores, bytes, ledgers and model of one process, to
the bit, within the limit of seconds. With `--out`, a line per run is kept there, and runs that are there are not
repeated. The sites of a run that is not equal stay in the folder that its line names.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
from sklearn.datasets import load_breast_cancer

from benchmarks.crashes import same
from laconic import DataPlan, FedAvg, Plan, Result, write_plan
from laconic.atomic_files import read_sealed
from laconic.deploy import Consortium, HubAddress, PartySite, open_site, provision
from laconic.deploy.execute import execute
from laconic.deploy.transports.flare import system as engine
from laconic.learn import Mlp, Sgd

SERVER, NAMES = "registry", ("north", "south", "west")
METHOD = FedAvg(net=Mlp(hidden=(8,)), trainer=Sgd(epochs=1, batch=32), exchanges=40)
_ROWS = 100


def furnish(folder: Path) -> dict[str, PartySite]:
    """A site for everybody, with rows of its own at each hospital and the plan at all."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]
    around = Consortium(project="kills", hub=HubAddress(name=SERVER, address="localhost", port=port), parties=NAMES)
    provision(around, folder)
    rows = load_breast_cancer(as_frame=True).frame.iloc[:, [0, 1, 2, 3, 4, 5, -1]]
    text = write_plan(Plan(method=METHOD, data=DataPlan(files=dict.fromkeys(NAMES, "party.toml"))))
    for at, name in enumerate((SERVER, *NAMES)):
        site = folder / name
        data = '[data]\nsource = "rows.csv"\nlabel = "target"\n' if at else ""
        allow = '[allow]\nmethods = ["FedAvg", "SameColumns"]\n'
        (site / "party.toml").write_text(f'name = "{name}"\nseed = "plan"\n{data}{allow}')
        (site / "plans" / "plan.toml").write_text(text)
        if at:
            rows.iloc[at * _ROWS : (at + 1) * _ROWS].to_csv(site / "rows.csv", index=False)
    return {name: open_site(folder / name) for name in (SERVER, *NAMES)}


def undisturbed(sites: dict[str, PartySite]) -> Result:
    """The same plan in one process."""
    files = {name: str(sites[name].folder / "party.toml") for name in NAMES}
    return execute(Plan(method=METHOD, data=DataPlan(files=files)))


def disturbed(sites: dict[str, PartySite], seed: int, kills: int, limit: float) -> tuple[Result, list[str]]:
    """The run between sites that are killed; also who was killed, in order.

    Raises:
        TimeoutError: it did not end within the limit.
    """
    rng, hub, ends = np.random.default_rng(seed), sites[SERVER], time.monotonic() + limit
    commands: dict[str, tuple[object, ...]] = {f"join of {name}": ("join", sites[name].folder) for name in NAMES}
    commands["host"] = ("host", hub.folder / "plans" / "plan.toml", "--site", hub.folder)
    alive = {name: _start(words) for name, words in commands.items()}
    moments = sorted(rng.integers(1, METHOD.exchanges - 2, kills).tolist())
    victims = [*commands, *(f"engine of {name}" for name in sites)]
    killed: list[str] = []
    try:
        while not (found := list(hub.folder.glob("runs/*/result"))):
            if time.monotonic() > ends:
                raise TimeoutError(f"no result after {limit:.0f} s; killed: {', '.join(killed) or 'nobody'}")
            if len(killed) < kills and _exchanges(hub) >= moments[len(killed)]:
                time.sleep(float(rng.uniform(0.0, 0.3)))
                killed.append(str(rng.choice(victims)))
                _kill(killed[-1], alive, sites)
            for name, one in alive.items():
                if one.poll() is not None:
                    alive[name] = _start(commands[name])
            time.sleep(0.05)
    finally:
        _end(alive, sites)
    return msgspec.json.decode(read_sealed(found[0]), type=Result), killed


def equal(one: Result, other: Result) -> bool:
    """Whether two runs are the same but for where files are, what was signed, and how long they took."""

    def plain(result: Result) -> Result:
        unsigned = [
            msgspec.structs.replace(release, digest="") if release.step == "take_model" else release
            for release in result.releases
        ]
        return msgspec.structs.replace(result, data={}, releases=tuple(unsigned))

    return same(plain(one), plain(other))


def _start(words: tuple[object, ...]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-W", "ignore", "-m", "laconic", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _exchanges(hub: PartySite) -> int:
    """How many exchanges the server says are done."""
    said = [one.read_text(encoding="utf-8") for one in hub.folder.glob("runs/*/progress")]
    return max((int(word) for text in said for word in text.split()[1:2] if word.isdigit()), default=0)


def _kill(victim: str, alive: "dict[str, subprocess.Popen[bytes]]", sites: dict[str, PartySite]) -> None:
    pids = [alive[victim].pid] if victim in alive else engine.processes_of(sites[victim.rsplit(maxsplit=1)[-1]].kit)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _end(alive: "dict[str, subprocess.Popen[bytes]]", sites: dict[str, PartySite]) -> None:
    for one in alive.values():
        one.kill()
        one.wait()
    for site in sites.values():
        engine.stop(site.kit)


def _one(seed: int, kills: int, limit: float) -> dict[str, object]:
    folder = Path(tempfile.mkdtemp(prefix=f"crash-{seed}-"))
    sites, began = furnish(folder), time.monotonic()
    try:
        found, killed = disturbed(sites, seed, kills, limit)
    except TimeoutError as problem:
        return {"seed": seed, "equal": False, "problem": str(problem), "folder": str(folder)}
    said = {"killed": killed, "seconds": round(time.monotonic() - began)}
    if not equal(found, undisturbed(sites)):
        return {"seed": seed, "equal": False, **said, "folder": str(folder)}
    shutil.rmtree(folder)
    return {"seed": seed, "equal": True, **said}


def main() -> None:
    """Try many seeds, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    done = {}
    if options.out is not None and options.out.exists():
        done = {one["seed"]: one for one in map(json.loads, options.out.read_text(encoding="utf-8").splitlines())}
    for seed in range(options.runs):
        if seed not in done:
            done[seed] = _one(seed, options.kills, options.limit)
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[seed]) + "\n")
        print(done[seed], flush=True)
    fine = sum(bool(one["equal"]) for one in done.values())
    print(f"{fine} of {len(done)} runs ended equal to the undisturbed run")
    if fine < len(done):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

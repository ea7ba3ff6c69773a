"""The same run in one process, in processes, by envelope and over FLARE: same scores, payload bytes and predictions.

    python -m benchmarks.sites_equal [--sets default_credit codrna adult fashion_mnist] [--rows 400] [--ways ...]
                                     [--out benchmarks/results/sites_equal.jsonl]

`default_credit` are FATE's three horizontal files in `judges/` of the data folder, as shipped; the other sets are dealt
among three parties by Dirichlet(0.5), with so many rows in all. Every party has a party file, and a server none. Each
way's score, bytes of every phase and digest of the final model are compared with those of one process. Then the server
and every party take their model home by command, and predict the public rows: `home` says whether all of them, by
envelope and over FLARE, predict to the bit what the model of one process does. Images are party files with a column for
each pixel. A line per cell is kept in `--out`, and cells that are there are not repeated.
"""

import argparse
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from laconic import (
    Analytic,
    DataPlan,
    Dirichlet,
    FedAvg,
    FedDf,
    FedKt,
    FedPft,
    FedProx,
    FedTrees,
    Method,
    Pate,
    Pfnm,
    Plan,
    Result,
    Scaffold,
    fit,
    load,
    load_model,
    write_plan,
)
from laconic.atomic_files import read_sealed
from laconic.deploy import (
    Consortium,
    HubAddress,
    PartySite,
    Processes,
    make_key,
    open_site,
    provision,
    save_key,
    seal_plan,
)
from laconic.deploy.coordinator import host
from laconic.deploy.execute import execute
from laconic.deploy.party_context import open_context
from laconic.deploy.sealed_answers import answer_envelope
from laconic.deploy.transports.envelopes.keys import add_key, open_ring
from laconic.deploy.transports.flare import system as engine
from laconic.errors import PlanError, Waiting
from laconic.inference.save import take_from_mail, take_from_site
from laconic.learn import Network, Sgd

SERVER, NAMES = "registry", ("north", "south", "west")
SETS = ("default_credit", "codrna", "adult", "fashion_mnist")
_QUICK = Sgd(epochs=1, batch=64)
METHODS: tuple[Method, ...] = (
    FedKt(model=Network(trainer=_QUICK), partitions=1, teachers=2),
    FedAvg(trainer=_QUICK, exchanges=2),
    FedProx(trainer=_QUICK),
    Scaffold(trainer=Sgd(epochs=1, batch=64, optimizer="sgd", weight_decay=0.0)),
    FedDf(trainer=_QUICK, distiller=_QUICK),
    Pfnm(trainer=_QUICK),
    Pate(model=Network(trainer=_QUICK), teachers=2),
    Analytic(most_bytes=60_000),
    FedPft(),
    FedTrees(),
)
_ALLOWED = [*(type(one).__name__ for one in METHODS), "SameColumns"]


class Source:
    """Where the rows of each hospital are, how its file describes them, and the public rows."""

    def __init__(self, name: str, rows: int, folder: Path) -> None:
        self.described: dict[str, str] = {}
        if name == "default_credit":
            judges = Path(os.environ["LACONIC_DATA"]) / "judges"
            for party, part in zip(NAMES, ("guest", "host_1", "host_2"), strict=True):
                source = judges / f"default_credit_homo_{part}.csv.gz"
                self.described[party] = f'source = "{source}"\nkey = "id"\nlabel = "y"\n'
            self.public = pd.read_csv(judges / "default_credit_homo_test.csv.gz").head(300).drop(columns=["id", "y"])
            return
        dataset, rng = load(name), np.random.default_rng(0)
        chosen = rng.permutation(dataset.rows)[: rows + 300]
        cells = dataset.raw[chosen].reshape(len(chosen), -1)
        levels = [column.levels for column in dataset.columns] if dataset.raw.ndim == 2 else []
        frame = pd.DataFrame(cells, columns=[f"c{at}" for at in range(cells.shape[1])])
        for at, known in enumerate(levels):
            if known:
                frame[f"c{at}"] = [None if np.isnan(code) else known[int(code)] for code in cells[:, at]]
        labels = np.array(dataset.task.classes)[dataset.y[chosen].astype(int)]
        self.public = frame.iloc[rows:]
        shares = Dirichlet(parties=3, beta=0.5, least=60).shares(dataset.y[chosen[:rows]], rng)
        for party, share in zip(NAMES, shares, strict=True):
            frame.iloc[share].assign(outcome=labels[share]).to_csv(folder / f"{party}.csv", index=False)
            self.described[party] = f'source = "{folder / party}.csv"\nlabel = "outcome"\ntask = "multiclass"\n'

    def write(self, folder: Path, party: str) -> None:
        """A party file and the public rows, in the folder of a party or of the server."""
        self.public.to_csv(folder / "open.csv", index=False)
        data = f"[data]\n{self.described[party]}" if party in self.described else ""
        text = f'name = "{party}"\nseed = "plan"\n{data}[allow]\nmethods = {json.dumps(_ALLOWED)}\n'
        (folder / "party.toml").write_text(text, encoding="utf-8")


def plan_of(method: Method, folder: Path | None = None) -> Plan:
    """The plan, for sites or for one process that has all party files in a folder."""
    files = {name: "party.toml" if folder is None else str(folder / name / "party.toml") for name in NAMES}
    public = "open.csv" if "public" in method.uses else None
    return Plan(method=method, data=DataPlan(files=files, public=public, hub=SERVER))


def by_envelope(folder: Path, method: Method) -> Result:
    """Seal, host and answer until there is a result."""
    (folder / "plan.toml").write_text(write_plan(plan_of(method)), encoding="utf-8")

    def context(name: str) -> Any:
        return open_context(folder / "plan.toml", folder / name / "party.toml", folder / name / "keys")

    inbox, sent = folder / SERVER / f"inbox-{type(method).__name__}", 0
    inbox.mkdir()
    for name in NAMES:
        try:
            seal_plan(context(name), inbox / f"{name}-0.envelope")
        except PlanError:
            continue  # Its first question must be asked.
    while True:
        try:
            return host(context(SERVER), inbox)
        except Waiting as waiting:
            for name in waiting.names:
                (asked,) = (inbox / "questions").glob(f"{name}-*.envelope")
                sent += 1
                answer_envelope(context(name), asked, inbox / f"{name}-{sent}.envelope")


@contextmanager
def flare(folder: Path, source: Source) -> Iterator[Callable[[Method], Result]]:
    """Real engines between sites, for as long as the block lasts; gives what hosts a run there."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]
    around = Consortium(project="equal", hub=HubAddress(name=SERVER, address="localhost", port=port), parties=NAMES)
    provision(around, folder)
    sites: dict[str, PartySite] = {name: open_site(folder / name) for name in (SERVER, *NAMES)}
    hub = sites[SERVER]
    for name, site in sites.items():
        source.write(site.folder, name)
    try:
        engine.start(hub.kit, None)
        engine.wait_until_listening(hub.kit, "localhost", port)
        for name in NAMES:
            engine.start(sites[name].kit, name)
        with engine.session(hub.folder / "admin") as opened:
            engine.wait_for(opened, NAMES, 120)

            def hosted(method: Method) -> Result:
                run, text = type(method).__name__.lower(), write_plan(plan_of(method))
                for site in sites.values():
                    (site.folder / "plans" / f"{run}.toml").write_text(text, encoding="utf-8")
                hub.run(run).mkdir(parents=True)
                (hub.run(run) / "plan.toml").write_text(text, encoding="utf-8")
                engine.submit(opened, {"runs": [run]}, list(NAMES))
                ends = time.monotonic() + 240
                while not (hub.run(run) / "result").exists():
                    if (hub.run(run) / "error").exists() or time.monotonic() > ends:
                        raise TimeoutError(f"{run} over FLARE ended without a result; see {hub.folder}")
                    time.sleep(0.1)
                return msgspec.json.decode(read_sealed(hub.run(run) / "result"), type=Result)

            yield hosted
    finally:
        for site in sites.values():
            engine.stop(site.kit)


def at_home(taken: Callable[[str], Path], new: pd.DataFrame, expected: bytes) -> bool:
    """Whether the server and every party predict what one process does, from the folder that each took home."""
    return all(load_model(taken(name)).predict(new).predictions.tobytes() == expected for name in (SERVER, *NAMES))


def from_mail(folder: Path, method: Method, name: str) -> Path:
    """The model of the last run by envelope, at a party or the server."""
    own = folder / name
    out = folder / f"home-{type(method).__name__}-{name}"
    return take_from_mail(folder / "plan.toml", own / "party.toml", open_ring(own / "keys", name), out)


def from_site(folder: Path, method: Method, name: str) -> Path:
    """The same of the last run over FLARE."""
    out = folder / f"home-{type(method).__name__}-{name}"
    return take_from_site(open_site(folder / name), out, type(method).__name__.lower())


def figures(result: Result) -> dict[str, Any]:
    """What must be the same on every way; the digest is of the model that every party scored and has."""
    phases = {"align": result.align, "fit": result.fit, "final": result.final}
    crossed = {name: [one.bytes_up, one.bytes_down] for name, one in phases.items()}
    return {"score": result.score.value, "bytes": crossed, "model": result.predictions, "by_party": result.by_party}


def cells(name: str, rows: int, ways: tuple[str, ...], done: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """One line per method: whether each way gave what one process gives."""
    methods = [one for one in METHODS if (name, type(one).__name__) not in done]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = Source(name, rows, folder)
        keys = {one: make_key(one) for one in (SERVER, *NAMES)}
        for one, key in keys.items():
            (folder / "mail" / one).mkdir(parents=True)
            source.write(folder / "mail" / one, one)
            save_key(key, folder / "mail" / one / "keys")
            for other in keys.values():
                if other is not key:
                    add_key(folder / "mail" / one / "keys", other.public)
        online = flare(folder / "sites", source) if "flare" in ways and methods else _none()
        with online as hosted:
            for method in methods:
                plan = plan_of(method, folder / "mail")
                expected, together = figures(execute(plan)), fit(plan)
                alone = together.predict(source.public).predictions.tobytes()
                runs: dict[str, Callable[[], Result]] = {
                    "processes": partial(execute, msgspec.structs.replace(plan, runtime=Processes())),
                    "envelopes": partial(by_envelope, folder / "mail", method),
                    "flare": partial(hosted, method),
                }
                equal = {way: figures(runs[way]()) == expected for way in ways}
                taken = {
                    "envelopes": partial(from_mail, folder / "mail", method),
                    "flare": partial(from_site, folder / "sites", method),
                }
                home = {way: at_home(taken[way], source.public, alone) for way in ways if way in taken}
                crossed = sum(sum(one) for one in expected["bytes"].values())
                about = {"set": name, "method": type(method).__name__, "score": expected["score"], "bytes": crossed}
                yield about | {"equal": equal, "home": home}


@contextmanager
def _none() -> Iterator[Callable[[Method], Result]]:
    def refuse(method: Method) -> Result:
        raise PlanError(f"{type(method).__name__}: FLARE was not asked for")

    yield refuse


def main() -> None:
    """Go through sets and methods, and say what is equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--ways", nargs="+", default=["processes", "envelopes", "flare"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = []
    if options.out is not None and options.out.exists():
        lines = [json.loads(one) for one in options.out.read_text(encoding="utf-8").splitlines()]
    done = {(one["set"], one["method"]) for one in lines}
    for name in options.sets:
        for line in cells(name, options.rows, tuple(options.ways), done):
            lines.append(line)
            print(json.dumps(line), flush=True)
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    good = sum(all((one["equal"] | one["home"]).values()) for one in lines)
    print(f"{good} of {len(lines)} cells are equal on every way, and at every party at home")
    if good < len(lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

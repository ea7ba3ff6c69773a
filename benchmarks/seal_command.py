"""What `laconic seal` costs beyond fitting and answering, in time and bytes, without reading the rows.

Usage: python -m benchmarks.seal_command [--rows 500000] [--dim 16]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from laconic import DataPlan, FedOnce, Plan
from laconic.align import AgreedIds
from laconic.core import Party, answer
from laconic.deploy import KeyRing, PartyFile, make_key, seal_plan
from laconic.deploy.party_context import PartyContext
from laconic.deploy.session import envelope_session
from laconic.learn import RandomProjection
from laconic.tables import Column, Table


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--dim", type=int, default=16)
    chosen = parser.parse_args()
    _compare(chosen.rows, chosen.dim)


def _compare(rows: int, dim: int) -> None:
    """All of `laconic seal` but reading the rows, beside the same answers given in this process."""
    with tempfile.TemporaryDirectory() as folder:
        place = _place(Path(folder), rows, dim)
        begun = time.process_time(), time.perf_counter()
        asked = place.session.schedule.opening()
        found = time.process_time(), time.perf_counter()
        party = Party("shop", place.party.data, place.party.seed)
        started = time.process_time(), time.perf_counter()
        for one in asked:
            answer(place.session.script(one.script), party, one.blob)
        fitted = time.process_time(), time.perf_counter()
        out = Path(folder) / "shop.envelope"
        sealed = seal_plan(place, out)
        ended = time.process_time(), time.perf_counter()
        size = out.stat().st_size
    print(f"| {rows:,} rows x {dim} float16 | processor seconds | seconds |")
    print("|---|---|---|")
    for what, first, second in (
        ("find the questions", begun, found),
        ("fit and answer in process", started, fitted),
        ("`laconic seal`", fitted, ended),
    ):
        print(f"| {what} | {second[0] - first[0]:.2f} | {second[1] - first[1]:.2f} |")
    print(f"payload {sealed.cover.bytes:,} bytes, envelope {size:,} bytes ({size / sealed.cover.bytes - 1:+.1%})")


def _place(home: Path, rows: int, dim: int) -> PartyContext:
    rng = np.random.default_rng(0)
    columns = [Column(f"c{number}") for number in range(dim)]
    table = Table(rng.normal(size=(rows, dim)), columns, ids=np.arange(rows), party="shop")
    data = DataPlan(files={"bank": "bank.toml", "shop": "shop.toml"}, match=AgreedIds())
    plan = Plan(method=FedOnce(encoder=RandomProjection(dim=dim), precision="float16"), data=data)
    keys = {name: make_key(name) for name in ("shop", "bank")}
    ring = KeyRing(keys["shop"], {name: key.public for name, key in keys.items()})
    file = PartyFile(name="shop", allow={"methods": ["FedOnce", "AgreedIds"]})
    return PartyContext(envelope_session(plan, table), file, Party("shop", table, plan.seed), ring, home)


if __name__ == "__main__":
    main()

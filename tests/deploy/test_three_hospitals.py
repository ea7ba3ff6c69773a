"""Does what docs/three_hospitals.md says, with network namespaces in the place of machines."""

import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from laconic import Result, execute, read_plan
from laconic.deploy.transports.flare.system import stop
from tests.data.hospitals import NAMES, hospitals, open_rows
from tests.deploy.test_three_organisations import Machine, switched

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "three_hospitals.md"
PLACES = {"north": "10.213.78.1", "south": "10.213.78.2", "west": "10.213.78.3"}


def blocks():
    """What the page says to write and to type: kind, where, which file or whether to let it run, and the text."""
    for kind, text in re.findall(r"```(toml|sh)\n(.*?)```", PAGE.read_text(), flags=re.S):
        first, rest = text.split("\n", 1)
        where, more = re.fullmatch(r"# at the (north|south|west)(?:, (?:in |and )(.*))?", first).groups()
        yield kind, where, more, rest


def write_rows(folder, place):
    hospitals(150)[place].to_csv(folder / "rows.csv", index=False)
    open_rows(100).drop(columns="patient").to_csv(folder / "open.csv", index=False)


class Post:
    """What the page says that people do: they send files, and read out digits by phone."""

    def __init__(self, machines):
        self.machines, self.digits = machines, {}

    def read_out(self, text):
        if "provision" in text:
            return f"{self.digits['south']}\n{self.digits['west']}\n"
        return f"{self.digits['north']}\n" if "accept" in text else ""

    def carry(self, where, text, said):
        north = self.machines["north"].folder
        if "request " in text:
            (north / "requests").mkdir(exist_ok=True)
            shutil.move(self.machines[where].folder / where / f"{where}.request", north / "requests")
        if "provision" in text:
            for place in ("south", "west"):
                shutil.move(north / "sites" / f"{place}.reply", self.machines[place].folder)
        if "request " in text or "provision" in text:
            self.digits[where] = said.strip().splitlines()[-1].strip()


def site_of(machines, place):
    return machines[place].folder / ("sites/north" if place == "north" else place)


def test_the_page_works_as_it_stands(tmp_path):
    with switched(PLACES) as network:
        machines = {place: Machine(place, name, tmp_path / place) for place, name in network.items()}
        for machine in machines.values():
            open_rows(30).to_csv(machine.folder / "next.csv", index=False)
        said = type_all(machines)
    scores = {(machines[place].folder / "scores.csv").read_bytes() for place in PLACES}
    assert len(scores) == 1
    assert "confirmed: the model is as north signed it" in said
    assert said.count("confirmed: signed by") >= 3
    result = Result.from_json((machines["north"].folder / "result.json").read_bytes())
    assert set(result.by_party) == set(NAMES)
    together = in_process(machines)
    assert (result.predictions, result.metrics) == (together.predictions, together.metrics)
    assert [one.bytes for one in (result.align, result.fit, result.final)] == [
        one.bytes for one in (together.align, together.fit, together.final)
    ]


def type_all(machines):
    """Write and type all that the page says; returns what was printed."""
    said, post = "", Post(machines)
    try:
        for kind, where, more, text in blocks():
            machine = machines[where]
            if kind == "toml":
                # With the plan's seed, so that the model can be compared with that of one process.
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
        for place, machine in machines.items():
            for process in machine.running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            stop(site_of(machines, place) / "kit")
    return said


def in_process(machines):
    """The same plan with all party files at hand."""
    plan = read_plan((machines["north"].folder / "plan.toml").read_text())
    files = {place: str(site_of(machines, place) / "party.toml") for place in PLACES}
    return execute(msgspec.structs.replace(plan, data=msgspec.structs.replace(plan.data, files=files)))

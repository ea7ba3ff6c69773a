"""The hub's side of a run: greet everybody, match rows, learn, and write the result, all from a journal."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

import msgspec

from laconic.core.align import Align, fingerprint
from laconic.core.errors import DataError
from laconic.core.ledger import Ledger
from laconic.core.log import WireLog
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.result import Result
from laconic.core.run import run
from laconic.core.script import Script
from laconic.core.table import Table
from laconic.core.values import Listener
from laconic.core.wire import Blob
from laconic.online.desk import Desk
from laconic.online.seat import Seating, seat, sit_down
from laconic.online.site import Site
from laconic.plan.execute import priced
from laconic.plan.fingerprint import plan_fingerprint
from laconic.plan.text import read_plan
from laconic.runtime import frames
from laconic.runtime.journal import Journal
from laconic.runtime.line import Line, Lines
from laconic.runtime.whole import write_whole
from laconic.simulation import on_threads


def host_run(
    site: Site, name: str, line: Line, *, deadline: float | None = None, listener: Listener | None = None
) -> Result:
    """Run the plan of a run's folder at the hub; started again, it goes on where it was.

    Args:
        site: the hub's.
        name: the run's; its folder holds `plan.toml`.
        line: brings frames to sites by name.
        deadline: seconds that a question may take; None for no limit while a party is there.
        listener: told of progress.

    Raises:
        Refused: a party does not agree, or its rules forbid what is asked; in its own words.
        PartyAbsent: a party cannot be reached or is late, and the method cannot do without it.
    """
    folder = site.run(name)
    plan = read_plan((folder / "plan.toml").read_text(encoding="utf-8"))
    seating = seat(plan, site.circle)
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(folder / "journal"))
        stack.enter_context(on_threads(1))
        desk = Desk(site)

        def bring(party: str, frame: bytes, seconds: float) -> bytes:
            # A label holder beside a server is asked like everybody else, without a line.
            at = seating.sites[party]
            return desk.hear(frame) if at == site.name else line(at, frame, seconds)

        lines = Lines(bring, seating.peers, name, folder / "incoming", deadline)
        hub, judge = _take_seats(seating, site, journal)
        greeted = lines.greet(
            frames.Greet(name, plan_fingerprint(plan), version("laconic"), seating.hub, seating.peers)
        )
        _compare_rows(judge if plan.method.kind == "vertical" else None, greeted)
        carrier = journal.around(_Shielded(lines, set(greeted)))
        result = _run(seating, hub, judge, carrier, lines, listener)
    write_whole(folder / "result", msgspec.json.encode(result))
    return result


def _take_seats(seating: Seating, site: Site, journal: Journal) -> tuple[Party, Party]:
    """Who asks, and whose labels score."""
    judge = sit_down(seating, site, seating.holder)
    if not seating.plan.method.server:
        judge.keep_secret(journal.secret)
        return judge, judge
    return Party(seating.hub, Table.without_rows(seating.hub), seating.plan.seed, secret=journal.secret), judge


def _run(
    seating: Seating, hub: Party, judge: Party, carrier: Carrier, lines: Lines, listener: Listener | None
) -> Result:
    plan, log = seating.plan, WireLog()
    align, facts = seating.align, dict(seating.facts)
    method = seating.plan.method
    if align is not None:
        with log.during("align"):
            hub.turn("align", 0)
            found = align.match(hub, Peers(align, hub, carrier, log, carrier.names))
        lines.shared = found["shared"]
        align = _Matched(within=align, found=found)
        facts = {"name": ", ".join(seating.names), "kind": method.kind}
    method = seating.method(lines.shared, hub.data if hub.data.rows else judge.data)
    result = run(
        method,
        hub,
        Peers(method, hub, carrier, log, carrier.names),
        judge=judge,
        align=align,
        max_bytes=plan.budget.byte_limit,
        look_every=plan.look_every,
        data=facts,
        listener=listener,
    )
    return priced(msgspec.structs.replace(result, data=result.data | {"plan": msgspec.to_builtins(plan.data)}), plan)


class _Matched(Align, frozen=True):
    """Rows that were matched before the method was settled, since its noise may depend on how many there are."""

    within: Any
    found: dict[str, Any]

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        return self.found

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        return str(self.within.confirm(hub, peers.speaking(self.within)))


class _Shielded:
    """Lines to those who were greeted; who was not there then is absent from this run, and is not waited for."""

    def __init__(self, lines: Lines, present: set[str]) -> None:
        self._lines, self._present = lines, present

    @property
    def names(self) -> tuple[str, ...]:
        return self._lines.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        yield from self._lines.carry(script, {name: blobs[name] for name in blobs if name in self._present}, deadline)

    def ledgers(self) -> dict[str, Ledger]:
        return {name: ledger for name, ledger in self._lines.ledgers().items() if name in self._present}


def _compare_rows(judge: Party | None, greeted: Mapping[str, frames.Welcome]) -> None:
    """Refuse parties whose rows are matched already, but not to the same ones."""
    found = {name: said.alignment for name, said in greeted.items() if said.alignment}
    if judge is not None and "train" in judge.data.cuts:
        found = {judge.name: fingerprint(judge.data)} | found
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{name} {one[:8]}" for name, one in found.items())
        raise DataError(f"the parties do not hold the same rows in the same order: {shown}; match the rows again")

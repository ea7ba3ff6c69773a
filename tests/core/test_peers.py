from collections.abc import Iterator

import numpy as np
import pytest

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Script, step
from laconic.deploy import Faults, InProcess
from laconic.errors import PartyAbsent, StepError
from laconic.tables import Column, Table
from laconic.testing import open_peers


class Roll(Script, frozen=True):
    @step(takes=None, gives="its name")
    def name(self, party: Party) -> str:
        return party.name

    @step(takes="a number made from labels", gives=None)
    def hear(self, party: Party, number: float) -> None:
        party.memory["heard"] = number


def table() -> Table:
    return Table(np.arange(3.0)[:, None], (Column(name="a", kind="numeric"),))


NONE = Faults()


def peers_with(faults: Faults = NONE, count: int = 4) -> tuple[Peers, Party]:
    hub = Party("bank", table(), 0)
    parties = tuple(Party(f"party{number}", table(), 0) for number in range(count))
    with open_peers(Roll(), hub, parties, InProcess(faults=faults)) as peers:
        return peers, hub


def test_answers_come_in_the_order_asked_not_the_order_received():
    peers, _ = peers_with(Faults(slowness=1.0, seed=5), count=6)
    arrival = [name for name, _ in peers.as_ready(Roll().name, {name: {} for name in peers.names})]
    assert arrival != list(peers.names)
    assert list(peers.ask(Roll().name)) == list(peers.names)


def test_a_lost_party_ends_the_run_with_its_name():
    peers, _ = peers_with(Faults(absent=("party2",)))
    with pytest.raises(PartyAbsent, match="party2 did not answer the question `name`") as caught:
        peers.ask(Roll().name)
    assert caught.value.names == ("party2",)


def test_a_tolerant_question_goes_without_the_lost_party():
    peers, _ = peers_with(Faults(absent=("party2",)))
    assert list(peers.tolerant.ask(Roll().name)) == ["party0", "party1", "party3"]
    assert [crossing.party for crossing in peers.log.crossings if crossing.up is None] == ["party2"]


def test_late_and_lost_parties_are_the_same_for_the_same_seed():
    def absences(seed: int) -> Iterator[tuple[str, ...]]:
        peers, _ = peers_with(Faults(late=0.3, lost=0.1, seed=seed))
        for _ in range(8):
            yield tuple(peers.tolerant.ask(Roll().name))

    assert list(absences(1)) == list(absences(1))
    assert list(absences(1)) != list(absences(2))


def test_a_lost_party_never_comes_back_and_a_late_one_does():
    lost, _ = peers_with(Faults(lost=0.2, seed=3))
    sizes = [len(lost.tolerant.ask(Roll().name)) for _ in range(12)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 4
    late, _ = peers_with(Faults(late=0.5, seed=3))
    counts = [len(late.tolerant.ask(Roll().name)) for _ in range(12)]
    assert max(counts[3:]) > min(counts[:3])


def test_bytes_rounds_uploads_and_downloads_are_counted():
    peers, hub = peers_with()
    peers.ask(Roll().name)
    peers.ask(Roll().hear, number=0.5)
    traffic = peers.log.traffic("fit")
    assert (traffic.rounds, traffic.uploads, traffic.downloads) == (2, 1, 1)
    assert traffic.bytes_up == 4 * len(b"\xa6party0") + 4
    assert traffic.bytes_down == sum(crossing.down for crossing in peers.log.crossings)
    assert [entry.words for entry in hub.ledger.entries] == ["a number made from labels"]
    assert hub.ledger.entries[0].times == 4


def test_a_cohort_asks_its_own_only_and_strangers_are_refused():
    peers, _ = peers_with()
    assert list(peers.only(("party3", "party1")).ask(Roll().name)) == ["party1", "party3"]
    with pytest.raises(StepError, match="no peer shop"):
        peers.ask_each(Roll().name, {"shop": {}})


def test_who_misses_a_deadline_is_absent():
    peers, _ = peers_with(Faults(slowness=1.0, seed=5), count=6)
    assert len(peers.tolerant.ask(Roll().name)) == 6
    assert 0 < len(peers.tolerant.within(0.7).ask(Roll().name)) < 6
    with pytest.raises(PartyAbsent):
        peers.within(0.01).ask(Roll().name)
    with pytest.raises(ValueError, match="above 0 seconds"):
        peers.within(0)

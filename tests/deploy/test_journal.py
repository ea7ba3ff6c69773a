import shutil
from collections.abc import Iterator, Mapping
from threading import Thread

import numpy as np
import pytest

from benchmarks.crashes import disturbed, same, undisturbed
from laconic import Linear
from laconic.core import Ledger, Party, Peers, Question, Script, WireLog, encode, step
from laconic.deploy.execute import simulate
from laconic.deploy.journal import Journal, Journalled
from laconic.deploy.party_memory import PartyFolder
from laconic.errors import JournalError, PartyAbsent, StepError, Waiting
from laconic.tables import Column, Table
from laconic.testing import small_federation

NAMES = ("shop", "insurer")


class Adder(Script, frozen=True):
    amount: int = 1

    @step(takes=None, gives="its sum")
    def add(self, party: Party, times: int) -> int:
        party.memory["sum"] = party.memory.get("sum", 0) + self.amount * times
        return int(party.memory["sum"])

    @step(takes=None, gives="chance that cannot be repeated")
    def draw(self, party: Party) -> bytes:
        return np.random.default_rng().bytes(8)

    @step(takes=None, gives="many numbers")
    def much(self, party: Party) -> np.ndarray:
        return np.random.default_rng().random(300_000)

    @step(takes=None, gives=None)
    def shrink(self, party: Party) -> None:
        party.data = party.data.take(np.arange(party.data.rows - 1), {})
        party.memory["rows"] = party.data.rows


def party(name: str = "shop", rows: int = 6) -> Party:
    return Party(name, Table(np.arange(float(rows))[:, None], (Column(name="a", kind="numeric"),), party=name), 0)


class Calls:
    """Parties in this process that keep memory on disk; those in `away` do not answer, or have not yet."""

    def __init__(self, folder, away=(), waits=False):
        self.names = NAMES
        self.away, self.waits = set(away), waits
        self.asked: list[str] = []
        self.folders = {name: PartyFolder(folder / name) for name in NAMES}
        for name, one in self.folders.items():
            one.begin(party(name))

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        for name in reversed(blobs):
            self.asked.append(name)
            if name not in self.away:
                yield name, self.folders[name].answer(script, blobs[name])
        if self.waits and self.away & set(blobs):
            raise Waiting(tuple(self.away & set(blobs)), "add")

    def ledgers(self) -> dict[str, Ledger]:
        return {name: one.load().ledger for name, one in self.folders.items() if name not in self.away}


def peers(carrier, amount=1) -> Peers:
    return Peers(Adder(amount=amount), party("bank"), carrier, WireLog(), carrier.names)


def test_a_run_started_again_is_answered_from_the_journal_in_the_order_of_arrival(tmp_path):
    arrivals = []
    for asked in (["insurer", "shop"] * 2, []):
        calls = Calls(tmp_path)
        with Journal(tmp_path / "journal") as journal:
            others = peers(journal.around(calls))
            arrivals.append([list(others.as_ready(Adder().add, {name: {"times": 2} for name in NAMES})) for _ in "12"])
            assert journal.replayed == 4 - len(asked)
        assert calls.asked == asked
    assert arrivals[0] == arrivals[1] == [[("insurer", 2), ("shop", 2)], [("insurer", 4), ("shop", 4)]]


def test_a_hub_stops_with_a_question_open_and_goes_on_when_the_answer_is_in(tmp_path):
    with Journal(tmp_path / "journal") as journal, pytest.raises(Waiting, match="insurer"):
        peers(journal.around(Calls(tmp_path, away=["insurer"], waits=True))).ask(Adder().add, times=1)
    calls = Calls(tmp_path)
    with Journal(tmp_path / "journal") as journal:
        assert peers(journal.around(calls)).ask(Adder().add, times=1) == {"shop": 1, "insurer": 1}
    assert calls.asked == ["insurer"]


def test_whom_the_hub_went_on_without_stays_absent_in_the_same_run(tmp_path):
    for calls in (Calls(tmp_path, away=["shop"]), Calls(tmp_path)):
        with Journal(tmp_path / "journal") as journal:
            others = peers(journal.around(calls))
            first = others.tolerant.ask(Adder().add, times=1)
            second = others.only(("insurer",)).ask(Adder().add, times=1)
        assert (first, second) == ({"insurer": 1}, {"insurer": 2})


def test_a_party_whose_absence_ended_the_run_is_asked_again(tmp_path):
    with Journal(tmp_path / "journal") as journal, pytest.raises(PartyAbsent, match="shop"):
        peers(journal.around(Calls(tmp_path, away=["shop"]))).ask(Adder().add, times=1)
    with Journal(tmp_path / "journal") as journal:
        assert peers(journal.around(Calls(tmp_path))).ask(Adder().add, times=1) == {"shop": 1, "insurer": 1}


def test_what_a_lost_party_gave_is_told_from_the_journal(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        calls = Calls(tmp_path)
        others = peers(journal.around(calls))
        others.ask(Adder().add, times=1)
        calls.away = {"shop"}
        (entry,) = others.ledgers()["shop"].entries
    assert entry.words == "its sum (its own ledger did not come)"


def test_a_journal_of_another_run_is_refused(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        peers(journal.around(Calls(tmp_path))).ask(Adder().add, times=1)
    with Journal(tmp_path / "journal") as journal, pytest.raises(JournalError, match="holds another run"):
        peers(journal.around(Calls(tmp_path)), amount=2).ask(Adder().add, times=1)


def question(step: str, number: int, **payload: object) -> bytes:
    return encode(Question(step, "fit", number, dict(payload)))


@pytest.mark.parametrize("step", ["draw", "much"])
def test_a_question_asked_again_gets_the_same_answer_and_spends_nothing(tmp_path, step):
    kept = PartyFolder(tmp_path / "shop")
    kept.begin(party())
    first = kept.answer(Adder(), question(step, 1))
    again = PartyFolder(tmp_path / "shop")
    assert again.answer(Adder(), question(step, 1)) == first
    assert [entry.times for entry in again.load().ledger.entries] == [1]


def test_a_question_older_than_the_partys_memory_is_refused(tmp_path):
    kept = PartyFolder(tmp_path / "shop")
    kept.begin(party())
    for number in range(1, 8):
        kept.answer(Adder(), question("draw", number))
    with pytest.raises(StepError, match="journal is older"):
        kept.answer(Adder(), question("draw", 2))


def test_changed_rows_and_memory_come_back_together(tmp_path):
    kept = PartyFolder(tmp_path / "shop")
    kept.begin(party(rows=150_000))
    for number in (1, 2, 3):
        kept.answer(Adder(), question("shrink", number))
    back = PartyFolder(tmp_path / "shop")
    assert back.load().data.rows == 149_997
    # The table is large, and so it is a file of its own; only the last one stays.
    assert len(list((tmp_path / "shop" / "memory.blobs").iterdir())) == 1


def test_a_party_at_work_can_be_loaded_as_it_was_after_some_answer(tmp_path):
    kept, seen = PartyFolder(tmp_path / "shop"), []
    kept.begin(party(rows=150_000))
    worker = Thread(target=lambda: [kept.answer(Adder(), question("shrink", number)) for number in range(1, 21)])
    worker.start()
    while worker.is_alive():
        loaded = PartyFolder(tmp_path / "shop").load()
        seen.append((loaded.data.rows, loaded.memory.get("rows", 150_000)))
    worker.join()
    assert all(rows == noted for rows, noted in seen)
    assert len({rows for rows, _ in seen}) > 1


def test_a_torn_memory_falls_back_on_the_answer_before_and_is_asked_again(tmp_path):
    kept = PartyFolder(tmp_path / "shop")
    kept.begin(party())
    kept.answer(Adder(), question("add", 1, times=1))
    second = kept.answer(Adder(), question("add", 2, times=1))
    shutil.copytree(tmp_path / "shop", tmp_path / "crashed")  # Nobody closed it.
    log = tmp_path / "crashed" / "memory.db-wal"
    log.write_bytes(log.read_bytes()[:-5])
    back = PartyFolder(tmp_path / "crashed")
    assert back.load().memory == {"sum": 1}
    assert back.answer(Adder(), question("add", 2, times=1)) == second


def test_the_memory_of_another_party_or_seed_is_refused(tmp_path):
    PartyFolder(tmp_path / "shop").begin(party())
    with pytest.raises(JournalError, match="memory of shop, not of insurer with this seed"):
        PartyFolder(tmp_path / "shop").begin(party("insurer"))


def test_a_journalled_run_equals_a_plain_one_and_can_be_replayed(tmp_path):
    cancer = small_federation("binary")
    plain = simulate(Linear(), cancer)
    for _ in range(2):
        kept = simulate(Linear(), cancer, runtime=Journalled(folder=str(tmp_path / "run")))
        assert same(kept, plain)


@pytest.fixture(scope="module")
def expected():
    return undisturbed()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_run_killed_again_and_again_ends_as_one_that_nothing_disturbed(tmp_path, expected, seed):
    found, killed = disturbed(tmp_path, seed, kills=5)
    assert killed
    assert same(found, expected)

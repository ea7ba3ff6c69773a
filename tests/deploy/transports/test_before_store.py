"""What versions before the store wrote is taken over on first opening; `before_store.tar.xz` was written by one."""

import shutil
import tarfile
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

from laconic.deploy.journal import Journal
from laconic.deploy.party_account import EpsilonAccount
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.transports.envelopes.mailbox import ReplayGuard
from laconic.errors import TornFile
from tests.deploy.test_journal import Adder, Calls, peers, question


@pytest.fixture
def before(tmp_path, monkeypatch):
    # A question is named by the module of its script, which was elsewhere then.
    monkeypatch.setattr(Adder, "__module__", "tests.runtime.test_journal")
    with tarfile.open(Path(__file__).with_name("before_store.tar.xz")) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def expected(before):
    return msgspec.json.decode((before / "expected.json").read_bytes())


def names(folder, *patterns):
    return sorted(path.name for pattern in patterns for path in folder.glob(pattern))


def test_a_run_goes_on_from_an_earlier_journal(before, expected):
    for _ in range(2):
        calls = Calls(before / "parties")
        with Journal(before / "journal") as journal:
            assert journal.secret.hex() == expected["secret"]
            others = peers(journal.around(calls))
            asked = [others.ask(Adder().add, times=2) for _ in "12"]
            asked.append(others.tolerant.ask(Adder().add, times=1))
            asked.append(others.only(("insurer",)).ask(Adder().add, times=1))
        assert asked == [{"shop": 2, "insurer": 2}, {"shop": 4, "insurer": 4}, {"insurer": 5}, {"insurer": 6}]
        assert calls.asked == []
    assert names(before, "journal*") == ["journal.db"]
    assert calls.folders["insurer"].load().memory == {"sum": 6}
    assert names(before / "parties" / "shop", "*") == ["memory.db", "memory.db-shm", "memory.db-wal"]


def test_an_earlier_journal_with_a_torn_end_is_asked_the_rest(before):
    content = (before / "journal").read_bytes()
    (before / "journal").write_bytes(content[:-5])
    calls = Calls(before / "parties")
    with Journal(before / "journal") as journal:
        others = peers(journal.around(calls))
        for _ in "12":
            others.ask(Adder().add, times=2)
        others.tolerant.ask(Adder().add, times=1)
        assert others.only(("insurer",)).ask(Adder().add, times=1) == {"insurer": 6}
    assert calls.asked == ["insurer"]


def test_an_earlier_journal_with_a_damaged_middle_is_an_error_and_stays(before):
    content = bytearray((before / "journal").read_bytes())
    content[len(content) // 2] ^= 1
    (before / "journal").write_bytes(content)
    for _ in range(2):
        with pytest.raises(TornFile, match="damaged at byte"):
            Journal(before / "journal")
    assert (before / "journal").read_bytes() == bytes(content)


def test_an_earlier_memory_keeps_its_rows_answers_and_ledger(before, expected):
    for _ in range(2):
        kept = PartyFolder(before / "memory")
        assert kept.begun
        assert (kept.load().data.rows, kept.load().memory) == (5, {"sum": 3})
        large, drawn = (kept.answer(Adder(), question(*asked)) for asked in (("much", 3), ("draw", 4)))
        assert (len(large), blake2b(large).hexdigest()) == (expected["size"], expected["large"])
        assert drawn.hex() == expected["drawn"]
        assert [entry.step for entry in kept.load().ledger.entries] == ["add", "much", "draw"]
        assert names(before / "memory", "memory.[01]", "table.*", "reply.*", "lock") == []


def test_an_earlier_memory_of_which_one_file_is_torn_is_that_before_the_last_answer(before):
    newest = before / "memory" / "memory.0"
    newest.write_bytes(newest.read_bytes()[:-5])
    kept = PartyFolder(before / "memory")
    assert [entry.step for entry in kept.load().ledger.entries] == ["add", "much"]


def test_an_earlier_memory_that_cannot_be_read_stays_as_it_is(before):
    for one in (before / "memory").glob("memory.*"):
        one.write_bytes(b"rubbish")
    shutil.copytree(before / "memory", before / "copy")
    with pytest.raises(TornFile, match=r"memory\.0 and its twin"):
        PartyFolder(before / "memory").load()
    there = {path.name: path.read_bytes() for path in (before / "copy").iterdir()}
    assert there.items() <= {path.name: path.read_bytes() for path in (before / "memory").iterdir()}.items()


def test_an_earlier_account_is_taken_over_to_the_last_figure(before, expected):
    for _ in range(2):
        spending = EpsilonAccount(before / "spent")
        assert spending.epsilon(1e-5) == expected["epsilon"]
        assert spending.has("two")
        assert names(before, "spent.[01]", "spent.lock") == []


def test_an_earlier_register_is_taken_over(before):
    for _ in range(2):
        register = ReplayGuard(before / "accepted")
        assert register.has("00ff", "run-a")
        assert not register.has("11ee", "run-a")
        assert not (before / "accepted").exists()

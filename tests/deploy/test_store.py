"""The store under crashes: killed processes, torn and damaged files, a full disk, several processes at once."""

import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import time
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.deploy.store import LARGE, Store, copy_kept
from laconic.errors import DataError, JournalError, StoreError, TornFile

FORK = multiprocessing.get_context("fork")


def store(folder, **how):
    return Store(folder / "kept", adopt=lambda _: [], **({"grows": True} | how))


def add(kept, number, content):
    with kept.writing():
        kept.put("entry", str(number), content)


def contents(kept):
    return [kept.content(record) for record in kept.records("entry")]


def crashed(folder, to):
    """The files as a crash leaves them: the store is still open, and nothing is tidied."""
    shutil.copytree(folder, to)
    (to / "kept.db-shm").unlink(missing_ok=True)
    return to


def test_what_was_written_comes_back_in_order_small_and_large(tmp_path):
    kept, bodies = store(tmp_path), [b"", b"small", bytes(LARGE), os.urandom(LARGE + 1), bytes(LARGE + 5)]
    for number, body in enumerate(bodies):
        add(kept, number, body)
    assert contents(kept) == contents(store(tmp_path)) == bodies
    assert len(list(kept.blobs.iterdir())) == 2
    record = kept.records("entry")[3]
    assert kept.part(record, 7, 9) == bodies[3][7:16]
    assert kept.part(kept.records("entry")[1], 1, 2) == b"ma"
    add(kept, 3, b"changed")
    assert contents(kept)[3] == b"changed"
    assert len(list(kept.blobs.iterdir())) == 1


def test_an_error_within_a_transaction_leaves_everything_as_it_was(tmp_path):
    kept = store(tmp_path)
    add(kept, 1, bytes(LARGE + 1))
    with pytest.raises(ZeroDivisionError), kept.writing():
        kept.put("entry", "1", b"changed")
        kept.put("entry", "2", os.urandom(LARGE + 1))
        raise ZeroDivisionError
    assert contents(kept) == [bytes(LARGE + 1)]
    add(kept, 3, b"")
    assert len(list(kept.blobs.iterdir())) == 1


@settings(max_examples=60, deadline=None)
@given(bodies=st.lists(st.binary(max_size=60), min_size=1, max_size=5), data=st.data())
def test_a_log_cut_off_anywhere_loses_only_what_was_not_whole(tmp_path_factory, bodies, data):
    folder = tmp_path_factory.mktemp("cut")
    (folder / "live").mkdir()
    kept = store(folder / "live", durable=False)
    kept.records("entry")
    log = folder / "live" / "kept.db-wal"
    ends = [log.stat().st_size]
    for number, body in enumerate(bodies):
        add(kept, number, body)
        ends.append(log.stat().st_size)
    cut = data.draw(st.integers(ends[0], ends[-1]))
    there = crashed(folder / "live", folder / "crashed")
    (there / "kept.db-wal").write_bytes(log.read_bytes()[:cut])
    again = store(there)
    whole = sum(end <= cut for end in ends) - 1
    assert contents(again) == bodies[:whole]
    add(again, "after", b"after")
    assert contents(store(there)) == [*bodies[:whole], b"after"]


def test_a_zeroed_end_is_torn_and_a_damaged_middle_is_an_error(tmp_path):
    (tmp_path / "live").mkdir()
    kept = store(tmp_path / "live")
    ends = []
    for number in range(4):
        add(kept, number, bytes([number]) * 50)
        ends.append((tmp_path / "live" / "kept.db-wal").stat().st_size)
    whole = (tmp_path / "live" / "kept.db-wal").read_bytes()
    torn = crashed(tmp_path / "live", tmp_path / "torn")
    (torn / "kept.db-wal").write_bytes(whole + bytes(70))
    assert len(contents(store(torn))) == 4
    for name, at in {"middle": ends[0] + 100, "head": 17}.items():
        there = crashed(tmp_path / "live", tmp_path / name)
        damaged = bytearray(whole)
        damaged[at] ^= 1
        (there / "kept.db-wal").write_bytes(damaged)
        with pytest.raises(TornFile, match=r"kept.db is damaged: .*log.*put back a copy"):
            contents(store(there))


@pytest.mark.parametrize("seed", range(3))
def test_any_bit_turned_is_found_or_harmless(tmp_path, seed):
    """What is read is what was written, or an error; only the last transactions of the log can be lost, as torn."""
    rng = np.random.default_rng(seed)
    (tmp_path / "live").mkdir()
    kept = store(tmp_path / "live", durable=False)
    bodies = [rng.bytes(int(rng.choice((10, 3000, LARGE + 10)))) for _ in range(8)]
    for number, body in enumerate(bodies):
        if number == 5:
            kept.close()  # What came before is in the database, the rest in its log.
        add(kept, number, body)
    files = [path for path in (tmp_path / "live").rglob("*") if path.is_file() and path.suffix != ".db-shm"]
    for trial in range(60):
        there = crashed(tmp_path / "live", tmp_path / str(trial))
        path = there / files[rng.integers(len(files))].relative_to(tmp_path / "live")
        content = bytearray(path.read_bytes())
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        try:
            found = contents(store(there))
        except StoreError:
            continue
        assert found == bodies[: len(found)]
        assert len(found) >= len(bodies) - (2 if path.suffix == ".db-wal" else 0)
        shutil.rmtree(there)


def test_a_store_for_one_process_is_open_once(tmp_path):
    kept = store(tmp_path, alone=True)
    add(kept, 1, b"one")
    with pytest.raises(JournalError, match="in use: another process has this run open"):
        contents(store(tmp_path, alone=True))
    kept.close()
    assert contents(store(tmp_path, alone=True)) == [b"one"]


def in_processes(count, work):
    running = [FORK.Process(target=work, args=(number,)) for number in range(count)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * count


@pytest.mark.parametrize("size", [1, LARGE + 1])
def test_processes_that_write_at_once_lose_nothing(tmp_path, size):
    def count(number):
        kept = store(tmp_path)
        for _ in range(20):
            with kept.writing():
                before = kept.find("entry", "sum")
                total = 0 if before is None else int.from_bytes(kept.content(before)[:4], "little")
                kept.put("entry", "sum", (total + 1).to_bytes(4, "little") + bytes(size))

    in_processes(4, count)
    kept = store(tmp_path)
    assert int.from_bytes(contents(kept)[0][:4], "little") == 80
    assert not kept.blobs.exists() or len(list(kept.blobs.iterdir())) == 1


def test_a_forked_process_does_not_disturb_the_one_it_came_from(tmp_path):
    kept = store(tmp_path)
    add(kept, "before", b"1")
    in_processes(1, lambda number: add(kept, "child", b"2"))
    add(kept, "after", b"3")
    assert contents(kept) == contents(store(tmp_path)) == [b"1", b"2", b"3"]


def test_a_reader_sees_the_last_whole_state_while_another_thread_writes(tmp_path):
    kept, seen = store(tmp_path), []
    add(kept, 1, b"before")
    with kept.writing():
        kept.put("entry", "1", b"after")
        reader = Thread(target=lambda: seen.append(contents(kept)))
        reader.start()
        reader.join()
    assert (seen, contents(kept)) == ([[b"before"]], [b"after"])


def test_killed_between_file_and_entry_neither_is_there(tmp_path):
    kept = store(tmp_path)
    add(kept, 1, b"before")

    def die(number):
        dying = store(tmp_path)
        with dying.writing():
            dying.put("entry", "2", bytes(LARGE + 1))
            os.kill(os.getpid(), signal.SIGKILL)

    process = FORK.Process(target=die, args=(0,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(list(kept.blobs.iterdir())) == 1
    again = store(tmp_path)
    assert contents(again) == [b"before"]
    add(again, 3, b"after")
    assert list(again.blobs.iterdir()) == []
    assert contents(again) == [b"before", b"after"]


def test_what_was_said_to_be_written_survives_any_kill(tmp_path):
    rng, written = np.random.default_rng(0), 0

    def write(first, said):
        kept = store(tmp_path)
        for number in range(first, first + 1000):
            add(kept, number, number.to_bytes(4, "little") * (LARGE // 3 if number % 3 == 0 else 5))
            os.write(said, b".")

    for _ in range(20):
        heard, said = os.pipe()
        process = FORK.Process(target=write, args=(written, said))
        process.start()
        os.close(said)
        time.sleep(rng.uniform(0.0, 0.15))
        process.kill()
        process.join()
        with os.fdopen(heard, "rb") as stream:
            count = len(stream.read())
        found = contents(store(tmp_path))
        assert [int.from_bytes(one[:4], "little") for one in found] == list(range(len(found)))
        assert written + count <= len(found) <= written + count + 1
        written = len(found)
    assert written > 20


@pytest.mark.parametrize(("size", "error"), [(2000, StoreError), (2 * LARGE, DataError)])
def test_a_full_disk_is_said_and_costs_nothing_that_was_written(tmp_path, size, error):
    def fill(number):
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE + 50_000, resource.RLIM_INFINITY))
        kept = store(tmp_path)
        for place in range(1000):
            try:
                add(kept, place, bytes(size) if place else b"first")
            except error as problem:
                assert "cannot write" in str(problem)
                assert len(contents(kept)) == place
                return
        raise AssertionError("the disk was never full")

    in_processes(1, fill)
    again = store(tmp_path)
    found = contents(again)
    assert found == [b"first"] + [bytes(size)] * (len(found) - 1)
    add(again, "after", b"after")
    assert contents(store(tmp_path)) == [*found, b"after"]


def test_all_files_are_for_their_owner_only_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        kept = Store(tmp_path / "made" / "kept", adopt=lambda _: [])
        add(kept, 1, bytes(LARGE + 1))
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "made").rglob("*") if path.is_file()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert len(modes) == 4
    assert {(tmp_path / "made").stat().st_mode & 0o777, kept.blobs.stat().st_mode & 0o777} == {0o700}


def test_what_cannot_be_used_is_said_in_plain_words(tmp_path):
    (tmp_path / "kept.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(TornFile, match=r"kept.db is damaged: file is not a database; put back"):
        contents(store(tmp_path))
    (tmp_path / "kept.db").unlink()
    with sqlite3.connect(tmp_path / "kept.db") as other:
        other.execute("CREATE TABLE people (name)")
    with pytest.raises(StoreError, match="not one of Laconic's; move it away"):
        contents(store(tmp_path))
    other.execute("PRAGMA user_version = 7")
    other.close()
    with pytest.raises(StoreError, match=r"format 7, and this Laconic reads up to 1.*install that one"):
        contents(store(tmp_path))


def test_a_store_that_another_process_holds_is_said_to_be_in_use(tmp_path):
    holder, other = store(tmp_path), store(tmp_path, patience=0.05)
    add(other, 1, b"")
    with holder.writing(), pytest.raises(StoreError, match=r"in use: another process has held it for 0.05 s"):
        add(other, 2, b"")


def test_a_copy_is_whole_while_others_write(tmp_path):
    (tmp_path / "live").mkdir()
    kept = store(tmp_path / "live")
    add(kept, 1, bytes(LARGE + 1))
    with kept.writing():
        kept.put("entry", "2", b"not yet")
        copy_kept(tmp_path / "live", tmp_path / "copy")
    assert contents(store(tmp_path / "copy")) == [bytes(LARGE + 1)]
    assert len(contents(kept)) == 2

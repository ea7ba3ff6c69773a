import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.core.errors import JournalError, TornFile
from laconic.runtime.records import Records
from laconic.runtime.whole import Slots, read_whole, write_whole


@given(content=st.binary(max_size=300), cut=st.integers(1, 400))
def test_a_file_that_was_cut_off_anywhere_is_found_torn(tmp_path_factory, content, cut):
    path = tmp_path_factory.getbasetemp() / "whole"
    write_whole(path, content, durable=False)
    assert read_whole(path) == content
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(TornFile, match="torn"):
        read_whole(path)


@given(content=st.binary(min_size=1, max_size=300), data=st.data())
def test_a_file_with_any_bit_turned_is_found_torn(tmp_path_factory, content, data):
    path = tmp_path_factory.getbasetemp() / "turned"
    write_whole(path, content, durable=False)
    written = bytearray(path.read_bytes())
    written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(written)
    with pytest.raises(TornFile):
        read_whole(path)


@given(lengths=st.lists(st.integers(0, 200), min_size=2, max_size=6), cut=st.integers(0, 250))
def test_a_torn_slot_leaves_the_value_before(tmp_path_factory, lengths, cut):
    folder = tmp_path_factory.mktemp("slots")
    values = [bytes([number]) * length for number, length in enumerate(lengths)]
    slots = Slots(folder / "value", durable=False)
    for value in values:
        slots.write(value)
    last = folder / f"value.{(len(values) - 1) % 2}"
    last.write_bytes(last.read_bytes()[:cut])
    whole = cut >= 8 + lengths[-1] + 32
    assert Slots(folder / "value").read() == (values[-1] if whole else values[-2])


def test_two_torn_slots_are_an_error_that_names_them(tmp_path):
    slots = Slots(tmp_path / "value")
    for value in (b"one", b"two"):
        slots.write(value)
    for place in (0, 1):
        (tmp_path / f"value.{place}").write_bytes(b"rubbish")
    with pytest.raises(TornFile, match=r"value\.0 and its twin"):
        Slots(tmp_path / "value").read()


def test_slots_know_when_another_process_wrote(tmp_path):
    one, other = Slots(tmp_path / "value"), Slots(tmp_path / "value")
    one.write(b"first")
    assert other.read() == b"first"
    one.write(b"second")
    assert other.stale
    assert not one.stale


@given(bodies=st.lists(st.binary(max_size=60), min_size=1, max_size=5), data=st.data())
def test_records_cut_off_anywhere_lose_only_what_was_not_whole(tmp_path_factory, bodies, data):
    path = tmp_path_factory.mktemp("records") / "journal"
    records = Records(path)
    ends = [0]
    for body in bodies:
        records.append(b"note", body)
        ends.append(path.stat().st_size)
    records.close()
    cut = data.draw(st.integers(0, ends[-1]))
    path.write_bytes(path.read_bytes()[:cut])
    again = Records(path)
    whole = sum(end <= cut for end in ends) - 1
    assert [again.body(record) for record in again] == bodies[:whole]
    assert again.torn == cut - ends[whole]
    again.append(b"note", b"after")
    again.close()
    assert [record.note for record in Records(path)] == [b"note"] * (whole + 1)


def test_a_zeroed_end_is_torn_and_a_damaged_middle_is_an_error(tmp_path):
    path = tmp_path / "journal"
    records = Records(path)
    for number in range(3):
        records.append(b"note", bytes([number]) * 50)
    records.close()
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(70))
    again = Records(path)
    assert again.torn == 70
    again.close()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(TornFile, match="damaged at byte"):
        Records(path)
    assert path.read_bytes() == bytes(damaged)


def test_one_file_of_records_is_open_once(tmp_path):
    records = Records(tmp_path / "journal")
    with pytest.raises(JournalError, match="in use"):
        Records(tmp_path / "journal")
    records.close()
    Records(tmp_path / "journal").close()

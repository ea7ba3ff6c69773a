import os
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.atomic_files import make_private_folder, read_sealed, write_sealed, write_whole
from laconic.errors import DataError, TornFile


@given(content=st.binary(max_size=300), cut=st.integers(1, 400))
def test_a_file_that_was_cut_off_anywhere_is_found_torn(tmp_path_factory, content, cut):
    path = tmp_path_factory.getbasetemp() / "whole"
    write_sealed(path, content, durable=False)
    assert read_sealed(path) == content
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(TornFile, match="torn"):
        read_sealed(path)


@given(content=st.binary(min_size=1, max_size=300), data=st.data())
def test_a_file_with_any_bit_turned_is_found_torn(tmp_path_factory, content, data):
    path = tmp_path_factory.getbasetemp() / "turned"
    write_sealed(path, content, durable=False)
    written = bytearray(path.read_bytes())
    written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(written)
    with pytest.raises(TornFile):
        read_sealed(path)


def test_private_files_and_folders_are_for_their_owner_only_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        make_private_folder(tmp_path / "a" / "b")
        write_whole(tmp_path / "a" / "b" / "open", b"1")
        write_whole(tmp_path / "a" / "b" / "private", b"1", private=True)
        write_sealed(tmp_path / "a" / "b" / "sealed", b"1")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "open": 0o666, "private": 0o600, "sealed": 0o600}


def test_a_full_disk_leaves_the_file_of_before_and_nothing_else(tmp_path):
    write_whole(tmp_path / "report", b"before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(DataError, match=r"cannot write .*report: file too large"):
            write_whole(tmp_path / "report", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"report": b"before"}

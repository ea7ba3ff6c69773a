import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from laconic.errors import DataError
from laconic.inference.bundle_files import (
    FORMAT,
    HEAD,
    PartState,
    digest,
    folder_name,
    join_arrays,
    part_arrays,
    read_folder,
    read_uses,
    write_folder,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
ARRAYS = st.sampled_from(["f4", "f8", "f2", "i8", "u1", "?"]).flatmap(
    lambda kind: arrays(kind, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


@settings(max_examples=60, deadline=None)
@given(value=VALUES)
def test_what_a_party_remembers_comes_back_to_the_bit(value, tmp_path_factory):
    folder = tmp_path_factory.mktemp("part") / "bank"
    write_folder(folder, {"memory": value}, {})
    assert same(value, read_folder(folder)["memory"])


def test_a_view_is_saved_as_what_it_shows(tmp_path):
    view = np.arange(12.0).reshape(3, 4)[:, ::2].T
    write_folder(tmp_path / "bank", {"memory": {"net": view}}, {})
    assert (read_folder(tmp_path / "bank")["memory"]["net"] == view).all()


def test_what_is_no_plain_value_is_refused_and_nothing_stays(tmp_path):
    with pytest.raises(TypeError, match="cannot be saved: a set"):
        write_folder(tmp_path / "bank", {"memory": {"seen": {1, 2}}}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_changed_file_is_found_out(tmp_path):
    write_folder(tmp_path / "bank", {"memory": {"net": np.zeros(3)}}, {})
    file = tmp_path / "bank" / "memory.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    with pytest.raises(DataError, match=r"memory\.safetensors is not as it was saved .* backup"):
        read_folder(tmp_path / "bank")


def test_a_missing_file_is_found_out(tmp_path):
    write_folder(tmp_path / "bank", {"memory": 1}, {})
    (tmp_path / "bank" / "memory.json").unlink()
    with pytest.raises(DataError, match=r"lacks its file memory\.json"):
        read_folder(tmp_path / "bank")


@pytest.mark.parametrize(("step", "advice"), [(-1, "train and save it again"), (1, "use that version or a newer one")])
def test_another_format_is_refused_with_what_to_do(tmp_path, step, advice):
    write_folder(tmp_path / "bank", {"memory": 1}, {})
    head = json.loads((tmp_path / "bank" / HEAD).read_text())
    head["format"] = FORMAT + step
    (tmp_path / "bank" / HEAD).write_text(json.dumps(head))
    with pytest.raises(DataError, match=advice):
        read_folder(tmp_path / "bank")


def test_a_folder_that_is_no_model_is_neither_read_nor_overwritten(tmp_path):
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "letters.txt").write_text("dear")
    with pytest.raises(DataError, match="holds no model"):
        read_folder(tmp_path / "bank")
    with pytest.raises(DataError, match="is there already and holds no model"):
        write_folder(tmp_path / "bank", {"memory": 1}, {})
    assert (tmp_path / "bank" / "letters.txt").read_text() == "dear"


def test_digests_that_point_outside_the_folder_are_refused(tmp_path):
    write_folder(tmp_path / "bank", {"memory": 1}, {})
    (tmp_path / "secret.json").write_text("{}")
    head = json.loads((tmp_path / "bank" / HEAD).read_text())
    head["digests"]["../secret.json"] = digest(tmp_path / "secret.json")
    (tmp_path / "bank" / HEAD).write_text(json.dumps(head))
    with pytest.raises(DataError, match="lacks its file"):
        read_folder(tmp_path / "bank")


def test_a_tree_changed_by_hand_is_an_error_that_says_so():
    tree, arrays_found = part_arrays({"net": np.zeros(2)})
    with pytest.raises(DataError, match="changed by hand"):
        join_arrays(tree, {})
    assert len(arrays_found) == 1


@pytest.mark.parametrize("name", ["..", "a/b", "", "bank", "Köln & Co.", "%2E"])
def test_every_party_name_makes_a_folder_name_of_its_own(name, tmp_path):
    path = tmp_path / folder_name(name)
    assert path.parent == tmp_path
    path.mkdir()
    assert path.resolve().parent == tmp_path.resolve()


def test_what_a_broken_off_writing_moved_aside_is_brought_back(tmp_path):
    write_folder(tmp_path / "bank", {"memory": 1}, {})
    (tmp_path / "bank").rename(tmp_path / "bank.old")
    (tmp_path / "bank.part").mkdir()
    assert read_folder(tmp_path / "bank")["memory"] == 1
    (tmp_path / "bank").rename(tmp_path / "bank.old")
    write_folder(tmp_path / "bank", {"memory": 2}, {})
    assert read_folder(tmp_path / "bank")["memory"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["bank"]


@pytest.mark.parametrize("text", ['{"uses": 3', "", "[3]", '{"uses": "x"}', "\udcff"])
def test_a_torn_count_of_uses_is_named_with_how_to_mend_it(text, tmp_path):
    write_folder(tmp_path / "bank", {"a": 1}, {})
    (tmp_path / "bank" / "uses.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"uses\.json cannot be read: .*N above the number of uses so far"):
        read_uses(tmp_path / "bank")


def test_uses_are_counted_and_survive_saving_again(tmp_path):
    write_folder(tmp_path / "bank", {"memory": 1}, {})
    PartState(tmp_path / "bank").count_use()
    write_folder(tmp_path / "bank", {"memory": 2}, {})
    PartState(tmp_path / "bank").count_use()
    assert read_uses(tmp_path / "bank") == 2
    assert read_folder(tmp_path / "bank")["memory"] == 2


def test_uses_that_an_earlier_version_counted_go_on(tmp_path):
    write_folder(tmp_path / "bank", {"memory": 1}, {})
    (tmp_path / "bank" / "uses.json").write_text('{"uses": 3}')
    assert read_uses(tmp_path / "bank") == 3
    assert PartState(tmp_path / "bank").count_use() == 3
    assert read_uses(tmp_path / "bank") == 4
    assert not (tmp_path / "bank" / "uses.json").exists()


def test_what_uses_a_part_that_was_replaced_has_to_start_again(tmp_path):
    write_folder(tmp_path / "bank", {"memory": 1}, {})
    state = PartState(tmp_path / "bank")
    state.count_use()
    write_folder(tmp_path / "bank", {"memory": 2}, {})
    with pytest.raises(DataError, match="was replaced or moved; start again"):
        state.count_use()

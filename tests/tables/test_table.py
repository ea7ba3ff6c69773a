"""A table that exists is sound; one that cannot be used says whose it is and what to do."""

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.errors import DataError
from laconic.tables.columns import Column
from laconic.tables.table import Table, fingerprint, joined
from laconic.tables.task import Task

BINARY = Task(kind="binary", classes=("no", "yes"), label="paid")
NUMBER = Task(kind="regression", label="price")
COLUMNS = (Column("age"), Column("town", "categorical", ("Bonn", "Ulm")))
RAW = np.array([[30, 0], [40, 1], [50, 0], [60, np.nan], [70, 1], [80, 1]], dtype=float)
Y = np.array([0, 1, 0, 1, 1, 0])
CUTS = {"train": np.array([0, 1, 2]), "valid": np.array([3]), "test": np.array([4, 5])}


def table(**changes):
    given_ = {"raw": RAW, "columns": COLUMNS, "ids": [f"p{i}" for i in range(6)], "party": "bank"} | changes
    return Table(given_.pop("raw"), given_.pop("columns"), **given_)


def refused(words, **changes):
    with pytest.raises(DataError, match=words) as caught:
        table(**changes)
    assert "'bank'" in str(caught.value)


def test_a_part_has_the_prepared_rows_and_labels_of_its_cut():
    x, y = table(y=Y, task=BINARY, cuts=CUTS).part("test")
    assert x.shape == (2, 3)
    assert y.tolist() == [1, 0]


def test_a_party_without_labels_gives_none():
    assert table(cuts=CUTS).part("train")[1] is None


def test_an_unknown_cut_names_those_there_are():
    with pytest.raises(ValueError, match="no cut 'trian'; it has train, valid, test"):
        table(cuts=CUTS).part("trian")


def test_test_rows_never_touch_how_rows_are_prepared():
    changed = RAW.copy()
    changed[[3, 4, 5]] = [[1e9, 1], [np.nan, np.nan], [-1e9, 0]]
    one, other = table(cuts=CUTS), table(raw=changed, cuts=CUTS)
    assert one.recipe == other.recipe
    assert (one.part("train")[0] == other.part("train")[0]).all()


def test_own_rows_are_training_rows_too():
    cuts = {"train": np.array([0, 1]), "own": np.array([2, 3]), "test": np.array([4, 5])}
    assert table(cuts=cuts).recipe.parts[0].centre == pytest.approx(45)


def test_without_cuts_every_row_is_for_training():
    assert table().recipe.parts[0].centre == pytest.approx(55)


def test_shape_is_that_of_one_prepared_row():
    assert table(cuts=CUTS).shape == (3,)
    images = np.random.default_rng(0).integers(0, 255, (6, 1, 4, 5)).astype(np.uint8)
    assert table(raw=images, columns=[Column("image", "pixels")]).shape == (1, 4, 5)


def test_a_label_holder_may_have_no_columns():
    hub = table(raw=np.empty((6, 0)), columns=(), y=Y, task=BINARY, cuts=CUTS)
    assert hub.part("train")[0].shape == (3, 0)
    assert hub.shape == (0,)


def test_a_server_may_have_no_data_at_all():
    server = Table.from_plain(Table.without_rows("server").to_plain())
    assert (server.rows, server.shape, server.x.shape, server.y) == (0, (0,), (0, 0), None)


def test_own_rows_may_be_unlabelled_and_then_have_no_labels():
    cuts = {"train": np.array([0, 1]), "own": np.array([2, 3]), "test": np.array([4, 5])}
    hub = table(y=np.array([0, 1, -1, -1, 1, 0]), task=BINARY, cuts=cuts)
    assert hub.part("own")[1] is None
    assert hub.part("train")[1].tolist() == [0, 1]


def test_take_reorders_rows_ids_and_labels_and_learns_anew():
    one = table(y=Y, task=BINARY, cuts=CUTS)
    other = one.take(np.array([5, 1, 3]), {"train": np.array([0, 1]), "test": np.array([2])})
    assert other.ids.tolist() == ["p5", "p1", "p3"]
    assert other.y.tolist() == [0, 1, 1]
    assert other.recipe.parts[0].centre == pytest.approx(60)


def test_a_given_recipe_prepares_later_rows():
    known = table(cuts=CUTS)
    later = Table(RAW[:1], COLUMNS, party="bank", recipe=known.recipe)
    assert (later.x == known.x[:1]).all()


def test_rows_prepared_by_a_given_recipe_may_be_of_one_class():
    known = table(cuts=CUTS)
    later = Table(RAW[:2], COLUMNS, y=np.array([1, 1]), task=BINARY, recipe=known.recipe)
    assert later.y.tolist() == [1, 1]


def test_ids_are_kept_but_compared_as_text_without_white_space():
    assert table(ids=[" 007", "8 ", "9", "a", "b", "c"]).keys.tolist()[:2] == ["007", "8"]
    assert table(ids=np.arange(6)).keys.tolist()[:2] == ["0", "1"]
    assert table(ids=np.arange(6)).ids.dtype.kind == "i"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.booleans())
def test_a_table_is_the_same_after_to_plain_and_from_plain(seed, text_ids, labelled, cut):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(4, 30))
    raw = rng.normal(size=(rows, 2))
    raw[:, 1] = rng.integers(0, 2, rows)
    raw[0, 0] = np.nan
    one = Table(
        raw,
        COLUMNS,
        ids=[f"p{i}" for i in range(rows)] if text_ids else np.arange(rows),
        y=np.arange(rows) / 7 if labelled else None,
        task=NUMBER if labelled else None,
        cuts={"train": np.arange(rows - 1), "test": np.array([rows - 1])} if cut else None,
        party="shop",
    )
    other = Table.from_plain(one.to_plain())
    assert (other.columns, other.task, other.party, other.recipe) == (one.columns, one.task, one.party, one.recipe)
    assert np.array_equal(other.raw, one.raw, equal_nan=True)
    assert np.array_equal(other.x, one.x)
    assert np.array_equal(other.ids, one.ids)
    assert other.ids.dtype == one.ids.dtype
    assert labelled == (other.y is not None)
    assert {name: rows.tolist() for name, rows in other.cuts.items()} == {
        name: rows.tolist() for name, rows in one.cuts.items()
    }


def test_no_rows_are_refused():
    refused("no rows", raw=RAW[:0], ids=[])


def test_no_columns_are_refused():
    refused("no columns", raw=np.empty((6, 0)), columns=())


def test_duplicate_ids_are_named():
    refused("2 ids occur more than once, such as a, b", ids=["a", "b", "a", "c", "b ", "d"])


@pytest.mark.parametrize("nothing", ["", "  ", None, float("nan")])
def test_a_missing_id_is_refused_with_its_row(nothing):
    refused("1 of 6 rows have no id, the first is row 3", ids=["a", "b", nothing, "c", "d", "e"])


def test_a_missing_whole_number_id_is_refused():
    refused("no id, the first is row 2", ids=np.array([1, np.nan, 3, 4, 5, 6]))


def test_labels_of_another_length_are_refused():
    refused("give one label per row", y=Y[:4], task=BINARY)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_label_that_is_no_number_is_refused(bad):
    refused("label 'price': row 2 has", y=np.array([1, bad, 3, 4, 5, 6]), task=NUMBER)


def test_a_missing_class_is_refused():
    refused("label 'paid': row 2 has nan", y=np.array([1, np.nan, 0, 1, 0, 1]), task=BINARY)


def test_one_class_only_is_refused():
    refused("only class 'yes' among 6 training rows", y=np.ones(6), task=BINARY)


def test_one_class_among_training_rows_is_refused():
    refused("only class 'no'", y=np.array([0, 0, 0, 1, 1, 1]), task=BINARY, cuts=CUTS)


def test_a_class_code_without_a_name_is_refused():
    refused("code 2 but only 2 classes", y=np.array([0, 1, 2, 0, 1, 0]), task=BINARY)


def test_a_cut_outside_the_table_is_refused():
    refused("'test' points at row 6", cuts=CUTS | {"test": np.array([4, 6])})


def test_a_row_twice_in_a_cut_is_refused():
    refused("more than once", cuts={"train": np.array([1, 1])})


@pytest.mark.parametrize("other", ["valid", "test", "own"])
def test_training_rows_may_not_be_scored_on(other):
    refused(f"'train' and '{other}' share 1 rows, row 2", cuts={"train": np.array([0, 1, 2]), other: np.array([2, 3])})


def test_infinity_is_refused_when_the_table_is_made():
    raw = RAW.copy()
    raw[4, 0] = np.inf
    refused("column 'age': found inf in row 5", raw=raw)


def test_a_party_of_constant_columns_is_refused():
    refused(r"age, town\) is the same", raw=np.ones((6, 2)))


def test_two_columns_of_one_name_are_refused():
    refused("two columns are called 'age'", columns=(Column("age"), Column("age")))


def test_labels_need_a_task():
    with pytest.raises(ValueError, match="no task"):
        table(y=Y)


def test_the_fingerprint_of_ids_is_that_of_each_length_and_id_in_order():
    ids = ["ä1", "q", "7:x", "日本", "p" * 300]
    table = Table(np.arange(5.0)[:, None], [Column("size")], ids=ids, cuts={"train": [3, 0, 4], "test": [2]}, party="a")
    whole = blake2b(digest_size=16, person=b"laconic rows")
    whole.update("train 3\0002:日本2:ä1300:".encode() + b"p" * 300 + b"test 1\0003:7:x")
    assert fingerprint(table) == whole.hexdigest()
    assert fingerprint(table.with_cut("test", np.array([], dtype=int))) != fingerprint(table)


def test_whole_numbers_and_their_texts_have_one_fingerprint_and_one_text_each():
    numbers = np.array([7, 10, 123456, 0, -5, 99])
    raw, columns = np.arange(6.0)[:, None], (Column("c"),)
    as_numbers, as_texts = (
        Table(raw, columns, ids=ids, cuts={"train": np.array([3, 0, 5])}) for ids in (numbers, numbers.astype(str))
    )
    assert as_numbers.key_column.to_pylist() == as_texts.key_column.to_pylist() == [str(one) for one in numbers]
    assert fingerprint(as_numbers) == fingerprint(as_texts)
    assert bytes(joined(as_numbers.key_column)) == b"7101234560-599"


def test_a_party_whose_only_other_cell_comes_late_is_not_refused_and_one_without_it_is():
    raw = np.ones((3000, 1))
    with pytest.raises(DataError, match="same in all of its 3000 training rows"):
        Table(raw, (Column("c"),), ids=np.arange(3000))
    raw[2999] = np.nan
    assert Table(raw, (Column("c"),), ids=np.arange(3000)).rows == 3000

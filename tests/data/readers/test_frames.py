"""A federation from the user's own DataFrames, and one clear error for each kind of bad input."""

import numpy as np
import pandas as pd
import pytest

from laconic.data.readers.frames import from_frames
from laconic.errors import DataError
from laconic.tables import Task


def frames(**changes):
    bank = pd.DataFrame(
        {
            "person": ["007", "8", "9", "10"],
            "income": [10.5, 20, None, 40],
            "town": ["Ulm", "Bonn", "Ulm ", None],
            "paid": ["yes", "no", "yes", "no"],
        }
    )
    shop = pd.DataFrame(
        {"person": ["9", "8", "007", "11"], "visits": [1, 2, 3, 4], "member": [True, False, True, True]}
    )
    return {"bank": bank.assign(**changes.get("bank", {})), "shop": shop.assign(**changes.get("shop", {}))}


def federation(task=None, kinds=None, **changes):
    return from_frames(frames(**changes), id="person", label="paid", task=task, kinds=kinds)


def refused(words, **changes):
    with pytest.raises(DataError, match=words):
        federation(**changes)


def test_each_party_gets_its_own_columns_and_the_label_holder_is_the_hub():
    made = federation()
    assert made.hub == "bank"
    assert made.aligned is False
    assert [column.name for column in made.tables["bank"].columns] == ["income", "town"]
    assert [column.kind for column in made.tables["shop"].columns] == ["numeric", "categorical"]
    assert made.tables["shop"].y is None
    assert made.facts["kinds"]["bank"] == {"income": "numeric", "town": "categorical"}


def test_ids_keep_leading_zeros():
    assert federation().tables["bank"].keys.tolist() == ["007", "8", "9", "10"]


def test_missing_cells_stay_missing_and_levels_are_stripped():
    bank = federation().tables["bank"]
    assert bank.columns[1].levels == ("Bonn", "Ulm")
    assert np.array_equal(bank.raw[:, 1], [1, 0, 1, np.nan], equal_nan=True)
    assert np.isnan(bank.raw[2, 0])


def test_text_labels_are_classes_in_the_order_of_the_alphabet():
    made = federation()
    assert made.task == Task(kind="binary", classes=("no", "yes"), label="paid")
    assert made.tables["bank"].y.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("labels", "kind", "classes"),
    [
        ([True, False, True, False], "binary", ("False", "True")),
        ([1, -1, 1, -1], "binary", ("-1", "1")),
        ([0.0, 1.0, 1.0, 0.0], "binary", ("0", "1")),
        ([2, 10, 1, 2], "multiclass", ("1", "2", "10")),
        (["b", "a", "c", "a"], "multiclass", ("a", "b", "c")),
        ([0.5, 1.25, 3.0, 2.0], "regression", ()),
    ],
)
def test_the_task_is_inferred_from_the_labels(labels, kind, classes):
    task = federation(bank={"paid": labels}).task
    assert (task.kind, task.classes) == (kind, classes)


def test_many_whole_numbers_are_a_quantity():
    bank = pd.DataFrame({"person": range(50), "x": range(50), "paid": range(50)})
    made = from_frames({"bank": bank, "shop": bank[["person", "x"]]}, id="person", label="paid")
    assert made.task.kind == "regression"


def test_the_task_can_be_given():
    made = federation(Task(kind="regression"), bank={"paid": [1, 2, 3, 1]})
    assert made.tables["bank"].y.tolist() == [1, 2, 3, 1]
    made = federation(Task(kind="binary", classes=("yes", "no")))
    assert made.tables["bank"].y.tolist() == [0, 1, 0, 1]


def test_a_class_not_named_in_the_task_is_refused():
    refused("'bank', label 'paid': found 'no' in row 2", task=Task(kind="binary", classes=("yes", "maybe")))


def test_three_classes_are_not_binary():
    refused("binary but there are 3 classes", task=Task(kind="binary"), bank={"paid": ["a", "b", "c", "a"]})


def test_the_kind_of_a_column_can_be_given():
    made = federation(kinds={"visits": "categorical"})
    assert made.tables["shop"].columns[0].levels == ("1", "2", "3", "4")


def test_a_kind_for_a_column_that_is_not_there_is_refused():
    refused("'vists' that no party has", kinds={"vists": "numeric"})


def test_dates_become_days():
    made = federation(shop={"visits": pd.to_datetime(["1970-01-02", "1970-01-03", None, "1970-01-05"])})
    assert np.array_equal(made.tables["shop"].raw[:, 0], [1, 2, np.nan, 4], equal_nan=True)


def test_numbers_written_as_text_are_numbers():
    made = federation(shop={"visits": ["1", " 2", "", "4e1"]})
    assert np.array_equal(made.tables["shop"].raw[:, 0], [1, 2, np.nan, 40], equal_nan=True)


def test_a_stray_word_among_numbers_is_noted_with_its_cell():
    made = federation(shop={"visits": ["1", "two", "3", "4"]})
    assert made.tables["shop"].columns[0].levels == ("1", "3", "4", "two")
    assert made.facts["notes"] == [
        "shop, column 'visits': most cells are numbers, but 1 are text, such as 'two' in row 2; all are taken as levels"
    ]


def test_a_word_in_a_column_said_to_be_numeric_is_refused():
    refused("'bank', column 'town': found 'Ulm' in row 1", kinds={"town": "numeric"})


def test_a_party_without_the_id_column_is_named():
    broken = frames()
    broken["shop"] = broken["shop"].rename(columns={"person": "customer"})
    with pytest.raises(DataError, match="'shop' has no id column 'person'; its columns are customer, visits"):
        from_frames(broken, id="person", label="paid")


def test_a_row_without_an_id_is_left_out_with_a_note():
    made = federation(shop={"person": ["9", "8", None, "11"]})
    assert made.tables["shop"].keys.tolist() == ["9", "8", "11"]
    assert made.facts["notes"] == ["shop, id 'person': 1 of 4 rows have no id, the first is row 3, and are left out"]


def test_of_several_rows_of_one_id_the_first_is_kept_with_a_note():
    made = federation(bank={"person": ["7", "8", "8 ", "9"]})
    assert made.tables["bank"].keys.tolist() == ["7", "8", "9"]
    assert made.tables["bank"].raw[:, 0].tolist() == [10.5, 20, 40]
    (note,) = made.facts["notes"]
    assert "1 rows have the id of an earlier row and are left out; 1 of them differ from it, such as the id 8" in note


def test_a_label_at_no_party_is_refused():
    with pytest.raises(DataError, match=r"no party has the label column 'payed'.*bank: person, income, town, paid"):
        from_frames(frames(), id="person", label="payed")


def test_a_label_at_two_parties_is_refused():
    refused("label column 'paid' is at bank and shop", shop={"paid": [1, 0, 1, 0]})


@pytest.mark.parametrize("labels", [["yes", None, "no", "no"], [1.0, np.nan, 0.0, 1.0], [1.0, np.inf, 0.0, 1.0]])
def test_a_missing_or_infinite_label_is_refused(labels):
    refused("'bank', label 'paid': 1 of 4 labels.*row 2", bank={"paid": labels})


def test_infinity_in_a_column_is_refused():
    refused("'bank', column 'income': found inf in row 1", bank={"income": [np.inf, 1, 2, 3]})


def test_one_class_only_is_refused():
    refused("'bank', label 'paid': found only class 'yes'", bank={"paid": ["yes"] * 4})


def test_a_party_whose_columns_never_vary_is_refused():
    refused(r"'shop': every one of its columns \(visits, member\)", shop={"visits": [1] * 4, "member": [True] * 4})


def test_one_constant_column_is_dropped():
    made = federation(shop={"visits": [1] * 4})
    assert set(made.tables["shop"].recipe.sources) == {"member"}


def test_a_party_with_nothing_but_ids_is_refused():
    with pytest.raises(DataError, match="'shop' has no columns"):
        from_frames({"bank": frames()["bank"], "shop": frames()["shop"][["person"]]}, id="person", label="paid")


def test_a_party_without_rows_is_refused():
    with pytest.raises(DataError, match="'shop' has no rows"):
        from_frames({"bank": frames()["bank"], "shop": frames()["shop"][:0]}, id="person", label="paid")


def test_a_label_holder_without_columns_is_welcome():
    made = from_frames(
        {"bank": frames()["bank"][["person", "paid"]], "shop": frames()["shop"]}, id="person", label="paid"
    )
    assert made.tables["bank"].shape == (0,)


def test_two_columns_of_one_name_are_refused():
    twice = frames()["shop"].set_axis(["person", "visits", "visits"], axis=1)
    with pytest.raises(DataError, match="'shop': two columns are called 'visits'"):
        from_frames({"bank": frames()["bank"], "shop": twice}, id="person", label="paid")


@pytest.mark.parametrize("wrong", [list, lambda frames: {"bank": 3}, lambda frames: dict(enumerate(frames))])
def test_frames_that_name_no_party_are_refused_with_an_example(wrong):
    frames = [pd.DataFrame({"id": ["a", "b"], "y": [0, 1]}), pd.DataFrame({"id": ["a", "b"], "x": [1, 2]})]
    with pytest.raises(TypeError, match=r'such as \{"bank": bank, "shop": shop\}'):
        from_frames(wrong(frames), id="id", label="y")

"""Cuts of columns and of images."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.data.datasets import Dataset, load
from laconic.data.partition.columns import (
    Biased,
    Cut,
    Equal,
    Groups,
    Patches,
    Quadrants,
    Rows,
    deal,
    party_names,
    usual_cut,
)
from laconic.tables import Column, Task

RNG = np.random.default_rng


def table_of(columns):
    return Dataset(
        name="small",
        raw=RNG(0).normal(size=(50, columns)),
        columns=tuple(Column(f"c{i}") for i in range(columns)),
        y=np.arange(50) % 2,
        task=Task(kind="binary", classes=("no", "yes")),
        groups={"a": ("c0",), "b": tuple(f"c{i}" for i in range(1, columns))},
    )


def images(height=6, width=4):
    return Dataset(
        name="pictures",
        raw=RNG(0).integers(0, 256, (30, 2, height, width)).astype(np.uint8),
        columns=(Column("image", "pixels"),),
        y=np.arange(30) % 2,
        task=Task(kind="binary", classes=("no", "yes")),
    )


def names_of(pieces):
    return [column.name for columns, _ in pieces.values() for column in columns]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30))
def test_equal_parts_the_columns_without_loss(columns, parties):
    data = table_of(columns)
    if parties > columns:
        with pytest.raises(ValueError, match="too few"):
            Equal(parties=parties).pieces(data, RNG(0))
        return
    pieces = Equal(parties=parties).pieces(data, RNG(0))
    sizes = [len(columns) for columns, _ in pieces.values()]
    assert names_of(pieces) == [column.name for column in data.columns]
    assert max(sizes) - min(sizes) <= 1
    assert np.array_equal(np.hstack([cells for _, cells in pieces.values()]), data.raw)


def test_groups_are_the_sets_own_unless_given():
    data = table_of(5)
    assert list(Groups().pieces(data, RNG(0))) == ["a", "b"]
    given_ = Groups(groups={"shop": ("c3", "c1"), "bank": ("c0",)}).pieces(data, RNG(0))
    assert names_of(given_) == ["c3", "c1", "c0"]
    assert np.array_equal(given_["shop"][1], data.raw[:, [3, 1]])


def test_groups_that_do_not_fit_are_refused():
    data = table_of(3)
    with pytest.raises(ValueError, match="no column 'age'"):
        Groups(groups={"bank": ("age",)}).pieces(data, RNG(0))
    with pytest.raises(ValueError, match="in group 'bank' and in 'shop'"):
        Groups(groups={"bank": ("c0",), "shop": ("c0",)}).pieces(data, RNG(0))


def test_quadrants_put_together_are_the_image():
    data = images()
    parts = [cells for _, cells in Quadrants().pieces(data, RNG(0)).values()]
    whole = np.concatenate([np.concatenate(parts[:2], axis=3), np.concatenate(parts[2:], axis=3)], axis=2)
    assert np.array_equal(whole, data.raw)


@pytest.mark.parametrize("parties", [1, 2, 4, 6])
def test_bands_put_together_are_the_image(parties):
    data = images()
    parts = [cells for _, cells in Rows(parties=parties).pieces(data, RNG(0)).values()]
    assert len(parts) == parties
    assert np.array_equal(np.concatenate(parts, axis=2), data.raw)


def test_images_dealt_by_quadrants_keep_their_shape():
    federation = deal(images(), Quadrants())
    assert {table.shape for table in federation.tables.values()} == {(2, 3, 2)}


def test_cuts_of_the_wrong_kind_say_which_to_use():
    with pytest.raises(ValueError, match="use Quadrants"):
        Equal(parties=2).pieces(images(), RNG(0))
    with pytest.raises(ValueError, match="use Equal"):
        Quadrants().pieces(table_of(4), RNG(0))


def test_biased_gives_the_telling_columns_to_one_party():
    data = table_of(10)
    data.raw[:, 7] = data.y + RNG(1).normal(scale=0.1, size=50)
    best, worst = (Biased(alpha=alpha, top=1).pieces(data, RNG(0)) for alpha in (1.0, 0.0))
    assert 7 in [int(column.name[1:]) for column in best["bank"][0]]
    assert 7 in [int(column.name[1:]) for column in worst["shop"][0]]
    for pieces in (best, worst):
        assert [len(columns) for columns, _ in pieces.values()] == [5, 5]
        assert sorted(names_of(pieces)) == sorted(column.name for column in data.columns)


@pytest.mark.parametrize(
    "make",
    [lambda: Equal(parties=0), lambda: Rows(parties=0), lambda: Biased(alpha=1.5), lambda: Biased(top=0)],
)
def test_senseless_cuts_are_refused(make):
    with pytest.raises(ValueError, match="not "):
        make()


def test_a_cut_is_the_same_after_writing_and_reading():
    for cut in (Equal(parties=4), Groups(groups={"a": ("x",)}), Quadrants(), Rows(parties=3), Biased(alpha=0.2)):
        assert msgspec.json.decode(msgspec.json.encode(cut), type=Cut) == cut


def test_parties_have_words_for_names():
    assert party_names(3) == ("bank", "shop", "insurer")
    assert party_names(12)[-2:] == ("party11", "party12")
    assert len(set(party_names(200))) == 200


def test_the_usual_cut_fits_the_kind_of_data():
    assert usual_cut(load("digits"), 4) == Equal(parties=4)
    assert usual_cut(images(), 4) == Quadrants()
    assert usual_cut(images(), 3) == Rows(parties=3)


def test_patches_put_together_are_the_image():
    pictures = images(7, 5)
    parts = [cells for _, cells in Patches(down=2, across=3).pieces(pictures, RNG(0)).values()]
    bands = [np.concatenate(parts[row * 3 : row * 3 + 3], axis=3) for row in range(2)]
    assert (np.concatenate(bands, axis=2) == pictures.raw).all()


def test_a_hub_of_labels_alone_has_no_columns_and_changes_no_other_party():
    digits = load("digits")
    apart, among = (deal(digits, Equal(parties=3), hub=hub) for hub in (None, 0))
    assert apart.peers == among.names
    assert apart.tables[apart.hub].columns == ()
    assert (apart.labels("test") == among.labels("test")).all()

"""Dealing one data set among parties: columns, labels, and rows shared or not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.data.datasets import Dataset
from laconic.data.partition.columns import Equal, deal, split
from laconic.tables import Column, Task


def small(rows=200, columns=7, kind="binary", test=None):
    rng = np.random.default_rng(1)
    y = rng.normal(size=rows) if kind == "regression" else rng.integers(0, 2, rows)
    classes = () if kind == "regression" else ("no", "yes")
    return Dataset(
        name="small",
        raw=rng.normal(size=(rows, columns)),
        columns=tuple(Column(f"c{i}") for i in range(columns)),
        y=y,
        task=Task(kind=kind, classes=classes),
        ids=np.arange(rows) + 1000,
        test=test,
    )


@settings(max_examples=50, deadline=None)
@given(st.integers(10, 300), st.floats(0, 0.4), st.floats(0, 0.4), st.integers(0, 99))
def test_a_split_has_every_row_exactly_once(rows, test, valid, seed):
    cuts = split(rows, np.random.default_rng(seed), test, valid)
    assert sorted(np.concatenate(list(cuts.values())).tolist()) == list(range(rows))
    assert len(cuts["test"]) == round(rows * test)


def test_a_split_keeps_the_official_test_set():
    cuts = split(100, np.random.default_rng(0), fixed_test=np.arange(80, 100))
    assert cuts["test"].tolist() == list(range(80, 100))
    assert len(cuts["valid"]) == 8


def test_a_split_that_leaves_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="left to train on"):
        split(3, np.random.default_rng(0), test=0.6)
    with pytest.raises(ValueError, match="below 1"):
        split(10, np.random.default_rng(0), test=1.0)


def test_labels_are_at_the_hub_alone():
    federation = deal(small(), Equal(parties=3), hub=1)
    assert federation.hub == "shop"
    assert [name for name, table in federation.tables.items() if table.y is not None] == ["shop"]
    assert federation.peers == ("bank", "insurer")


def test_without_overlap_setting_every_party_has_every_row():
    federation = deal(small(), Equal(parties=3))
    for table in federation.tables.values():
        assert table.ids.tolist() == list(range(1000, 1200))
        assert len(table.cuts["own"]) == 0
        assert table.cuts["shared"].tolist() == list(range(200))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.integers(10, 140), st.integers(0, 50), st.sampled_from(["binary", "regression"]))
def test_overlap_shares_some_training_rows_and_deals_the_others(parties, overlap, seed, kind):
    data = small(kind=kind)
    federation = deal(data, Equal(parties=parties), overlap=overlap, seed=seed)
    tables = list(federation.tables.values())
    for cut in ("train", "shared", "valid", "test"):
        assert len({tuple(table.ids[table.cut(cut)].tolist()) for table in tables}) == 1
    own = [set(table.ids[table.cut("own")].tolist()) for table in tables]
    assert sum(len(ids) for ids in own) == len(set.union(*own))
    everyone = set(tables[0].ids[np.concatenate([tables[0].cut(cut) for cut in ("train", "valid", "test")])].tolist())
    assert everyone.isdisjoint(set.union(*own))
    assert everyone | set.union(*own) == set(data.ids.tolist())
    assert len(tables[0].cut("train")) == overlap
    assert max(map(len, own)) - min(map(len, own)) <= 1
    for table in tables:
        assert table.rows == len(everyone) + len(table.cut("own"))


def test_rows_and_labels_stay_with_their_ids():
    data = small()
    federation = deal(data, Equal(parties=2), overlap=50)
    hub, peer = federation.tables["bank"], federation.tables["shop"]
    assert np.array_equal(peer.raw, data.raw[peer.ids - 1000][:, 4:])
    shared = hub.cut("test")
    assert np.array_equal(hub.y[shared], data.y[hub.ids[shared] - 1000])


def test_own_rows_of_the_hub_have_no_labels_and_the_data_set_keeps_its_own():
    data = small()
    before = data.y.copy()
    hub = deal(data, Equal(parties=2), overlap=50).tables["bank"]
    assert hub.part("own")[1] is None
    assert (hub.y[hub.cut("own")] == -1).all()
    assert np.array_equal(data.y, before)


def test_overlap_below_one_is_a_share():
    federation = deal(small(), Equal(parties=2), overlap=0.25)
    assert len(federation.tables["bank"].cut("train")) == round(0.25 * 144)


@pytest.mark.parametrize("overlap", [0, 1, -3, 145, 10_000])
def test_impossible_overlaps_are_refused(overlap):
    with pytest.raises(ValueError, match="must be 2 to 144"):
        deal(small(), Equal(parties=2), overlap=overlap)


def test_the_seed_alone_decides_which_rows_are_for_testing():
    two, five = deal(small(), Equal(parties=2), seed=3), deal(small(), Equal(parties=5), seed=3, hub=4)
    other = deal(small(), Equal(parties=2), seed=4)
    assert two.tables["bank"].cut("test").tolist() == five.tables["bank"].cut("test").tolist()
    assert two.tables["bank"].cut("test").tolist() != other.tables["bank"].cut("test").tolist()


def test_the_same_seed_deals_the_same_federation():
    one, other = (deal(small(), Equal(parties=3), overlap=40, seed=9) for _ in range(2))
    for name in one.names:
        assert np.array_equal(one.tables[name].ids, other.tables[name].ids)
        assert np.array_equal(one.tables[name].x, other.tables[name].x)


def test_test_rows_never_touch_any_partys_recipe():
    data = small(test=np.arange(150, 200))
    spoilt = small(test=np.arange(150, 200))
    spoilt.raw[150:] = 1e6
    one, other = deal(data, Equal(parties=3)), deal(spoilt, Equal(parties=3))
    for name in one.names:
        assert one.tables[name].recipe == other.tables[name].recipe


def test_a_hub_that_is_no_party_is_refused():
    with pytest.raises(ValueError, match="0 to 1, not 2"):
        deal(small(), Equal(parties=2), hub=2)

"""Dealing rows: every row once, skew as asked, one recipe for all."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.data.datasets import load
from laconic.data.partition.rows import Dirichlet, HalfTest, Iid, RandomHoldout, Sizes, deal_rows

CUTS = [Iid(parties=4), Dirichlet(parties=4, beta=0.5), Sizes(parties=4, beta=0.5)]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(CUTS), st.integers(0, 1000))
def test_shares_have_every_row_once(cut, seed):
    y = np.arange(600) % 3
    shares = cut.shares(y, np.random.default_rng(seed))
    assert len(shares) == 4
    assert sorted(np.concatenate(shares).tolist()) == list(range(600))
    assert min(map(len, shares)) >= 10


def test_a_small_beta_skews_labels_and_a_large_one_does_not():
    y = np.arange(3000) % 3

    def largest_class(beta):
        shares = Dirichlet(parties=5, beta=beta).shares(y, np.random.default_rng(0))
        return np.mean([np.bincount(y[share], minlength=3).max() / len(share) for share in shares])

    assert largest_class(0.1) > 0.6
    assert largest_class(1000) < 0.4


def test_sizes_skews_counts_but_not_labels():
    shares = Sizes(parties=5, beta=0.3).shares(np.arange(3000) % 3, np.random.default_rng(0))
    counts = [len(share) for share in shares]
    assert max(counts) > 3 * min(counts)


@pytest.mark.parametrize("cut", CUTS)
def test_parties_the_public_and_the_test_have_different_rows(cut):
    federation = deal_rows(load("digits"), cut, seed=1)
    server = federation.tables["server"]
    own = [federation.tables[name].ids[federation.tables[name].cut("train")] for name in federation.peers]
    assert sorted(np.concatenate([server.ids, *own]).tolist()) == list(range(1797))
    assert federation.peers == ("party1", "party2", "party3", "party4")
    assert server.part("public")[1] is None
    assert len(server.part("test")[1]) == round(1797 * 0.125)


def test_everybody_has_the_same_public_rows_without_labels():
    federation = deal_rows(load("digits"), Iid(parties=3), seed=1)
    server, *parties = federation.tables.values()
    for table in parties:
        x, y = table.part("public")
        assert y is None
        assert (x == server.part("public")[0]).all()


def test_a_share_may_be_empty_when_allowed():
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=40, beta=0.02, least=0), seed=0)
    assert min(len(federation.tables[name].cut("train")) for name in federation.peers) == 0


def test_halving_an_official_test_set_keeps_its_training_rows():
    dataset = replace(load("digits"), test=np.arange(1000, 1797))
    federation = deal_rows(dataset, Iid(parties=2), reserve=HalfTest(keep=0.5), seed=0)
    assert federation.facts["rows"] == {"train": 1000, "public": 199, "test": 399}


def test_an_official_test_set_is_left_out_when_rows_are_drawn():
    dataset = replace(load("digits"), test=np.arange(1000, 1797))
    federation = deal_rows(dataset, Iid(parties=2), reserve=RandomHoldout(), seed=0)
    assert federation.facts["rows"] == {"train": 750, "public": 125, "test": 125}
    assert max(table.ids.max() for table in federation.tables.values()) < 1000


@pytest.mark.parametrize("reserve", [RandomHoldout(valid=0.2), HalfTest(valid=0.2)])
def test_rows_to_choose_settings_by_come_from_the_parties_and_leave_test_and_public_rows_alone(reserve):
    dataset = replace(load("digits"), test=np.arange(1000, 1797))
    plain = deal_rows(dataset, Iid(parties=2), reserve=msgspec.structs.replace(reserve, valid=0.0), seed=4)
    kept = deal_rows(dataset, Iid(parties=2), reserve=reserve, seed=4)
    before, server = plain.tables["server"], kept.tables["server"]
    assert "valid" not in before.cuts
    for cut in ("public", "test"):
        assert (server.ids[server.cut(cut)] == before.ids[before.cut(cut)]).all()
    chosen = set(server.ids[server.cut("valid")].tolist())
    assert len(chosen) == round(0.2 * plain.facts["rows"]["train"])
    own = [kept.tables[name].ids[kept.tables[name].cut("train")] for name in kept.peers]
    assert not chosen & set(np.concatenate(own).tolist())
    assert server.part("valid")[1] is not None
    assert kept.facts["rows"]["valid"] == len(chosen)


def test_all_tables_are_prepared_alike_from_public_rows():
    federation = deal_rows(load("breast_cancer"), Iid(parties=3))
    assert len({table.recipe for table in federation.tables.values()}) == 1
    public = federation.tables["server"].part("public")[0]
    assert public.mean(axis=0) == pytest.approx(0, abs=1e-4)


def test_a_party_may_have_one_class_only():
    federation = deal_rows(load("digits"), Dirichlet(parties=10, beta=0.05, least=1), seed=0)
    kinds = [len(np.unique(federation.tables[name].part("train")[1])) for name in federation.peers]
    assert min(kinds) < 5


def test_senseless_settings_are_refused():
    with pytest.raises(ValueError, match="parties must be 1 or more"):
        Iid(parties=0)
    with pytest.raises(ValueError, match="beta must be above 0"):
        Dirichlet(beta=0)
    with pytest.raises(ValueError, match="leave rows"):
        RandomHoldout(test=0.6, public=0.5)
    with pytest.raises(ValueError, match="valid is a share"):
        HalfTest(valid=1.0)
    with pytest.raises(ValueError, match="no official test set"):
        deal_rows(load("digits"), Iid(), reserve=HalfTest())
    with pytest.raises(ValueError, match="use fewer parties"):
        Sizes(parties=200, least=10).shares(np.zeros(100), np.random.default_rng(0))

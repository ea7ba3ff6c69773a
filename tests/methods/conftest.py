"""Federations that tests of several methods take."""

import pytest

from laconic.data.datasets import load
from laconic.data.partition.columns import Equal, deal
from laconic.testing.small_federations import small_federation


@pytest.fixture(scope="module")
def cancer():
    return small_federation("binary")


@pytest.fixture(scope="module")
def overlap():
    """Sixty shared rows, the others dealt among three parties; the label holder has labels alone."""
    return deal(load("breast_cancer"), Equal(parties=3), hub=None, overlap=60, seed=3, test=0.3, valid=0.03)

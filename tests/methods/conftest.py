"""Federations that tests of several methods take."""

import pytest

from laconic.check import small_federation
from laconic.data.deal import deal
from laconic.data.sources import load
from laconic.data.vertical import Equal


@pytest.fixture(scope="module")
def cancer():
    return small_federation("binary")


@pytest.fixture(scope="module")
def overlap():
    """Sixty shared rows, the others dealt among three parties; the label holder has labels alone."""
    return deal(load("breast_cancer"), Equal(parties=3), hub=None, overlap=60, seed=3, test=0.3, valid=0.03)

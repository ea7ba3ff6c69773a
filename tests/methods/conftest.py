"""Federations that tests of several methods take."""

import pytest

from laconic.testing import small_federation, small_overlap


@pytest.fixture(scope="module")
def cancer():
    return small_federation("binary")


@pytest.fixture(scope="module")
def overlap():
    """Sixty shared rows, the others dealt among three parties; the label holder has labels alone."""
    return small_overlap()

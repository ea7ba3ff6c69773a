"""A federation of images for tests of what is released about rows."""

import pytest

from laconic import Equal, deal, load


@pytest.fixture(scope="module")
def federation():
    return deal(load("digits"), Equal(parties=2), hub=None, seed=3, test=0.3, overlap=160)

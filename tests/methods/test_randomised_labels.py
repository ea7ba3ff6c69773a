"""Under `labels=RandomisedResponse(...)` nothing that a guided method sends down depends on true labels."""

from itertools import count

import numpy as np
import pytest

from laconic.core import Party
from laconic.deploy import Recorder
from laconic.learn import FixMatchTab, Sgd, SummedHeads
from laconic.methods.families.guided import SendLabels
from laconic.methods.vertical.fewshot import FewShot
from laconic.methods.vertical.oneshot import OneShot
from laconic.privacy import RandomisedResponse
from laconic.tables import Column, Table, Task
from laconic.testing import open_peers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
TRUTH = (X.sum(axis=1) > 0).astype(int)
CUTS = {"train": np.arange(10), "valid": np.arange(10, 16), "test": np.arange(16, 30), "own": np.arange(30, 60)}
SETTINGS = {
    "local": FixMatchTab(steps=20, lr=1e-2),
    "trainer": Sgd(epochs=10, lr=1e-2, patience=3),
    "labels": RandomisedResponse(epsilon=0.1),
}


def table_of(truth, prepare):
    columns = [Column("age", prepare=prepare), Column("income")]
    task = Task(kind="binary", classes=("no", "yes"))
    return Table(X[:, :2], columns, y=truth, task=task, cuts=CUTS, party="bank")


def released_by(method, table, secret):
    return method.labels.randomise(table.part("train")[1], 2, Party("bank", table, 0, secret=secret))


def sent_down(method, table, secret):
    hub = Party("bank", table, 0, secret=secret)
    peer = Party("shop", Table(X[:, 2:], [Column("visits"), Column("spent")], cuts=CUTS, party="shop"), 0)
    recorder = Recorder()
    with open_peers(method, hub, (peer,), recorder) as peers:
        list(method.fit(hub, peers))
    return [blob for _, _, way, blob in recorder.crossings if way == "down"]


@pytest.mark.parametrize(
    ("method", "prepare"),
    [
        (FewShot(**SETTINGS), "usual"),
        (FewShot(**SETTINGS, head=SummedHeads()), "bins"),
        (FewShot(**SETTINGS, guide=SendLabels()), "bins"),
        (OneShot(**SETTINGS), "woe"),
    ],
    ids=["few-shot", "few-shot, heads added", "few-shot, labels sent", "one-shot"],
)
def test_other_true_labels_released_the_same_send_the_same_bytes(method, prepare):
    truth = TRUTH.copy()
    truth[[0, 1, 2, 12, 20, 40, 50]] ^= 1  # Shared rows, rows to validate and to test on, and own ones.
    table, changed = table_of(TRUTH, prepare), table_of(truth, prepare)
    released = released_by(method, table, b"secret")
    # Another secret tells ten labels in the same way once in a thousand times, about.
    others = (str(number).encode() for number in count())
    secret = next(one for one in others if np.array_equal(released_by(method, changed, one), released))
    assert sent_down(method, table, b"secret") == sent_down(method, changed, secret)


def test_few_shot_refuses_randomised_labels_beside_a_weight_of_evidence():
    with pytest.raises(ValueError, match=r"evidence of bank's 'age' comes from true ones.*Say prepare = 'bins'"):
        sent_down(FewShot(**SETTINGS), table_of(TRUTH, "woe"), b"secret")


def test_few_shot_takes_a_weight_of_evidence_where_labels_are_released_as_they_are():
    method = FewShot(local=SETTINGS["local"], trainer=SETTINGS["trainer"])
    assert sent_down(method, table_of(TRUTH, "woe"), b"secret")

import numpy as np
import pytest

from laconic import Equal, SplitNN, deal, load
from laconic.audit.attacks import commonest, gradients_sent, labels_read_off
from laconic.core import Party
from laconic.learn import Joint, Mlp, Sgd, purity
from laconic.methods.families.guided import first_gradients, in_bytes
from laconic.testing import open_peers


def numbers(rng, rows=400, parties=2, width=16):
    drawn = (np.maximum(rng.standard_normal((rows, width)), 0) for _ in range(parties))
    return {f"party {one}": in_bytes(block) for one, block in enumerate(drawn)}


@pytest.mark.parametrize(("classes", "parties"), [(2, 2), (10, 2), (10, 4), (10, 7)])
def test_the_first_gradients_give_away_every_label(classes, parties):
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=400)
    sent = numbers(rng, parties=parties, width=max(4, classes // 2))
    for gradients in first_gradients(sent, labels, classes, rng).values():
        assert labels_read_off(in_bytes(gradients, axis=1), labels, classes, rng) == 1.0


def test_two_classes_are_separated_by_the_sign_alone():
    rng = np.random.default_rng(1)
    labels = (rng.random(300) < 0.2).astype(int)
    gradients = first_gradients(numbers(rng, rows=300), labels, 2, rng)["party 0"]
    main = np.linalg.svd(gradients.astype(np.float64), full_matrices=False)[2][0]
    assert purity((gradients @ main > 0).astype(int), labels) == 1.0


def test_noise_gives_away_no_more_than_the_commonest_class_does():
    rng = np.random.default_rng(2)
    labels = (rng.random(2000) < 0.3).astype(int)
    found = labels_read_off(rng.standard_normal((2000, 8)), labels, 2, rng)
    assert found == pytest.approx(commonest(labels), abs=0.01)


def read_after(epochs):
    """The share of labels read off after so many epochs of split learning on digits: by direction, and raw."""
    federation = deal(load("digits"), Equal(parties=2), hub=None, overlap=400, seed=1)
    method = SplitNN(width=32, head=Joint(head=Mlp(hidden=())), trainer=Sgd(epochs=epochs, batch=32, lr=3e-3))
    parties = {name: Party(name, table, 0) for name, table in federation.tables.items()}
    hub = parties.pop(federation.hub)
    with open_peers(method, hub, parties.values()) as peers:
        for _ in method.fit(hub, peers):
            pass
        outputs = peers.ask(method.give_outputs, rows="train")
    sent = gradients_sent(method, hub, outputs)["bank"]
    labels, rng = federation.labels("train"), np.random.default_rng(0)
    return tuple(labels_read_off(sent, labels, 10, rng, normalise=one) for one in (True, False))


def test_directions_still_reveal_labels_after_training_where_raw_gradients_do_not():
    assert read_after(0) == (1.0, 1.0)
    direction, raw = read_after(12)
    assert direction > 0.9
    assert raw < 0.7

import numpy as np
import pytest

from laconic.audit.gradients import commonest, labels_read_off, labels_read_off_signs
from laconic.methods.guides import first_gradients


def numbers(rng, rows=400, parties=2, width=16):
    return {f"party {one}": np.maximum(rng.standard_normal((rows, width)), 0) for one in range(parties)}


@pytest.mark.parametrize(("classes", "parties"), [(2, 2), (10, 2), (10, 4), (10, 7)])
def test_the_first_gradients_give_away_every_label(classes, parties):
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=400)
    for gradients in first_gradients(numbers(rng, parties=parties), labels, classes, rng).values():
        assert labels_read_off(gradients.astype(np.float16), labels, classes, rng) == 1.0


def test_two_classes_are_told_apart_by_the_sign_alone():
    rng = np.random.default_rng(1)
    labels = (rng.random(300) < 0.2).astype(int)
    gradients = first_gradients(numbers(rng, rows=300), labels, 2, rng)["party 0"]
    assert labels_read_off_signs(gradients, labels) == 1.0


def test_noise_gives_away_no_more_than_the_commonest_class_does():
    rng = np.random.default_rng(2)
    labels = (rng.random(2000) < 0.3).astype(int)
    found = labels_read_off(rng.standard_normal((2000, 8)), labels, 2, rng)
    assert found == pytest.approx(commonest(labels), abs=0.01)

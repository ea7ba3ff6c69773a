"""Few-shot VFL's equations 8 to 11 with three parties, worked out again beside the method; and what is extracted."""

import numpy as np
import pytest

from laconic.core import Party
from laconic.learn import Attention, Confident, FixMatchTab, Mlp, Sgd
from laconic.learn.models.supervised import fit_top
from laconic.methods.vertical.fewshot import FewShot
from laconic.methods.vertical.oneshot import OneShot
from laconic.tables import Task
from laconic.testing import bare_party

pytestmark = pytest.mark.usefixtures("one_thread")
CLASSES = Task(kind="multiclass", classes=("0", "1", "2"))


def softmax(logits):
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def guess(own, known, other, sharpness):
    """Equation 10, of rows that are centred and brought to length 1."""
    rows, keys = ((values - known.mean(axis=0)) for values in (own, known))
    rows, keys = (values / np.linalg.norm(values, axis=1, keepdims=True) for values in (rows, keys))
    return softmax(sharpness * rows @ keys.T) @ other


def probability(alone, both, level, prior):
    """Equations 8 and 9, of probabilities brought to the prior."""
    alone, both = (one * prior / one.mean(axis=0) for one in (alone, both))
    alone, both = (one / one.sum(axis=1, keepdims=True) for one in (alone, both))
    found = []
    for mine, all_of_us in zip(alone, both, strict=True):
        agreed = mine.argmax() == all_of_us.argmax() and min(mine.max(), all_of_us.max()) >= level
        found.append(all_of_us.max() if agreed else 0.0)
    return np.array(found)


def test_probabilities_of_three_parties_are_those_of_equations_8_to_10():
    rng = np.random.default_rng(0)
    codes = np.arange(18) % 3
    centres = {name: 2 * rng.standard_normal((3, 2)) for name in ("bank", "shop", "insurer")}
    blocks = {
        name: {
            "train": (centre[codes] + rng.standard_normal((18, 2))).astype(np.float32),
            "own": (centre[rng.integers(3, size=9 + place)] + rng.standard_normal((9 + place, 2))).astype(np.float32),
        }
        for place, (name, centre) in enumerate(centres.items())
    }
    trainer, linear = Sgd(epochs=30, batch=6, lr=0.05), Mlp(hidden=())
    method = FewShot(width=2, attention=Attention(sharpness=3.0), choice=Confident(level=0.9), trainer=trainer)
    found = method._probabilities(bare_party(), blocks, codes, 3)

    rng_of_hub = bare_party().rng

    def learn(x):
        weight, bias = fit_top(linear, CLASSES, [x], codes, trainer, rng_of_hub).values()
        return lambda rows: softmax(rows @ weight.T + bias)

    joint = learn(np.concatenate([block["train"] for block in blocks.values()], axis=1))
    for name, block in blocks.items():
        alone = learn(block["train"])
        whole = [
            block["own"] if other == name else guess(block["own"], block["train"], blocks[other]["train"], 3.0)
            for other in blocks
        ]
        expected = probability(alone(block["own"]), joint(np.concatenate(whole, axis=1)), 0.9, np.full(3, 1 / 3))
        assert 0 < (expected > 0).sum() < len(expected)
        assert found[name] == pytest.approx(255 * expected, abs=0.51)  # Sent as whole 255ths.


@pytest.fixture
def party(overlap):
    return Party("shop", overlap.tables["shop"], 0)


def test_rows_that_are_sure_join_the_labelled_ones_under_the_partys_own_guess(party, overlap):
    """Equation 11: supervised by shared and chosen rows, the others without labels."""
    local = FixMatchTab(steps=5, lr=1e-2)
    method = FewShot(local=local, net=Mlp(hidden=()), width=4)
    codes = overlap.labels("train").astype(np.int64)
    method.learn_codes(party, codes, 2)
    before = {name: values.copy() for name, values in party.memory["local"].items()}
    (x, _), (own, _) = party.data.part("train"), party.data.part("own")
    chosen = np.arange(len(own)) % 3 == 0
    party.turn("fit", 9)
    method.learn_again(party, np.where(chosen, 255, 0))

    numbers = own[chosen] @ before["body.1.weight"].T + before["body.1.bias"]
    guesses = (numbers @ before["head.weight"].T + before["head.bias"]).argmax(axis=1)
    party.turn("fit", 9)
    party.rng.random(len(own))  # What the choice of rows took.
    expected = local.fit(
        before,
        method.net,
        method.width,
        np.concatenate([x, own[chosen]]),
        np.concatenate([codes, guesses]),
        own[~chosen],
        party.rng,
    )
    assert 0 < guesses.mean() < 1
    assert all(np.array_equal(party.memory["local"][name], values) for name, values in expected.items())


def test_numbers_are_a_plain_pass_without_views_and_without_dropout(party, overlap):
    net = Mlp(hidden=(16,), dropout=0.5, final="relu")
    method = OneShot(local=FixMatchTab(steps=5), net=net, width=4, precision="float32")
    method.learn_codes(party, overlap.labels("train"), 2)
    once, again = method.numbers(party, "train"), method.numbers(party, "train")
    assert np.array_equal(once, again)
    first, offset, second, bias = party.memory["net"].values()
    hidden = np.maximum(party.data.part("train")[0] @ first.T + offset, 0)
    assert once == pytest.approx(np.maximum(hidden @ second.T + bias, 0), abs=1e-5)
    assert once.any()

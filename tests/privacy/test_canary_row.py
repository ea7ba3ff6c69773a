"""How far one row's change moves what its party sends, next to what the price assumes.

Two worlds differ in one row and share all noise, and the hub says the same in both. Where the price takes a net or an
encoder as seen by everybody, the second world goes on with the first one's after each step: what is measured is then
what each noisy answer alone has to hide.
"""

from copy import deepcopy

import numpy as np
import pytest

from laconic import Fdml, Vafl, VimAdmm, VimAdmmJoint, VimSgd
from laconic.core import Party, unwrap
from laconic.learn import Mlp
from laconic.privacy.encoders import DpPca
from laconic.privacy.mechanisms.gaussian import compose
from laconic.privacy.mechanisms.outputs import BatchClip, PrivateSteps, RowsOnce
from laconic.tables import Column, Table

_ROWS, _BATCH, _EPOCHS, _CLASSES, _WIDTH = 64, 16, 3, 3, 8
_STEPS = PrivateSteps(clip=0.5, sigma=4.0, gradient_clip=0.05, gradient_sigma=2.0, rate=1.0, seeded=True)
_SLACK = 1.0001  # float32


def _worlds(method):
    """The same party twice, ready to begin; row 0 is far away in the second."""
    raw = np.random.default_rng(0).normal(size=(_ROWS, 6))
    columns = tuple(Column(f"c{place}", "numeric") for place in range(6))
    cuts = {"train": np.arange(_ROWS)}
    one = Table(raw, columns, cuts=cuts, party="shop")
    raw = np.concatenate([np.full((1, 6), 50.0), raw[1:]])
    other = Table(raw, columns, cuts=cuts, party="shop", recipe=one.recipe)
    parties = [Party("shop", table, 0) for table in (one, other)]
    for party in parties:
        method.begin(party, 1, _CLASSES, 1)
    return parties


def _method(kind, privacy):
    few = {"local_steps": 1} if kind in (VimAdmm, VimAdmmJoint) else {}
    net, lr = Mlp(hidden=(16,), final="relu"), 0.01 if kind in (VimAdmmJoint, Fdml) else 0.1
    return kind(epochs=_EPOCHS, batch=_BATCH, width=_WIDTH, lr=lr, net=net, privacy=privacy, **few)


def _rounds(method):
    """Every batch, with what the hub says of it: the same in both worlds."""
    rng, width = np.random.default_rng(5), _WIDTH if isinstance(method, Vafl) else _CLASSES
    for epoch in range(_EPOCHS):
        for number in range(_ROWS // _BATCH):
            yield epoch, number, rng.normal(size=(_BATCH, width)).astype(np.float32)


def _said(method, party, epoch, number, signal, turn):
    party.turn("fit", turn)
    return unwrap(method.exchange(party, epoch, number, signal))


def _moved(one, other):
    return np.linalg.norm(one.astype(np.float64) - other, axis=1)


@pytest.mark.parametrize("kind", [VimSgd, VimAdmm, Vafl], ids=lambda kind: kind.__name__)
def test_private_steps_and_messages_move_by_no_more_than_they_pay_for(kind):
    method = _method(kind, _STEPS)
    one, other = _worlds(method)
    seen, paid = [], {}
    for turn, (epoch, number, signal) in enumerate(_rounds(method)):
        (told, noises), (changed, _) = (_said(method, party, epoch, number, None, turn) for party in (one, other))
        rows = method.rows_of(one, epoch, number)
        assert (told[rows != 0] == changed[rows != 0]).all()  # Under one net a row moves nobody else's message.
        own = _moved(told, changed)[rows == 0].sum()
        assert own <= 2 * noises[0].sensitivity * _SLACK
        other.memory = deepcopy(one.memory)
        for party in (one, other):
            party.turn("learn", turn)
            method.learn(party, signal)
        # Momentum and noise are the same in both: what differs is the sum of clipped gradients over the batch's rows.
        step = np.linalg.norm(one.memory["velocity"] - other.memory["velocity"]) * _BATCH
        assert (step > 0) == (0 in rows)
        assert step <= 2 * _STEPS.gradient_clip * _SLACK
        seen += [own / _STEPS.scale, step / (_STEPS.gradient_sigma * _STEPS.gradient_clip)]
        paid |= dict.fromkeys(noises) | {entry.noise: None for entry in one.ledger.entries}
        other.memory = deepcopy(one.memory)
    assert len(paid) == 2 * _EPOCHS
    priced = compose([1 / noise.multiplier for noise in paid for _ in range(noise.count)])
    # What is paid for is a row there or blanked; this one is exchanged, which the ledger says costs up to twice.
    assert 0.5 * priced < compose(seen) <= 2 * priced * _SLACK


def test_a_net_that_learns_by_private_steps_does_carry_a_row_into_the_messages_of_others():
    """So that the test above measures something: what it takes as seen by everybody is not the same in both worlds."""
    method = _method(VimSgd, _STEPS)
    one, other = _worlds(method)
    signal, moved = None, 0.0
    for turn, (epoch, number, following) in enumerate(_rounds(method)):
        (told, _), (changed, _) = (_said(method, party, epoch, number, signal, turn) for party in (one, other))
        moved += _moved(told, changed)[method.rows_of(one, epoch, number) != 0].sum()
        signal = following
    assert moved > 0


@pytest.mark.parametrize("kind", [VimSgd, VimAdmm, Vafl], ids=lambda kind: kind.__name__)
def test_a_learnt_encoder_and_rows_noised_once_move_by_no_more_than_they_pay_for(kind):
    encoder = DpPca(dim=4, sigma=5.0, seeded=True)
    guard = RowsOnce(clip=0.5, sigma=4.0, seeded=True, encoder=encoder)
    method = _method(kind, guard)
    one, other = _worlds(method)
    (entry,) = one.ledger.entries
    squares = [encoder.noised_squares(party.data.part("train")[0], np.random.default_rng(1)) for party in (one, other)]
    # In units of a row's greatest square, as the noise on it is stated.
    moved = np.linalg.norm(squares[0] - squares[1]) / one.data.shape[0]
    assert 0 < moved <= entry.noise.sensitivity
    before = [unwrap(method.give_outputs(party, "train"))[0] for party in _worlds(method)]
    assert _moved(*before)[1:].max() > 0  # The encoder itself moves, and with it every row.
    other.memory["net"] = deepcopy(one.memory["net"])
    (told, noises), (changed, _) = (unwrap(method.give_outputs(party, "train")) for party in (one, other))
    assert (told[1:] == changed[1:]).all()
    assert 0 < _moved(told, changed)[0] <= noises[0].sensitivity * _SLACK


@pytest.mark.parametrize("kind", [VimSgd, VimAdmm, VimAdmmJoint, Vafl, Fdml], ids=lambda kind: kind.__name__)
def test_messages_clipped_whole_move_by_no_more_than_they_pay_for_whatever_nets_learn(kind):
    method = _method(kind, BatchClip(clip=0.5, sigma=4.0, seeded=True))
    one, other = _worlds(method)
    signal, others = None, 0.0
    for turn, (epoch, number, following) in enumerate(_rounds(method)):
        (told, noises), (changed, _) = (_said(method, party, epoch, number, signal, turn) for party in (one, other))
        moved = _moved(told, changed)
        others += moved[method.rows_of(one, epoch, number) != 0].sum()
        assert np.linalg.norm(moved) <= noises[0].sensitivity * _SLACK
        signal = following
    assert others > 0  # A row does move other rows' numbers: what is covered is the whole message.

"""Clipping and noise on what parties' nets put out: what is claimed, and whether a changed row stays within it."""

import numpy as np
import pytest

from laconic import Equal, Fdml, Vafl, VimAdmm, VimAdmmJoint, VimSgd, check_method, deal, load, simulate
from laconic.core import Party, unwrap
from laconic.deploy import ledgers_of
from laconic.learn import Mlp
from laconic.privacy.accounting import Rdp, price
from laconic.privacy.encoders import DpPca
from laconic.privacy.mechanisms.gaussian import compose, epsilon_of
from laconic.privacy.mechanisms.outputs import AsPublished, BatchClip, PrivateSteps, PureNoise, RowsOnce
from laconic.tables import Table

_DELTA = 1e-5


_CLIP, _SIGMA = 0.5, 4.0
_ROWS, _BATCH, _EPOCHS = 64, 16, 3
_STEPS = PrivateSteps(clip=_CLIP, sigma=_SIGMA, gradient_sigma=2.0, seeded=True)
_FIVE = [VimSgd, VimAdmm, VimAdmmJoint, Vafl, Fdml]


def _method(privacy, kind=VimAdmm):
    small = {"local_steps": 5} if kind in (VimAdmm, VimAdmmJoint) else {}
    lr = 0.01 if kind is VimAdmmJoint else 0.1
    return kind(
        epochs=_EPOCHS, batch=_BATCH, width=8, lr=lr, net=Mlp(hidden=(16,), final="relu"), privacy=privacy, **small
    )


def _party(changed: bool, far: float = 5.0) -> Party:
    """A party whose row 0 is one thing in one world and another in the other; prepared by a recipe that both share."""
    rng = np.random.default_rng(0)
    names = [f"c{place}" for place in range(6)]
    raw = rng.normal(size=(_ROWS, 6))
    shared = _table(raw, names).recipe
    if changed:
        raw[0] = far
    return Party("shop", _table(raw, names, shared), 0)


def _table(raw, names, recipe=None):
    from laconic.tables import Column

    columns = tuple(Column(name, "numeric") for name in names)
    return Table(raw, columns, cuts={"train": np.arange(_ROWS)}, party="shop", recipe=recipe)


def _messages(privacy, changed):
    """What the party says round by round, in one world, to a hub that answers alike in both, with the same noise."""
    method, party = _method(privacy), _party(changed)
    party.turn("fit", 0)
    method.begin(party, 1, 3, 1)
    signals = np.random.default_rng(5).normal(size=(_EPOCHS, _ROWS // _BATCH, _BATCH, 3)).astype(np.float32)
    told, signal, turn = [], None, 0
    for epoch in range(_EPOCHS):
        for number in range(_ROWS // _BATCH):
            turn += 1
            party.turn("fit", turn)
            if privacy.freezes:
                whole = unwrap(method.give_outputs(party, "train"))[0]
                told.append((method.rows_of(party, epoch, number), whole[method.rows_of(party, epoch, number)]))
                continue
            told.append(
                (method.rows_of(party, epoch, number), unwrap(method.exchange(party, epoch, number, signal))[0])
            )
            signal = signals[epoch, number]
    return told


def _shifts(privacy):
    """How far the canary's change moves its own messages, and all others', each squared and summed over rounds."""
    own = others = largest = 0.0
    for (rows, one), (_, other) in zip(_messages(privacy, False), _messages(privacy, True), strict=True):
        moved = ((one.astype(np.float64) - other) ** 2).sum(axis=1)
        own += moved[rows == 0].sum()
        others += moved[rows != 0].sum()
        largest = max(largest, moved.sum())
    return own, others, np.sqrt(largest)


def test_a_row_moves_nobody_elses_numbers_when_each_is_noised_once_under_a_frozen_net():
    own, others, _ = _shifts(RowsOnce(clip=_CLIP, sigma=_SIGMA, seeded=True))
    assert others == 0.0
    # The same numbers are sent in every epoch: what counts is one of them.
    assert own / _EPOCHS <= (2 * _CLIP) ** 2


def test_all_that_a_row_moves_is_covered_when_messages_are_clipped_whole():
    *_, largest = _shifts(BatchClip(clip=_CLIP, sigma=_SIGMA, seeded=True))
    assert 0 < largest <= 2 * _CLIP * 1.0001


def test_as_published_a_row_moves_other_rows_and_is_therefore_not_called_private():
    protection = AsPublished(clip=_CLIP, sigma=_SIGMA, seeded=True)
    own, others, _ = _shifts(protection)
    rounds = _EPOCHS
    assert others > own > 0
    seen = epsilon_of(np.sqrt(own + others) / protection.scale, _DELTA)
    claimed = epsilon_of(compose([_CLIP / protection.scale] * rounds), _DELTA)
    assert seen > claimed
    result = simulate(_method(protection), _federation())
    found = price(ledgers_of(result), _DELTA)
    assert found.epsilon is None
    assert any("NOT PRIVATE" in words for words in found.unproven)
    claim = price(ledgers_of(result), _DELTA, "disjoint", trust_claims=True, accountant=Rdp())
    assert claim.epsilon is not None


def test_private_steps_let_a_row_move_the_net_by_no_more_than_one_clipped_gradient_a_step():
    """With noise too small to matter, the first round after the canary's batch moves by its clipped gradient alone."""
    party, other = _party(False), _party(True)
    tight = PrivateSteps(clip=1e6, sigma=1e-9, gradient_clip=1e-3, gradient_sigma=1e-6, rate=1.0, seeded=True)
    nets = []
    for one in (party, other):
        method = VimSgd(epochs=1, batch=_ROWS, width=8, lr=1.0, momentum=0.0, weight_decay=0.0, privacy=tight)
        method.begin(one, 1, 3, 1)
        one.turn("fit", 1)
        method.exchange(one, 0, 0, None)
        method.learn(one, np.full((_ROWS, 3), 1.0, np.float32))
        nets.append(np.concatenate([values.ravel() for values in one.memory["net"].values()]))
    # lr 1 on a mean over all rows: a blanked row's gradient is at most 1e-3 / rows; replaced, twice that.
    assert 0 < np.linalg.norm(nets[0] - nets[1]) <= 2.01e-3 / _ROWS


def _federation():
    return deal(load("digits"), Equal(parties=3), hub=None, seed=3, test=0.3, overlap=160)


def test_noise_drawn_once_is_paid_once_however_often_it_is_looked_at():
    method = _method(RowsOnce(clip=_CLIP, sigma=_SIGMA, seeded=True))
    result = simulate(method, _federation(), look_every=10)
    assert result.fit.rounds == 2  # one to begin, one upload
    found = price(ledgers_of(result), _DELTA, "disjoint")
    assert found.epsilon == pytest.approx(epsilon_of(2 / _SIGMA, _DELTA), rel=0.02)
    assert found.open == ()


def test_messages_clipped_whole_add_up_over_rounds_and_predictions():
    method = _method(BatchClip(clip=1e-3, sigma=50.0, seeded=True))
    result = simulate(method, _federation())
    messages = result.fit.uploads + result.final.uploads
    found = price(ledgers_of(result), _DELTA, "disjoint")
    assert found.epsilon == pytest.approx(epsilon_of(compose([2 / 50.0] * messages), _DELTA), rel=0.02)


def test_private_steps_are_paid_by_epochs_and_not_by_batches():
    method = _method(_STEPS)
    ledger = ledgers_of(simulate(method, _federation()))[_federation().peers[0]]
    noises = {entry.noise for entry in ledger.entries if entry.noise is not None}
    assert len(noises) == 2 * _EPOCHS
    assert all(noise.once for noise in noises)


def test_an_encoder_with_a_price_may_take_the_nets_place():
    protection = RowsOnce(clip=4.0, sigma=0.2, seeded=True, encoder=DpPca(dim=8, sigma=0.01, seeded=True))
    result = simulate(VimSgd(epochs=30, batch=32, width=8, lr=0.1, privacy=protection), _federation())
    assert result.metrics["accuracy"] > 0.6
    words = {release.words for release in result.releases}
    assert "its encoder, as far as what it sends shows it" in words


def test_a_row_replaced_by_its_opposite_moves_its_numbers_by_all_that_rows_once_pays_for():
    protection = RowsOnce(clip=_CLIP, sigma=_SIGMA, seeded=True)
    sent, noises = [], set()
    for sign in (1, -1):
        party = _party(False)
        party.memory["secret"] = 1
        values = np.ones((_ROWS, 8), np.float32) * sign
        found, words = unwrap(protection.release(values, party, "train", party.data.cut("train")))
        sent.append(found)
        noises |= set(words)
    (noise,) = noises
    moved = np.linalg.norm(sent[0] - sent[1], axis=1)
    assert moved == pytest.approx(np.full(_ROWS, noise.sensitivity), rel=1e-4)
    assert noise.unit == "one row at this party, replaced by any other"
    assert "twice" not in noise.caveat


def test_an_encoder_and_what_it_sends_are_priced_for_one_unit():
    protection = RowsOnce(clip=1.0, sigma=_SIGMA, encoder=DpPca(dim=8, sigma=5.0))
    result = simulate(VimSgd(epochs=1, width=8, privacy=protection), _federation())
    found = price(ledgers_of(result), _DELTA, "disjoint")
    assert found.units == ("one row at this party, replaced by any other",)
    # A row blanked moves the noised sum of squares by 1 in units of its noise's 5; a row replaced by up to 2.
    assert found.epsilon == pytest.approx(epsilon_of(compose([2 / _SIGMA, 2 / 5.0]), _DELTA), rel=0.02)


def test_private_steps_say_that_labels_are_given_away():
    result = simulate(_method(_STEPS), _federation())
    assert all("labels are not covered" in words for words in price(ledgers_of(result), _DELTA).caveats)


@pytest.mark.parametrize("kind", _FIVE, ids=lambda kind: kind.__name__)
def test_the_ledger_says_whether_logits_or_outputs_leave(kind):
    words = {release.words for release in simulate(_method(None, kind), _federation()).releases}
    logits = kind in (VimAdmmJoint, Fdml)
    assert any("part of the logits" in one for one in words) == logits
    assert any("its net's outputs" in one for one in words) != logits


def test_noise_alone_teaches_nothing_when_predictions_are_noise_too():
    result = simulate(_method(PureNoise(scale=1.0, rows="all")), _federation())
    assert result.metrics["accuracy"] < 0.25


@pytest.mark.parametrize("kind", _FIVE, ids=lambda kind: kind.__name__)
def test_every_method_takes_clipping_and_noise(kind):
    for protection in (BatchClip(clip=1e3, sigma=1e-4), AsPublished(clip=1e3, sigma=1e-4)):
        assert simulate(_method(protection, kind), _federation()).metrics["accuracy"] > 0.2


@pytest.mark.parametrize("kind", [VimAdmmJoint, Fdml], ids=lambda kind: kind.__name__)
def test_heads_trained_without_noise_are_refused_where_noise_would_not_cover_them(kind):
    with pytest.raises(ValueError, match="does not cover; use BatchClip"):
        _method(_STEPS, kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protection", "epochs"),
    [
        # Under a frozen net only the heads learn, which takes long but costs one upload.
        (RowsOnce(clip=100.0, sigma=1e-3, seeded=True), 60),
        (BatchClip(clip=1e3, sigma=1e-4, seeded=True), 3),
        (PrivateSteps(clip=100.0, sigma=1e-3, gradient_sigma=0.01, gradient_clip=10.0, seeded=True), 3),
    ],
    ids=lambda value: "" if isinstance(value, int) else type(value).__name__,
)
def test_private_runs_keep_the_contract(protection, epochs):
    batch = 32 if epochs > 3 else 64
    check_method(VimAdmm(epochs=epochs, batch=batch, local_steps=4, width=16, privacy=protection), _federation())


def test_clip_and_sigma_must_bound_and_hide_something():
    with pytest.raises(ValueError, match="clip must be above 0, not 0"):
        BatchClip(clip=0, sigma=1)
    with pytest.raises(ValueError, match="sigma must be above 0, not 0"):
        RowsOnce(clip=1, sigma=0)
    with pytest.raises(ValueError, match="rate must be above 0 and at most 1"):
        PrivateSteps(clip=1, sigma=1, gradient_sigma=1, rate=0)

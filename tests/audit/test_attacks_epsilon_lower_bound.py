"""Sound mechanisms stay below their claim, broken ones are caught; bounds hold with 95 % confidence."""

import numpy as np
import pytest

from laconic.audit.attacks import canary_attack, encoder_game, epsilon_lower_bound, pca_game, rows_game, sgd_game
from laconic.learn import Mlp
from laconic.privacy import ClippedGaussian, Codebook, DpNat, DpPca, DpSgd, Event, Pld

DELTA = 1e-5
pytest.importorskip("dp_accounting", reason="needs the extra `privacy`: pip install 'laconic-fl[privacy]'")


def claim(sigma, answers=1):
    return Pld(interval=1e-3).epsilon({"a": {Event("gaussian", sigma): answers}}, DELTA)


def attack(game, claimed, trials):
    return canary_attack(game, claimed, DELTA, trials, np.random.default_rng(0), what="it").success


def step(sigma, **changes):
    return DpSgd(**({"sigma": sigma, "batch": 10**6, "epochs": 1, "lr": 1.0} | changes))


def one_layer(kind, sigma, **settings):
    return kind(dim=2, rows_net=Mlp(hidden=(), final="tanh"), trainer=step(sigma, clip=0.1), **settings)


@pytest.mark.parametrize(
    ("game", "claimed"),
    [
        pytest.param(sgd_game(step(1.5, seeded=True)), 1.5, marks=pytest.mark.slow),
        (pca_game(DpPca(sigma=1.5, seeded=True)), 1.5),
        (rows_game(ClippedGaussian(sigma=1.5, seeded=True)), 1.5),
    ],
    ids=["DpSgd", "DpPca", "ClippedGaussian"],
)
def test_sound_mechanisms_stay_below_their_claim(game, claimed):
    assert attack(game, claim(claimed), trials=400) <= claim(claimed)


@pytest.mark.slow
def test_the_sound_codebook_stays_below_its_claim():
    assert attack(encoder_game(one_layer(Codebook, 1.5, words=8)), claim(1.5), trials=300) <= claim(1.5)


@pytest.mark.slow
def test_published_nat_exceeds_its_claim():
    # Its rows trade targets, so that one row moves several times what clipping allows: sigma 3 protects as less than 1.
    assert attack(encoder_game(one_layer(DpNat, 3.0)), claim(3.0), trials=600) > claim(3.0)


def test_noise_scaled_wrongly_is_caught():
    assert attack(pca_game(DpPca(sigma=0.3, seeded=True)), claim(1.5), trials=400) > claim(1.5)


@pytest.mark.slow
def test_clipping_that_is_off_is_caught():
    # A claim of clip 1 and sigma 1.5, where in truth a row may weigh ten times as much under the same noise.
    assert attack(sgd_game(step(0.15, clip=10.0, seeded=True)), claim(1.5), trials=200) > claim(1.5)


def test_noise_from_a_seed_that_is_shared_is_caught():
    def play(there, _):
        return pca_game(DpPca(sigma=1.5, seeded=True))(there, np.random.default_rng(7))

    assert attack(play, claim(1.5), trials=400) > claim(1.5)


def test_scores_that_say_nothing_bound_nothing():
    rng = np.random.default_rng(0)
    assert epsilon_lower_bound(rng.normal(size=500), rng.normal(size=500), DELTA) < 0.3


def test_scores_that_never_overlap_bound_as_much_as_their_number_allows():
    found = epsilon_lower_bound(np.ones(400), np.zeros(400), DELTA)
    assert np.log(200 / 6) < found < np.log(200)

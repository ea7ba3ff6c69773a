"""A hub that is started again from its journal draws its secure noise as before: a second draw would cost it again."""

import numpy as np
import pytest

from laconic import FedKt, FedOnce, simulate, train
from laconic.deploy import InProcess
from laconic.learn import Logistic
from laconic.plan import Journalled
from laconic.privacy.encoders import Codebook, DpPca, PublicProjection
from laconic.privacy.mechanisms.gaussian import LocalGaussian
from laconic.privacy.mechanisms.outputs import ClippedGaussian
from laconic.privacy.mechanisms.votes import L1, GaussianVotes
from laconic.privacy.private_sgd import DpSgd
from laconic.privacy.randomness import randomness_from
from laconic.testing import bare_party, small_federation, small_horizontal

_FEDONCE = FedOnce(encoder=PublicProjection(), trainer=DpSgd(sigma=2.0, epochs=3))
_FEDKT = FedKt(model=Logistic(), level=L1(noise=GaussianVotes(sigma=20.0), secure=True, smooth=False))


@pytest.mark.parametrize(
    ("method", "federation"),
    [(_FEDONCE, small_federation("binary")), (_FEDKT, small_horizontal("binary"))],
    ids=["FedOnce with DpSgd at the hub", "FedKt with noisy votes at the server"],
)
def test_a_run_replayed_from_its_journal_draws_the_same_noise_at_the_hub(tmp_path, method, federation):
    def run(folder):
        return simulate(method, federation, runtime=Journalled(folder=str(tmp_path / folder))).predictions

    first = run("one")
    assert run("one") == first
    assert run("another") != first
    assert simulate(method, federation, runtime=InProcess()).predictions != first


def test_a_model_of_a_journalled_run_is_the_same_when_it_is_trained_again(tmp_path):
    federation, runtime = small_federation("binary"), Journalled(folder=str(tmp_path))
    one, other = (train(_FEDONCE, federation, runtime=runtime).hub.memory["model"] for _ in range(2))
    assert all(np.array_equal(one[name], other[name]) for name in one)


def _hub(secret=b"kept"):
    return bare_party(secret=secret)


def _flat(weights):
    return np.concatenate([values.ravel() for values in weights.values()])


_X = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
_DRAWS = {
    "DpPca": lambda x, hub: _flat(DpPca(sigma=2.0).fit(x, hub.rng)),
    "Codebook": lambda x, hub: _flat(Codebook(trainer=DpSgd(sigma=2.0, epochs=1)).fit(x, hub.rng)),
    "ClippedGaussian": lambda x, hub: ClippedGaussian(sigma=2.0).put_on_rows(x, hub, "train", ()).value,
    "LocalGaussian": lambda x, hub: LocalGaussian(epsilon=1.0).put_on(x, hub, "train").value,
    "votes": lambda x, hub: _FEDKT.level.noisy(np.rint(9 * abs(x)), hub.rng),
}


@pytest.mark.parametrize("draw", _DRAWS.values(), ids=_DRAWS)
def test_secure_noise_is_drawn_again_alike_from_a_kept_secret_alone(draw):
    first = draw(_X, _hub())
    assert np.array_equal(draw(_X, _hub()), first)
    assert not np.array_equal(draw(_X, _hub(b"another")), first)
    assert not np.array_equal(draw(_X, _hub(None)), draw(_X, _hub(None)))


def test_noise_from_a_kept_secret_is_another_for_other_numbers_and_for_the_next_draw():
    """The same noise on two values would show their difference."""
    hub = _hub()
    drawn = [randomness_from(hub.rng, False, _X).normal(8), randomness_from(hub.rng, False, _X).normal(8)]
    drawn += [randomness_from(_hub().rng, False, _X + at).normal(8) for at in (1e-3, 2e-3)]
    assert len(np.unique(np.stack(drawn))) == 32


def test_children_of_a_partys_chance_know_its_secret():
    one, other = (randomness_from(_hub().rng.spawn(2)[1], False, _X).uniform(4) for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("seeded", [True, False])
def test_no_rows_take_no_noise(seeded):
    assert randomness_from(np.random.default_rng(0), seeded, np.empty((0, 3))).normal(0).tolist() == []

"""What the one-shot VFL study learns once and uses again."""

import numpy as np

from laconic.learn import Cnn, FixMatch
from laconic.learn.train.semisupervised import begin
from studies.oneshot_vfl_learning import KeptFixMatch

_NET = Cnn(channels=(2,), hidden=(), final="relu")


def _learn(local, rows=6):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 1, 6, 6)).astype(np.float32)
    start = begin(_NET, (1, 6, 6), 4, 2, rng)
    found = local.fit(start, _NET, 4, x, np.arange(rows) % 2, x[:3], rng)
    return found, float(rng.random())


def test_what_is_kept_is_what_would_be_learnt_and_so_is_the_chance_that_is_left():
    expected, chance = _learn(FixMatch(steps=2, batch=2, hole=0.2))
    for _ in range(2):
        found, left = _learn(KeptFixMatch(steps=2, batch=2, hole=0.2))
        assert all((found[name] == values).all() for name, values in expected.items())
        assert left == chance
        found["head.bias"][:] = 9.0  # A caller may write on what it got.


def test_other_rows_and_other_settings_are_learnt_anew():
    usual = _learn(KeptFixMatch(steps=2, batch=2))[0]["head.bias"]
    assert (_learn(KeptFixMatch(steps=2, batch=2), rows=8)[0]["head.bias"] != usual).any()
    assert (_learn(KeptFixMatch(steps=3, batch=2))[0]["head.bias"] != usual).any()

"""What each party added: values with uncertainty, and a copy of another party's columns, which gains nothing."""

import numpy as np
import pytest
from pandas import DataFrame

from laconic import FedOnce, Solo, federation
from laconic.deploy import train, worths
from laconic.learn import LinearModel, Pca

# A linear model weighs both of two equal parties; trees would take the first and leave the copy worth nothing.
METHOD = FedOnce(encoder=Pca(dim=2), head=LinearModel())


def tables():
    rng = np.random.default_rng(0)
    own, goods, luck = rng.normal(size=(3, 600))
    ids = [f"c{row}" for row in range(600)]
    churned = (0.5 * own + goods + 0.3 * rng.normal(size=600) > 0).astype(int)
    return {
        "bank": DataFrame({"id": ids, "income": own, "churned": churned}),
        "shop": DataFrame({"id": ids, "visits": goods, "baskets": goods**2}),
        "lottery": DataFrame({"id": ids, "tickets": luck, "wins": luck**2}),
    }


def found(parties):
    return worths(train(METHOD, federation(parties, id="id", label="churned")), draws=20)


@pytest.fixture(scope="module")
def honest():
    return found(tables())


@pytest.fixture(scope="module")
def copied():
    both = tables()
    both["copycat"] = both["shop"].rename(columns={"visits": "calls", "baskets": "trolleys"})
    return found(both)


def test_a_party_that_helps_is_worth_more_than_one_that_does_not(honest):
    assert honest["shop"].shapley - 3 * honest["shop"].error > honest["lottery"].shapley
    assert honest["shop"].without > 0.1
    assert honest["shop"].bytes > 0
    assert honest["bank"].bytes == 0
    assert honest["shop"].similar < 0.1


def test_a_copy_gains_nothing(honest, copied):
    pair = [copied[name] for name in ("shop", "copycat")]
    assert all(one.similar > 0.9 for one in pair)
    # Left out alone, neither is missed, which is why leaving out cannot settle anything here.
    assert all(one.without < 0.05 for one in pair)
    assert sum(one.settled for one in pair) <= honest["shop"].settled
    # Another honest party is not touched by the copy.
    assert copied["lottery"].settled == pytest.approx(honest["lottery"].settled, abs=0.03)


def test_without_the_halving_a_copy_would_pay(honest, copied):
    assert sum(copied[name].shapley for name in ("shop", "copycat")) > honest["shop"].shapley


def test_methods_that_store_nothing_are_refused():
    with pytest.raises(ValueError, match="keeps nothing of what parties send"):
        worths(train(Solo(), federation(tables(), id="id", label="churned")))

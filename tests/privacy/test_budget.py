import pytest

from laconic.privacy.accounting import Moments, Pld, Rdp, SimpleDivision
from laconic.privacy.budget import Budget, Demand

pytest.importorskip("dp_accounting", reason="needs the extra `privacy`: pip install 'laconic-fl[privacy]'")

UNEQUAL = {"bank": Demand(0.02, 1500), "shop": Demand(0.05, 200), "clinic": Demand(1.0, 1)}


@pytest.mark.parametrize("accountant", [Pld(interval=1e-3), Rdp(), Moments(), SimpleDivision()])
def test_unequal_parties_spend_nearly_all_and_never_more(accountant):
    budget = Budget(epsilon=2.0, accountant=accountant)
    spent = budget.spent(UNEQUAL, budget.multipliers(UNEQUAL))
    assert 0.98 * 2.0 < spent <= 2.0


def test_a_better_accountant_needs_less_noise():
    demands = {name: Demand(0.01, 1000) for name in ("one", "two", "three", "four")}
    noise = [
        Budget(epsilon=2.0, accountant=accountant).multipliers(demands)["one"]
        for accountant in (Pld(interval=1e-3), Moments(), SimpleDivision())
    ]
    assert noise[0] < noise[1] < noise[2]


def test_parties_that_do_the_same_get_the_same_noise():
    noise = Budget(epsilon=3.0, accountant=Moments()).multipliers({"one": Demand(0.1, 50), "two": Demand(0.1, 50)})
    assert noise["one"] == noise["two"]


def test_a_larger_share_of_the_budget_means_less_noise():
    demands = {"hub": Demand(0.1, 50), "peer": Demand(0.1, 50)}
    budget = Budget(epsilon=3.0, split={"hub": 4.0}, accountant=Rdp())
    noise = budget.multipliers(demands)
    assert noise["hub"] < noise["peer"]
    assert budget.spent(demands, noise) <= 3.0


def test_parties_with_different_people_have_the_whole_budget_each():
    demands = {"north": Demand(0.1, 50), "south": Demand(0.1, 50)}
    apart = Budget(epsilon=3.0, people="disjoint", accountant=Rdp())
    alone = Budget(epsilon=3.0, accountant=Rdp()).multipliers({"north": demands["north"]})["north"]
    assert apart.multipliers(demands)["north"] == pytest.approx(alone)
    assert apart.spent(demands, apart.multipliers(demands)) <= 3.0


def test_a_share_for_a_stranger_is_refused_by_name():
    with pytest.raises(ValueError, match="stranger"):
        Budget(epsilon=1.0, split={"stranger": 2.0}).multipliers({"one": Demand(1.0, 1)})


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0.0}, {"epsilon": 1.0, "delta": 0.0}, {"epsilon": 1.0, "split": {"a": -1.0}}]
)
def test_a_budget_that_nothing_keeps_is_refused(wrong):
    with pytest.raises(ValueError, match="above 0"):
        Budget(**wrong)


def test_one_noise_for_all_is_what_the_paper_of_fedonce_has():
    """Phishing at epsilon 2 with the training of its Table 10: three guests of 10 epochs, a host of 30."""
    rate = 32 / 8954
    demands = {"host": Demand(rate, 8395)} | {f"guest {place}": Demand(rate, 2799) for place in range(3)}
    budget = Budget(epsilon=2.0, accountant=Moments(), equal_noise=True)
    found = budget.multipliers(demands)
    assert set(found.values()) == {found["host"]}
    assert found["host"] == pytest.approx(1.358, abs=1e-3)
    assert 1.99 < budget.spent(demands, found) <= 2.0
    with pytest.raises(ValueError, match="leave one of them out"):
        Budget(epsilon=2.0, equal_noise=True, split={"host": 2.0})

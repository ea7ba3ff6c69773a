"""Promises in a plan that its method cannot keep are refused before anything runs."""

from typing import Protocol, runtime_checkable

from laconic.core.errors import PlanError
from laconic.core.ledger import Noise
from laconic.core.method import Method
from laconic.core.script import steps_of
from laconic.data.federation import Federation
from laconic.methods import AnyMethod
from laconic.plan.shape import Plan
from laconic.privacy.budget import Budget as PrivacyBudget


@runtime_checkable
class Keeper(Protocol):
    """A method that can work out how much noise keeps a budget."""

    def within(self, budget: PrivacyBudget, rows: int, hub: str, guests: tuple[str, ...]) -> AnyMethod:
        """The same method with as little noise as keeps the budget, for so many training rows and these parties."""
        ...

    def foresee(self, rows: int, hub: str, guests: tuple[str, ...]) -> dict[str, tuple[Noise, ...]]:
        """The noise on each party's model, which is known before anything runs."""
        ...


def keep_budget(plan: Plan, federation: Federation) -> AnyMethod:
    """The plan's method, with noise that keeps its budget if it promises an epsilon."""
    if plan.budget.epsilon is None or not isinstance(plan.method, Keeper):
        return plan.method
    return keep_budget_of(plan, least_rows(plan, federation), federation.hub, federation.peers)


def keep_budget_of(plan: Plan, rows: int, hub: str, guests: tuple[str, ...]) -> AnyMethod:
    """The same for so many training rows and these parties, where their tables are not at hand."""
    budget = plan.budget
    if budget.epsilon is None or not isinstance(plan.method, Keeper):
        return plan.method
    if plan.look_every is not None:
        raise PlanError(
            "look_every asks for held-out rows again and again, which budget.epsilon does not cover; leave out one"
        )
    wanted = PrivacyBudget(epsilon=budget.epsilon, delta=budget.delta, split=budget.split, accountant=budget.accountant)
    return plan.method.within(wanted, rows, hub, guests)


def least_rows(plan: Plan, federation: Federation) -> int:
    """How many training rows there are at least: fewer rows mean that each takes part more often, at a higher price."""
    if federation.aligned:
        return len(federation.tables[federation.hub].cut("train"))
    ids = [{str(one) for one in table.keys} for table in federation.tables.values()]
    shared = len(set.intersection(*ids))
    return max(1, int(shared * (1 - plan.data.test) * (1 - plan.data.valid)) - 2)


def refuse_unkept(plan: Plan) -> None:
    """Refuse a plan that promises an epsilon while its method cannot keep one.

    A method keeps a budget if it can work out its noise (see `Keeper`), or if nothing leaves at all.

    Raises:
        PlanError: the promise cannot be kept; says by what it would be broken.
    """
    if plan.budget.epsilon is None or isinstance(plan.method, Keeper):
        return
    broken = open_releases(plan.method)
    if broken:
        raise PlanError(
            f"budget.epsilon = {plan.budget.epsilon:g} cannot be promised: {type(plan.method).__name__} makes open "
            f"releases, which no priced noise covers (in its steps {', '.join(broken)}; see `laconic methods`); leave "
            "budget.epsilon out, or use FedOnce, which can keep a budget for its models, or Solo, which sends nothing"
        )


def open_releases(method: Method) -> dict[str, str]:
    """What a method lets leave a party without a priced noise, in words, by step."""
    found = {}
    for name, declared in steps_of(method).items():
        words = [words for words in (declared.gives, declared.takes) if words is not None]
        if words:
            found[name] = " and ".join(words)
    return found

import pytest

from laconic import Budget, DataPlan, Plan, check_method, execute, price, simulate
from laconic.deploy import ledgers_of
from laconic.errors import PlanError
from laconic.learn import Best, Joint, Mlp, Pca, Sgd
from laconic.methods.vertical.fedonce import FedOnce
from laconic.privacy import Budget as PrivacyBudget
from laconic.privacy import ClippedGaussian, DpNat, DpPca, DpSgd, Pld, PublicProjection
from laconic.testing import small_federation

SEEDED = FedOnce(
    encoder=DpPca(dim=4, sigma=1.0, seeded=True),
    trainer=DpSgd(sigma=1.0, epochs=5, batch=100, lr=1.0, seeded=True),
    head=Joint(head=Mlp(hidden=())),
)
BREAST = DataPlan(name="breast_cancer")


def test_private_fedonce_keeps_the_contract():
    check_method(SEEDED, small_federation("binary"))


def test_models_are_in_the_ledgers_and_representations_stay_open():
    result = simulate(SEEDED, small_federation("binary"))
    paid = price(ledgers_of(result), 1e-5, accountant=Pld(interval=1e-2))
    assert set(paid.by_party) == set(result.parties)
    assert any("columns can be guessed" in words for words in paid.open)
    assert not paid.secure


def test_the_published_guest_makes_the_whole_unproven():
    method = FedOnce(encoder=DpNat(dim=2, trainer=SEEDED.trainer), trainer=SEEDED.trainer, head=SEEDED.head)
    paid = price(ledgers_of(simulate(method, small_federation("binary"))), 1e-5, accountant=Pld(interval=1e-2))
    assert paid.epsilon is None
    assert len(paid.unproven) == 2  # The guests' own, and the label holder's that rests on it.


def test_a_private_head_on_open_encoders_is_not_proven():
    method = FedOnce(encoder=Pca(dim=2), trainer=SEEDED.trainer, head=SEEDED.head)
    (noise,) = (one.noise for one in simulate(method, small_federation("binary")).releases if one.noise is not None)
    assert not noise.proven


def test_a_plan_spends_nearly_its_budget_and_never_more():
    plan = Plan(method=FedOnce(), data=BREAST, budget=Budget(epsilon=2.0, accountant=Pld(interval=1e-3)))
    result = execute(plan)
    assert 1.95 < result.privacy.epsilon <= 2.0
    assert result.privacy.secure
    assert result.privacy.open
    assert result.metrics["accuracy"] > 0.85


def test_noised_representations_leave_nothing_open():
    method = FedOnce(encoder=PublicProjection(dim=4), noise=ClippedGaussian(clip=2.0))
    plan = Plan(method=method, data=BREAST, budget=Budget(epsilon=8.0, accountant=Pld(interval=1e-3)))
    result = execute(plan)
    assert result.privacy.open == ()
    assert 7.5 < result.privacy.epsilon <= 8.0


def test_a_budget_refuses_learners_that_cannot_be_private():
    with pytest.raises(PlanError, match="DpSgd"):
        FedOnce(encoder=Pca()).within(PrivacyBudget(epsilon=1.0), 100, "bank", ("shop",))


def test_looks_are_refused_under_a_budget():
    plan = Plan(method=FedOnce(), data=BREAST, budget=Budget(epsilon=2.0), look_every=1)
    with pytest.raises(PlanError, match="look_every"):
        execute(plan)


def test_under_a_budget_nothing_is_chosen_on_rows_that_no_noise_covers(monkeypatch):
    """Neither model nor width is chosen by a look at rows: only private steps and public draws see them."""

    def look(*_, **__):
        raise AssertionError("rows were looked at without a price")

    for place in ("models.best.Best.fit_all", "encoders.encoder.Encoder.spread", "models.best._choose"):
        monkeypatch.setattr(f"laconic.learn.{place}", look)
    with pytest.raises(AssertionError, match="without a price"):
        simulate(FedOnce(), small_federation("binary"))
    budget = PrivacyBudget(epsilon=4.0, accountant=Pld(interval=1e-2))
    federation = small_federation("binary")
    private = FedOnce().within(budget, len(federation.tables["bank"].cut("train")), "bank", tuple(federation.peers))
    result = simulate(private, federation)
    assert result.tried == ()
    assert isinstance(private.head, Joint)
    with pytest.raises(PlanError, match="a net as head"):
        FedOnce(head=Best()).within(budget, 100, "bank", ("shop",))


def test_more_exchanges_begin_with_a_net():
    result = simulate(FedOnce(more=Sgd(epochs=1)), small_federation("binary"))
    assert result.tried == ()
    with pytest.raises(ValueError, match="leave out more"):
        FedOnce(head=Best(), more=Sgd(epochs=1))

"""How much each party matters."""

import numpy as np
import pytest

from laconic import (
    Equal,
    FedOnce,
    FewShot,
    OneShot,
    Solo,
    Vafl,
    VimAdmm,
    VimAdmmJoint,
    VimSgd,
    deal,
    disturb,
    load,
    price,
)
from laconic.deploy import ledgers_of
from laconic.deploy.execute import train
from laconic.deploy.party_importance import denoise, head_norms, importance, noise_losses, shapley, summarise
from laconic.deploy.transports.inprocess import Faults, InProcess
from laconic.learn import Boosted, FixMatchTab, Mlp, Nat, Pca, Sgd, SummedHeads
from laconic.privacy import BatchClip, RowsOnce

_GUIDED = {"width": 8, "local": FixMatchTab(steps=30, lr=1e-2)}
_METHOD = VimAdmm(epochs=2, batch=128, local_steps=5, width=12)
_METHODS = [
    _METHOD,
    VimAdmmJoint(epochs=2, batch=128, local_steps=5, width=12),
    Vafl(epochs=4, width=12),
    FedOnce(encoder=Pca(dim=8), trainer=Sgd(epochs=8, lr=3e-3)),
    OneShot(**_GUIDED, head=Mlp(hidden=()), trainer=Sgd(epochs=8, lr=3e-3)),
    OneShot(**_GUIDED, head=SummedHeads()),
    FewShot(**_GUIDED, head=Mlp(hidden=()), trainer=Sgd(epochs=8, lr=3e-3)),
]
_TREES = [
    FedOnce(encoder=Pca(dim=8), head=Boosted(trees=10)),
    OneShot(**_GUIDED, head=Boosted(trees=10)),
]


@pytest.fixture(scope="module")
def federation():
    return deal(load("digits"), Equal(parties=4), hub=None, seed=3, test=0.3)


@pytest.fixture(scope="module")
def trained(federation):
    return train(_METHOD, federation)


@pytest.fixture(scope="module")
def with_columns():
    return deal(load("digits"), Equal(parties=3), seed=3, test=0.3, overlap=500)


@pytest.mark.parametrize("method", _METHODS, ids=lambda method: type(method).__name__)
def test_every_measure_names_every_party(method, federation):
    found = importance(train(method, federation), rows=200)
    assert set(found.heads) == set(found.noise) == set(found.shapley) == set(federation.peers)
    assert -1 <= found.spearman("heads", "shapley") <= 1


@pytest.mark.parametrize("method", _METHODS, ids=lambda method: type(method).__name__)
def test_a_hub_with_columns_counts_as_a_party(method, with_columns):
    found = importance(train(method, with_columns), rows=100)
    assert set(found.heads) == set(found.noise) == set(found.shapley) == set(with_columns.names)


@pytest.mark.parametrize("method", _TREES, ids=lambda method: type(method).__name__)
def test_trees_have_no_heads_but_all_else(method, with_columns):
    trained = train(method, with_columns)
    found = importance(trained, rows=100)
    assert found.heads == {}
    assert set(found.noise) == set(found.shapley) == set(with_columns.names)
    with pytest.raises(ValueError, match="has no linear heads, as trees have none; use a net as head, or shapley"):
        head_norms(trained)
    with pytest.raises(ValueError, match="heads and shapley name 0 of the same parties"):
        found.spearman("heads", "shapley")


@pytest.mark.parametrize("method", [*_METHODS[3:], *_TREES], ids=lambda method: type(method).__name__)
def test_all_stored_parts_together_predict_what_the_method_predicts(method, with_columns):
    trained = train(method, with_columns)
    places = np.arange(len(trained.hub.data.cut("train")))
    found = method.predict_from(trained.hub, method.stored_parts(trained.hub, places), places)
    # Numbers of the hub's own are stored to the three digits with which parties send theirs.
    np.testing.assert_allclose(found, trained.predict("train"), atol=0.01)


def test_nets_that_went_on_learning_are_not_judged_by_what_they_sent_before(with_columns):
    trained = train(FedOnce(encoder=Nat(dim=4, epochs=1), trainer=Sgd(epochs=1), more=Sgd(epochs=1)), with_columns)
    with pytest.raises(ValueError, match="sent before its net went on learning"):
        shapley(trained)


def test_questions_that_cannot_be_answered_are_refused(trained, federation):
    party = federation.peers[0]
    with pytest.raises(ValueError, match="keep must be 'most' or 'least', not 'lest'"):
        summarise(trained, 0.5, "lest")
    with pytest.raises(ValueError, match="rows must be 1 or more, not 0"):
        shapley(trained, rows=0)
    with pytest.raises(ValueError, match=f"{federation.hub} has no head that could shrink; those with one are {party}"):
        denoise(trained, federation.hub)
    with pytest.raises(ValueError, match="there is no party 'nobody'"):
        denoise(trained, "nobody")


def test_a_single_party_has_none_to_shrink_next_to():
    federation = deal(load("digits"), Equal(parties=1), hub=None, seed=3, test=0.3, overlap=100)
    with pytest.raises(ValueError, match="no other party has a head"):
        denoise(train(VimAdmm(epochs=1, local_steps=1, width=4), federation), federation.peers[0])


def test_a_party_that_was_absent_has_no_head_and_breaks_nothing(federation):
    gone, *there = federation.peers
    runtime = InProcess(faults=Faults(absent=(gone,)))
    found = importance(train(Vafl(epochs=2, width=8), federation, runtime=runtime), rows=100)
    assert set(found.heads) == set(found.shapley) == set(there)
    assert found.noise[gone] == 0.0


def test_shapley_values_add_up_to_what_all_parties_give_over_none(trained):
    places = np.sort(np.random.default_rng(0).permutation(len(trained.hub.data.cut("train")))[:300])
    method, hub = trained.method, trained.hub
    parts = method.stored_parts(hub, places)
    labels = trained.federation.labels("train")[places]
    together, nobody = (
        np.mean(method.predict_from(hub, some, places).argmax(axis=1) == labels) for some in (parts, {})
    )
    assert sum(shapley(trained, rows=300).values()) == pytest.approx(together - nobody, abs=1e-9)


def test_predictions_of_kept_parties_are_those_of_the_run(trained):
    assert trained.headline() == trained.result.score.value


def test_noise_at_test_time_hurts(trained):
    assert max(noise_losses(trained, sd=5.0).values()) > 0.02


def test_noise_at_test_time_hurts_where_each_row_is_noised_once(federation):
    """What was told of clean rows must not be told again in place of the disturbed ones."""
    once = RowsOnce(clip=5.0, sigma=0.01, seeded=True)
    trained = train(VimSgd(epochs=10, width=16, privacy=once), federation)
    clean = trained.predict("test")
    assert min(noise_losses(trained, sd=5.0).values()) > 0.02
    assert (trained.predict("test") == clean).all()


def test_what_is_given_away_to_weigh_parties_is_in_the_price():
    method = VimAdmmJoint(epochs=1, local_steps=2, width=8, privacy=BatchClip(clip=1.0, sigma=50.0))
    trained = train(method, deal(load("digits"), Equal(parties=2), overlap=100))
    importance(trained)
    plain, weighed = (price(ledgers_of(one), 1e-5) for one in (trained.result, trained.to_date()))
    assert weighed.epsilon > plain.epsilon
    assert any("the length of its head" in words for words in weighed.open)


def test_a_noisy_party_gets_a_smaller_head(trained, federation):
    party = max(head_norms(trained), key=head_norms(trained).__getitem__)
    assert denoise(trained, party, sd=5.0).shrinkage < 1.0


def test_half_of_the_parties_are_those_with_the_longest_or_the_shortest_heads(trained):
    ranked = sorted(head_norms(trained), key=head_norms(trained).__getitem__)
    most, least = (summarise(trained, 0.5, keep) for keep in ("most", "least"))
    assert {party.name for party in most.others} == set(ranked[2:])
    assert {party.name for party in least.others} == set(ranked[:2])


def test_noise_leaves_other_parties_and_other_rows_alone(federation):
    party = federation.peers[0]
    noisy = disturb(federation, party, 1.0, cuts=("test",))
    table, before = noisy.tables[party], federation.tables[party]
    assert (table.raw[table.cut("train")] == before.raw[before.cut("train")]).all()
    assert (table.raw[table.cut("test")] != before.raw[before.cut("test")]).any()
    assert all(noisy.tables[name] is federation.tables[name] for name in federation.peers[1:])


def test_a_method_that_stores_nothing_is_refused():
    federation = deal(load("digits"), Equal(parties=2), seed=3, test=0.3)
    with pytest.raises(ValueError, match="Solo keeps nothing of what parties send"):
        shapley(train(Solo(trainer=Sgd(epochs=1)), federation))

"""How much each party matters."""

import numpy as np
import pytest

from laconic.data.deal import deal
from laconic.data.disturb import disturb
from laconic.data.sources import load
from laconic.data.vertical import Equal
from laconic.learn.pca import Pca
from laconic.learn.sgd import Sgd
from laconic.methods.baselines.solo import Solo
from laconic.methods.vertical.fedonce import FedOnce
from laconic.methods.vertical.vafl import Vafl
from laconic.methods.vertical.vimadmm import VimAdmm
from laconic.methods.vertical.vimadmm_joint import VimAdmmJoint
from laconic.methods.vertical.vimsgd import VimSgd
from laconic.party_importance import denoise, head_norms, importance, noise_losses, shapley, summarise
from laconic.plan import DataPlan, Plan, execute
from laconic.privacy.outputs import BatchClip, RowsOnce
from laconic.simulation import on_threads
from laconic.trained import train

_METHOD = VimAdmm(epochs=2, batch=128, local_steps=5, width=12)
_METHODS = [
    _METHOD,
    VimAdmmJoint(epochs=2, batch=128, local_steps=5, width=12),
    Vafl(epochs=4, width=12),
    FedOnce(encoder=Pca(dim=8), trainer=Sgd(epochs=8, lr=3e-3)),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with on_threads(1):
        yield


@pytest.fixture(scope="module")
def federation():
    return deal(load("digits"), Equal(parties=4), hub=None, seed=3, test=0.3)


@pytest.fixture(scope="module")
def trained(federation):
    return train(_METHOD, federation)


@pytest.mark.parametrize("method", _METHODS, ids=lambda method: type(method).__name__)
def test_every_measure_names_every_party(method, federation):
    found = importance(train(method, federation), rows=200)
    assert set(found.heads) == set(found.noise) == set(found.shapley) == set(federation.peers)
    assert -1 <= found.spearman("heads", "shapley") <= 1


def test_a_hub_with_columns_counts_as_a_party_of_the_vim_family():
    federation = deal(load("digits"), Equal(parties=3), seed=3, test=0.3)
    assert set(shapley(train(_METHOD, federation), rows=100)) == set(federation.names)


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
    plan = Plan(method=method, data=DataPlan(name="digits", parties=2, overlap=100))
    plain, weighed = execute(plan), execute(plan, weigh=True)
    assert weighed.privacy.epsilon > plain.privacy.epsilon
    assert any("the length of its head" in words for words in weighed.privacy.open)


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

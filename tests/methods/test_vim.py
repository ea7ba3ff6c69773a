"""VimSgd, VimAdmm, VimAdmmJoint, Vafl and Fdml: sums over parties' nets and heads."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from laconic import Equal, check_method, deal, load, simulate
from laconic.core import Party, Peers, WireLog
from laconic.deploy import Faults, InProcess, open_calls
from laconic.errors import PartyAbsent
from laconic.learn import Mlp, Sgd
from laconic.learn.nets.nets import load as load_weights
from laconic.learn.train.descent import nearest_logits, targets_of
from laconic.methods.baselines.late_fusion import LateFusion
from laconic.methods.families.rows import batch_rows
from laconic.methods.families.summed import first_head
from laconic.methods.vertical.fdml import Fdml
from laconic.methods.vertical.vafl import Vafl, in_turn
from laconic.methods.vertical.vimadmm import VimAdmm
from laconic.methods.vertical.vimadmm_joint import VimAdmmJoint
from laconic.methods.vertical.vimsgd import VimSgd
from laconic.testing import open_peers, small_federation

_QUICK = [
    VimSgd(epochs=6, width=16, batch=256),
    VimAdmm(epochs=2, local_steps=10, width=16, batch=256),
    VimAdmmJoint(epochs=8, local_steps=10, width=16, batch=256),
    Vafl(epochs=12, width=16, batch=256, slowness=0.5),
    Fdml(epochs=6, width=16, batch=256),
    LateFusion(trainer=Sgd(epochs=10)),
]


def _labels_only(parties=3):
    return deal(load("digits"), Equal(parties=parties), hub=None, seed=3, test=0.3)


def _trained(method, federation, seed=0):
    """Fit, and return the hub, the peers by name, and what was asked."""
    parties = {name: Party(name, table, seed) for name, table in federation.tables.items()}
    hub = parties.pop(federation.hub)
    with open_peers(method, hub, parties.values()) as peers:
        for _ in method.fit(hub, peers):
            pass
    return hub, parties


@pytest.mark.slow
@pytest.mark.parametrize("method", _QUICK, ids=lambda method: type(method).__name__)
def test_it_keeps_the_contract(method):
    check_method(method)


@pytest.mark.parametrize("method", _QUICK, ids=lambda method: type(method).__name__)
def test_a_hub_with_labels_alone_learns_from_its_peers(method):
    assert simulate(method, _labels_only()).metrics["accuracy"] > 0.5


def _iterates_from_duals(method, federation, seed):
    """Algorithm 1 with duals, residuals and heads sent down; residuals from before the heads' step, unlike eq. 9."""
    tables = {name: table for name, table in federation.tables.items() if name != federation.hub}
    hub, parties = _trained(
        type(method)(epochs=1, local_steps=1, width=method.width, batch=10**6, lr=0.0), federation, seed
    )
    nets = {name: Mlp(final="relu").build(tables[name].shape, method.width) for name in tables}
    optimisers = {}
    for name, net in nets.items():
        load_weights(net, parties[name].memory["net"])  # As drawn: that run had learning rate 0.
        optimisers[name] = torch.optim.SGD(
            net.parameters(), method.lr, method.momentum, weight_decay=method.weight_decay
        )
    order = hub.memory["order"]
    at = hub.data.cut("train")
    heads = {name: torch.tensor(first_head(order, name, method.width, 10)) for name in tables}
    duals = np.zeros((len(at), 10))
    for epoch in range(method.epochs):
        for number in range(-(-len(at) // method.batch)):
            rows = batch_rows(len(at), method.batch, order, epoch, number)
            x = {name: torch.tensor(table.x[at[rows]]) for name, table in tables.items()}
            sent = {name: nets[name](x[name]).detach() for name in nets}
            sums = sum(sent[name] @ heads[name] for name in nets).numpy().astype(np.float64)
            z = nearest_logits(
                federation.task, sums, duals[rows], targets_of(federation.task, hub.data.y[at[rows]]), method.rho
            )
            duals[rows] += method.rho * (sums - z)
            dual = torch.tensor(duals[rows], dtype=torch.float32)
            residuals = {name: torch.tensor(z - sums, dtype=torch.float32) + sent[name] @ heads[name] for name in nets}
            for name, net in nets.items():
                head = heads[name].clone().requires_grad_()
                part = sent[name] @ head
                (((dual * part).sum() + method.rho / 2 * ((residuals[name] - part) ** 2).sum()) / len(rows)).backward()
                heads[name] = (heads[name] - method.lr * (head.grad + method.weight_decay * heads[name])).detach()
                for _ in range(method.local_steps):
                    optimisers[name].zero_grad()
                    part = net(x[name]) @ heads[name]
                    objective = (dual * part).sum() + method.rho / 2 * ((residuals[name] - part) ** 2).sum()
                    (objective / len(rows)).backward()
                    optimisers[name].step()
    return heads, nets, duals


def _few_kinds_of_rows():
    """Digits in black and white by rows of pixels: most rows of most parties are alike."""
    digits = load("digits")
    return deal(replace(digits, raw=(digits.raw > 12).astype(float)), Equal(parties=8), hub=None, seed=3, test=0.3)


@pytest.mark.parametrize("dealt", [_labels_only, _few_kinds_of_rows], ids=["rows that differ", "rows alike"])
def test_one_array_gives_the_same_iterates_as_duals_residuals_and_heads(dealt):
    method = VimAdmm(epochs=2, batch=256, local_steps=3, width=8)
    federation = dealt()
    hub, parties = _trained(method, federation, seed=5)
    heads, nets, duals = _iterates_from_duals(method, federation, seed=5)
    np.testing.assert_allclose(hub.memory["duals"], duals, atol=2e-3)
    for name, party in parties.items():
        np.testing.assert_allclose(party.memory["head"], heads[name].numpy(), atol=1e-4)
        for weight, values in nets[name].named_parameters():
            np.testing.assert_allclose(party.memory["net"][weight], values.detach().numpy(), atol=1e-3)


@pytest.mark.parametrize("method", [_QUICK[0], _QUICK[1]], ids=["VimSgd", "VimAdmm"])
def test_a_party_works_out_the_head_that_the_hub_keeps_for_it(method):
    hub, parties = _trained(method, _labels_only())
    for name, party in parties.items():
        np.testing.assert_allclose(party.memory["head"], hub.memory["heads"][name], atol=1e-6)


def test_a_party_works_out_its_weight_in_the_average():
    hub, parties = _trained(Vafl(epochs=2, width=8, slowness=1.0), _labels_only())
    for name, party in parties.items():
        assert party.memory["share"] == pytest.approx(hub.memory["shares"][name], abs=1e-9)


def test_every_label_can_be_read_off_the_duals():
    hub, _ = _trained(_QUICK[1], _labels_only())
    assert (hub.memory["duals"].argmin(axis=1) == hub.data.part("train")[1]).all()


def test_the_downlink_is_one_number_for_each_class_and_row():
    method = VimAdmm(epochs=1, batch=64, local_steps=1, width=16)
    federation = _labels_only()
    result = simulate(method, federation)
    rows = len(federation.tables[federation.hub].cuts["train"])
    rounds = -(-rows // 64) + 1
    assert result.fit.bytes_down == pytest.approx(3 * 4 * 10 * rows, abs=3 * 200 * (rounds + 1))
    assert result.fit.bytes_up == pytest.approx(3 * 4 * 16 * rows, abs=3 * 100 * (rounds + 1))


def test_half_precision_halves_the_bytes_and_keeps_the_heads_alike():
    full = VimAdmm(epochs=1, batch=64, local_steps=2, width=16)
    half = VimAdmm(epochs=1, batch=64, local_steps=2, width=16, precision="float16")
    assert simulate(half, _labels_only()).fit.bytes < 0.55 * simulate(full, _labels_only()).fit.bytes
    hub, parties = _trained(half, _labels_only())
    for name, party in parties.items():
        np.testing.assert_allclose(party.memory["head"], hub.memory["heads"][name], atol=1e-6)


def test_slow_parties_of_vafl_are_asked_less_often():
    prompt, slow = (simulate(Vafl(epochs=3, width=8, slowness=s), _labels_only()) for s in (0.0, 2.0))
    assert slow.fit.bytes < 0.6 * prompt.fit.bytes
    assert slow.fit.rounds == prompt.fit.rounds


class _Watched:
    """A carrier that writes down, by round, the model that the hub has when each answer comes."""

    def __init__(self, carrier, hub):
        self.carrier, self.hub, self.names, self.rounds = carrier, hub, carrier.names, []

    def carry(self, script, blobs, deadline):
        models = []
        self.rounds.append(models)
        for answer in self.carrier.carry(script, blobs, deadline):
            models.append(self.hub.memory.get("model", 0.0) + np.float32(0.0))
            yield answer


@pytest.mark.parametrize(("slowness", "moves"), [(0.0, False), (0.5, True)])
def test_the_hub_of_vafl_learns_from_an_answer_while_slow_parties_are_at_work(slowness, moves):
    federation = _labels_only()
    parties = {name: Party(name, table, 0) for name, table in federation.tables.items()}
    hub = parties.pop(federation.hub)
    method = Vafl(epochs=2, width=8, slowness=slowness)
    with open_calls(tuple(parties.values())) as carrier:
        watched = _Watched(carrier, hub)
        for _ in method.fit(hub, Peers(method, hub, watched, WireLog(), carrier.names)):
            pass
    assert any((models[0] != models[-1]).any() for models in watched.rounds[1:] if models) == moves


def test_answers_are_taken_in_turn_and_as_early_as_their_turn_allows():
    came = []

    def answers():
        for name in "bacf":
            came.append(name)
            yield name, name.upper()

    taken = [(name, answer, "".join(came)) for name, answer in in_turn(answers(), "abdfc")]
    assert taken == [("a", "A", "ba"), ("b", "B", "ba"), ("f", "F", "bacf"), ("c", "C", "bacf")]


def test_vafl_ends_with_an_error_when_nobody_is_there():
    federation = _labels_only()
    absent = InProcess(faults=Faults(absent=federation.peers))
    with pytest.raises(PartyAbsent, match="did not answer the question `begin` in time"):
        simulate(Vafl(epochs=1), federation, runtime=absent)


def test_a_hub_with_columns_learns_by_vafl_when_nobody_else_is_there():
    federation = small_federation("multiclass")
    result = simulate(_QUICK[3], federation, runtime=InProcess(faults=Faults(absent=federation.peers)))
    assert result.metrics["accuracy"] > 0.3


def test_vafl_goes_on_without_a_party_that_is_lost():
    gone = small_federation("multiclass").peers[0]
    result = simulate(_QUICK[3], small_federation("multiclass"), runtime=InProcess(faults=Faults(absent=(gone,))))
    assert result.metrics["accuracy"] > 0.5


def test_several_workers_change_no_bit():
    one, three = (simulate(_QUICK[1], _labels_only(), runtime=InProcess(workers=w)) for w in (1, 3))
    assert one.predictions == three.predictions
    assert one.releases == three.releases


_ADMM = [VimAdmm(), VimAdmmJoint()]


def _dealt(data, parties, seed=1):
    return deal(load(data), Equal(parties=parties), hub=None, seed=seed, test=0.3)


# Predicting the mean has an R2 of 0; they reach about 0.5.
@pytest.mark.parametrize("parties", [1, 3, 8])
@pytest.mark.parametrize("method", _ADMM, ids=lambda method: type(method).__name__)
def test_numbers_are_learnt_by_any_number_of_parties_as_the_settings_are(method, parties):
    assert simulate(method, _dealt("diabetes", parties)).metrics["r2"] > 0.4


@pytest.mark.parametrize("data", ["breast_cancer", "digits"])
@pytest.mark.parametrize("method", _ADMM, ids=lambda method: type(method).__name__)
def test_classes_are_learnt_by_many_parties_as_the_settings_are(method, data):
    assert simulate(method, _dealt(data, 8)).metrics["accuracy"] > 0.93


@pytest.mark.parametrize(("data", "share"), [("diabetes", 1 / 5), ("digits", 1.0)])
def test_parties_close_a_gap_of_numbers_together_and_of_classes_each(data, share):
    federation = _dealt(data, 5)
    found = {}
    for damping in (None, 1.0):
        method = VimAdmm(epochs=1, lr=0.0, width=8, batch=64, damping=damping)
        hub, _ = _trained(method, federation)
        rows, sums = np.arange(9), np.ones((9, federation.task.outputs))
        found[damping] = method.admm.signal(hub, rows, sums, method.targets(hub, rows))
    np.testing.assert_allclose(found[None], share * found[1.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (VimAdmm(damping=1.0), "VimAdmm diverged: .* try an lr below 0.05, a damping below 1 or a rho above 2"),
        (Vafl(lr=3000.0, epochs=9), "Vafl diverged: .* try an lr below 3000"),
        (Fdml(lr=300.0, epochs=9), "Fdml diverged: .* try an lr below 300"),
    ],
    ids=["VimAdmm", "Vafl", "Fdml"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_run_that_diverges_ends_with_what_to_try(method, words):
    with pytest.raises(ValueError, match=words):
        simulate(method, _dealt("diabetes", 8))


def test_rho_and_steps_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="rho must be above 0, not 0"):
        VimAdmm(rho=0)
    with pytest.raises(ValueError, match="local_steps must be 1 or more, not 0"):
        VimAdmmJoint(local_steps=0)
    with pytest.raises(ValueError, match="damping must be above 0 and at most 1, or None, not 0"):
        VimAdmm(damping=0)
    with pytest.raises(ValueError, match="slowness must be 0 or more, not -1"):
        Vafl(slowness=-1)

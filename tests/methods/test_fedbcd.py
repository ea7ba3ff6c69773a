import numpy as np
import pytest
import torch

from laconic import check_method, simulate
from laconic.core import Party
from laconic.deploy import roles
from laconic.learn import Joint, Mlp, Sgd, initialise, weights_of
from laconic.learn.train import losses as heads
from laconic.methods.families.rows import batch_rows
from laconic.methods.vertical.fedbcd import FedBCD
from laconic.methods.vertical.fedcvt import FedCVT
from laconic.methods.vertical.splitnn import SplitNN
from laconic.testing import open_peers, small_federation

TRAINER = Sgd(epochs=3, batch=128, lr=1e-2)
SMALL = Sgd(epochs=5, batch=30, lr=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("method", [FedBCD(trainer=TRAINER), FedCVT(trainer=TRAINER)], ids=["FedBCD", "FedCVT"])
def test_the_baselines_keep_the_contract(method):
    check_method(method)


@pytest.mark.parametrize("method", [FedBCD(trainer=SMALL), FedCVT(trainer=SMALL)], ids=["FedBCD", "FedCVT"])
def test_the_baselines_keep_the_contract_where_parties_share_few_rows(method, overlap):
    check_method(method, overlap)


def test_one_local_step_is_splitnn_exactly(cancer):
    one = simulate(FedBCD(local_steps=1, trainer=TRAINER), cancer)
    split = simulate(SplitNN(trainer=TRAINER), cancer)
    assert one.predictions == split.predictions


def test_more_local_steps_learn_more_from_the_same_bytes(overlap):
    """Plain descent with a small learning rate, so that five steps do go about five times as far."""
    trainer = Sgd(epochs=6, batch=30, lr=0.02, optimizer="sgd")
    split, several = (simulate(one, overlap) for one in (SplitNN(trainer=trainer), FedBCD(trainer=trainer)))
    assert several.fit.bytes == split.fit.bytes
    assert several.metrics["log_loss"] < split.metrics["log_loss"]


def descend(module):
    """One step of plain descent by what is in the gradients, which are emptied."""
    with torch.no_grad():
        for values in module.parameters():
            values.sub_(0.1 * values.grad)
            values.grad = None


def test_three_local_steps_are_those_of_the_parallel_variant(cancer):
    """Everybody takes three steps on what it last received: worked out here by autograd, batch by batch."""
    trainer = Sgd(epochs=1, batch=200, lr=0.1, optimizer="sgd", weight_decay=0.0)
    net, head = Mlp(hidden=(4,), final="relu"), Joint(own=None, head=Mlp(hidden=(5,)))
    method = FedBCD(local_steps=3, net=net, width=3, head=head, trainer=trainer)
    hub, _, others = roles(method, cancer, seed=4)
    hub.turn("fit", 0)
    with open_peers(method, hub, others) as peers:
        list(method.fit(hub, peers))

    own, nets = Party(hub.name, hub.data, 4), {}
    for party in others:
        same = Party(party.name, party.data, 4)
        same.turn("fit", 1)
        nets[party.name] = initialise(method.bottom(same), same.rng)
    own.turn("fit", 0)
    top = initialise(method.top(own, 3 * len(nets)), own.rng)
    seed = int(own.rng.integers(2**31))
    x = {name: torch.tensor(table.part("train")[0]) for name, table in cancer.tables.items()}
    y = torch.tensor(cancer.labels("train"), dtype=torch.float32)
    for number in range(-(-len(y) // 200)):
        rows = torch.tensor(batch_rows(len(y), 200, seed, 0, number))
        received = {name: one(x[name][rows]).detach().requires_grad_() for name, one in nets.items()}
        sent = None
        for _ in range(3):
            for values in received.values():
                values.grad = None
            outputs = top(x[hub.name][rows], torch.cat(list(received.values()), dim=1))
            heads.loss(cancer.task, outputs, y[rows]).backward()
            # What goes down is from before the hub's first step.
            sent = sent or {name: values.grad.clone() for name, values in received.items()}
            descend(top)
        for name, one in nets.items():
            for _ in range(3):
                one(x[name][rows]).backward(sent[name])
                descend(one)
    pairs = [(hub.memory["model"], top), *((party.memory["net"], nets[party.name]) for party in others)]
    for found, module in pairs:
        for name, values in weights_of(module).items():
            np.testing.assert_allclose(found[name], values, atol=1e-5)


def test_fedcvt_sends_own_rows_and_says_so(overlap):
    split, cvt = (simulate(one, overlap) for one in (SplitNN(trainer=SMALL), FedCVT(trainer=SMALL)))
    assert 1.7 < cvt.fit.bytes / split.fit.bytes < 2.1
    words = {(release.party, release.step): release.words for release in cvt.releases}
    assert "people outside the overlap of all parties" in words["bank", "exchange"]


def test_fedcvt_without_own_rows_is_supervised(cancer):
    assert simulate(FedCVT(trainer=TRAINER), cancer).score.value > 0.95


def test_fedcvt_refuses_numbers():
    with pytest.raises(ValueError, match="FedCVT predicts classes, but label 'progression'"):
        simulate(FedCVT(trainer=TRAINER), small_federation("regression"))


@pytest.mark.parametrize(("kind", "wrong"), [(FedBCD, {"local_steps": 0}), (FedCVT, {"threshold": 1.5})])
def test_settings_without_meaning_are_refused(kind, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kind(**wrong)

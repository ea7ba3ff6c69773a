import numpy as np
import pytest
import torch

from laconic import check_method, simulate
from laconic.core import Party
from laconic.deploy import Faults, InProcess
from laconic.errors import BudgetSpent, PartyAbsent
from laconic.learn import Joint, Mlp, Sgd, initialise, weights_of
from laconic.learn.train import losses as heads
from laconic.methods.families.rows import batch_rows
from laconic.methods.vertical.fedbcd import FedBCD
from laconic.methods.vertical.fedcvt import FedCVT
from laconic.methods.vertical.splitnn import SplitNN
from laconic.testing import open_peers, small_federation

TRAINER = Sgd(epochs=3, batch=128, lr=1e-2)


@pytest.fixture(scope="module")
def cancer():
    return small_federation("binary")


@pytest.mark.slow
def test_splitnn_keeps_the_contract():
    check_method(SplitNN(trainer=TRAINER))


@pytest.mark.slow
def test_splitnn_with_patience_keeps_the_contract(cancer):
    check_method(SplitNN(trainer=Sgd(epochs=3, batch=256, lr=1e-2, patience=1)), cancer)


@pytest.mark.slow
def test_dropout_keeps_the_contract(cancer):
    wild = Mlp(hidden=(16,), dropout=0.5)
    check_method(SplitNN(net=wild, head=Joint(own=wild, head=wild), trainer=TRAINER), cancer)


def test_dropout_has_the_same_masks_when_gradients_come(cancer):
    # One weight behind one hidden value: its gradient is that value under the mask, and zero where it was dropped.
    method = SplitNN(
        net=Mlp(hidden=(1,), dropout=0.5), width=1, trainer=Sgd(batch=8, lr=1.0, optimizer="sgd", momentum=0)
    )
    party = Party("shop", cancer.tables["shop"], seed=0)
    party.memory["net"] = weights_of(initialise(method.bottom(party), party.rng))
    before = {name: values.copy() for name, values in party.memory["net"].items()}
    *_, weight, bias = before
    before[bias][:] = 0
    before["1.bias"][:] = 10
    party.memory["net"] = before
    outputs = method.exchange(party, seed=1, epoch=0, number=0, gradient=None)
    assert 0 < (outputs == 0).sum() < len(outputs)
    method.learn(party, np.ones_like(outputs))
    moved = before[weight] - party.memory["net"][weight]
    assert moved.item() == pytest.approx((outputs / before[weight]).sum(), rel=1e-4)
    again = method.exchange(party, seed=1, epoch=0, number=1, gradient=None)
    assert not np.array_equal(again == 0, outputs == 0)


def test_a_batch_costs_one_round_and_its_outputs_and_gradients(cancer):
    result = simulate(SplitNN(width=16, trainer=TRAINER), cancer)
    rows = len(cancer.tables["bank"].cuts["train"])
    batches = 3 * -(-rows // 128)
    # One question to begin, one a batch, one for the last gradients.
    assert result.fit.rounds == batches + 2
    numbers = 3 * rows * 16 * 2 * 4
    assert numbers <= result.fit.bytes_up <= numbers * 1.02 + 1000
    assert numbers <= result.fit.bytes_down <= numbers * 1.02 + 250 * result.fit.rounds


def test_the_gradients_are_named_a_release_of_labels(cancer):
    result = simulate(SplitNN(trainer=TRAINER), cancer)
    down = [release for release in result.releases if release.to == "peers"]
    assert down
    assert all(
        "all of them at the first exchange, and 97 % or more, on average over parties, after training" in release.words
        for release in down
    )


@pytest.mark.parametrize("decay", ["none", "cosine"])
def test_split_training_is_the_training_of_one_net(cancer, decay):
    """Two plain SGD steps of the split model equal those of the same net in one piece, worked out here by autograd."""
    trainer = Sgd(epochs=1, batch=256, lr=0.1, decay=decay, optimizer="sgd", weight_decay=0.0)
    net, head = Mlp(hidden=(4,), final="relu"), Joint(own=None, head=Mlp(hidden=(5,)))
    method = SplitNN(net=net, width=3, head=head, trainer=trainer)
    split = simulate(method, cancer, seed=4)
    tables = cancer.tables
    train = {name: torch.tensor(table.part("train")[0]) for name, table in tables.items()}
    from laconic.core import Party

    hub = Party("bank", tables["bank"], 4)
    guests = {}
    for name in ("shop", "insurer"):
        party = Party(name, tables[name], 4)
        party.turn("fit", 1)
        guests[name] = initialise(method.bottom(party), party.rng)
    hub.turn("fit", 0)
    top = initialise(method.top(hub, 6), hub.rng)
    seed = int(hub.rng.integers(2**31))
    y = torch.tensor(tables["bank"].part("train")[1], dtype=torch.float32)
    parameters = [*top.parameters(), *guests["shop"].parameters(), *guests["insurer"].parameters()]
    optimiser = torch.optim.SGD(parameters, lr=0.1)
    for number in range(-(-len(y) // 256)):
        optimiser.param_groups[0]["lr"] = trainer.lr_at(number * 256 / len(y))
        rows = torch.tensor(batch_rows(len(y), 256, seed, 0, number))
        received = torch.cat([guests[name](train[name][rows]) for name in guests], dim=1)
        optimiser.zero_grad()
        heads.loss(tables["bank"].task, top(train["bank"][rows], received), y[rows]).backward()
        optimiser.step()
    with torch.no_grad():
        test = {name: torch.tensor(table.part("test")[0]) for name, table in tables.items()}
        received = torch.cat([guests[name](test[name]) for name in guests], dim=1)
        expected = top(test["bank"], received).squeeze(1).sigmoid().numpy()
    truth = tables["bank"].part("test")[1]
    loss = -np.mean(np.log(np.where(truth == 1, expected, 1 - expected)))
    assert split.metrics["log_loss"] == pytest.approx(float(loss), abs=1e-5)


def test_a_byte_budget_stops_before_it_is_passed(cancer):
    result = simulate(SplitNN(trainer=Sgd(epochs=50, batch=64)), cancer, max_bytes=100_000)
    assert result.stopped == "byte budget"
    assert 50_000 < result.fit.bytes <= 100_000


def test_a_budget_too_small_for_anything_is_refused(cancer):
    with pytest.raises(BudgetSpent, match="over the budget of 10"):
        simulate(SplitNN(trainer=TRAINER), cancer, max_bytes=10)


def test_a_lost_party_ends_the_run_with_its_name(cancer):
    with pytest.raises(PartyAbsent, match="insurer did not answer"):
        simulate(SplitNN(trainer=TRAINER), cancer, runtime=InProcess(faults=Faults(absent=("insurer",))))


@pytest.mark.parametrize("kind", [SplitNN, FedBCD, FedCVT])
def test_a_net_cannot_be_split_with_nobody(cancer, kind):
    hub = Party(cancer.hub, cancer.tables[cancer.hub], 0)
    with (
        open_peers(kind(), hub, ()) as peers,
        pytest.raises(ValueError, match="no party beside bank to split a net with"),
    ):
        next(kind().fit(hub, peers))


def test_patience_keeps_the_best_validated_nets(cancer):
    patient = simulate(SplitNN(trainer=Sgd(epochs=40, batch=64, lr=5e-2, patience=2)), cancer)
    # Validation outputs were asked for, and fewer epochs than allowed were run.
    steps = {crossing.step for crossing in patient.wire}
    assert {"give_outputs", "keep", "go_back"} <= steps
    assert patient.fit.rounds < 40 * 6
    assert patient.score.value > 0.95

"""Many nets at once learn what each would have learnt alone."""

import numpy as np
import pytest

from laconic.learn.models.learners import Network
from laconic.learn.models.supervised import predict_supervised
from laconic.learn.nets.nets import Cnn, Mlp, initialise, weights_of
from laconic.learn.train.sgd import Sgd
from laconic.tables import Task

BINARY = Task(kind="binary", classes=("no", "yes"))
THREE = Task(kind="multiclass", classes=("a", "b", "c"))


def fit_nets(net, task, parts, trainer, rng):
    return Network(net=net, trainer=trainer).fit_many(task, parts, rng)


def shards(sizes, task):
    rng = np.random.default_rng(0)
    found = []
    for size in sizes:
        x = rng.normal(size=(size, 4)).astype(np.float32)
        score = x[:, 0] + x[:, 1]
        found.append((x, (score > 0).astype(int) if task is BINARY else np.digitize(score, [-0.5, 0.5])))
    return found


@pytest.mark.parametrize("task", [BINARY, THREE], ids=["two classes", "three"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_net_does_not_notice_the_others(task, optimizer):
    trainer = Sgd(epochs=3, batch=8, lr=0.01, optimizer=optimizer, momentum=0.5 if optimizer == "sgd" else 0.0)
    parts = shards((30, 17, 5), task)
    together = fit_nets(Mlp(hidden=(6, 5)), task, parts, trainer, np.random.default_rng(1))
    # Beside a shard of its own size: no padding. The child generator of place 0 is the same in both.
    alone = fit_nets(Mlp(hidden=(6, 5)), task, parts[:1], trainer, np.random.default_rng(1))
    for name, values in alone[0].items():
        assert together[0][name] == pytest.approx(values, abs=1e-6)


def test_a_shard_that_runs_out_of_rows_stands_still():
    parts = shards((64, 4), BINARY)
    trainer = Sgd(epochs=1, batch=4, lr=0.01)
    _, small = fit_nets(Mlp(hidden=(3,)), BINARY, parts, trainer, np.random.default_rng(1))
    chance = np.random.default_rng(1).spawn(2)[1]
    first = weights_of(initialise(Mlp(hidden=(3,)).build((4,), 1), chance))
    # One step of Adam moves a weight by the learning rate at most.
    assert max(np.abs(small[name] - first[name]).max() for name in first) <= 0.0101


def test_one_step_is_plain_descent_on_the_mean_loss():
    import torch

    from laconic.learn.nets.nets import load, to_tensor
    from laconic.learn.train import losses as heads

    x, y = shards((8,), THREE)[0]
    trainer = Sgd(epochs=1, batch=8, lr=0.5, optimizer="sgd", weight_decay=0.0)
    found = fit_nets(Mlp(hidden=(3,)), THREE, [(x, y)], trainer, np.random.default_rng(1))[0]
    chance = np.random.default_rng(1).spawn(1)[0]
    module = initialise(Mlp(hidden=(3,)).build((4,), 3), chance)
    torch.autograd.backward(heads.loss(THREE, module(to_tensor(x)), torch.tensor(y)))
    moved = {
        name: (p - 0.5 * p.grad).detach().numpy() for name, p in load(module, weights_of(module)).named_parameters()
    }
    for name, values in moved.items():
        assert found[name] == pytest.approx(values, abs=1e-6)


def test_all_nets_learn():
    parts = shards((120, 80, 119), THREE)
    models = fit_nets(Mlp(hidden=(16,)), THREE, parts, Sgd(epochs=60, batch=16, lr=0.02), np.random.default_rng(1))
    for (x, y), model in zip(parts, models, strict=True):
        assert (predict_supervised(Mlp(hidden=(16,)), THREE, model, [x]).argmax(axis=1) == y).mean() > 0.9


def test_nets_that_cannot_be_batched_are_trained_in_turn():
    x = np.random.default_rng(0).normal(size=(20, 1, 6, 6)).astype(np.float32)
    y = (x.mean(axis=(1, 2, 3)) > 0).astype(int)
    models = fit_nets(Cnn(channels=(2,), hidden=()), BINARY, [(x, y), (x, y)], Sgd(epochs=1), np.random.default_rng(0))
    assert len(models) == 2


def test_patience_is_refused():
    with pytest.raises(ValueError, match="patience"):
        fit_nets(Mlp(), BINARY, shards((9,), BINARY), Sgd(patience=2), np.random.default_rng(0))

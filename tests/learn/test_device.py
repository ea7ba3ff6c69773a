"""Every learner makes its tensors on the device asked for, and draws its randomness on the processor."""

from functools import partial

import msgspec
import numpy as np
import pytest
import torch

from laconic.audit import MlpAttacker, sgd_game
from laconic.learn.device import on_device
from laconic.learn.encoders.encoder import Pca, RandomProjection, WhitenedPca
from laconic.learn.encoders.learnt import Autoencoder, Nat
from laconic.learn.kernels import widen
from laconic.learn.models.learners import NetModel, Network
from laconic.learn.models.supervised import fit_from, fit_supervised, fit_to_shares, predict_supervised
from laconic.learn.nets.layers import PatchNet, ResNet
from laconic.learn.nets.nets import Attention, Cnn, Ensemble, Joint, Mlp, initialise, look_at, make, weights_of
from laconic.learn.train.descent import Rule, no_velocity, outputs_of, start_descent, take_steps
from laconic.learn.train.semisupervised import Adaptive, Fixed, FixMatch, FixMatchTab, Soft, begin
from laconic.learn.train.sgd import Sgd
from laconic.privacy import Codebook, DpNat, DpPca, DpSgd, PrivateSteps, SeededRandomness, poisson_sample
from laconic.tables import Task
from laconic.testing import bare_party
from tests.far_device import far_device

ROWS = 24
BINARY, CLASSES, NUMBERS = (
    Task(kind="binary"),
    Task(kind="multiclass", classes=("a", "b", "c")),
    Task(kind="regression"),
)
RULE = Rule(lr=0.1, momentum=0.9, weight_decay=1e-4)
QUICK = Sgd(epochs=2, batch=8)
PRIVATE = DpSgd(sigma=1.0, epochs=2, batch=8, seeded=True)


def columns(width=5):
    return np.random.default_rng(1).standard_normal((ROWS, width)).astype(np.float32)


def images():
    return np.random.default_rng(1).standard_normal((ROWS, 1, 8, 8)).astype(np.float32)


def labels(task):
    codes = np.arange(ROWS) % 3
    return {"binary": codes % 2, "multiclass": codes, "regression": codes * 2.5}[task.kind]


def encode(encoder, x):
    weights = encoder.fit(x, np.random.default_rng(0))
    return [*weights.values(), encoder.encode(weights, x)]


def supervise(net, x, task=CLASSES, trainer=QUICK, more=()):
    inputs, y = [x, *more], labels(task)
    weights = fit_supervised(net, task, inputs, y, trainer, np.random.default_rng(0), valid=(inputs, y))
    return [*weights.values(), predict_supervised(net, task, weights, inputs)]


def descend(net, x):
    rng = np.random.default_rng(0)
    start = weights_of(make(net, x.shape[1:], 3, rng))
    descent = start_descent(net, 3, start, no_velocity(start), x, rng)
    goals = widen(np.ones((ROWS, 3), np.float32))
    take_steps(descent, 3, lambda outputs: (outputs - goals) / ROWS, RULE)
    return [*descent.weights().values(), descent.velocity(), outputs_of(net, 3, descent.weights(), x)]


def descend_privately(net, x):
    party = bare_party()
    start = weights_of(make(net, x.shape[1:], 3, party.rng))
    party.memory = {"net": start, "velocity": no_velocity(start), "batch": [0, 0]}
    settings = PrivateSteps(clip=1.0, sigma=1.0, gradient_sigma=1.0, seeded=True)
    descent = settings.descent(net, 3, party, x, 3)
    goals = widen(np.ones((ROWS, 3), np.float32))
    take_steps(descent, 3, lambda outputs: (outputs - goals) / ROWS, RULE)
    return [*descent.weights().values(), descent.velocity()]


def half_labelled(local, net, x):
    rng = np.random.default_rng(0)
    start = begin(net, x.shape[1:], 4, 3, rng)
    return [*local.fit(start, net, 4, x[:9], labels(CLASSES)[:9], x[9:], rng).values()]


def look(net, x):
    rng = np.random.default_rng(0)
    return [*weights_of(look_at(initialise(net.build(x.shape[1:], 3), rng), lambda: x, rng)).values()]


def start_on(net, x):
    return weights_of(make(net, x.shape[1:], 3, np.random.default_rng(0)))


def continue_from(net, x):
    start, rng = start_on(net, x), np.random.default_rng(0)
    found = fit_from(net, CLASSES, start, (x, labels(CLASSES)), QUICK, rng, pull=0.1, push=start)
    shares = np.full((ROWS, 3), 1 / 3)
    return [*found.values(), *fit_to_shares(net, CLASSES, start, (x, shares), QUICK, rng).values()]


def many(net):
    shards = [(columns(), labels(CLASSES)), (columns()[:7], labels(CLASSES)[:7])]
    models = Network(net=net, trainer=QUICK).fit_many(CLASSES, shards, np.random.default_rng(0))
    return [values for one in models for values in one.values()]


def two_numbers():
    model, rng = NetModel(net=Mlp(hidden=(4,)), trainer=QUICK), np.random.default_rng(0)
    weights = model.fit(NUMBERS, columns(), columns()[:, :2].astype(np.float64), rng)
    return [*weights.values(), model.predict(NUMBERS, weights, columns())]


def play():
    return [np.array([sgd_game(PRIVATE)(True, np.random.default_rng(0))])]


def attack():
    attacker = MlpAttacker(net=Mlp(hidden=(4,)), trainer=QUICK)
    return [attacker.guess(columns(2), columns(), columns(2), np.random.default_rng(0))]


SMALL_IMAGE_NET = Cnn(channels=(2,), hidden=(4,))
NETS = {
    "Mlp": (Mlp(hidden=(4,)), columns),
    "Mlp, linear": (Mlp(hidden=()), columns),
    "Mlp, tanh": (Mlp(hidden=(4,), final="tanh"), columns),
    "Mlp, dropout": (Mlp(hidden=(4,), dropout=0.3), columns),
    "Cnn": (SMALL_IMAGE_NET, images),
    "Cnn, dropout": (msgspec.structs.replace(SMALL_IMAGE_NET, dropout=0.3), images),
    "ResNet": (ResNet(), images),
    "PatchNet": (PatchNet(filters=4, size=3, stride=1, cell=4), images),
}
ENCODERS = {
    "Nat": (Nat(dim=2, epochs=2, batch=8), columns),
    "Nat, linear end": (Nat(dim=2, epochs=2, batch=8, rows_net=Mlp(hidden=(4,))), columns),
    "Nat, images": (Nat(dim=2, epochs=2, batch=8, image_net=SMALL_IMAGE_NET), images),
    "Autoencoder": (Autoencoder(dim=2, trainer=QUICK), columns),
    "Autoencoder, images": (Autoencoder(dim=2, trainer=QUICK, image_net=SMALL_IMAGE_NET), images),
    "Pca": (Pca(dim=2), columns),
    "WhitenedPca": (WhitenedPca(dim=2), columns),
    "RandomProjection": (RandomProjection(dim=2), columns),
    "DpNat": (DpNat(dim=2, trainer=PRIVATE), columns),
    "DpNat, images": (DpNat(dim=2, trainer=PRIVATE, image_net=SMALL_IMAGE_NET), images),
    "Codebook": (Codebook(dim=2, words=8, trainer=PRIVATE), columns),
    "DpPca": (DpPca(dim=2, sigma=1.0, seeded=True), columns),
}
TRAINERS = {
    "Adam, patience": Sgd(epochs=3, batch=8, patience=1),
    "momentum": Sgd(epochs=2, batch=8, optimizer="sgd", momentum=0.9, decay="cosine"),
    "DpSgd": PRIVATE,
    "DpSgd, Adam": DpSgd(sigma=1.0, epochs=2, batch=8, optimizer="adam", lr=1e-2, seeded=True),
    "DpSgd, all rows": DpSgd(sigma=1.0, epochs=2, batch=ROWS, seeded=True),
}
LOCALS = {
    f"{kind.__name__}, {type(threshold).__name__}": (kind(steps=3, batch=4, ratio=2, threshold=threshold), net, rows)
    for kind, net, rows in ((FixMatch, SMALL_IMAGE_NET, images), (FixMatchTab, Mlp(hidden=(4,)), columns))
    for threshold in (Fixed(level=0.4), Adaptive(), Soft())
}
WAYS = {
    **{f"supervised: {name}": partial(supervise, net, x()) for name, (net, x) in NETS.items()},
    **{f"descent: {name}": partial(descend, net, x()) for name, (net, x) in NETS.items()},
    **{f"private: {name}": partial(supervise, net, x(), trainer=PRIVATE) for name, (net, x) in NETS.items()},
    **{f"private descent: {name}": partial(descend_privately, net, x()) for name, (net, x) in NETS.items()},
    **{f"encoder: {name}": partial(encode, encoder, x()) for name, (encoder, x) in ENCODERS.items()},
    **{
        f"trainer: {name}, {task.kind}": partial(supervise, Mlp(hidden=(4,)), columns(), task, trainer)
        for name, trainer in TRAINERS.items()
        for task in (BINARY, CLASSES, NUMBERS)
    },
    **{f"local: {name}": partial(half_labelled, local, net, x()) for name, (local, net, x) in LOCALS.items()},
    "local: several nets": partial(
        half_labelled, LOCALS["FixMatchTab, Soft"][0], Ensemble(net=Mlp(hidden=(4,))), columns()
    ),
    "local: flips": partial(half_labelled, FixMatch(steps=3, batch=4, flips=True), SMALL_IMAGE_NET, images()),
    "joint": partial(supervise, Joint(own=Mlp(hidden=(4,)), width=2), columns(), more=[columns(3)]),
    "looking at rows": partial(look, NETS["PatchNet"][0], images()),
    "going on from weights": partial(continue_from, Mlp(hidden=(4,)), columns()),
    "many nets": partial(many, Mlp(hidden=(4,))),
    "two numbers per row": two_numbers,
    "attention": lambda: [Attention().estimate(columns(), columns(), columns(2))],
    "audit: canary": play,
    "audit: reconstruction": attack,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_tensor_is_left_to_the_default_device(way):
    usual = WAYS[way]()
    # Nothing can be computed there: a tensor whose device was not said fails wherever it is used.
    with on_device("cpu"), torch.device("meta"):
        found = WAYS[way]()
    assert [one.tobytes() for one in found] == [one.tobytes() for one in usual]


@pytest.mark.parametrize("way", WAYS)
def test_another_device_learns_nearly_the_same(way):
    usual = WAYS[way]()
    with far_device() as far:
        found = WAYS[way]()
    assert far.count > 0
    assert [one.shape for one in found] == [one.shape for one in usual]
    assert all(np.isfinite(one).all() for one in found)
    # The same draws and the same steps, by other products: some thousand roundings of float32 apart.
    assert all(np.allclose(one, other, rtol=1e-3, atol=1e-3) for one, other in zip(found, usual, strict=True))


def test_rows_are_drawn_alike_on_every_device():
    usual = poisson_sample(100, 0.3, SeededRandomness(np.random.default_rng(0)))
    with far_device():
        found = poisson_sample(100, 0.3, SeededRandomness(np.random.default_rng(0)))
        assert found.device.type == "meta"
        assert torch.equal(found.cpu(), usual)

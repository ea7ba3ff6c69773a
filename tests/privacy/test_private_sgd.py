import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from laconic.learn import Cnn, Convolution, Joint, Mlp, Sgd, evaluate, initialise, make, weights_of
from laconic.privacy.private_sgd import DpSgd, RowGradients, row_gradients
from laconic.privacy.randomness import SecureRandomness, SeededRandomness, keyed_normal, poisson_sample

pytestmark = pytest.mark.usefixtures("one_thread")
ROWS = 24


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(10, 10), nn.Linear(10, 3)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.inner = nn.Parameter(torch.ones(3)), nn.Linear(10, 3)

    def forward(self, x):
        return self.inner(x) * self.scale


def _tied():
    first, second = nn.Linear(10, 10), nn.Linear(10, 10)
    second.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(10, 3))


def nets():
    rng = np.random.default_rng(0)
    image = (1, 8, 8)
    conv = (nn.Conv2d(1, 3, 5, stride=2, padding=2), nn.ReLU(), nn.GroupNorm(1, 3), nn.Flatten())
    return {
        "our linear layers": (make(Mlp(hidden=(16, 8)), (10,), 3, rng), [(10,)]),
        "tanh at the end": (make(Mlp(hidden=(6,), final="tanh"), image, 3, rng), [image]),
        "two inputs, side by side": (initialise(Joint().model([image, (5,)], 3), rng), [image, (5,)]),
        "a layer without biases": (nn.Sequential(nn.Linear(10, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)), [(10,)]),
        "weights shared by two layers": (_tied(), [(10,)]),
        "two activations in a row": (nn.Sequential(nn.Linear(10, 3), nn.ReLU(), nn.Tanh()), [(10,)]),
        "our convolutions": (make(Cnn(channels=(4, 6), hidden=(8,)), image, 3, rng), [image]),
        "a larger kernel": (make(Cnn(channels=(4,), kernel=5), image, 3, rng), [image]),
        "strides": (
            make(Cnn(channels=(Convolution(4, stride=2, pad=1, pool=2, pool_stride=1),)), image, 3, rng),
            [image],
        ),
        "no padding": (make(Cnn(channels=(4,), pad=False), image, 3, rng), [image]),
        "two inputs": (initialise(Joint(own=Cnn(channels=(4,))).model([image, (5,)], 3), rng), [image, (5,)]),
        "torch's layers, some by torch.func": (nn.Sequential(*conv, nn.Linear(48, 3, bias=False)), [image]),
        "many places, few weights": (nn.Sequential(nn.Conv2d(1, 40, 7), nn.Flatten(), nn.Linear(160, 3)), [image]),
        "a dilated convolution": (
            nn.Sequential(nn.Conv2d(1, 2, 3, dilation=2), nn.Flatten(), nn.Linear(32, 3)),
            [image],
        ),
        "a layer used twice": (Twice(), [(10,)]),
        "weights beside layers": (Scaled(), [(10,)]),
        "a layer alone": (nn.Linear(10, 3), [(10,)]),
    }


def batch(shapes):
    chance = torch.Generator().manual_seed(0)
    inputs = [torch.randn(ROWS, *shape, generator=chance, dtype=torch.float64) for shape in shapes]
    return inputs, torch.randint(0, 3, (ROWS,), generator=chance)


@pytest.mark.parametrize("name", nets())
def test_clipped_sums_equal_those_of_gradients_built_row_by_row(name):
    module, shapes = nets()[name]
    module = module.double()
    inputs, targets = batch(shapes)
    each = row_gradients(module, functional.cross_entropy, inputs, targets)
    lengths = torch.stack([values.flatten(1).square().sum(1) for values in each.values()]).sum(0).sqrt()
    clip = float(lengths.median())
    found = RowGradients(module, functional.cross_entropy).clipped_sum(inputs, targets, clip)
    torch.testing.assert_close(found.lengths, lengths, atol=1e-6, rtol=1e-6)
    for key, values in each.items():
        expected = torch.tensordot((clip / lengths).clamp(max=1), values, 1)
        torch.testing.assert_close(found.sums[key], expected, atol=1e-6, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["torch's layers, some by torch.func", "many places, few weights"])
def test_clipped_sums_equal_opacus(name):
    opacus = pytest.importorskip("opacus", reason="needs the dev dependency opacus, an independent implementation")
    module, shapes = nets()[name]
    module = module.double()
    inputs, targets = batch(shapes)
    ours = RowGradients(module, functional.cross_entropy).clipped_sum(inputs, targets, 0.7)
    watched = opacus.GradSampleModule(module)
    torch.autograd.backward(functional.cross_entropy(watched(*inputs), targets))
    each = {key.removeprefix("_module."): values.grad_sample for key, values in watched.named_parameters()}
    lengths = torch.stack([values.flatten(1).square().sum(1) for values in each.values()]).sum(0).sqrt()
    for key, values in each.items():
        expected = torch.tensordot((0.7 / lengths).clamp(max=1), values, 1)
        torch.testing.assert_close(ours.sums[key], expected, atol=1e-6, rtol=1e-6)


def test_without_noise_or_clipping_it_is_plain_gradient_descent():
    rng = np.random.default_rng(0)
    x, y = torch.tensor(rng.standard_normal((50, 4)), dtype=torch.float32), torch.tensor(rng.integers(0, 2, 50))
    private = DpSgd(sigma=0.0, clip=1e6, batch=50, epochs=5, lr=0.1, seeded=True)
    plain = Sgd(optimizer="sgd", batch=50, epochs=5, lr=0.1, weight_decay=0.0)
    ours, theirs = (
        how.fit(
            make(Mlp(), (4,), 2, np.random.default_rng(1)), [x], y, functional.cross_entropy, np.random.default_rng(2)
        )
        for how in (private, plain)
    )
    for key, values in weights_of(theirs).items():
        np.testing.assert_allclose(weights_of(ours)[key], values, atol=1e-5)


def test_seeded_training_repeats_and_secure_training_does_not():
    def train(seeded):
        x, y = torch.ones(20, 3), torch.zeros(20, dtype=torch.int64)
        module = make(Mlp(hidden=()), (3,), 2, np.random.default_rng(0))
        settings = DpSgd(sigma=1.0, batch=5, epochs=1, seeded=seeded)
        return evaluate(settings.fit(module, [x], y, functional.cross_entropy, np.random.default_rng(0)), [x])

    assert torch.equal(train(True), train(True))
    assert not torch.equal(train(False), train(False))


@pytest.mark.parametrize("net", [Mlp(), Cnn(channels=(2,), hidden=(4,))])
@pytest.mark.parametrize("cell", [1e20, 3e38, float("inf"), float("nan")])
def test_no_cell_of_a_row_shows_past_the_clip(net, cell):
    shape = (4,) if isinstance(net, Mlp) else (1, 8, 8)
    module = make(net, shape, 2, np.random.default_rng(0))
    x, y = torch.ones(3, *shape), torch.tensor([0, 1, 1])
    rows = RowGradients(module, functional.cross_entropy)
    without = rows.clipped_sum([x[1:]], y[1:], 0.5).sums
    x[0].flatten()[1] = cell
    with_it = rows.clipped_sum([x], y, 0.5).sums
    moved = sum(float((with_it[name] - without[name]).square().sum()) for name in without) ** 0.5
    assert moved <= 0.5 * 1.001


def test_a_draw_of_no_rows_still_takes_its_noise():
    module = make(Mlp(hidden=()), (3,), 2, np.random.default_rng(0))
    before = weights_of(module)["1.weight"].copy()
    settings = DpSgd(sigma=1.0, batch=1, epochs=1, seeded=True)
    # With one row in a million, the only steps seen here draw nobody.
    x, y = torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)
    from laconic.privacy.private_sgd import PrivateStep

    step = PrivateStep(settings, module, functional.cross_entropy, 2, SeededRandomness(np.random.default_rng(0)))
    step.take([x[:0]], y[:0], 0.1)
    assert not np.array_equal(weights_of(module)["1.weight"], before)


def test_noise_says_its_rate_count_and_where_it_came_from():
    (noise,) = DpSgd(sigma=1.5, clip=2.0, batch=100, epochs=3).noise(1000)
    assert (noise.multiplier, noise.rate, noise.count, noise.secure) == (1.5, 0.1, 30, True)
    assert not DpSgd(sigma=1.5, seeded=True).noise(1000)[0].secure


def test_training_without_a_sigma_says_what_to_do():
    with pytest.raises(ValueError, match=r"budget\.epsilon"):
        DpSgd().noise(1000)


def test_layers_that_mix_rows_are_refused_by_name():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="BatchNorm1d"):
        RowGradients(module, functional.cross_entropy)


def test_every_row_takes_part_with_the_stated_chance_independently():
    chance = SeededRandomness(np.random.default_rng(0))
    drawn = [poisson_sample(50, 0.3, chance) for _ in range(4000)]
    counts = np.bincount(torch.cat(drawn).numpy(), minlength=50)
    sizes = np.array([len(rows) for rows in drawn])
    # Five standard errors either way.
    assert np.abs(counts / 4000 - 0.3).max() < 5 * np.sqrt(0.3 * 0.7 / 4000)
    assert abs(sizes.var() - 50 * 0.3 * 0.7) < 5 * 10.5 * np.sqrt(2 / 4000)


@pytest.mark.parametrize(
    "drawn",
    [
        SecureRandomness().normal(200_001),
        keyed_normal(b"key", (at.to_bytes(4) for at in range(40_001)), 5).flatten()[:200_001],
    ],
    ids=["from the system", "from a key"],
)
def test_secure_noise_is_standard_normal(drawn):
    assert drawn.shape == (200_001,)
    # Six standard errors of mean, variance and kurtosis: a false alarm in a hundred million runs.
    assert abs(float(drawn.mean())) < 6 / np.sqrt(2e5)
    assert abs(float(drawn.var()) - 1) < 6 * np.sqrt(2 / 2e5)
    assert abs(float(drawn.pow(4).mean()) - 3) < 6 * np.sqrt(96 / 2e5)


def test_wrong_settings_are_refused():
    for wrong in ({"sigma": -1.0}, {"clip": 0.0}, {"epochs": 0}, {"batch": 0}):
        with pytest.raises(ValueError, match="must be"):
            DpSgd(**wrong)

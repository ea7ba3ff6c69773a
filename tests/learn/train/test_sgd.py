"""Training falls, stops, repeats and resumes as it should."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from laconic.learn.nets.nets import Mlp, load, make, to_tensor, weights_of
from laconic.learn.train.sgd import Optimiser, Sgd, send_back
from laconic.values import Rng, Weights, listening

NET = Mlp(hidden=(8,))


def rng(seed: int = 0) -> Rng:
    return np.random.default_rng(seed)


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets) ** 2).mean()


def rows(count: int = 50, seed: int = 3) -> tuple[Tensor, Tensor]:
    x = to_tensor(rng(seed).standard_normal((count, 4)))
    return x, x[:, :1] * x[:, 1:2]


def trained(sgd: Sgd) -> nn.Module:
    x, y = rows()
    return sgd.fit(make(NET, (4,), 1, rng()), [x], y, squared, rng(1))


def same(first: Weights, second: Weights) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    "sgd", [Sgd(lr=1e-2), Sgd(optimizer="sgd", momentum=0.9, lr=1e-2), Sgd(decay="cosine", lr=3e-2)]
)
def test_the_loss_falls(sgd: Sgd) -> None:
    x, y = rows()
    before = squared(make(NET, (4,), 1, rng())(x), y)
    assert squared(trained(sgd)(x), y) < 0.8 * before


def test_the_same_seed_gives_the_same_weights() -> None:
    assert same(weights_of(trained(Sgd(epochs=2))), weights_of(trained(Sgd(epochs=2))))


@pytest.mark.parametrize("batch", [7, 49, 50, 1000])
def test_every_row_is_seen_once_an_epoch_whatever_the_batch(batch: int) -> None:
    seen: list[float] = []

    def note(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.extend(targets[:, 0].tolist())
        return squared(outputs, targets)

    x, _ = rows(50)
    Sgd(epochs=1, batch=batch).fit(make(NET, (4,), 1, rng()), [x], torch.arange(50.0)[:, None], note, rng())
    assert sorted(seen) == list(range(50))


def test_early_stopping_goes_back_to_the_best_weights() -> None:
    x, y = rows()
    losses: list[float] = []

    def note(outputs: Tensor, targets: Tensor) -> Tensor:
        loss = squared(outputs, targets)
        if not outputs.requires_grad:
            losses.append(float(loss))
        return loss

    # Validation labels are the training labels turned round, so that learning makes it worse sooner or later.
    valid = ([x], -y)
    module = Sgd(epochs=200, lr=1e-2, patience=3).fit(make(NET, (4,), 1, rng()), [x], y, note, rng(), valid=valid)
    assert len(losses) < 200
    assert len(losses) - 1 - int(np.argmin(losses)) == 3
    assert squared(module(x), -y).item() == pytest.approx(min(losses), rel=1e-6)


def test_on_a_plateau_the_rate_falls_and_the_loss_goes_lower_than_at_one_rate() -> None:
    (x, y), (far, wanted) = rows(400), rows(100, seed=8)
    found = {}
    for decay in ("none", "plateau"):
        sgd = Sgd(epochs=200, batch=8, lr=0.05, decay=decay, patience=8)
        net = sgd.fit(make(NET, (4,), 1, rng()), [x], y, squared, rng(1), valid=([far], wanted))
        found[decay] = squared(net(far), wanted).item()
    assert found["plateau"] < 0.9 * found["none"]
    with pytest.raises(ValueError, match="without patience"):
        Sgd(decay="plateau")


def test_without_patience_validation_rows_change_nothing() -> None:
    x, y = rows()
    sgd = Sgd(epochs=3)
    module = sgd.fit(make(NET, (4,), 1, rng()), [x], y, squared, rng(1), valid=([x], -y))
    assert same(weights_of(module), weights_of(trained(sgd)))


@pytest.mark.parametrize("sgd", [Sgd(), Sgd(optimizer="sgd", momentum=0.9)])
def test_steps_through_plain_arrays_are_bit_for_bit_the_whole_training(sgd: Sgd) -> None:
    x, y = rows()
    straight = resumed = make(NET, (4,), 1, rng())
    weights, state = weights_of(resumed), sgd.begin(resumed)
    for _ in range(3):
        resumed = load(NET.build((4,), 1), {name: values.copy() for name, values in weights.items()})
        squared(resumed(x), y).backward()
        state = {name: state[name].copy() for name in reversed(state)}
        state, weights = sgd.step(resumed, state), weights_of(resumed)
    optimiser = Optimiser(sgd, straight, sgd.begin(straight))
    for _ in range(3):
        straight.zero_grad()
        squared(straight(x), y).backward()
        optimiser.step(sgd.lr)
    assert same(weights, weights_of(straight))


def test_a_step_leaves_the_given_state_alone() -> None:
    module = make(NET, (4,), 1, rng())
    state = Sgd().begin(module)
    x, y = rows()
    squared(module(x), y).backward()
    Sgd().step(module, state)
    assert not any(values.any() for values in state.values())


def test_a_gradient_at_the_outputs_is_sent_back_bit_for_bit_as_torch_would() -> None:
    module, (x, y) = make(NET, (4,), 1, rng()), rows()
    send_back(module(x), y)
    ours = [values.grad.clone() for values in module.parameters() if values.grad is not None]
    module.zero_grad()
    module(x).backward(y)
    assert all(torch.equal(found, values.grad) for found, values in zip(ours, module.parameters(), strict=True))


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int | None]] = []
    with listening(lambda what, done, of: told.append((what, done, of))):
        trained(Sgd(epochs=2))
    assert told == [("training", 1, 2), ("training", 2, 2)]


def test_global_chance_is_left_alone() -> None:
    before = torch.get_rng_state()
    trained(Sgd(epochs=2))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"patience": 0}, {"lr": -1.0}, {"momentum": 1.0}, {"epochs": -1}])
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sgd(**wrong)  # type: ignore[arg-type]

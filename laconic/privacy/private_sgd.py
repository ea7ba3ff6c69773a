"""Gradient descent with a price: every step sees a random draw of rows, clips each row's say, and adds noise.

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang: Deep learning with differential privacy (2016).
"""

from collections.abc import Sequence
from math import ceil, inf
from typing import Literal

import msgspec
import torch
from torch import Tensor, nn

from laconic.core.ledger import Noise
from laconic.learn.device import device_now
from laconic.learn.nets.nets import AnyModule, give_randomness, to_array
from laconic.learn.train.losses import Loss
from laconic.learn.train.sgd import Optimiser, Pulls, Sgd
from laconic.privacy.budget import Demand
from laconic.privacy.mechanisms.gaussian import gaussian_noise
from laconic.privacy.per_example import RowGradients
from laconic.privacy.randomness import Randomness, poisson_sample, randomness_from
from laconic.values import Rng, Settings, check_least, track

UNIT = "one row at this party: there, or blanked"
NEVER_COVERED = (
    "not covered: how columns and labels were scaled, how many rows there are, how settings were chosen; noise is in "
    "floating point"
)
"""What no noise in this package covers; said with each."""

UNCOVERED = f"{NEVER_COVERED}; exchanging a row for another costs up to twice, at a larger delta"
"""The same, where the unit is a row there or blanked."""

_POOL = 65_536


class DpSgd(Settings, frozen=True):
    """How to train a net by differentially private gradient descent; goes wherever `Sgd` goes.

    Rows take part by independent draws (Poisson batches), as the price assumes. Validation rows are never looked at:
    a choice made by them would be a release of its own.

    Attributes:
        sigma: standard deviation of the noise in units of `clip`; None to have it worked out from a budget.
        clip: the greatest length of one row's gradient.
        epochs: how often a row is seen on average.
        batch: rows per step on average.
        lr: the learning rate.
        decay: how the learning rate goes on: `none` keeps it, `linear` lets it fall to zero.
        weight_decay: weight of the L2 penalty.
        optimizer: plain gradient descent with `momentum`, or Adam.
        momentum: used by plain gradient descent only.
        seeded: take noise and draws from the run's seed, so that a study can be repeated: then whoever knows the
            seed can take the noise off, and the ledger names the seed. Otherwise they come from a secure generator.
    """

    sigma: float | None = None
    clip: float = 1.0
    epochs: int = 20
    batch: int = 256
    lr: float = 0.5
    decay: Literal["none", "linear"] = "none"
    weight_decay: float = 0.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.0
    seeded: bool = False

    def __post_init__(self) -> None:
        if self.sigma is not None and not 0 <= self.sigma < inf:
            raise ValueError(f"sigma must be 0 or more, not {self.sigma}; leave it out to have a budget decide")
        if not 0 < self.clip < inf:
            raise ValueError(f"clip must be above 0, not {self.clip}; use Sgd(...) for training without privacy")
        check_least(1, epochs=self.epochs, batch=self.batch)
        self._plain()

    def fit(
        self,
        module: AnyModule,
        inputs: Sequence[Tensor],
        targets: Tensor,
        loss: Loss,
        rng: Rng,
        *,
        valid: tuple[Sequence[Tensor], Tensor] | None = None,
        what: str = "training",
        pulls: Pulls | None = None,
    ) -> AnyModule:
        """Train the module in place, and return it in evaluation mode; arguments as for `Sgd.fit`.

        `loss` must be a mean over rows, and no layer may let rows of a batch see each other. `valid` is not used.
        What `pulls` gives for a parameter is added to its gradient after the noise: it must not come from rows.
        """
        give_randomness(module, rng)
        randomness = randomness_from(rng, self.seeded, *map(to_array, (*inputs, targets)))
        step = PrivateStep(self, module, loss, len(targets), randomness, pulls)
        count = self.steps(len(targets))
        for number in track(count, what):
            rows = poisson_sample(len(targets), self.rate(len(targets)), randomness)
            step.take(
                [x.index_select(0, rows) for x in inputs], targets.index_select(0, rows), self._lr_at(number / count)
            )
        return module.eval()

    def rate(self, rows: int) -> float:
        """The probability with which each row takes part in a step."""
        return min(1.0, self.batch / rows)

    def steps(self, rows: int) -> int:
        """How many steps `fit` takes."""
        return ceil(self.epochs / self.rate(rows))

    def noise(self, rows: int) -> tuple[Noise, ...]:
        """The noise that `fit` puts on what it learns from so many rows: known before it runs."""
        caveat = f"covers the weights learnt, and all that is made from them alone; {UNCOVERED}"
        noise = gaussian_noise(self.needed_sigma() * self.clip, self.clip, UNIT, caveat, seeded=self.seeded)
        return (msgspec.structs.replace(noise, rate=self.rate(rows), count=self.steps(rows)),)

    def demand(self, rows: int) -> Demand:
        """What `fit` would do with so many rows, for a budget to be divided."""
        return Demand(rate=self.rate(rows), answers=self.steps(rows))

    def with_sigma(self, sigma: float) -> "DpSgd":
        """The same with this noise."""
        return msgspec.structs.replace(self, sigma=sigma)

    def needed_sigma(self) -> float:
        """The noise's scale; not having one yet is an error."""
        if self.sigma is None:
            raise ValueError("DpSgd has no sigma; give sigma=..., or a plan with budget.epsilon to work it out")
        return self.sigma

    def _plain(self) -> Sgd:
        return Sgd(lr=self.lr, weight_decay=self.weight_decay, optimizer=self.optimizer, momentum=self.momentum)

    def _lr_at(self, share: float) -> float:
        return self.lr if self.decay == "none" else self.lr * (1 - share)


class PrivateStep:
    """One module at work: clipped sums, noise, and the optimiser's step."""

    def __init__(
        self,
        settings: DpSgd,
        module: nn.Module,
        loss: Loss,
        rows: int,
        randomness: Randomness,
        pulls: Pulls | None = None,
    ) -> None:
        plain = settings._plain()
        self.pulls = pulls
        self.module, self.randomness, self.clip = module.train(), randomness, settings.clip
        self.scale = settings.needed_sigma() * settings.clip
        self.size = settings.rate(rows) * rows
        self.gradients = RowGradients(module, loss)
        self.optimiser = Optimiser(plain, module, plain.begin(module))
        self.total, self.grads = _flat_grads(module)
        self.pool: list[Tensor] = []

    def take(self, inputs: Sequence[Tensor], targets: Tensor, lr: float) -> None:
        """Learn from the rows drawn; a draw of none still takes its noise, as the price assumes."""
        self.total.copy_(self._noise())
        if len(targets):
            # Divided by the expected number of rows: the number drawn is not noised, and would reveal it.
            self.gradients.add_clipped(inputs, targets, self.clip, self.grads, 1 / self.size)
        if self.pulls is not None:
            with torch.no_grad():
                for name, values in self.module.named_parameters():
                    self.grads[name].add_(self.pulls(name, values))
        self.optimiser.step(lr)

    def _noise(self) -> Tensor:
        """Noise for one step; drawn for several at once, as most of a small draw's time is the asking."""
        if not self.pool:
            length = len(self.total)
            ahead = max(1, _POOL // length)
            drawn = self.randomness.normal(ahead * length).mul_(self.scale / self.size)
            self.pool = list(drawn.view(ahead, length))
        return self.pool.pop()


def _flat_grads(module: nn.Module) -> tuple[Tensor, dict[str, Tensor]]:
    """One vector for all gradients of a module, and by parameter name the parts of it that the module then uses."""
    params = dict(module.named_parameters())
    sizes = [values.numel() for values in params.values()]
    total = torch.zeros(sum(sizes), device=device_now())
    grads = {name: part.view_as(params[name]) for name, part in zip(params, torch.split(total, sizes), strict=True)}
    for name, values in params.items():
        values.grad = grads[name]
    return total, grads

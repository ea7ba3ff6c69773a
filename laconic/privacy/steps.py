"""Private steps of a party's net between two messages, and a price for every row that is sent.

Each step draws rows of the batch in secret, clips each row's gradient and adds noise (as in `dpsgd`), so that the net
can be seen by anyone; each row's own numbers are then clipped and noised whenever they are sent. Batches are public
and every row is in one of each epoch, so that a row pays once an epoch: for its message, and for the steps on its
batch. A row that is asked for again later, in whatever cut, pays for that too.
"""

from math import inf
from typing import Final

import torch
from torch import Tensor

from laconic.core.ledger import EVERY_ROW, Entry, Noise, Noised
from laconic.core.party import Party
from laconic.core.values import Array, Weights
from laconic.learn.descent import Descent, Rule
from laconic.learn.lanes import widen
from laconic.learn.nets import Net, give_chance, load, to_tensor, weights_of
from laconic.privacy.chance import Chance, chance_from, poisson_sample
from laconic.privacy.dpsgd import UNCOVERED, UNIT
from laconic.privacy.local import clip_rows
from laconic.privacy.outputs import LABELS, Clipped, add_noise
from laconic.privacy.rowwise import RowGradients
from laconic.privacy.told import count_telling

_WORDS: Final = "its net, as far as what it sends shows it"


class PrivateSteps(Clipped, frozen=True, kw_only=True):
    """Nets learn by differentially private steps, and every row sent is clipped and noised; it costs by the epoch.

    The unit is one row at one party, there or blanked. Rows to be predicted get noise each time they are sent.

    Attributes:
        gradient_clip: the greatest length of one row's gradient.
        gradient_sigma: standard deviation of the noise on a step's sum of gradients, in units of `gradient_clip`.
        rate: the chance with which a row of the batch takes part in a step; who does is known to the party alone.
    """

    gradient_sigma: float
    gradient_clip: float = 1.0
    rate: float = 0.25

    def __post_init__(self) -> None:
        """Refuse what bounds or hides nothing."""
        super().__post_init__()
        for name, value in {"gradient_sigma": self.gradient_sigma, "gradient_clip": self.gradient_clip}.items():
            if not 0 < value < inf:
                raise ValueError(f"{name} must be above 0, not {value}")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is a chance above 0 and at most 1, not {self.rate}")

    def release(self, values: Array, party: Party, rows: str, at: Array) -> Noised[Array] | Array:
        """Each row clipped, with fresh noise."""
        noisy = add_noise(clip_rows(values, self.clip), self.scale, chance_from(party.rng, self.seeded, values), values)
        noise = Noise(
            mechanism="gaussian",
            scale=self.scale,
            sensitivity=self.clip,
            unit=f"{UNIT}, sent for time {count_telling(party, at)}",
            caveat=f"covers each row's numbers under a net that learns by private steps; {LABELS}; {UNCOVERED}",
            people=EVERY_ROW,
            secure=not self.seeded,
            # Messages of different rows cost each row as much as one does: what counts is how often a row was sent.
            once=True,
        )
        return Noised(noisy, noise)

    def descent(self, net: Net, outputs: int, party: Party, x: Array, steps: int) -> Descent:
        """The net at work by private steps, which are written in the ledger."""
        self._write(party, steps)
        return _PrivateDescent(self, net, outputs, party, x)

    def _write(self, party: Party, steps: int) -> None:
        noise = Noise(
            mechanism="gaussian",
            scale=self.gradient_sigma * self.gradient_clip,
            sensitivity=self.gradient_clip,
            unit=f"{UNIT}, in epoch {party.memory['batch'][0] + 1}",
            caveat=f"covers the net as it learns; {LABELS}; {UNCOVERED}",
            rate=self.rate,
            count=steps,
            secure=not self.seeded,
            once=True,
        )
        form = f"{sum(values.size for values in party.memory['net'].values())} weights"
        party.ledger.write(
            Entry(phase=party.phase, step="exchange", words=_WORDS, form=form, times=1, bytes=0, noise=noise)
        )


class _PrivateDescent:
    def __init__(self, settings: PrivateSteps, net: Net, outputs: int, party: Party, x: Array) -> None:
        memory = party.memory
        self._settings, self._width = settings, outputs
        self._module = give_chance(load(net.build(x.shape[1:], outputs), memory["net"]), party.rng).train()
        self._velocity, self._x = torch.tensor(memory["velocity"]), to_tensor(x)
        self._chance: Chance = chance_from(party.rng, settings.seeded, x)
        # The sum over rows of outputs times given slopes, as a mean: what is handed in is the slopes.
        self._gradients = RowGradients(self._module, lambda values, slopes: (values * slopes).sum(dim=1).mean())

    def outputs(self) -> Tensor:
        with torch.no_grad():
            return widen(self._module(self._x).numpy())

    def descend(self, gradient: Tensor, rule: Rule) -> None:
        """One step on the rows drawn; `gradient` is of a mean over the batch, so a row's own is that times the rows."""
        rows = len(self._x)
        drawn = poisson_sample(rows, self._settings.rate, self._chance)
        params = dict(self._module.named_parameters())
        sums: dict[str, Tensor] = {}
        if len(drawn):
            slopes = gradient[drawn, : self._width] * rows
            sums = self._gradients.clipped_sum([self._x[drawn]], slopes, self._settings.gradient_clip).sums
        with torch.no_grad():
            zeros = {name: torch.zeros_like(values) for name, values in params.items()}
            flat = torch.cat([(zeros | sums)[name].flatten() for name in params])
            flat += self._chance.normal(len(flat)) * (self._settings.gradient_sigma * self._settings.gradient_clip)
            flat /= self._settings.rate * rows
            flat.add_(torch.cat([values.flatten() for values in params.values()]), alpha=rule.weight_decay)
            self._velocity.mul_(rule.momentum).add_(flat)
            parts = torch.split(self._velocity, [values.numel() for values in params.values()])
            for values, change in zip(params.values(), parts, strict=True):
                values.add_(change.view(values.shape), alpha=-rule.lr)

    def weights(self) -> Weights:
        return weights_of(self._module)

    def velocity(self) -> Array:
        found: Array = self._velocity.numpy()
        return found

"""Noise as targets, made sound: each row chooses its own target from a public codebook, and nobody else's moves.

In the published method rows of a batch trade targets, so that one row changes what the others learn, which clipping
does not bound. Here a row takes the code word nearest to its output, after a price on each word that keeps words evenly
used. Its choice rests on its own columns and on weights and prices that are private already; and the change it makes to
weights and prices is clipped as one vector. So the proof of `DpSgd` holds as it stands.
"""

import msgspec
import torch
from torch import Tensor, nn

from laconic.core.ledger import Noise
from laconic.core.values import Array, Rng, Weights
from laconic.learn.encoder import Encoder
from laconic.learn.nat import sphere
from laconic.learn.nets import Cnn, Mlp, Net, Shape, give_chance, initialise, to_tensor, weights_of
from laconic.learn.progress import track
from laconic.privacy.budget import Demand
from laconic.privacy.chance import chance_from, poisson_sample
from laconic.privacy.dpsgd import DpSgd, PrivateStep


class Codebook(Encoder, frozen=True):
    """A net that learns to put rows near the words of a public codebook, all words about equally often.

    Attributes:
        rows_net: the net for columns; it should end in tanh, as code words have length 1.
        image_net: the net for images.
        words: how many code words there are.
        pressure: how strongly a row's choice raises the price of its word, beside how it changes the net.
        trainer: how the net and the prices are learnt.
    """

    rows_net: Mlp = Mlp(hidden=(30,), final="tanh")
    image_net: Net = Cnn(channels=(16, 32), hidden=())
    words: int = 64
    pressure: float = 0.3
    trainer: DpSgd = DpSgd(epochs=10)

    def __post_init__(self) -> None:
        """Refuse a codebook without choice."""
        super().__post_init__()
        if self.words < 2:
            raise ValueError(f"words must be 2 or more, not {self.words}")
        if not self.pressure >= 0:
            raise ValueError(f"pressure must be 0 or more, not {self.pressure}")

    def net(self, shape: Shape) -> Net:
        """The net for columns or the net for images."""
        return self.image_net if len(shape) == 3 else self.rows_net

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn to hit the nearest words while prices keep them evenly used."""
        words = to_tensor(sphere(self.words, self.dim, rng))
        module = _Priced(initialise(self.build(x.shape[1:]), rng), self.words)
        give_chance(module, rng)
        chance, rows = chance_from(rng, self.trainer.seeded, x), to_tensor(x)
        step = PrivateStep(self.trainer, module, self._loss, len(x), chance)
        for _ in track(self.trainer.steps(len(x)), "codebook"):
            batch = rows[poisson_sample(len(x), self.trainer.rate(len(x)), chance)]
            chosen = module.choose(batch, words)
            step.take([batch, torch.nn.functional.one_hot(chosen, self.words).float()], words[chosen], self.trainer.lr)
        return weights_of(module.net)

    def noise(self, rows: int) -> tuple[Noise, ...]:
        """The trainer's: prices are clipped and noised together with the weights."""
        return self.trainer.noise(rows)

    def demand(self, rows: int) -> Demand:
        """As the trainer's."""
        return self.trainer.demand(rows)

    def with_sigma(self, sigma: float) -> "Codebook":
        """The same with this noise."""
        return msgspec.structs.replace(self, trainer=self.trainer.with_sigma(sigma))

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Squared distance to the word; and, by its slope alone, a rise in the price of each word chosen."""
        distance = (outputs[:, :-1] - targets).square().sum(dim=1)
        return (distance - self.pressure * outputs[:, -1]).mean()


class _Priced(nn.Module):
    """The net, and beside it a linear layer without bias whose weights are the words' prices."""

    def __init__(self, net: nn.Module, words: int) -> None:
        super().__init__()
        self.net, self.prices = net, nn.Linear(words, 1, bias=False)
        nn.init.zeros_(self.prices.weight)

    def forward(self, rows: Tensor, chosen: Tensor) -> Tensor:
        """Outputs for the rows, and as a last number the price of each one's word."""
        return torch.cat((self.net(rows), self.prices(chosen)), dim=1)

    @torch.no_grad()
    def choose(self, rows: Tensor, words: Tensor) -> Tensor:
        """For each row, the word that is nearest to its output and cheapest."""
        return (torch.cdist(self.net(rows), words).square() + self.prices.weight).argmin(dim=1)

"""Noise as targets under differentially private gradient descent, as FedOnce-L1 was published.

Its price does not hold. Rows of a batch trade targets, so that a row which is there or not changes the targets, and
with them the gradients, of other rows, in this batch and in later ones; clipping bounds a row's own gradient only. It
is here to be measured and audited; `Codebook` and `DpPca` do the same work soundly.
"""

import msgspec
from torch import Tensor

from laconic.core.ledger import Noise
from laconic.core.values import Array, Rng, Weights
from laconic.learn.assignment import AnyAssignment, Exact
from laconic.learn.encoder import Encoder
from laconic.learn.nat import sphere
from laconic.learn.nets import Cnn, Mlp, Net, Shape, give_chance, make, to_tensor, weights_of
from laconic.learn.progress import track
from laconic.privacy.budget import Demand
from laconic.privacy.chance import chance_from, poisson_sample
from laconic.privacy.dpsgd import DpSgd, PrivateStep

_CAVEAT = (
    "NOT PROVEN, the published claim: rows of a batch trade targets, so one row moves the gradients of others, which "
    "clipping does not bound; the epsilon from this noise does not hold"
)


class DpNat(Encoder, frozen=True):
    """Noise as targets with clipped and noised gradients, whose published proof does not cover it.

    Attributes:
        rows_net: the net for columns; it should end in tanh, as targets have length 1.
        image_net: the net for images.
        assignment: how the rows of a batch trade targets.
        trainer: how the net is learnt.
    """

    rows_net: Mlp = Mlp(hidden=(30,), final="tanh")
    image_net: Net = Cnn(channels=(16, 32), hidden=())
    assignment: AnyAssignment = Exact()
    trainer: DpSgd = DpSgd(epochs=10)

    def net(self, shape: Shape) -> Net:
        """The net for columns or the net for images."""
        return self.image_net if len(shape) == 3 else self.rows_net

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn to hit the rows' targets while the rows of a batch trade them."""
        module = give_chance(make(self.net(x.shape[1:]), x.shape[1:], self.dim, rng), rng)
        targets = to_tensor(sphere(len(x), self.dim, rng))
        chance, inputs = chance_from(rng, self.trainer.seeded, x), to_tensor(x)
        step = PrivateStep(self.trainer, module, _distance, len(x), chance)
        for _ in track(self.trainer.steps(len(x)), "noise as targets"):
            rows = poisson_sample(len(x), self.trainer.rate(len(x)), chance)
            if len(rows):
                outputs = module(inputs[rows]).detach().numpy()
                targets[rows] = to_tensor(self.assignment.assign(outputs, targets[rows].numpy(), 0))
            step.take([inputs[rows]], targets[rows], self.trainer.lr)
        return weights_of(module)

    def noise(self, rows: int) -> tuple[Noise, ...]:
        """The trainer's, marked as not proven."""
        return tuple(msgspec.structs.replace(noise, proven=False, caveat=_CAVEAT) for noise in self.trainer.noise(rows))

    def demand(self, rows: int) -> Demand:
        """As the trainer's."""
        return self.trainer.demand(rows)

    def with_sigma(self, sigma: float) -> "DpNat":
        """The same with this noise."""
        return msgspec.structs.replace(self, trainer=self.trainer.with_sigma(sigma))


def _distance(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum(dim=1).mean()

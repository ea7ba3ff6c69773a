"""Clipping and noise on what a party's net puts out, batch after batch: what is covered, for whom, and what is not.

A net trained on a row without noise carries that row into its outputs for every other row. Noise on each row's own
numbers then covers nothing that can be stated. So there are three sound ways: let no net learn from rows without noise
(`RowsOnce`), let it learn by private steps (`PrivateSteps`), or bound the whole message (`BatchClip`). `AsPublished` is
the VIM paper's way, for comparison, and `PureNoise` is what any of them has to beat.
"""

from abc import abstractmethod
from collections.abc import Callable
from math import exp, inf
from typing import ClassVar, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
import torch
from msgspec.structs import replace
from torch import Tensor, nn

from laconic.core.ledger import EVERY_ROW, Noise, Noised
from laconic.core.party import Party
from laconic.learn.device import device_now
from laconic.learn.nets.nets import Net, give_randomness, load, to_tensor
from laconic.learn.train.descent import Descent, ModuleDescent, start_descent
from laconic.privacy.accounting import PURE
from laconic.privacy.budget import Demand
from laconic.privacy.encoders import PrivateEncoder
from laconic.privacy.mechanisms.gaussian import add_noise, clip_rows, gaussian_noise
from laconic.privacy.private_sgd import NEVER_COVERED, UNCOVERED, UNIT, RowGradients
from laconic.privacy.randomness import SecureRandomness, SeededRandomness, keyed_normal, poisson_sample, randomness_from
from laconic.privacy.row_releases import (
    by_people,
    cell_marks,
    count_release,
    places_in,
    recall,
    row_marks,
    times_drawn,
    write_model,
    write_noise,
)
from laconic.values import Array, Settings, Weights, check_above_zero, check_least


class Perturb(Settings, frozen=True):
    """Gaussian noise of a chosen scale on every number sent, with no bound on what one row can change.

    It makes numbers less exact; it proves nothing, and so it has no epsilon.

    Attributes:
        scale: standard deviation of the noise.
        rows: `all` adds noise to what is sent for training and for prediction, as protection needs; `training` leaves
            predictions without noise, as the published experiments do.
    """

    scale: float
    rows: Literal["all", "training"] = "all"

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError(f"scale must be above 0, not {self.scale}; leave the noise out for none")

    def put_on(self, values: Array, party: Party) -> Noised[Array] | Array:
        """The values with fresh noise, or as they are where `rows` leaves them without."""
        if self.rows == "training" and party.phase != "fit":
            return values
        noisy = values + party.rng.normal(0.0, self.scale, values.shape).astype(np.float32)
        caveat = "noise without a bound on what a row can change: no epsilon can be stated"
        noise = gaussian_noise(self.scale, None, "each number sent", caveat, seeded=True)
        return Noised(noisy.astype(values.dtype), noise)

    def put_on_rows(
        self, values: Array, party: Party, rows: str, learnt: tuple[Noise, ...] | None
    ) -> Noised[Array] | Array:
        """As `put_on`: what the rows are, and how their encoder was learnt, makes no difference without a bound."""
        return self.put_on(values, party)


class ClippedGaussian(Settings, frozen=True):
    """Every row's numbers clipped in length, then Gaussian noise: a representation with an epsilon.

    All rows of a cut are one release. Asking for a cut again is another release of the same rows, and is priced as one;
    so is asking for a person again after training, in whatever group. The bound holds if a row moves its own numbers
    only: if the encoder was learnt privately, or from no rows at all.

    Attributes:
        sigma: standard deviation of the noise in units of `clip`; None to calculate it from a budget.
        clip: the greatest length of one row's numbers.
        seeded: take the noise from the run's seed, so that a study can be repeated; see `DpSgd`.
    """

    sigma: float | None = None
    clip: float = 1.0
    seeded: bool = False

    def __post_init__(self) -> None:
        if self.sigma is not None and not 0 < self.sigma < inf:
            raise ValueError(f"sigma must be above 0, not {self.sigma}; leave it out to have a budget decide")
        if not 0 < self.clip < inf:
            raise ValueError(f"clip must be above 0, not {self.clip}; use Perturb(...) for noise without a bound")

    def put_on_rows(self, values: Array, party: Party, rows: str, learnt: tuple[Noise, ...] | None) -> Noised[Array]:
        """The values clipped, with fresh noise.

        Args:
            values: a row each.
            party: whose they are.
            rows: the cut they are of.
            learnt: the noise under which their encoder was learnt; None if rows entered it without noise.
        """
        words, randomness = self.words(learnt), randomness_from(party.rng, self.seeded, values)
        noisy = add_noise(clip_rows(values, self.clip), words.scale, randomness, values)
        return Noised(noisy, by_people(words, party, rows))

    def demand(self) -> Demand:
        """One answer about all rows."""
        return Demand(rate=1.0, answers=1)

    def with_sigma(self, sigma: float) -> "ClippedGaussian":
        """The same with this noise."""
        return msgspec.structs.replace(self, sigma=sigma)

    def words(self, learnt: tuple[Noise, ...] | None) -> Noise:
        """The noise on the rows of a cut, for the ledger."""
        if self.sigma is None:
            raise ValueError("ClippedGaussian has no sigma; give sigma=..., or a plan with budget.epsilon")
        proven = learnt is not None and all(noise.proven for noise in learnt)
        covers = "covers each row's own numbers" if proven else f"NOT PROVEN: {COUPLED}"
        noise = gaussian_noise(self.sigma * self.clip, self.clip, UNIT, f"{covers}; {UNCOVERED}", seeded=self.seeded)
        return msgspec.structs.replace(noise, proven=proven)


COUPLED = "an encoder was learnt from rows without proven noise, so that one row moves the numbers of all others"
"""Why a bound on one row's own numbers may not be a bound on what that row can change."""

T = TypeVar("T")

_CAVEAT = (
    "covers the class of each row in what is sent while fitting, calculated from labels randomised once; not which "
    "rows are shared, not how many classes there are, not columns, and not predictions if they are shown to anyone"
)


class RandomisedResponse(Settings, frozen=True):
    """Pure label differential privacy: each label is released as it is, or now and then as another class.

    Attributes:
        epsilon: no released label is more than e^epsilon times as likely under one true class as under another.
        seeded: draw from the run's seed, so that a study can be repeated: then whoever knows the seed can undo it, and
            the ledger records that. Otherwise randomness comes from the party's secret, which a hub keeps with its
            journal: a resumed run releases the same labels. A second draw would give away as much once more.
    """

    epsilon: float
    seeded: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < inf:
            raise ValueError(
                f"epsilon must be above 0 and finite, not {self.epsilon}; leave labels out for true labels"
            )

    def truth(self, classes: int) -> float:
        """The probability that a label is released as it is."""
        return 1.0 / (1.0 + (classes - 1) * exp(-self.epsilon))

    def randomise(self, codes: Array, classes: int, party: Party) -> Array:
        """The party's labels as released: class codes from 0 in, class codes out."""
        uniform = (SeededRandomness(party.rng) if self.seeded else SecureRandomness(party.secret_bytes)).uniform
        changed = uniform(len(codes)) > self.truth(classes)
        # Any other class: one to classes - 1 codes further on.
        steps = np.ceil(uniform(len(codes)) * (classes - 1)).astype(np.int64)
        return np.where(changed, (codes + steps) % classes, codes)

    def cover(self, value: T) -> Noised[T]:
        """A value calculated from released labels alone, with its noise for the ledger."""
        words = Noise(
            mechanism=PURE,
            scale=1 / self.epsilon,
            sensitivity=1.0,
            unit="one label",
            caveat=_CAVEAT,
            secure=not self.seeded,
            once=True,
        )
        return Noised(value, words)


REPLACED = "one row at this party, replaced by any other"
LABELS = "labels are not covered, and what the hub sends down gives them away"


class Protection(Settings, frozen=True):
    """Abstract: what is done to everything that a party sends."""

    freezes: ClassVar[bool] = False
    """Whether nets stay as they are drawn, so that every row is sent once and the hub needs no further round."""

    @abstractmethod
    def release(self, values: Array, party: Party, rows: str, at: Array) -> Noised[Array] | Array:
        """What leaves the party in place of these numbers, one row each.

        Args:
            values: what the net puts out.
            party: whose rows they are.
            rows: the cut that they are of.
            at: where each row is in the party's table.
        """

    def learn_encoder(self, party: Party) -> Weights | None:
        """Learn what replaces the party's net from the beginning; None keeps the net."""
        return None

    def encode(self, party: Party, x: Array, width: int) -> Array | None:
        """Rows through what replaced the net, `width` numbers each; None leaves them to the net."""
        return None

    def descent(self, net: Net, outputs: int, party: Party, x: Array, steps: int) -> Descent:
        """The party's net, at work on one batch for so many steps."""
        memory = party.memory
        return start_descent(net, outputs, memory["net"], memory["velocity"], x, party.rng)


class Clipped(Protection, frozen=True):
    """Abstract: Gaussian noise of standard deviation `sigma` times `clip` on numbers clipped to length `clip`.

    Attributes:
        clip: the greatest length.
        sigma: standard deviation of the noise in units of `clip`.
        seeded: take the noise from the run's seed, so that a study can be repeated; whoever knows the seed can then
            remove it. Otherwise it comes from a secure generator.
    """

    clip: float
    sigma: float
    seeded: bool = False

    def __post_init__(self) -> None:
        check_above_zero(clip=self.clip)
        if not 0 < self.sigma < inf:
            raise ValueError(f"sigma must be above 0, not {self.sigma}; leave privacy out for no noise")

    @property
    def scale(self) -> float:
        """Standard deviation of the noise on each number."""
        return self.sigma * self.clip

    def add_noise(self, clipped: Array, party: Party, values: Array) -> Array:
        """Clipped numbers with fresh noise; `values` are the numbers as they were before."""
        return add_noise(clipped, self.scale, randomness_from(party.rng, self.seeded, values), values)

    def words(self, unit: str, caveat: str, sensitivity: float, *, once: bool = False) -> Noise:
        """The noise on every row's numbers, for the ledger."""
        noise = gaussian_noise(self.scale, sensitivity, unit, caveat, seeded=self.seeded)
        return replace(noise, people=EVERY_ROW, once=once)


class RowsOnce(Clipped, frozen=True):
    """Every row gets its noise once, under a net that never learns: sound, and the cost does not grow with training.

    What was released about a row is kept, and released again in whatever cut, group or saved model the row is asked
    for. A copy of the party's memory does the same, as secure noise is made from a key that is kept there and from the
    row itself. A row whose cells have changed counts as another one, and so do rows without ids in another table: these
    are drawn, and paid for, again. That a row has changed is then visible.

    The unit is one row at one party, replaced by any other. A person with a row at each of M parties pays more, by the
    root of M. The recipe that prepares columns (their means and spreads) is taken as public.

    Attributes:
        rows: `all` adds noise to rows to be predicted too, once each; `training` sends those without, and the ledger
            records them as open.
        encoder: an encoder with a price of its own in place of the net; None takes the net as it was drawn. Its price,
            stated elsewhere for a row there or blanked, counts here for a row replaced, so that one figure has one
            unit: twice the sensitivity, and no gain from secret draws of rows, which is not proven for that.
    """

    rows: Literal["all", "training"] = "all"
    encoder: PrivateEncoder | None = None

    freezes: ClassVar[bool] = True

    def release(self, values: Array, party: Party, rows: str, at: Array) -> Noised[Array] | Array:
        """Each row with its own noise: asked again, a party sends the same again."""
        kept, marks = recall(party), cell_marks(party.data, at)
        clipped = clip_rows(values, self.clip)
        new = places_in(kept.get("drawn", marks[:0]), marks) < 0
        if new.any() and (self.rows == "all" or rows == "train"):
            noisy = (clipped[new] + self._drawn(party, rows, marks[new], values.shape[1])).astype(values.dtype)
            kept["numbers"] = np.concatenate([kept.get("numbers", noisy[:0]), noisy])
            kept["drawn"] = np.concatenate([kept.get("drawn", marks[:0]), marks[new]])
            kept["row"] = np.concatenate([kept["row"], row_marks(party.data, at[new])])
            new[:] = False
        sent = clipped.astype(values.dtype)
        if new.all():
            return sent
        sent[~new] = kept["numbers"][places_in(kept["drawn"], marks[~new])]
        times = times_drawn(kept, row_marks(party.data, at[~new]))
        # The ledger has an entry for each time before this one too.
        unit = REPLACED if times == 1 else f"{REPLACED}, drawn for time {times}"
        covers = "covers each row's numbers, drawn once, by an encoder that saw no row without noise"
        noise = self.words(unit, f"{covers}; {NEVER_COVERED}", 2 * self.clip, once=True)
        return Noised(sent, noise, bare=bool(new.any()))

    def learn_encoder(self, party: Party) -> Weights | None:
        """Learn the encoder from the training rows, and write its price in the ledger."""
        if self.encoder is None:
            return None
        x = party.data.part("train")[0]
        weights = self.encoder.fit(x, party.rng)
        noises = tuple(_of_replaced_row(noise) for noise in self.encoder.noise(len(x)))
        write_model(party, "begin", "its encoder, as far as what it sends shows it", weights, noises)
        return weights

    def encode(self, party: Party, x: Array, width: int) -> Array | None:
        """Rows through the encoder; filled up with zeros if it gives fewer numbers, as for few columns."""
        if self.encoder is None:
            return None
        found = self.encoder.encode(party.memory["net"], x)[:, :width]
        return np.pad(found, ((0, 0), (0, width - found.shape[1])))

    def _drawn(self, party: Party, rows: str, marks: Array, width: int) -> Array:
        """Noise that depends on the rows, not on the question: a look must not change a later answer.

        A copy of the party's memory, even one that lacks the latest releases, draws the same secure noise.
        """
        kept = recall(party)
        if not self.seeded:
            key = party.memory.setdefault("row key", party.secret_bytes(32))
            # Rows of another table without ids are others, even where cells and positions are the same.
            table = kept["table"].encode()
            drawn = keyed_normal(key, (table + mark.tobytes() for mark in marks), width)
            return drawn.numpy() * np.float32(self.scale)
        # Never the same twice: the same noise on two rows would reveal their difference.
        before = (kept["before"], len(kept["row"]))
        own = np.random.default_rng([party.memory["secret"], *rows.encode(), *(before if any(before) else ())])
        return SeededRandomness(own).normal(len(marks) * width).numpy().reshape(-1, width) * np.float32(self.scale)


class BatchClip(Clipped, frozen=True):
    """The whole message of a round is clipped to one length and gets fresh noise: sound, whatever nets learn.

    The unit is all rows of one party, replaced by any others; every message, for training or prediction, counts.
    """

    def release(self, values: Array, party: Party, rows: str, at: Array) -> Noised[Array] | Array:
        """The message, clipped whole, with fresh noise."""
        clipped = clip_rows(values.reshape(1, -1), self.clip).reshape(values.shape)
        unit = "all rows of this party, replaced by any others"
        covers = f"covers each message as a whole, whatever the net learnt before; {LABELS}"
        return Noised(self.add_noise(clipped, party, values), self.words(unit, covers, 2 * self.clip))


class AsPublished(Clipped, frozen=True):
    """The VIM paper's mechanism, for comparison: each row clipped, fresh noise each time, training rows only.

    Its epsilon does not hold: nets are trained on rows without noise, so that a row moves the messages of all others; a
    replaced row moves its own by 2 `clip` and not by `clip`; and batches are known to all, so that being drawn into one
    hides nothing. `price(..., trust_claims=True, accountant=Rdp())` prints the paper's own figure.
    """

    def release(self, values: Array, party: Party, rows: str, at: Array) -> Noised[Array] | Array:
        """Training rows clipped and noised; others as they are."""
        if rows != "train":
            return values
        caveat = (
            "NOT PRIVATE: the net learns from rows without noise, so that one row moves the messages of all others; "
            f"rows to be predicted are sent as they are; {LABELS}"
        )
        noise = self.words("one row's own message, as published", caveat, self.clip)
        share = len(values) / len(party.data.cut("train"))
        noisy = self.add_noise(clip_rows(values, self.clip), party, values)
        return Noised(noisy, replace(noise, rate=share, proven=False, people="train"))


class PureNoise(Protection, frozen=True):
    """Noise and nothing else in place of what a net puts out: what a private score has to beat to mean anything.

    Attributes:
        scale: standard deviation of the noise.
        rows: `training` sends nets' true outputs for rows to be predicted; `all` never does.
    """

    scale: float
    rows: Literal["all", "training"] = "training"

    def __post_init__(self) -> None:
        check_least(0, scale=self.scale)

    def release(self, values: Array, party: Party, rows: str, at: Array) -> Noised[Array] | Array:
        """Noise of the same shape."""
        if self.rows == "training" and rows != "train":
            return values
        caveat = "noise alone, which carries nothing of any row: a baseline, not a way to learn"
        noise = gaussian_noise(self.scale, None, "nobody", caveat, seeded=True)
        return Noised(add_noise(np.zeros_like(values), self.scale, randomness_from(party.rng, True), values), noise)


def _of_replaced_row(noise: Noise) -> Noise:
    """What was stated for a row there or blanked, for one replaced: blanked, then filled anew, and drawn every time."""
    covers = f"covers the encoder, and all that is made from it alone; {NEVER_COVERED}"
    return replace(
        noise,
        sensitivity=None if noise.sensitivity is None else 2 * noise.sensitivity,
        rate=1.0,
        unit=REPLACED,
        caveat=covers if noise.proven else noise.caveat,
    )


class PrivateSteps(Clipped, frozen=True, kw_only=True):
    """Nets learn by differentially private steps, and every row sent is clipped and gets noise; each epoch costs.

    The unit is one row at one party, there or blanked. Rows to be predicted get noise each time they are sent.

    Attributes:
        gradient_clip: the greatest length of one row's gradient.
        gradient_sigma: standard deviation of the noise on a step's sum of gradients, in units of `gradient_clip`.
        rate: the probability that a row of the batch takes part in a step; only the party knows which rows do.
    """

    gradient_sigma: float
    gradient_clip: float = 1.0
    rate: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(gradient_sigma=self.gradient_sigma, gradient_clip=self.gradient_clip)
        check_above_zero(1, rate=self.rate)

    def release(self, values: Array, party: Party, rows: str, at: Array) -> Noised[Array] | Array:
        """Each row clipped, with fresh noise."""
        unit = f"{UNIT}, sent for time {count_release(party, at)}"
        covers = f"covers each row's numbers under a net that learns by private steps; {LABELS}; {UNCOVERED}"
        # Messages of different rows cost each row as much as one does: what counts is how often a row was sent.
        noise = self.words(unit, covers, self.clip, once=True)
        return Noised(self.add_noise(clip_rows(values, self.clip), party, values), noise)

    def descent(self, net: Net, outputs: int, party: Party, x: Array, steps: int) -> Descent:
        """The net at work by private steps, which are written in the ledger."""
        scale, unit = self.gradient_sigma * self.gradient_clip, f"{UNIT}, in epoch {party.memory['batch'][0] + 1}"
        caveat = f"covers the net as it learns; {LABELS}; {UNCOVERED}"
        noise = gaussian_noise(scale, self.gradient_clip, unit, caveat, seeded=self.seeded)
        noise = replace(noise, rate=self.rate, count=steps, once=True)
        form = f"{sum(values.size for values in party.memory['net'].values())} weights"
        write_noise(party, "exchange", "its net, as far as what it sends shows it", form, noise)
        module = give_randomness(load(net.build(x.shape[1:], outputs), party.memory["net"]), party.rng)
        return ModuleDescent(module, party.memory["velocity"], x, gradients=self._gradients(module, x, party))

    def _gradients(self, module: nn.Module, x: Array, party: Party) -> Callable[[Tensor], list[Tensor]]:
        """Private gradients of a module's weights on these rows, given how the loss changes with its outputs."""
        randomness, rows, inputs = randomness_from(party.rng, self.seeded, x), len(x), to_tensor(x)
        # The mean over rows of outputs times slopes; the slopes are handed in as targets.
        each = RowGradients(module, lambda values, slopes: (values * slopes).sum(dim=1).mean())

        def gradients(slope: Tensor) -> list[Tensor]:
            # The slope is of a mean over the batch, so a row's own is that times the rows.
            drawn = poisson_sample(rows, self.rate, randomness)
            sums = {name: torch.zeros_like(values) for name, values in module.named_parameters()}
            if len(drawn):
                each.add_clipped([inputs[drawn]], slope[drawn] * rows, self.gradient_clip, sums)
            flat = torch.cat([values.flatten() for values in sums.values()])
            flat += randomness.normal(len(flat)).to(device_now()) * (self.gradient_sigma * self.gradient_clip)
            return [flat / (self.rate * rows)]

        return gradients


AnyProtection: TypeAlias = RowsOnce | PrivateSteps | BatchClip | AsPublished | PureNoise

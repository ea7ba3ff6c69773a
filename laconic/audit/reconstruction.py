"""What were this party's columns? An attacker who knows some rows in full learns to undo the representation."""

from typing import TypeAlias

import numpy as np
from torch.nn import functional

from laconic.audit.finding import Finding
from laconic.core.values import Array, Rng, Settings
from laconic.learn.nets import Mlp, make, to_tensor
from laconic.learn.sgd import Sgd, evaluate


class LinearAttacker(Settings, frozen=True):
    """Least squares with a small penalty.

    Attributes:
        penalty: weight of the squared length of the solution.
    """

    penalty: float = 1e-3

    def guess(self, sent: Array, columns: Array, others: Array, rng: Rng) -> Array:
        """The columns of other rows, from what was sent for them and from rows known in full."""
        ones, rest = (np.column_stack([x, np.ones(len(x))]) for x in (sent, others))
        within = ones.T @ ones + self.penalty * len(ones) * np.eye(ones.shape[1])
        return np.asarray(rest @ np.linalg.solve(within, ones.T @ columns))


class MlpAttacker(Settings, frozen=True):
    """A small net.

    Attributes:
        net: the net.
        trainer: how it is trained.
    """

    net: Mlp = Mlp(hidden=(128,))
    trainer: Sgd = Sgd(epochs=100, batch=64)

    def guess(self, sent: Array, columns: Array, others: Array, rng: Rng) -> Array:
        """The columns of other rows, from what was sent for them and from rows known in full."""
        module = make(self.net, sent.shape[1:], columns.shape[1], rng)
        self.trainer.fit(module, [to_tensor(sent)], to_tensor(columns), functional.mse_loss, rng)
        return evaluate(module, [to_tensor(others)]).numpy()


AnyAttacker: TypeAlias = LinearAttacker | MlpAttacker


def reconstruct(
    sent: Array,
    columns: Array,
    known: int,
    rng: Rng,
    *,
    attacker: AnyAttacker = LinearAttacker(),  # noqa: B008 (frozen)
    whose: str = "a party",
) -> Finding:
    """Let an attacker who knows `known` rows guess the columns of all others.

    Args:
        sent: what was sent for each row.
        columns: the party's columns as its models see them, for the same rows.
        known: how many rows the attacker knows in full.
        rng: chance for which rows those are.
        attacker: how it guesses.
        whose: the party's name.
    """
    truth, sent = (np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in (columns, sent))
    if not 1 <= known < len(sent):
        raise ValueError(f"known must be 1 to {len(sent) - 1} rows, so that some are left to guess, not {known}")
    order = rng.permutation(len(sent))
    inside, outside = order[:known], order[known:]
    scale = sent[inside].std(axis=0) + 1e-9
    sent = (sent - sent[inside].mean(axis=0)) / scale
    guess = attacker.guess(sent[inside], truth[inside], sent[outside], rng)
    errors = ((guess - truth[outside]) ** 2).sum()
    around = ((truth[outside] - truth[inside].mean(axis=0)) ** 2).sum()
    return Finding(
        attack=f"reconstruction of {whose}'s columns, {type(attacker).__name__}",
        knows=f"what {whose} sent, and {known:,} of its rows in full",
        measure="share of the columns' variance explained (R2)",
        success=max(0.0, float(1 - errors / around)) if around > 0 else 0.0,
        chance=0.0,
    )

"""What a curious receiver could find out: columns, labels, and who was among the training rows."""

from collections.abc import Callable, Mapping
from math import log
from typing import TypeAlias

import msgspec
import numpy as np
import torch
from scipy.stats import beta, mannwhitneyu
from torch import Tensor
from torch.nn import functional

from laconic.core.party import Party
from laconic.learn.device import device_now
from laconic.learn.models.clustering import cluster, purity
from laconic.learn.nets.layers import Linear
from laconic.learn.nets.nets import Mlp, load, make, to_array, to_tensor, weights_of
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.methods.families.split import Splits
from laconic.privacy.encoders import Codebook, DpNat, DpPca
from laconic.privacy.mechanisms.outputs import ClippedGaussian
from laconic.privacy.private_sgd import DpSgd
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, Rng, Settings, Weights


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """How well one attack did, beside what is possible without what was released.

    Attributes:
        attack: what was tried, on whom.
        knows: what the attacker must know.
        measure: what the figures are.
        success: how well it did.
        baseline: how well a guess that ignores what was released does; for a canary, the epsilon that is claimed.
    """

    attack: str
    knows: str
    measure: str
    success: float
    baseline: float


class LinearAttacker(Settings, frozen=True):
    """Least squares with a small penalty on the squared length of the solution."""

    penalty: float = 1e-3

    def guess(self, sent: Array, columns: Array, others: Array, rng: Rng) -> Array:
        """The columns of other rows, from what was sent for them and from rows known in full."""
        ones, rest = (np.column_stack([x, np.ones(len(x))]) for x in (sent, others))
        within = ones.T @ ones + self.penalty * len(ones) * np.eye(ones.shape[1])
        return np.asarray(rest @ np.linalg.solve(within, ones.T @ columns))


class MlpAttacker(Settings, frozen=True):
    """A small net."""

    net: Mlp = Mlp(hidden=(128,))
    trainer: Sgd = Sgd(epochs=100, batch=64)

    def guess(self, sent: Array, columns: Array, others: Array, rng: Rng) -> Array:
        """As `LinearAttacker.guess`."""
        module = make(self.net, sent.shape[1:], columns.shape[1], rng)
        self.trainer.fit(module, [to_tensor(sent)], to_tensor(columns), functional.mse_loss, rng)
        return to_array(evaluate(module, [to_tensor(others)]))


class TreesAttacker(Settings, frozen=True):
    """Extremely randomised trees, which find a column that was sent by rank."""

    trees: int = 50

    def guess(self, sent: Array, columns: Array, others: Array, rng: Rng) -> Array:
        """As `LinearAttacker.guess`."""
        from sklearn.ensemble import ExtraTreesRegressor

        model = ExtraTreesRegressor(self.trees, max_features=0.5, random_state=int(rng.integers(2**31 - 1)))
        wanted = columns[:, 0] if columns.shape[1] == 1 else columns
        return np.asarray(model.fit(sent, wanted).predict(others)).reshape(len(others), columns.shape[1])


AnyAttacker: TypeAlias = LinearAttacker | MlpAttacker | TreesAttacker


@limit_threads()
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
        rng: decides which rows those are.
        whose: the party's name.
    """
    truth, sent = (np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in (columns, sent))
    if not 1 <= known < len(sent):
        raise ValueError(f"known must be 1 to {len(sent) - 1} rows, so that some are left to guess, not {known}")
    order = rng.permutation(len(sent))
    inside, outside = order[:known], order[known:]
    # A number that is the same for all known rows says nothing of columns, and would be blown up for the others.
    spread = sent[inside].std(axis=0)
    says = spread > 1e-9 * np.maximum(np.abs(sent).max(axis=0), 1e-9)
    sent = (sent - sent[inside].mean(axis=0))[:, says] / spread[says] if says.any() else np.zeros((len(sent), 1))
    guess = attacker.guess(sent[inside], truth[inside], sent[outside], rng)
    errors = ((guess - truth[outside]) ** 2).sum()
    around = ((truth[outside] - truth[inside].mean(axis=0)) ** 2).sum()
    return Finding(
        attack=f"reconstruction of {whose}'s columns, {type(attacker).__name__}",
        knows=f"what {whose} sent, and {known:,} of its rows in full",
        measure="share of the columns' variance explained (R2)",
        success=max(0.0, float(1 - errors / around)) if around > 0 else 0.0,
        baseline=0.0,
    )


def infer_labels(gradients: Array, y: Array, rng: Rng, *, whose: str = "a party") -> Finding:
    """Cluster the gradients that a party received for its rows, and see how well clusters and classes agree.

    The classes `y` of the same rows only judge the attack.
    """
    classes = np.unique(y)
    found = cluster(gradients.reshape(len(gradients), -1), len(classes), rng)
    return Finding(
        attack=f"labels from the gradients sent to {whose}",
        knows="the gradients that it was sent first, and how many classes there are",
        measure="share of rows in a cluster of mostly their own class",
        success=purity(found, np.searchsorted(classes, y)),
        baseline=commonest(y),
    )


def infer_numbers(received: Array, y: Array, *, whose: str = "a party") -> Finding:
    """See how closely what a party received for its rows follows their numeric labels.

    The numbers are looked at one by one, and along the direction in which they vary most.
    """
    values = received.reshape(len(received), -1).astype(np.float64)
    values = values - values.mean(axis=0)
    along = values @ np.linalg.svd(values, full_matrices=False)[2][0]
    with np.errstate(divide="ignore", invalid="ignore"):
        tried = [np.corrcoef(one, y)[0, 1] for one in (along, *values.T)]
    return Finding(
        attack=f"labels from the numbers sent to {whose}",
        knows="the numbers worked out from labels that it was sent first",
        measure="greatest correlation with the label, without sign",
        success=float(np.nan_to_num(np.abs(tried)).max()),
        baseline=0.0,
    )


def compare_labels(received: Array, y: Array, *, whose: str = "a party") -> Finding:
    """See how well the classes that a party received, under whatever numbers, agree with the true ones.

    `received` has a number per row for its class, randomised or not; `y` has the true classes.
    """
    return Finding(
        attack=f"labels sent to {whose}",
        knows="the labels that it was sent",
        measure="share of rows whose class is the most frequent one among rows with the same number",
        success=purity(received, np.unique(y, return_inverse=True)[1]),
        baseline=commonest(y),
    )


def commonest(labels: Array) -> float:
    """The share of rows that have the most frequent label: what anyone can claim without looking."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


_MEASURE = "probability to tell a training row from another (AUC)"


def row_losses(task: Task, predictions: Array, y: Array) -> Array:
    """How wrong each prediction is: -log of the true class's probability, or the squared error."""
    if task.kind == "regression":
        return np.asarray((predictions - y) ** 2, dtype=np.float64)
    if task.kind == "binary":
        right = np.where(y == 1, predictions, 1 - predictions)
    else:
        right = predictions[np.arange(len(y)), y.astype(int)]
    return -np.log(np.clip(right.astype(np.float64), 1e-12, 1.0))


def threshold_attack(members: Array, outsiders: Array) -> Finding:
    """Call a row a member if the model's loss on it is small, given losses of members and of similar other rows."""
    return Finding(
        attack="membership, by a threshold on the loss",
        knows="rows with labels, and the model's predictions for them",
        measure=_MEASURE,
        success=_auc(-members, -outsiders),
        baseline=0.5,
    )


def likelihood_ratio_attack(losses: Array, present: Array, shadows: Array, shadow_present: Array) -> Finding:
    """Call a row a member if its loss is likelier under models that saw it than under models that did not.

    Args:
        losses: the attacked model's loss on each candidate row.
        present: whether it was trained on that row; used to judge the attack only.
        shadows: losses of models like it, trained by the attacker on random halves of the rows; (models, rows).
        shadow_present: whether each of those saw each row; (models, rows). Every row needs models of both kinds.
    """
    scores = _as_normal(shadows)
    with_row, without_row = (_means(scores, seen) for seen in (shadow_present, ~shadow_present))
    # One spread for all: with a handful of shadow models, a spread per row would be mostly noise.
    spread = np.sqrt(np.mean(np.where(shadow_present, scores - with_row, scores - without_row) ** 2)) + 1e-9
    seen = _as_normal(losses)
    ratio = ((seen - without_row) ** 2 - (seen - with_row) ** 2) / (2 * spread**2)
    return Finding(
        attack=f"membership, by likelihood ratio with {len(shadows)} shadow models",
        knows="rows with labels, the model's predictions for them, and how to train such models on half of them",
        measure=_MEASURE,
        success=_auc(ratio[present], ratio[~present]),
        baseline=0.5,
    )


def _as_normal(losses: Array) -> Array:
    """Losses on a scale on which they are about normal: log odds of the true class."""
    return np.log(np.maximum(np.expm1(losses), 1e-12))


def _means(scores: Array, seen: Array) -> Array:
    counts = seen.sum(axis=0)
    if (counts == 0).any():
        raise ValueError("every row needs a shadow model that saw it and one that did not; train more of them")
    return np.asarray((scores * seen).sum(axis=0) / counts)


def _auc(members: Array, outsiders: Array) -> float:
    return float(mannwhitneyu(members, outsiders).statistic / (len(members) * len(outsiders)))


@limit_threads()
def labels_read_off(gradients: Array, labels: Array, classes: int, rng: Rng, *, normalise: bool = True) -> float:
    """The share of rows whose class a party knows, up to a renaming, once it has clustered their gradients.

    Compare it with `commonest`: naming the most frequent class is right that often without looking.

    Args:
        gradients: what one party was sent, shape (rows, numbers).
        labels: the true class codes of these rows.
        classes: how many there are; parties know it from the hub.
        normalise: cluster directions instead of raw gradients; raw ones work before training, and fail after it.
    """
    return purity(cluster(gradients, classes, rng, normalise=normalise), labels)


@limit_threads()
def gradients_sent(method: Splits, hub: Party, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """What split learning would send each party next, for all training rows: the summed loss's gradients.

    The hub has its head as trained so far in its memory; `outputs` are those of each party's net for all training rows.
    """
    received = {name: to_tensor(values).requires_grad_() for name, values in outputs.items()}
    rows = np.arange(len(hub.data.cut("train")))
    head = load(method.split.top(hub, sum(values.shape[1] for values in outputs.values())), hub.memory["model"])
    torch.autograd.backward(method.split.loss(hub, head, rows, received) * len(rows))
    return {name: to_array(values.grad) for name, values in received.items() if values.grad is not None}


Mechanism: TypeAlias = Callable[[bool, Rng], float]
"""Run a mechanism once, with the canary or without, and give the attacker's score: high means "it was there"."""


@limit_threads()
def canary_attack(mechanism: Mechanism, claim: float, delta: float, trials: int, rng: Rng, *, what: str) -> Finding:
    """Play the game `trials` times with the canary and as often without; success is the epsilon certainly exceeded.

    Args:
        claim: the epsilon that the mechanism is said to keep.
        delta: the probability that it may fail.
        trials: how often to play each side; the bound cannot pass the logarithm of about a sixth of this.
        what: the mechanism's name.
    """
    present, absent = (np.array([mechanism(there, rng) for _ in range(trials)]) for there in (True, False))
    return Finding(
        attack=f"canary against {what}",
        knows="all rows but one, the mechanism, and everything but its noise",
        measure=f"epsilon certainly exceeded, where {claim:.3g} is claimed",
        success=epsilon_lower_bound(present, absent, delta),
        baseline=claim,
    )


def epsilon_lower_bound(present: Array, absent: Array, delta: float, confidence: float = 0.95) -> float:
    """An epsilon that the mechanism exceeds with this confidence, from scores with the canary and without.

    The threshold is chosen on one half of the scores and judged on the other: choosing and judging on the same ones
    would find privacy losses where there are none.
    """
    best, at = 0.0, 0.0
    first_present, first_absent = present[::2], absent[::2]
    for threshold in np.unique(np.quantile(np.concatenate([first_present, first_absent]), np.linspace(0, 1, 200))):
        bound = _bound(first_present > threshold, first_absent > threshold, delta, confidence)
        if bound > best:
            best, at = bound, float(threshold)
    return _bound(present[1::2] > at, absent[1::2] > at, delta, confidence) if best > 0 else 0.0


def _bound(hits: Array, alarms: Array, delta: float, confidence: float) -> float:
    """The greater of two bounds: how much more often "there" is said if it was, and "not there" if it was not."""
    each = (1 - confidence) / 4
    one = _ratio(hits.sum(), len(hits), alarms.sum(), len(alarms), delta, each)
    other = _ratio((~alarms).sum(), len(alarms), (~hits).sum(), len(hits), delta, each)
    return max(one, other, 0.0)


def _ratio(often: int, of_often: int, seldom: int, of_seldom: int, delta: float, doubt: float) -> float:
    """The logarithm of (a share that is at least so large, less delta) over (a share that is at most so small)."""
    # Clopper and Pearson's exact limits of a share.
    low = float(beta.ppf(doubt, often, of_often - often + 1)) if often else 0.0
    high = float(beta.ppf(1 - doubt, seldom + 1, of_seldom - seldom)) if seldom < of_seldom else 1.0
    return log((low - delta) / high) if low > delta else 0.0


_ROWS, _WIDTH = 40, 5


def sgd_game(settings: DpSgd, rows: int = _ROWS) -> Mechanism:
    """Rows that push nowhere, and a canary that always pushes the same way."""

    def play(there: bool, rng: Rng) -> float:
        module = Linear(2, 1)
        for values in module.parameters():
            torch.nn.init.zeros_(values)
        x, y = (torch.zeros(*shape, device=device_now()) for shape in ((rows, 2), (rows,)))
        x[0, 0], y[0] = 1e6, float(there)
        settings.fit(module, [x], y, _push, rng)
        return float(weights_of(module)["weight"][0, 0])

    return play


def pca_game(settings: DpPca, rows: int = _ROWS) -> Mechanism:
    """Rows of zeros, and a canary as long as clipping lets it be."""

    def play(there: bool, rng: Rng) -> float:
        x = np.zeros((rows, _WIDTH))
        x[0, 0] = 1e6 * there
        return float(settings.noised_squares(x, rng)[0, 0])

    return play


def rows_game(settings: ClippedGaussian) -> Mechanism:
    """A representation of zeros, and a canary's of the greatest length."""

    def play(there: bool, rng: Rng) -> float:
        party = Party("audited", Table.without_rows("audited"), seed=0)
        party.rng = rng
        values = np.zeros((2, _WIDTH), np.float32)
        values[0, 0] = 1e6 * there
        return float(settings.put_on_rows(values, party, "train", ()).value[0, 0])

    return play


def encoder_game(settings: Codebook | DpNat, rows: int = 64, tries: int = 20) -> Mechanism:
    """Normal rows, and of several canaries the one that moves the weights most, in a direction the attacker knows.

    First weights, targets and code words are the same in every play and known to the attacker, as the proof allows.
    """
    rng = np.random.default_rng(0)
    others = rng.standard_normal((rows, _WIDTH)).astype(np.float32)
    crowds = [np.concatenate([others, 3 * rng.standard_normal((1, _WIDTH))], dtype=np.float32) for _ in range(tries)]
    # With hardly any learning rate, it keeps its first weights.
    still = msgspec.structs.replace(settings, trainer=msgspec.structs.replace(settings.trainer, sigma=0.0, lr=1e-30))
    first = _flat(still.fit(others, np.random.default_rng(1)))

    def moved(how: Codebook | DpNat, x: Array) -> Array:
        # Times the expected number of rows: as every row is drawn, this is the sum that got noise.
        return (_flat(how.fit(x, np.random.default_rng(1))) - first) * len(x)

    moves = [moved(settings.with_sigma(0.0), crowd) - moved(settings.with_sigma(0.0), others) for crowd in crowds]
    strongest = int(np.argmax([np.linalg.norm(move) for move in moves]))

    def play(there: bool, _: Rng) -> float:
        return float(moved(settings, crowds[strongest] if there else others) @ moves[strongest])

    return play


def _flat(weights: Weights) -> Array:
    return np.concatenate([values.ravel() for values in weights.values()]).astype(np.float64)


def _push(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss whose gradient is the row itself where the target is 1, and nothing where it is 0."""
    return -(outputs.squeeze(1) * targets).mean()

"""Was this row trained on? Attacks on a model that anyone may query.

Yeom, Giacomelli, Fredrikson, Jha: Privacy risk in machine learning (2018), for the threshold on the loss; Carlini,
Chien, Nasr, Song, Terzis, Tramer: Membership inference attacks from first principles (2022), for the likelihood ratio.
"""

import numpy as np

from laconic.audit.finding import Finding
from laconic.core.task import Task
from laconic.core.values import Array

_MEASURE = "chance to tell a training row from another (AUC)"


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
    """Call a row a member if the model's loss on it is small.

    Args:
        members: losses on rows that were trained on.
        outsiders: losses on rows of the same kind that were not.
    """
    return Finding(
        attack="membership, by a threshold on the loss",
        knows="rows with labels, and the model's predictions for them",
        measure=_MEASURE,
        success=_auc(-members, -outsiders),
        chance=0.5,
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
    # One spread for all: with a handful of shadow models, a spread for each row is mostly chance.
    spread = np.sqrt(np.mean(np.where(shadow_present, scores - with_row, scores - without_row) ** 2)) + 1e-9
    seen = _as_normal(losses)
    ratio = ((seen - without_row) ** 2 - (seen - with_row) ** 2) / (2 * spread**2)
    return Finding(
        attack=f"membership, by likelihood ratio with {len(shadows)} shadow models",
        knows="rows with labels, the model's predictions for them, and how to train such models on half of them",
        measure=_MEASURE,
        success=_auc(ratio[present], ratio[~present]),
        chance=0.5,
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
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([members, outsiders]))[: len(members)]
    return float((ranks.sum() - len(members) * (len(members) + 1) / 2) / (len(members) * len(outsiders)))

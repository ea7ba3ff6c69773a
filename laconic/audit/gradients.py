"""How many labels a party can read off the gradients that it is sent, and what the rows it sent give away.

Gradients of one class point the same way, so clustering them names the classes up to a renaming; with unequal class
frequencies, not even the names are hidden. Norms alone already tell much of an unbalanced task (Li and others: Label
Leakage and Protection in Two-party Split Learning, 2022).
"""

from collections.abc import Mapping

import numpy as np
import torch

from laconic.core.party import Party
from laconic.core.values import Array, Rng
from laconic.learn.kmeans import cluster, purity
from laconic.learn.nets import load, to_tensor
from laconic.methods.splitting import Splitting


def labels_read_off(
    gradients: Array, labels: Array, classes: int, rng: Rng, *, normalise: bool = True, restarts: int = 10
) -> float:
    """The share of rows whose class a party knows, up to a renaming, once it has clustered their gradients.

    Always naming the commonest class is right that often by chance: compare with `commonest`.

    Args:
        gradients: what one party was sent, shape (rows, numbers).
        labels: the true class codes of these rows.
        classes: how many there are; the hub tells parties.
        rng: chance for the clustering.
        normalise: cluster directions instead of raw gradients; raw ones work before training, and fail after it.
        restarts: how often clustering is tried.
    """
    return purity(cluster(gradients, classes, rng, normalise=normalise, restarts=restarts), labels)


def labels_read_off_signs(gradients: Array, labels: Array) -> float:
    """The share of labels of two classes told by the side of the main direction on which a gradient lies."""
    main = np.linalg.svd(gradients.astype(np.float64), full_matrices=False)[2][0]
    return purity((gradients @ main > 0).astype(int), labels)


def gradients_sent(method: Splitting, hub: Party, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """What split learning would send each party next, for all training rows: the summed loss's gradients.

    Args:
        method: how the hub learns.
        hub: the label holder, with its head as trained so far in its memory.
        outputs: what each party's net puts out for all training rows.
    """
    received = {name: to_tensor(values).requires_grad_() for name, values in outputs.items()}
    rows = np.arange(len(hub.data.cut("train")))
    head = load(method.top(hub, sum(values.shape[1] for values in outputs.values())), hub.memory["model"])
    torch.autograd.backward(method.loss_of(hub, head, rows, received) * len(rows))
    return {name: values.grad.numpy() for name, values in received.items() if values.grad is not None}


def commonest(labels: Array) -> float:
    """The share of rows that have the commonest label: what anyone can claim without looking."""
    return float(np.bincount(labels.astype(int)).max() / len(labels))

"""A categorical label: each of C classes gets two of 2C codes, and each row one of its class's two by chance."""

import numpy as np

from laconic.core.values import Array, Rng, Weights


def draw_categorical(classes: int, rng: Rng) -> Weights:
    """The label holder's secret: the two codes of each class, shape (classes, 2)."""
    return {"codes": rng.permutation(2 * classes).reshape(classes, 2)}


def hide_classes(secret: Weights, y: Array, rng: Rng) -> Array:
    """One of the two codes of each label's class; send a row once only, as the coin is tossed anew."""
    codes = secret["codes"][y.astype(np.int64), rng.integers(2, size=len(y))]
    return np.asarray(codes.astype(np.uint8 if secret["codes"].size <= 256 else np.uint16))


def reveal_classes(secret: Weights, predicted: Array) -> Array:
    """Probabilities of the classes from those of the codes: the two halves of a class are summed."""
    return np.asarray(predicted[:, secret["codes"]].sum(axis=2))

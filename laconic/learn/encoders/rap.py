"""The secret square matrix that mixes a party's columns, and what it does to distances."""

from collections.abc import Callable
from hashlib import blake2b
from math import prod
from typing import TypeAlias

import numpy as np

from laconic.tables.task import Task
from laconic.values import Array, Rng, Settings, Weights


class Orthogonal(Settings, frozen=True):
    """A random rotation, uniform over all: every distance is kept exactly, and a model learns as fast as before."""

    def draw(self, width: int, rng: Rng) -> Array:
        """A matrix for rows of `width` numbers."""
        directions, upper = np.linalg.qr(rng.standard_normal((width, width)))
        # QR fixes signs by its own rule; undoing it makes the draw uniform over orthogonal matrices.
        return np.asarray(directions * np.sign(np.diag(upper)))


class Gaussian(Settings, frozen=True):
    """Independent normal numbers, as published; often nearly singular, which slows learning.

    Attributes:
        scaled: divide by the root of the width, so that distances are kept on average and not only in proportion.
    """

    scaled: bool = False

    def draw(self, width: int, rng: Rng) -> Array:
        """A matrix for rows of `width` numbers."""
        return rng.standard_normal((width, width)) / (np.sqrt(width) if self.scaled else 1.0)


AnyMatrix: TypeAlias = Orthogonal | Gaussian


_BLOCK = 65_536


def draw_several(width: int, matrix: AnyMatrix, rng: Rng) -> Weights:
    """A party's secret for rows of `width` numbers."""
    return {"matrix": matrix.draw(width, rng).astype(np.float32)}


def project_several(secret: Weights, x: Array, at: Array) -> Array:
    """The rows `at` of the table `x`, mixed; float32."""
    return in_blocks(at, secret["matrix"].shape[1], lambda rows: _flat(x, rows) @ secret["matrix"])


def in_blocks(at: Array, width: int, work: Callable[[Array], Array]) -> Array:
    """What `work` makes of some rows at a time: beside the table, only the result is ever whole in memory."""
    out = np.empty((len(at), width), np.float32)
    for start in range(0, len(at), _BLOCK):
        out[start : start + _BLOCK] = work(at[start : start + _BLOCK])
    return out


def _flat(x: Array, rows: Array) -> Array:
    return x[rows].reshape(len(rows), -1)


def draw_single(column: Array, matrix: AnyMatrix, rng: Rng) -> Weights:
    """A party's secret, given its one column for the training rows."""
    return {
        "matrix": matrix.draw(2, rng).astype(np.float32),
        "mean": np.array([column.mean(dtype=np.float64)]),
        "sd": np.array([column.std(dtype=np.float64)]),
        "seed": rng.integers(2**32, size=4),
    }


def project_single(secret: Weights, x: Array, at: Array, keys: Array) -> Array:
    """The rows `at` of the one-column table `x`, each mixed with its pseudo value; float32.

    A row's pseudo value is the same whenever it is sent: two would differ by a multiple of one row of the matrix. No
    two rows have the same, at training or later, whichever their places: their difference would be a multiple of the
    matrix's other row. So it follows from a secret, the row's id and its cell.
    """
    cells = np.ascontiguousarray(x[:, 0], np.float32)

    def mix(rows: Array) -> Array:
        normal = _normal_of(secret["seed"], keys[rows], cells[rows])
        pseudo = (normal * secret["sd"][0] + secret["mean"][0]).astype(np.float32)
        return np.asarray(np.column_stack([cells[rows], pseudo]) @ secret["matrix"])

    return in_blocks(at, 2, mix)


def _normal_of(seed: Array, keys: Array, cells: Array) -> Array:
    """A standard normal number per row, from a keyed digest of its id and its cell."""
    from scipy.special import ndtri

    secret = np.ascontiguousarray(seed, np.int64).tobytes()
    rows = zip(keys.tolist(), cells, strict=True)
    digests = (blake2b(cell.tobytes() + key.encode(), digest_size=8, key=secret).digest() for key, cell in rows)
    return np.asarray(ndtri((np.frombuffer(b"".join(digests), np.uint64) + 0.5) / 2.0**64))


def draw_secret(x: Array, training: Array, matrix: AnyMatrix, rng: Rng) -> Weights:
    """A party's secret for its prepared table `x`, of which the rows `training` may be learnt from."""
    width = prod(x.shape[1:])
    return draw_single(x[training], matrix, rng) if width == 1 else draw_several(width, matrix, rng)


def project(secret: Weights, x: Array, at: Array, keys: Array) -> Array:
    """The rows `at` of the prepared table `x` as they may be sent, float32: as wide as `x`, but at least 2.

    Args:
        keys: the id of every row of `x`, as text.
    """
    return project_single(secret, x, at, keys) if "seed" in secret else project_several(secret, x, at)


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


def draw_numeric(y: Array, matrix: AnyMatrix, rng: Rng) -> Weights:
    """The label holder's secret, given its training labels."""
    sd = float(y.std(dtype=np.float64))
    return {
        "matrix": matrix.draw(2, rng),
        "mean": np.array([y.mean(dtype=np.float64)]),
        "sd": np.array([sd if sd > 0 else 1.0]),
    }


def hide_numbers(secret: Weights, y: Array, rng: Rng) -> Array:
    """Two numbers for each label, float32; send a row once only, as the pseudo label is drawn anew."""
    own = (y - secret["mean"]) / secret["sd"]
    return np.asarray(np.column_stack([own, rng.standard_normal(len(y))]) @ secret["matrix"]).astype(np.float32)


def reveal_numbers(secret: Weights, predicted: Array) -> Array:
    """The labels, in their own unit, that belong to predictions of both numbers."""
    mixed = predicted.astype(np.float64) @ np.linalg.inv(secret["matrix"])
    return np.asarray(mixed[:, 0] * secret["sd"] + secret["mean"])


def draw_label_secret(task: Task, y: Array, matrix: AnyMatrix, rng: Rng) -> Weights:
    """The label holder's secret, given its training labels."""
    return draw_numeric(y, matrix, rng) if task.kind == "regression" else draw_categorical(len(task.classes), rng)


def hide_labels(task: Task, secret: Weights, y: Array, rng: Rng) -> Array:
    """One code for each label, or two numbers."""
    return hide_numbers(secret, y, rng) if task.kind == "regression" else hide_classes(secret, y, rng)


def reveal_labels(task: Task, secret: Weights, hidden: Array) -> Array:
    """Predictions, as the task shapes them, from predictions of what was hidden."""
    if task.kind == "regression":
        return reveal_numbers(secret, hidden)
    classes = reveal_classes(secret, hidden)
    return np.asarray(classes[:, 1]) if task.kind == "binary" else classes


def hidden_classes(task: Task) -> int:
    """How many codes the labels become; 0 for numbers."""
    return 0 if task.kind == "regression" else 2 * len(task.classes)


def hidden_task(codes: int) -> Task:
    """The task of predicting so many codes, or numbers if there are none."""
    if codes == 0:
        return Task(kind="regression")
    return Task(kind="multiclass", classes=tuple(str(code) for code in range(codes)))

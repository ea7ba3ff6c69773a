"""Small sets that come with scikit-learn, for work without a network or files."""

import numpy as np

from laconic.core.columns import Column
from laconic.core.task import Task
from laconic.data.dataset import Dataset


def breast_cancer() -> Dataset:
    """Cell nuclei of 569 tumours: ten measures, each as mean, error and worst; label: benign."""
    from sklearn import datasets

    bunch = datasets.load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in bunch.feature_names]
    task = Task(kind="binary", classes=tuple(str(name) for name in bunch.target_names), label="diagnosis")
    groups = {
        "clinic": tuple(name for name in names if name.startswith("mean_")),
        "hospital": tuple(name for name in names if name.startswith("worst_")),
        "laboratory": tuple(name for name in names if name.endswith("_error")),
    }
    return Dataset(
        name="breast_cancer",
        raw=bunch.data.astype(np.float64),
        columns=tuple(Column(name) for name in names),
        y=bunch.target.astype(np.int64),
        task=task,
        groups=groups,
    )


def digits() -> Dataset:
    """Handwritten digits, 1797 of 8 x 8 shades, as a table of 64 columns; label: the digit."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    places = [(row, column) for row in range(8) for column in range(8)]
    quarters: dict[str, tuple[str, ...]] = {}
    for row, column in places:
        quarter = f"{'upper' if row < 4 else 'lower'}_{'left' if column < 4 else 'right'}"
        quarters[quarter] = (*quarters.get(quarter, ()), f"row{row}_column{column}")
    return Dataset(
        name="digits",
        raw=bunch.data.astype(np.float64),
        columns=tuple(Column(f"row{row}_column{column}") for row, column in places),
        y=bunch.target.astype(np.int64),
        task=Task(kind="multiclass", classes=tuple(str(digit) for digit in range(10)), label="digit"),
        groups=quarters,
    )


def diabetes() -> Dataset:
    """Ten measures of 442 patients; target: how far the disease went a year later, a number."""
    from sklearn import datasets

    bunch = datasets.load_diabetes(scaled=False)
    names = tuple(str(name) for name in bunch.feature_names)
    return Dataset(
        name="diabetes",
        raw=bunch.data.astype(np.float64),
        columns=tuple(Column(name) for name in names),
        y=bunch.target.astype(np.float64),
        task=Task(kind="regression", label="progression"),
        groups={"practice": names[:4], "laboratory": names[4:]},
    )

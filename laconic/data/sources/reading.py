"""Where the files of public data sets are, and how they are read."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laconic.core.columns import Column
from laconic.core.errors import DataError
from laconic.core.task import Task
from laconic.data.dataset import Dataset

if TYPE_CHECKING:
    from pandas import DataFrame

VARIABLE = "LACONIC_DATA"
"""The environment variable that names the folder of public data sets."""


def data_file(name: str) -> Path:
    """The path of a data file.

    Raises:
        DataError: no folder is set, or it has no such file.
    """
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        raise DataError(
            f"this data set needs the file {name}, and {VARIABLE} does not say where it is; "
            f"run: export {VARIABLE}=/folder/with/data (breast_cancer, digits and diabetes need no files)"
        )
    path = Path(folder) / name
    if not path.is_file():
        raise DataError(f"this data set needs the file {path}, which is not there; put it there or change {VARIABLE}")
    return path


def read_parquet(*names: str) -> "DataFrame":
    """One or more Parquet files below each other, rows in the order of the files."""
    import pandas

    frames = [pandas.read_parquet(data_file(name)) for name in names]
    return pandas.concat(frames, ignore_index=True)


def read_images(name: str, file: str, classes: tuple[str, ...]) -> Dataset:
    """Grey images with an official test set, from arrays `x_train`, `y_train`, `x_test`, `y_test`."""
    with np.load(data_file(file), allow_pickle=False) as arrays:
        images = np.concatenate([arrays["x_train"], arrays["x_test"]])[:, np.newaxis]
        labels = np.concatenate([arrays["y_train"], arrays["y_test"]])
        trained = len(arrays["x_train"])
    return Dataset(
        name=name,
        raw=images,
        columns=(Column("image", "pixels"),),
        y=labels.astype(np.int64),
        task=Task(kind="multiclass", classes=classes, label="class"),
        test=np.arange(trained, len(images)),
    )

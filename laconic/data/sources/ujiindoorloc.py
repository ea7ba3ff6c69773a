"""UJIIndoorLoc: where in three buildings a phone is that hears certain wireless stations.

The figures published for FedOnce predict the time stamp, with position, floor and building among the columns. Here the
columns are the 520 signals alone and the target is the position, or the floor.
"""

import numpy as np

from laconic.core.columns import Column
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

_NOT_HEARD = 100
_WEAKEST = -105  # one below the weakest signal heard, in dBm: what is not heard is far away
_NOTE = "both published files together; 520 signals only, 'not heard' (100) as -105 dBm; not the FedOnce paper's target"


def ujiindoorloc() -> Dataset:
    """Phones among 520 wireless stations, 21,048 measurements; target: longitude in metres."""
    raw, columns, y = _measurements("LONGITUDE")
    return _dataset("ujiindoorloc", raw, columns, y, Task(kind="regression", label="longitude"))


def ujiindoorloc_latitude() -> Dataset:
    """Phones among 520 wireless stations, 21,048 measurements; target: latitude in metres."""
    raw, columns, y = _measurements("LATITUDE")
    return _dataset("ujiindoorloc_latitude", raw, columns, y, Task(kind="regression", label="latitude"))


def ujiindoorloc_floor() -> Dataset:
    """Phones among 520 wireless stations, 21,048 measurements; label: one of five floors."""
    raw, columns, y = _measurements("FLOOR")
    task = Task(kind="multiclass", classes=tuple(str(floor) for floor in range(5)), label="floor")
    return _dataset("ujiindoorloc_floor", raw, columns, y.astype(np.int64), task)


def _measurements(target: str) -> tuple[Array, tuple[Column, ...], Array]:
    frame = read_parquet("ujiindoorloc_train.parquet", "ujiindoorloc_validation.parquet")
    stations = [name for name in frame.columns if name.startswith("WAP")]
    heard = frame[stations].to_numpy(dtype=np.float32, copy=True)
    heard[heard == _NOT_HEARD] = _WEAKEST
    return heard, tuple(Column(name) for name in stations), frame[target].to_numpy(dtype=np.float64)


def _dataset(name: str, raw: Array, columns: tuple[Column, ...], y: Array, task: Task) -> Dataset:
    return Dataset(name=name, raw=raw, columns=columns, y=y, task=task, note=_NOTE)

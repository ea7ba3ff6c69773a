"""Covertype: which trees grow on a patch of forest."""

import numpy as np

from laconic.core.task import Task
from laconic.data.coding import code_frame
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

_TREES = ("spruce/fir", "lodgepole pine", "ponderosa pine", "cottonwood/willow", "aspen", "douglas-fir", "krummholz")


def covtype() -> Dataset:
    """Forest patches, 581,012 with 54 columns; label: one of seven kinds of trees."""
    frame = read_parquet("covtype.parquet")
    y = frame.pop("Cover_Type").to_numpy(dtype=np.int64) - 1
    raw, columns = code_frame(frame)
    names = [column.name for column in columns]
    far = tuple(name for name in names if "Distance_To" in name)
    wild = tuple(name for name in names if name.startswith("Wilderness"))
    soil = tuple(name for name in names if name.startswith("Soil"))
    terrain = tuple(name for name in names if name not in {*far, *wild, *soil})
    return Dataset(
        name="covtype",
        raw=raw.astype(np.float32),  # whole numbers below 2**24: exact, at half the memory
        columns=columns,
        y=y,
        task=Task(kind="multiclass", classes=_TREES, label="Cover_Type"),
        groups={"surveyor": terrain, "roads": far, "park": wild, "geologist": soil},
    )


def covtype_binary() -> Dataset:
    """Forest patches as in LIBSVM, 581,012 with 54 columns; label: lodgepole pine or not."""
    every = covtype()
    return Dataset(
        name="covtype_binary",
        raw=every.raw,
        columns=every.columns,
        y=(every.y == 1).astype(np.int64),
        task=Task(kind="binary", classes=("other trees", "lodgepole pine"), label="Cover_Type"),
        groups=every.groups,
    )

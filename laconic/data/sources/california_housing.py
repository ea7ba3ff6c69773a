"""California housing: what a house in a district costs."""

import numpy as np

from laconic.core.task import Task
from laconic.data.coding import code_frame
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

_OWNERS = {
    "land_registry": ("longitude", "latitude", "housing_median_age", "ocean_proximity"),
    "census": ("total_rooms", "total_bedrooms", "population", "households", "median_income"),
}


def california_housing() -> Dataset:
    """Districts of California in 1990, 20,640 with 9 columns; target: median house value."""
    frame = read_parquet("california_housing.parquet")
    y = frame.pop("median_house_value").to_numpy(dtype=np.float64)
    raw, columns = code_frame(frame, {"ocean_proximity"})
    task = Task(kind="regression", label="median_house_value")
    return Dataset(name="california_housing", raw=raw, columns=columns, y=y, task=task, groups=_OWNERS)

"""UCI Phishing Websites: whether a web site is honest."""

import numpy as np

from laconic.core.columns import Column
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.data.coding import code_frame
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

_TASK = Task(kind="binary", classes=("phishing", "legitimate"), label="site")
# How the authors of the set group their 30 attributes, in its order of columns.
_OWNERS = {"browser": 12, "crawler": 6, "page": 5, "registrar": 7}


def phishing() -> Dataset:
    """Web sites, 11,055 with 68 yes-or-no columns as in LIBSVM; label: legitimate."""
    frame = read_parquet("phishing_onehot68.parquet")
    y = frame.pop("label").to_numpy(dtype=np.int64)
    raw, columns = code_frame(frame)
    attributes = list(dict.fromkeys(column.name.split("=")[0] for column in columns))
    return _dataset("phishing", raw, columns, y, attributes)


def phishing_cat30() -> Dataset:
    """Web sites, 11,055 with 30 categories of up to three levels; label: legitimate."""
    frame = read_parquet("phishing_cat30.parquet")
    y = (frame.pop("label") == 1).to_numpy(dtype=np.int64)
    raw, columns = code_frame(frame, set(frame.columns))
    return _dataset("phishing_cat30", raw, columns, y, [column.name for column in columns])


def _dataset(name: str, raw: Array, columns: tuple[Column, ...], y: Array, attributes: list[str]) -> Dataset:
    groups, start = {}, 0
    for owner, count in _OWNERS.items():
        owned = set(attributes[start : start + count])
        groups[owner] = tuple(column.name for column in columns if column.name.split("=")[0] in owned)
        start += count
    return Dataset(name=name, raw=raw, columns=columns, y=y, task=_TASK, groups=groups)

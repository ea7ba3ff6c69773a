"""The UCI Adult census: whether a person earns more than 50,000 dollars a year."""

import numpy as np

from laconic.core.task import Task
from laconic.data.coding import code_frame
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

_TASK = Task(kind="binary", classes=("up to 50K", "over 50K"), label="income")
_TRAINED = 32561
_CATEGORIES = {
    *("workclass", "education", "marital_status", "occupation"),
    *("relationship", "race", "sex", "native_country"),
}
_OWNERS = {
    "employer": ("workclass", "education", "education_num", "occupation", "hours_per_week"),
    "registry": ("age", "marital_status", "relationship", "race", "sex", "native_country"),
    "tax_office": ("capital_gain", "capital_loss", "fnlwgt"),
}


def adult() -> Dataset:
    """People in a census, 48,842 with 14 columns, some cells missing; label: income over 50,000."""
    frame = read_parquet("adult_train.parquet", "adult_test.parquet")
    y = frame.pop("income_gt_50k").to_numpy(dtype=np.int64)
    raw, columns = code_frame(frame, _CATEGORIES)
    test = np.arange(_TRAINED, len(y))
    return Dataset(name="adult", raw=raw, columns=columns, y=y, task=_TASK, test=test, groups=_OWNERS)


def a9a() -> Dataset:
    """The adult census as 123 yes-or-no columns, as in LIBSVM; label: income over 50,000."""
    frame = read_parquet("a9a_train.parquet", "a9a_test.parquet")
    y = frame.pop("label").to_numpy(dtype=np.int64)
    raw, columns = code_frame(frame)
    return Dataset(name="a9a", raw=raw, columns=columns, y=y, task=_TASK, test=np.arange(_TRAINED, len(y)))

"""UCI default of credit card clients: whether they will pay next month."""

import numpy as np

from laconic.core.task import Task
from laconic.data.coding import code_frame
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

_ABOUT = ("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5")
_MONTHS = range(1, 7)


def credit_default() -> Dataset:
    """Credit card clients in Taiwan, 30,000 with 23 columns; label: default next month."""
    frame = read_parquet("credit_default.parquet")
    y = frame.pop("default_payment_next_month").to_numpy(dtype=np.int64)
    ids = frame.pop("ID").to_numpy(dtype=np.int64)
    raw, columns = code_frame(frame, {"SEX", "EDUCATION", "MARRIAGE"})
    # The public two-party division of this set: the label holder has 13 columns, the other party 10.
    accounts = ("PAY_6", *(f"BILL_AMT{i}" for i in _MONTHS), *(f"PAY_AMT{i}" for i in _MONTHS))
    return Dataset(
        name="credit_default",
        raw=raw,
        columns=columns,
        y=y,
        task=Task(kind="binary", classes=("pays", "defaults"), label="default_payment_next_month"),
        ids=ids,
        groups={"bank": accounts, "bureau": _ABOUT},
    )

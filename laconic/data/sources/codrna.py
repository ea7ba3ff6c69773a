"""cod-rna: whether a pair of sequences holds non-coding RNA."""

import numpy as np

from laconic.core.task import Task
from laconic.data.coding import code_frame
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

_TRAINED = 59535


def codrna() -> Dataset:
    """RNA sequences, 331,152 with 8 columns as in LIBSVM; label: non-coding."""
    frame = read_parquet("codrna_train.parquet", "codrna_test.parquet")
    y = frame.pop("label").to_numpy(dtype=np.int64)
    raw, columns = code_frame(frame)
    return Dataset(
        name="codrna",
        raw=raw,
        columns=columns,
        y=y,
        task=Task(kind="binary", classes=("other", "non-coding"), label="rna"),
        test=np.arange(_TRAINED, len(y)),
    )

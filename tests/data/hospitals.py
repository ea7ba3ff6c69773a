"""Three hospitals with other patients and the same columns, made of scikit-learn's breast_cancer."""

from functools import cache

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

NAMES = ("north", "south", "west")


@cache
def _all() -> pd.DataFrame:
    bunch = load_breast_cancer(as_frame=True)
    frame = bunch.data.iloc[:, :6].set_axis([f"size{at}" for at in range(6)], axis=1)
    frame["ward"] = np.array(["A", "B", "C"])[np.arange(len(frame)) % 3]
    frame["diagnosis"] = bunch.target.map({0: "malignant", 1: "benign"})
    frame.insert(0, "patient", [f"p{at}" for at in range(len(frame))])
    return frame


def hospitals(rows: int = 100) -> dict[str, pd.DataFrame]:
    """So many patients at each hospital; whoever changes a frame changes a copy."""
    return {name: _all().iloc[at * rows : (at + 1) * rows].copy() for at, name in enumerate(NAMES)}


def visits(rows: int = 100) -> dict[str, pd.DataFrame]:
    """The same hospitals with a count to predict in place of the diagnosis, in another range at each."""
    found = {}
    for at, (name, frame) in enumerate(hospitals(rows).items()):
        counts = np.random.default_rng(at).poisson(3 * frame["size0"] + 20 * at)
        found[name] = frame.assign(diagnosis=counts)
    return found


def open_rows(rows: int = 80) -> pd.DataFrame:
    """Rows that no hospital has, without labels."""
    return _all().iloc[-rows:].drop(columns="diagnosis")


def write(folder, frames: dict[str, pd.DataFrame]) -> list[str]:
    """A CSV file for each hospital."""
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return [str(folder / f"{name}.csv") for name in frames]

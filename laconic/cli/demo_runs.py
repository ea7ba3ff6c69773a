"""The demo: three organisations that know different things about the same people, and two files to go on with."""

import os
import shlex
import sys
from pathlib import Path
from shutil import which

import numpy as np
import pandas

from laconic.core.method import Method
from laconic.data.datasets import load
from laconic.data.partition.columns import Groups, deal
from laconic.deploy.execute import simulate
from laconic.deploy.result import Result
from laconic.methods.baselines.centralised import Centralised
from laconic.methods.baselines.solo import Solo
from laconic.methods.vertical.fedonce import FedOnce
from laconic.methods.vertical.splitnn import SplitNN
from laconic.values import Listener

INTRODUCTION = (
    "A bank, a shop and an insurer know different things about the same 569 people, and only the bank knows what is to "
    "be predicted. (The rows are the breast cancer data that comes with scikit-learn, ten columns to each: the bank "
    "has the standard errors, the shop the means, the insurer the worst values.)"
)
READING_HELP = (
    "Scores are on held-out rows; 1 is perfect. Bytes and rounds are what fitting sent, and how often the bank had to "
    "wait for the others: FedOnce waits once, SplitNN at every batch. Pooling sends each raw column, which is what the "
    "three will not or may not do. FedOnce sends a few numbers per row, by default some columns by rank beside sums of "
    "columns (sums alone with `--encoder Pca`). `laconic run` lists what leaves each party, in words."
)

_OWNERS = {"bank": "error", "shop": "mean", "insurer": "worst"}
_SEED = 0
_ROWS_A_FILE = 480


def run_demo(listener: Listener | None = None) -> dict[str, Result]:
    """The four runs, by who learns from what."""
    dataset = load("breast_cancer")
    names = [column.name for column in dataset.columns]
    groups = {party: tuple(name for name in names if word in name) for party, word in _OWNERS.items()}
    federation = deal(dataset, Groups(groups=groups), seed=_SEED, test=0.2)
    runs: dict[str, Method] = {
        "bank alone": Solo(),
        "one exchange": FedOnce(),
        "every batch": SplitNN(),
        "all pooled": Centralised(),
    }
    return {name: simulate(method, federation, seed=_SEED, listener=listener) for name, method in runs.items()}


def write_files(folder: Path) -> str:
    """Write two files whose people overlap in part and are in different orders; gives the command that runs them.

    Two more in the folder `next` are of people whom the bank did not know yet, without labels.
    """
    dataset = load("breast_cancer")
    rng = np.random.default_rng(_SEED)
    (folder / "next").mkdir(parents=True, exist_ok=True)
    people = pandas.Index([f"c{row:04d}" for row in range(dataset.rows)], name="customer")
    cells = pandas.DataFrame(dataset.raw, index=people, columns=[column.name for column in dataset.columns])
    half = len(dataset.columns) // 2
    labels = [dataset.task.classes[code] for code in dataset.y]
    bank, shop = folder / "bank.csv", folder / "shop.csv"
    known, also = (rng.permutation(dataset.rows)[:_ROWS_A_FILE] for _ in (bank, shop))
    new = np.setdiff1d(np.arange(dataset.rows), known)
    for path, frame in (
        (bank, cells.iloc[known, :half].assign(**{dataset.task.label: [labels[row] for row in known]})),
        (shop, cells.iloc[also, half:]),
        (folder / "next" / "bank.csv", cells.iloc[new, :half]),
        (folder / "next" / "shop.csv", cells.iloc[new, half:]),
    ):
        frame.to_csv(path, float_format="%.6g", lineterminator="\r\n")
    columns = ["--id", "customer", "--label", dataset.task.label]
    return shlex.join([*_program(), "run", "FedOnce", "--files", str(bank), str(shop), *columns])


def _program() -> list[str]:
    """What to type for `laconic`: its name where the shell finds it, else the way it was started."""
    started = Path(sys.argv[0])
    if which("laconic"):
        return ["laconic"]
    return [os.path.relpath(started)] if started.name == "laconic" else [sys.executable, "-m", "laconic"]

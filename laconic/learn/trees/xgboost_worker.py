"""A process of its own for XGBoost's federated mode: the server that joins workers, or one party's worker.

    python -m laconic.learn.trees.xgboost_worker server FOLDER
    python -m laconic.learn.trees.xgboost_worker train FOLDER

Either finds its orders in FOLDER/orders.json; a worker also finds FOLDER/rows.npy and, at the label holder,
FOLDER/labels.npy, and leaves FOLDER/model.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def serve(orders: dict[str, Any]) -> None:
    """Join workers until all are done."""
    from xgboost.federated import run_federated_server

    run_federated_server(orders["world"], orders["port"], timeout=orders["timeout"], **orders["tls"])


def train(orders: dict[str, Any], folder: Path) -> None:
    """Grow trees together with the other workers."""
    import xgboost

    labels = np.load(folder / "labels.npy") if (folder / "labels.npy").exists() else None
    with xgboost.collective.CommunicatorContext(dmlc_communicator="federated", **orders["link"]):
        columns = xgboost.core.DataSplitMode.COL
        rows = xgboost.DMatrix(np.load(folder / "rows.npy"), label=labels, data_split_mode=columns, nthread=1)
        booster = xgboost.train(orders["wanted"], rows, orders["rounds"])
    (folder / "model.json").write_bytes(bytes(booster.save_raw("json")))


def main() -> None:
    """Do what the orders say."""
    folder = Path(sys.argv[2])
    orders = json.loads((folder / "orders.json").read_text(encoding="utf-8"))
    if sys.argv[1] == "server":
        serve(orders)
    else:
        train(orders, folder)


if __name__ == "__main__":
    main()

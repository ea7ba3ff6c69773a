"""From two tables to a saved model and new predictions: `python -m examples.own_tables FOLDER`.

A bank and a shop know different things about the same customers. The rows are made up, from a seed.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from laconic import FedOnce, federation, fit, load_model


def month(first: int, count: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Customers of one month as the bank and as the shop know them."""
    age, spent = rng.integers(18, 90, count), rng.gamma(2.0, 50.0, count).round(2)
    left = age / 30 - spent / 60 + rng.normal(0, 0.7, count) > 0.3
    ids = np.arange(first, first + count)
    bank = pd.DataFrame({"customer": ids, "age": age, "churned": np.where(left, "yes", "no")})
    return bank, pd.DataFrame({"customer": ids, "spent": spent, "visits": rng.poisson(3, count)})


def main(folder: Path) -> float:
    """Train, save, predict next month's customers, and return the share that was right."""
    rng = np.random.default_rng(0)
    bank, shop = month(0, 600, rng)
    model = fit(FedOnce(), federation({"bank": bank, "shop": shop}, id="customer", label="churned"))
    model.save(folder / "churn")
    new_bank, new_shop = month(10_000, 100, rng)
    scores = load_model(folder / "churn").predict({"bank": new_bank.drop(columns="churned"), "shop": new_shop})
    right = float(np.mean(np.array(scores.decisions) == new_bank["churned"].to_numpy()))
    print(f"{model.score()} on held-out rows; {right:.0%} of new customers right")
    return right


if __name__ == "__main__":
    main(Path(sys.argv[1]))

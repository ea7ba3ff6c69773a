"""Which rows are for training, for validation and for testing."""

import numpy as np

from laconic.core.values import Array, Rng


def split(
    rows: int, rng: Rng, test: float = 0.1, valid: float = 0.1, fixed_test: Array | None = None
) -> dict[str, Array]:
    """Part rows at random into "train", "valid" and "test", each in rising order.

    Args:
        rows: how many there are.
        rng: chance.
        test: share of all rows to test on; not used with `fixed_test`.
        valid: share of the remaining rows to validate on; 0 for none.
        fixed_test: rows of an official test set; None to draw them.

    Raises:
        ValueError: a share is not in [0, 1), or too few rows are left to train on.
    """
    if not (0 <= test < 1 and 0 <= valid < 1):
        raise ValueError(f"shares of rows must be at least 0 and below 1, not test={test} and valid={valid}")
    order = rng.permutation(rows)
    tested = order[: round(rows * test)] if fixed_test is None else np.asarray(fixed_test)
    rest = order[~np.isin(order, tested)]
    validated, trained = np.split(rest, [round(len(rest) * valid)])
    if len(trained) < 2:
        raise ValueError(f"{len(trained)} of {rows} rows are left to train on; lower test={test} or valid={valid}")
    return {"train": np.sort(trained), "valid": np.sort(validated), "test": np.sort(tested)}

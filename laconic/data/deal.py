"""A federation made from one public data set: columns dealt by a cut, labels to the hub, rows shared or not."""

import numpy as np

from laconic.core.table import Table
from laconic.core.values import Array, Rng
from laconic.data.dataset import Dataset
from laconic.data.federation import Federation
from laconic.data.splits import split
from laconic.data.vertical import Cut

LABEL_HOLDER = "label_holder"
"""What a party is called that has the labels and no columns."""


def deal(
    dataset: Dataset,
    cut: Cut,
    *,
    hub: int | None = 0,
    overlap: float | None = None,
    seed: int = 0,
    test: float = 0.1,
    valid: float = 0.1,
) -> Federation:
    """Deal a data set among parties, with the labels at one of them.

    Rows are parted into test, valid and training rows as `split` does; the parting depends on the seed alone, so every
    cut of a set is scored on the same rows. All parties have all test and valid rows. Of the training rows, `overlap`
    are shared: every party has them, and they are the cut "train"; all rows that every party has are the cut "shared".
    Each of the others is given to one party with columns, as equally many to each as can be, and is in that party's cut
    "own": no other party has it, and the hub has no label for it. Rows shared by all come first in every table and in
    the same order; the own rows follow. So cuts "train", "shared", "valid" and "test" are the same positions
    everywhere; "own" is not.

    Args:
        dataset: what to deal.
        cut: how to deal its columns.
        hub: which party, counting from 0, has the labels; None for one more party that has nothing else.
        overlap: how many training rows are shared, or which share of them if below 1; None for all.
        seed: for all chance.
        test: share of rows to test on; an official test set is used instead where there is one.
        valid: share of the other rows to validate on.

    Raises:
        ValueError: the cut does not fit the data set, or more rows are to be shared than there are.
    """
    for_rows, for_columns, for_overlap = np.random.default_rng(seed).spawn(3)
    cuts = split(dataset.rows, for_rows, test, valid, dataset.test)
    pieces = cut.pieces(dataset, for_columns)
    if hub is None:
        hub, pieces = 0, {LABEL_HOLDER: ((), np.empty((dataset.rows, 0)))} | pieces
    if not 0 <= hub < len(pieces):
        raise ValueError(f"hub must be one of the parties 0 to {len(pieces) - 1}, not {hub}")
    shared = _shared_rows(cuts["train"], overlap, for_overlap)
    own = _own_rows(cuts["train"], shared, [bool(columns) for columns, _ in pieces.values()], for_overlap)
    cuts = {"train": shared, "valid": cuts["valid"], "test": cuts["test"]}
    tables = {}
    for i, (party, (columns, cells)) in enumerate(pieces.items()):
        rows, table_cuts = _rows_of(cuts, own[i])
        tables[party] = Table(
            cells[rows],
            columns,
            ids=dataset.keys()[rows],
            y=_labels(dataset, rows, table_cuts["own"]) if i == hub else None,
            task=dataset.task if i == hub else None,
            cuts=table_cuts,
            party=party,
        )
    facts = _facts(dataset, tables, seed)
    return Federation(name=dataset.name, tables=tables, hub=list(tables)[hub], aligned=True, facts=facts)


def _shared_rows(train: Array, overlap: float | None, rng: Rng) -> Array:
    if overlap is None:
        return train
    count = round(overlap * len(train)) if 0 < overlap < 1 else int(overlap)
    if not 2 <= count <= len(train):
        raise ValueError(
            f"overlap={overlap} asks for {count} shared training rows; it must be 2 to {len(train)}, "
            "or a share between 0 and 1"
        )
    return np.sort(rng.permutation(train)[:count])


def _own_rows(train: Array, shared: Array, has_columns: list[bool], rng: Rng) -> list[Array]:
    """Each party's own rows; a party without columns would know nothing of any, and gets none."""
    rest = rng.permutation(train[~np.isin(train, shared)])
    parts = iter(np.array_split(rest, sum(has_columns)))
    return [np.sort(next(parts)) if holds else rest[:0] for holds in has_columns]


def _rows_of(cuts: dict[str, Array], own: Array) -> tuple[Array, dict[str, Array]]:
    """The data set's rows that a party has, and its cuts as positions among them."""
    everyone = np.sort(np.concatenate([cuts["train"], cuts["valid"], cuts["test"]]))
    there = {name: np.searchsorted(everyone, rows) for name, rows in cuts.items()}
    there["shared"] = np.arange(len(everyone))
    there["own"] = len(everyone) + np.arange(len(own))
    return np.concatenate([everyone, own]), there


def _labels(dataset: Dataset, rows: Array, own: Array) -> Array:
    y = dataset.y[rows]
    y[own] = np.nan if dataset.task.kind == "regression" else -1
    return y


def _facts(dataset: Dataset, tables: dict[str, Table], seed: int) -> dict[str, object]:
    first = next(iter(tables.values()))
    return {
        "source": dataset.name,
        "note": dataset.note,
        "seed": seed,
        "rows": {name: len(first.cuts[name]) for name in ("train", "valid", "test")},
        "own": {party: len(table.cuts["own"]) for party, table in tables.items()},
        "columns": {party: len(table.columns) for party, table in tables.items()},
    }

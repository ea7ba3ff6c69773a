"""Federations as in the RAP paper: columns permuted and dealt in turn, labels at a party that has nothing else."""

from functools import lru_cache

import numpy as np

from laconic import Federation, deal, load
from laconic.data import Dataset, Groups, party_names
from laconic.tables import Table
from laconic.values import Array

HOLDER = "label_owner"


@lru_cache(maxsize=1)
def dataset(name: str, rows: int | None) -> Dataset:
    """A data set whole, or so many of its rows, drawn once."""
    whole = load(name)
    if rows is None or rows >= whole.rows:
        return whole
    some = np.sort(np.random.default_rng(0).permutation(whole.rows)[:rows])
    return Dataset(name=name, raw=whole.raw[some], columns=whole.columns, y=whole.y[some], task=whole.task)


@lru_cache(maxsize=1)
def federation(name: str, parties: int, seed: int, rows: int | None = None, singles: int = 0) -> Federation:
    """Feature parties and a label owner; 70 % of rows to train on, 10 % to validate, 20 % to test.

    Args:
        parties: how many hold columns.
        singles: how many of those hold one column only.
    """
    whole = dataset(name, rows)
    names = [column.name for column in np.random.default_rng([seed, 1]).permutation(np.array(whole.columns, object))]
    shares: list[list[str]] = [[names.pop()] for _ in range(singles)]
    shares += [names[place :: parties - singles] for place in range(parties - singles)]
    groups = {party: tuple(share) for party, share in zip(party_names(parties), shares, strict=True)}
    dealt = deal(whole, Groups(groups=groups), seed=seed, test=0.2, valid=0.125)
    return with_label_owner(dealt)


def with_label_owner(dealt: Federation) -> Federation:
    """The same federation, with the labels moved to a party of their own."""
    old = dealt.tables[dealt.hub]
    tables = {name: Table(t.raw, t.columns, cuts=t.cuts, party=name) for name, t in dealt.tables.items()}
    tables[HOLDER] = Table(np.empty((old.rows, 0)), (), y=old.y, task=old.task, cuts=old.cuts, party=HOLDER)
    for table in tables.values():
        _ = table.x  # prepared now, so that no method's time has it
    return Federation(name=dealt.name, tables=tables, hub=HOLDER, aligned=True, facts=dealt.facts)


def alone(whole: Federation, party: str) -> Federation:
    """One party that was given the labels, and nobody else: what `Single` assumes and no party could do."""
    table, labels = whole.tables[party], whole.tables[HOLDER]
    given = Table(table.raw, table.columns, y=labels.y, task=labels.task, cuts=table.cuts, party=party)
    return Federation(name=whole.name, tables={party: given}, hub=party, aligned=True)


def pooled(whole: Federation, rows: str) -> Array:
    """Everybody's prepared columns side by side."""
    return np.hstack([table.part(rows)[0] for name, table in whole.tables.items() if name != HOLDER])

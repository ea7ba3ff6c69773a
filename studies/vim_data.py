"""The federations of the VIM study: images in bands and patches, tables with owners of their own."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from laconic import Equal, Federation, deal, disturb, load
from laconic.data import Dataset, Groups, Patches, Rows
from laconic.values import Array

_TEST = 0.1
_VALID = 0.1


@lru_cache(maxsize=2)
def bands(name: str, rows: int, seed: int) -> Federation:
    """A set of 28 x 28 images in 14 bands of two rows, labels at a hub without columns."""
    return deal(_some(name, rows, 10_000), Rows(parties=14), hub=None, seed=seed, test=_TEST, valid=_VALID)


def noisy_bands(name: str, rows: int, seed: int) -> Federation:
    """The same with noise on the seventh band; three times its spread is about the paper's 1, of shades from 0 to 1."""
    federation = bands(name, rows, seed)
    return disturb(federation, federation.peers[6], 3.0, seed=seed)


@lru_cache(maxsize=1)
def patches(rows: int) -> Federation:
    """CIFAR-10 in nine patches, labels at a hub without columns, tested on 2,500 of its test images."""
    return deal(_some("cifar10", rows, 2_500), Patches(), hub=None, test=_TEST, valid=_VALID)


@lru_cache(maxsize=4)
def tables(name: str, rows: int, seed: int = 0) -> Federation:
    """A table by its natural owners, the first of which holds the labels too; phishing is dealt to eight parties."""
    dataset = _some(name, rows, 10_000)
    if name == "phishing":  # Its four owners are too few to rank.
        return deal(dataset, Equal(parties=8), hub=None, seed=seed, test=_TEST, valid=_VALID)
    return deal(dataset, Groups(), seed=seed, test=_TEST, valid=_VALID)


def _some(name: str, train: int, test: int) -> Dataset:
    """At most so many training rows, with their share of validation rows, and test rows; fewer of these in quick runs.

    Rows that are not needed are left out before anything is dealt.
    """
    dataset = _first(load(name))
    test = min(test, train)
    rng = np.random.default_rng(0)
    order = rng.permutation(dataset.rows)
    official = np.isin(order, dataset.test) if dataset.test is not None else np.arange(dataset.rows) < dataset.rows // 5
    tested, rest = order[official][:test], order[~official]
    kept = _together(rest[: round(train / (1 - _VALID))], tested)
    return replace(
        dataset,
        raw=dataset.raw[kept],
        y=dataset.y[kept],
        ids=None if dataset.ids is None else dataset.ids[kept],
        test=np.flatnonzero(np.isin(kept, tested)),
    )


def _first(dataset: Dataset) -> Dataset:
    """Of CIFAR-10 the first 20,000 training images: the study was made with these."""
    if dataset.name != "cifar10" or dataset.test is None:
        return dataset
    kept = np.concatenate([np.arange(20_000), dataset.test])
    return replace(dataset, raw=dataset.raw[kept], y=dataset.y[kept], test=np.arange(20_000, len(kept)))


def _together(*rows: Array) -> Array:
    return np.sort(np.concatenate(rows))

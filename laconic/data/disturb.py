"""Noise on one party's cells: what a broken sensor, or a party that makes its rows up, would hand in."""

from collections.abc import Sequence

import numpy as np

from laconic.core.table import Table
from laconic.core.values import Array, Rng
from laconic.data.federation import Federation


def disturb(
    federation: Federation, party: str, sd: float, *, cuts: Sequence[str] = ("train", "valid", "test"), seed: int = 0
) -> Federation:
    """The same federation with noise on all cells of one party in the cuts named, drawn once for each row.

    Args:
        federation: left as it is.
        party: whose cells.
        sd: standard deviation of the noise in units of the spread among the party's training rows: of a numeric column,
            or of all shades of its images, which stay within their range. Of categories, the share that is exchanged
            for other rows' cells.
        cuts: which rows.
        seed: for all chance.
    """
    if party not in federation.tables:
        raise ValueError(f"there is no party {party!r}; the parties are {', '.join(federation.tables)}")
    if sd < 0:
        raise ValueError(f"sd must be 0 or more, not {sd}")
    table, rng = federation.tables[party], np.random.default_rng(seed)
    raw = table.raw.copy()
    for cut in cuts:
        at = table.cut(cut)
        raw[at] = _noisy_images(table, raw[at], sd, rng) if raw.ndim == 4 else _noisy_columns(table, raw[at], sd, rng)
    tables = federation.tables | {party: _with_raw(table, raw)}
    facts = federation.facts | {"disturbed": {"party": party, "sd": sd, "cuts": list(cuts)}}
    return Federation(
        name=federation.name,
        tables=tables,
        hub=federation.hub,
        aligned=federation.aligned,
        kind=federation.kind,
        facts=facts,
    )


def _noisy_images(table: Table, images: Array, sd: float, rng: Rng) -> Array:
    spread = float(np.std(table.raw[table.cut("train")], dtype=np.float64))
    noise = rng.standard_normal(images.shape, dtype=np.float32) * np.float32(sd * spread)
    noisy: Array = np.clip(np.rint(images + noise), 0, 255).astype(np.uint8)
    return noisy


def _noisy_columns(table: Table, cells: Array, sd: float, rng: Rng) -> Array:
    found = cells.copy()
    spreads = np.nanstd(table.raw[table.cut("train")], axis=0)
    for place, column in enumerate(table.columns):
        if column.kind == "numeric":
            found[:, place] += rng.normal(0.0, sd * spreads[place] + 1e-300, len(cells))
        else:
            strange = rng.random(len(cells)) < sd
            found[strange, place] = rng.permutation(cells[:, place])[strange]
    return found


def _with_raw(table: Table, raw: Array) -> Table:
    return Table(raw, table.columns, ids=table.ids, y=table.y, task=table.task, cuts=table.cuts, party=table.party)

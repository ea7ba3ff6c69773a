"""What a party sends of its columns when all of them are mixed by a secret matrix of its own."""

from typing import Literal, TypeAlias

import numpy as np

from laconic.core.party import Party
from laconic.core.values import Array, Rng
from laconic.learn.rap.columns import draw_secret, project
from laconic.learn.rap.matrices import AnyMatrix

Secrets: TypeAlias = Literal["seed", "system"]
"""Where secrets come from: the party's seed, so that a run can be repeated, or the operating system.

Whoever knows the seed can draw the same secrets. A simulation's is no secret; a party that sits apart has its own.
"""

GIVES = (
    "its columns of the rows asked for, mixed by one secret matrix: distances between rows are kept, as many known "
    "rows as columns undo it for all rows, and statistics alone undo much of it"
)
"""What a data owner has to know of such a release."""


def projected(party: Party, rows: str, matrix: AnyMatrix, secrets: Secrets) -> Array:
    """The rows of a cut, mixed; the secret is drawn once, as a second matrix on the same rows would give more away."""
    if "projection" not in party.memory:
        table = party.data
        party.memory["projection"] = draw_secret(table.x, table.cut("train"), matrix, chance(party, secrets))
    return project(party.memory["projection"], party.data.x, party.data.cut(rows))


def chance(party: Party, secrets: Secrets) -> Rng:
    """The chance that secrets are drawn from."""
    return party.rng if secrets == "seed" else np.random.default_rng()

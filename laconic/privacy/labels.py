"""Randomised response: labels told with a lie now and then, so that no single one can be held against anybody.

Warner: Randomized Response (1965). It is drawn once; whatever is worked out from the told labels afterwards, however
often that is sent, gives nothing more away (post-processing).
"""

from functools import partial
from math import exp, inf
from typing import TypeVar

import numpy as np

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.core.values import Array, Settings
from laconic.privacy.accountants import PURE
from laconic.privacy.chance import SeededChance, secret_uniform

T = TypeVar("T")

_CAVEAT = (
    "covers the class of each row in what is sent while fitting, worked out from labels randomised once; not which "
    "rows are shared, not how many classes there are, not columns, and not predictions if they are shown to anyone"
)


class RandomisedResponse(Settings, frozen=True):
    """Pure label differential privacy: each label is told as it is, or now and then as another class.

    Attributes:
        epsilon: no told label is more than e^epsilon times as likely under one true class as under another.
        seeded: draw from the run's seed, so that a study can be repeated: then whoever knows the seed can undo it, and
            the ledger says so. Otherwise chance comes from the party's secret, which a hub keeps with its journal: a
            run that is taken up again tells the same lies.
    """

    epsilon: float
    seeded: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no privacy statement."""
        if not 0 < self.epsilon < inf:
            raise ValueError(f"epsilon must be above 0 and finite, not {self.epsilon}; leave labels out for no lies")

    def truth(self, classes: int) -> float:
        """The chance that a label is told as it is."""
        return 1.0 / (1.0 + (classes - 1) * exp(-self.epsilon))

    def randomise(self, codes: Array, classes: int, party: Party) -> Array:
        """The party's labels as told: class codes from 0 in, class codes out."""
        uniform = SeededChance(party.rng).uniform if self.seeded else partial(secret_uniform, party)
        lies = uniform(len(codes)) > self.truth(classes)
        # A lie is any other class: one to classes - 1 places on.
        steps = np.ceil(uniform(len(codes)) * (classes - 1)).astype(np.int64)
        return np.where(lies, (codes + steps) % classes, codes)

    def cover(self, value: T) -> Noised[T]:
        """A value worked out from told labels alone, marked so for the ledger."""
        words = Noise(
            mechanism=PURE,
            scale=1 / self.epsilon,
            sensitivity=1.0,
            unit="one label",
            caveat=_CAVEAT,
            secure=not self.seeded,
            once=True,
        )
        return Noised(value, words)

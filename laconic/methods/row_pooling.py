"""Pooling rows: every party hands over its rows and labels. What federation is there to avoid, as a yardstick."""

from typing import ClassVar, Literal

import numpy as np

from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import step
from laconic.core.values import Array
from laconic.methods.rows import labelled


class RowPooling(Method, frozen=True):
    """Abstract: a method whose server has everybody's rows."""

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    @property
    def rounds(self) -> int:
        """All rows come in one exchange."""
        return 1

    @step(takes=None, gives="all its raw columns and all its labels")
    def give_rows(self, party: Party) -> dict[str, Array]:
        """The party's prepared training rows and their labels."""
        x, y = labelled(party, "train")
        return {"x": x, "y": y}

    def pool(self, peers: Peers) -> tuple[Array, Array]:
        """Everybody's rows below each other, and their labels."""
        answers = list(peers.ask(self.give_rows).values())
        x, y = (np.concatenate([answer[part] for answer in answers]) for part in ("x", "y"))
        return x, y

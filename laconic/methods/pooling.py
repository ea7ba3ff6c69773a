"""Pooling: every party hands over its columns. What federated learning is there to avoid, as a yardstick."""

from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import step
from laconic.core.values import Array
from laconic.methods.rows import side_by_side


class Pooling(Method, frozen=True):
    """Abstract: a method whose hub has everybody's columns."""

    @property
    def rounds(self) -> int:
        """All columns come in one exchange."""
        return 1

    @step(takes=None, gives="all its raw columns of the rows asked for")
    def give_columns(self, party: Party, rows: str) -> dict[str, Array]:
        """The party's prepared columns, for each of the cuts named, as `train+valid`."""
        return {cut: party.data.part(cut)[0] for cut in rows.split("+")}

    def pool(self, hub: Party, peers: Peers, rows: str) -> dict[str, Array]:
        """Everybody's columns side by side, for each of the cuts named."""
        own = [self.give_columns(hub, rows)] if hub.data.columns else []
        blocks = [*own, *peers.ask(self.give_columns, rows=rows).values()]
        return {cut: side_by_side([block[cut] for block in blocks]) for cut in rows.split("+")}

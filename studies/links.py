"""A model of the network, to say what traffic counted in one process would cost in time between places.

Every round costs the link's round trip once, since the hub waits for all parties at the same time; every byte goes
through the hub's own connection, which all parties share. Nothing overlaps with computing.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A connection of the hub.

    Attributes:
        name: for tables.
        bytes_per_second: what the hub's connection carries, both directions together.
        round_trip: seconds from a question's last byte to its answer's first.
    """

    name: str
    bytes_per_second: float
    round_trip: float

    def seconds(self, rounds: float, traffic: float) -> float:
        """What so many rounds with so many bytes in all take."""
        return rounds * self.round_trip + traffic / self.bytes_per_second


ETHERNET = Link("10 GB/s Ethernet", 10e9, 1e-4)
"""The paper's cluster; its round trip is not stated, 0.1 ms is usual for such a network."""

WIDE_AREA = Link("100 Mbit/s, 20 ms", 100e6 / 8, 0.02)
"""Two sites of different organisations."""

"""SplitNN: every party has the first layers of one net, the label holder the last, and they learn together.

Vepakomma, Gupta, Swedish, Raskar: Split learning for health (2018). Each batch crosses the wire twice, so it learns as
well as pooled data and costs bytes by the epoch.
"""

from laconic.methods.families.split import SplitNet


class SplitNN(SplitNet, frozen=True):
    """One net split over all parties, trained batch by batch; its settings are those of `SplitNet`."""

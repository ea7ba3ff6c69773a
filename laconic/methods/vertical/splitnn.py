"""SplitNN: every party has the first layers of one net, the label holder the last, and they learn together.

Vepakomma, Gupta, Swedish, Raskar: Split learning for health (2018). Each batch crosses the wire twice, so it learns as
well as pooled data and costs bytes by the epoch.
"""

from laconic.methods.families.split import SplitNet


class SplitNN(SplitNet, frozen=True):
    """One net split over all parties, trained batch by batch.

    Attributes:
        net: each party's net; None takes one that suits its data.
        width: how many numbers each party's net puts out for a row.
        head: the label holder's own net and head; None takes one that suits its data.
        trainer: how all are trained; with patience, outputs for the validation rows are sent each epoch too.
        precision: how exactly outputs and gradients are sent.
    """

"""FedBCD: split learning in which everybody takes several steps on each batch before the next one crosses.

Liu, Kang, Zhang, Li, Cheng, Chen, Hong, Yang: A Communication Efficient Collaborative Learning Framework for
Distributed Features (2019), the parallel variant: parties go on with the gradients they last received, the label holder
with the outputs it last received. Both grow stale, so fewer batches cross and each is worth a little less.
"""

from laconic.methods.families.split import SplitNet


class FedBCD(SplitNet, frozen=True):
    """Split learning with several local steps a batch.

    Attributes:
        local_steps: steps that everybody takes on one batch (Q); 1 is SplitNN.
        net: each party's net; None takes one that suits its data.
        width: how many numbers each party's net puts out for a row.
        head: the label holder's own net and head; None takes one that suits its data.
        trainer: how all are trained; with patience, outputs for the validation rows are sent each epoch too.
        precision: how exactly outputs and gradients are sent.
    """

    local_steps: int = 5

    def __post_init__(self) -> None:
        """Refuse fewer than one step."""
        super().__post_init__()
        if self.local_steps < 1:
            raise ValueError(f"local_steps must be 1 or more, not {self.local_steps}; 1 is SplitNN")

    @property
    def repeats(self) -> int:
        """Q steps on each batch."""
        return self.local_steps

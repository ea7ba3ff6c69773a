"""FedBCD: split learning in which everybody takes several steps on each batch before the next one crosses.

Liu, Kang, Zhang, Li, Cheng, Chen, Hong, Yang: A Communication Efficient Collaborative Learning Framework for
Distributed Features (2019), the parallel variant: parties go on with the gradients they last received, the label holder
with the outputs it last received. Both grow stale, so fewer batches cross and each is worth a little less.
"""

from laconic.methods.families.split import Split, SplitNet


class FedBCD(SplitNet, frozen=True):
    """Split learning with several local steps per batch; its other settings are those of `SplitNet`.

    Attributes:
        local_steps: steps that everybody takes on one batch (Q); 1 is SplitNN.
    """

    local_steps: int = 5

    def __post_init__(self) -> None:
        """Refuse fewer than one step."""
        super().__post_init__()
        if self.local_steps < 1:
            raise ValueError(f"local_steps must be 1 or more, not {self.local_steps}; 1 is SplitNN")

    @property
    def split(self) -> Split:
        """As in SplitNN, with Q steps on each batch."""
        return super().split._replace(repeats=self.local_steps)

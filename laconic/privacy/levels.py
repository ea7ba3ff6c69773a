"""Who is trusted when models vote, and so where noise is put: FedKT's three levels."""

from typing import NamedTuple, TypeAlias

from laconic.core.ledger import Noise
from laconic.core.values import Array, Rng, Settings
from laconic.privacy.votes import LaplaceVotes, VoteNoise, VotePrice, noisy_winners


class Guard(NamedTuple):
    """The noise on some votes, the delta at which it is priced, and whether it comes from a secure source."""

    noise: VoteNoise
    delta: float
    secure: bool

    def winners(self, counts: Array, rng: Rng) -> Array:
        """The class with the most votes of each row once every count has its noise."""
        return noisy_winners(counts, self.noise, rng, secure=self.secure)

    def price(self, counts: Array, moved: int) -> VotePrice:
        """What these answers cost if one unit moves so many votes."""
        return self.noise.price(counts, moved, self.delta)

    def words(self, answers: int, moved: int, unit: str) -> Noise:
        """The noise as ledgers write it down."""
        return self.noise.words(moved, answers, unit, self.secure)


class L0(Settings, frozen=True):
    """No noise anywhere: the server and whoever gets the final model are trusted."""

    def at_parties(self) -> Guard | None:
        """Parties' votes are as they are."""
        return None

    def at_server(self) -> Guard | None:
        """The server's votes are as they are."""
        return None


class L1(Settings, frozen=True):
    """Noise on the server's votes: the final model may be given to anyone, the server sees bare students.

    What is protected is whether a whole party took part with these rows or with others.

    Attributes:
        noise: what is put on the votes.
        delta: the chance that the loss is greater than epsilon.
        secure: draw noise from the system's secure source, as anyone who claims privacy must; False draws it from the
            run's seed, so that the run can be repeated, and the ledger says that such a run is not private.
    """

    noise: VoteNoise = LaplaceVotes(gamma=0.04)
    delta: float = 1e-5
    secure: bool = False

    def __post_init__(self) -> None:
        """Refuse a delta that is no chance."""
        _check_delta(self.delta)

    def at_parties(self) -> Guard | None:
        """Parties' votes are as they are."""
        return None

    def at_server(self) -> Guard | None:
        """The server's votes are under noise."""
        return Guard(self.noise, self.delta, self.secure)


class L2(Settings, frozen=True):
    """Noise on each party's own votes: not even the server sees a student that one row could have changed much.

    What is protected is each row of a party: its being there instead of another one.

    Attributes:
        noise: what is put on the votes.
        delta: the chance that the loss is greater than epsilon.
        secure: as for `L1`.
    """

    noise: VoteNoise = LaplaceVotes(gamma=0.05)
    delta: float = 1e-5
    secure: bool = False

    def __post_init__(self) -> None:
        """Refuse a delta that is no chance."""
        _check_delta(self.delta)

    def at_parties(self) -> Guard | None:
        """Parties' votes are under noise."""
        return Guard(self.noise, self.delta, self.secure)

    def at_server(self) -> Guard | None:
        """The server's votes need no more noise: they are made from what is already protected."""
        return None


Level: TypeAlias = L0 | L1 | L2


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta is a chance above 0 and below 1, not {delta}")

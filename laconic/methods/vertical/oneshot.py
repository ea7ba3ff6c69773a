"""One-shot VFL: parties that share few rows learn once which class each has, and do the rest with rows of their own.

Sun, Xu, Yang, Nath, Li, Zhao, Xu, Chen, Roth: Communication-Efficient Vertical Federated Learning with Limited
Overlapping Samples (2023). The gradients that come back after the first upload point each class its own way. Parties
cluster them, which gives them the shared rows' labels, and learn from these and their own unlabelled rows.
"""

from collections.abc import Iterator

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening, step
from laconic.learn.models.clustering import cluster
from laconic.methods.families.guided import GRADIENTS, NUMBERS_AND_HEAD, Guided
from laconic.values import Array


class OneShot(Guided, frozen=True):
    """Two uploads and one download; parties learn by themselves in between. Its settings are those of `Guided`."""

    @property
    def rounds(self) -> int | None:
        """What the guide needs, unless asked for more."""
        return self.guide.rounds if self.more is None else None

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Algorithm 1, one-shot."""
        codes, classes = self.released_codes(hub)
        received = self.guide.teach(self, hub, peers, codes, classes)
        self.refuse_nothing(hub, peers, received)
        if hub.data.columns:
            # From true labels: nothing that comes from this is ever sent, as `labels` excludes `more`.
            self.learn_codes(hub, *self.true_codes(hub))
        received = self.sifted(hub, received)
        self.train_head(hub, received)
        yield
        if self.more is not None:
            yield from self.go_on(hub, peers, received)

    def fit_opening(self) -> Opening:
        """What the guide asks."""
        return Opening(self.guide.asks(self), then="ends" if self.more is None else "yields")

    @step(takes=GRADIENTS, gives=NUMBERS_AND_HEAD)
    def learn_from_gradients(self, party: Party, gradients: Array, classes: int) -> dict[str, Array]:
        """Cluster the gradients, learn the clusters as classes, and send the shared rows again."""
        self.learn_codes(party, cluster(gradients, classes, party.rng), classes)
        return self.shared_numbers(party)

    @step(takes="the labels of the shared rows, as whole numbers", gives=NUMBERS_AND_HEAD)
    def learn_from_labels(self, party: Party, labels: Array, classes: int) -> dict[str, Array]:
        """Learn the classes sent, and send the shared rows."""
        self.learn_codes(party, labels, classes)
        return self.shared_numbers(party)

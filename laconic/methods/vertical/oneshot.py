"""One-shot VFL: parties that share few rows are told once what to learn, and do the rest with rows of their own.

Sun, Xu, Yang, Nath, Li, Zhao, Xu, Chen, Roth: Communication-Efficient Vertical Federated Learning with Limited
Overlapping Samples (2023). The gradients that come back after the first upload point each class its own way. Parties
cluster them, which gives them the shared rows' labels, and learn from these and their own unlabelled rows.
"""

from collections.abc import Iterator

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening, step
from laconic.methods.families.guided import GRADIENTS, NUMBERS_AND_HEAD, Guided
from laconic.values import Array


class OneShot(Guided, frozen=True):
    """Two uploads and one download; parties learn by themselves in between.

    Attributes:
        net: each party's extractor, or several; None takes one that suits its data.
        width: how many numbers an extractor puts out for a row.
        local: how a party learns by itself; None takes what suits its data.
        guide: how parties are told what to learn: by gradients, or by the labels themselves.
        labels: lies put on the labels before anything made from them is sent; None tells the truth.
        bins: for regression, how many classes labels are put into while parties learn, about equally many rows in each;
            fewer where labels are tied.
        head: the label holder's model of all parties' numbers: a net; trees, which see its own columns as they are; or
            the parties' own class heads, added up.
        trainer: how that model is trained; with patience, parties send numbers for validation rows too.
        more: go on by split learning over many exchanges, trained like this; None stops here.
        precision: how exactly numbers are sent that the label holder learns from.
    """

    @property
    def rounds(self) -> int | None:
        """What the guide needs, unless asked for more."""
        return self.guide.rounds if self.more is None else None

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Algorithm 1, one-shot."""
        codes, classes = self.told(hub)
        received = self.guide.teach(self, hub, peers, codes, classes)
        self.refuse_nothing(hub, peers, received)
        if hub.data.columns:
            # Not as told: nothing that comes from this is ever sent, and lies go with no further exchange.
            self.learn_codes(hub, *self.known(hub))
        self.train_head(hub, received)
        yield
        if self.more is not None:
            yield from self.go_on(hub, peers, received)

    def fit_opening(self) -> Opening:
        """What the guide asks."""
        return Opening(self.guide.asks(self), then="ends" if self.more is None else "yields")

    @step(takes=GRADIENTS, gives=NUMBERS_AND_HEAD)
    def learn_from_gradients(self, party: Party, gradients: Array, classes: int) -> dict[str, Array]:
        """Read the classes off the gradients, learn, and send the shared rows again."""
        self.learn_codes(party, self.read_off(party, gradients, classes), classes)
        return self.shared_numbers(party)

    @step(takes="the labels of the shared rows, as whole numbers", gives=NUMBERS_AND_HEAD)
    def learn_from_labels(self, party: Party, labels: Array, classes: int) -> dict[str, Array]:
        """Learn the classes told, and send the shared rows."""
        self.learn_codes(party, labels, classes)
        return self.shared_numbers(party)

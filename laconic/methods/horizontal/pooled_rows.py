"""PooledRows: all rows in one place and one model on them, such as XGBoost. What federation should reach."""

from collections.abc import Iterator

from laconic.core.capabilities import Exported
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.learn.models.learners import AnyClassifier, Network
from laconic.learn.models.supervised import fit_models, predict_model
from laconic.methods.families.rows import RowPooling, computes_alone
from laconic.values import Array


class PooledRows(RowPooling, frozen=True):
    """One model on everybody's rows.

    Attributes:
        model: what is learnt.
    """

    model: AnyClassifier = Network()

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Collect all rows and learn from them."""
        hub.memory["model"] = fit_models(self.model, task_of(hub), [self.pool(peers)], hub.rng)[0]
        yield

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """The model, at whoever has it."""
        return computes_alone(party, self.model)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask the model."""
        return predict_model(self.model, task_of(hub), hub.memory["model"], hub.data.part(rows)[0])

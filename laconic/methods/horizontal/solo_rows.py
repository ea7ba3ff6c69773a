"""SoloRows: every party learns from its own rows and nothing is put together. What every federation has to beat."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import numpy as np

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import step
from laconic.learn.models.learners import AnyClassifier, Network
from laconic.learn.models.supervised import check_model, fit_models, predict_model
from laconic.methods.families.rows import labelled
from laconic.values import Array, Weights


class SoloRows(Method, frozen=True):
    """Each party alone, scored as the mean over parties.

    Every party's model is scored on all held-out rows; the score is their mean, and the result has each. Models reach
    the server to be scored, and for nothing else. Parties without rows are left out. Kept as a model, each row is
    predicted by one party's model, in turn.

    Attributes:
        model: what each party learns.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    predicts_from: ClassVar[tuple[str, ...]] = ()

    model: AnyClassifier = Network()

    rounds = 1  # Parties are asked once, to learn.

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Let every party learn alone."""
        peers.ask(self.learn)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Each row as one party's model predicts it, in turn."""
        return self.as_one(self.predict_each(hub, peers, rows))

    def as_one(self, each: Mapping[str, Array], /) -> Array:
        """Some rows from each party's model."""
        predictions = np.zeros_like(next(iter(each.values())))
        # Shuffled the same for every look: rows may be sorted, and then a party would get rows of one kind.
        order = np.random.default_rng(0).permutation(len(predictions))
        for own, some in zip(each.values(), np.array_split(order, len(each)), strict=True):
            predictions[some] = own[some]
        return predictions

    def predict_each(self, hub: Party, peers: Peers, rows: str, /) -> dict[str, Array]:
        """Collect the models, and let each predict all rows."""
        task, x = task_of(hub), hub.data.part(rows)[0]
        models = {
            name: check_model(self.model, task, answer, hub.data.shape, name)
            for name, answer in peers.ask(self.give_model).items()
            if answer
        }
        if not models:
            raise ValueError("no party has any rows to learn from; deal the rows anew")
        return {name: np.asarray(predict_model(self.model, task, model, x)) for name, model in models.items()}

    @step(takes=None, gives=None)
    def learn(self, party: Party) -> None:
        """Learn from this party's own rows, if it has any."""
        models = fit_models(self.model, task_of(party), [labelled(party, "train")], party.rng)
        party.memory["model"] = models[0] if models else {}

    @step(takes=None, gives="its model, trained on its rows, from which rows may be guessed at, to be scored")
    def give_model(self, party: Party) -> Weights:
        """The model of this party alone; empty if it has no rows."""
        model: Weights = party.memory["model"]
        return model

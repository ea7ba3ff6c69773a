"""Pfnm: parties' fully connected nets are put together by matching their hidden units, in one exchange.

Yurochkin, Agarwal, Ghosh, Greenewald, Hoang, Khazaeni: Bayesian Nonparametric Federated Learning of Neural Networks
(2019). As in their published code, weights to a class are weighed by each party's share of the rows of that class.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.errors import WireError
from laconic.learn.models.clustering import Matching, match_nets
from laconic.learn.models.learners import Network
from laconic.learn.models.supervised import CONSTANT, check_model, fit_models, predict_model
from laconic.learn.nets.nets import Mlp
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import labelled
from laconic.tables.task import Task
from laconic.values import Array, Weights


class Pfnm(Method, frozen=True):
    """Parties' nets, trained apart, with similar hidden units merged.

    A party whose rows are all of one class, or that has none, has no net to match and is left out.

    Attributes:
        net: the form of all nets; fully connected.
        trainer: how a party trains.
        matching: how units are matched.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    net: Mlp = Mlp(hidden=(64,))
    trainer: Sgd = Sgd(epochs=10, batch=32)
    matching: Matching = Matching()

    def __post_init__(self) -> None:
        """Refuse nets whose units cannot be matched."""
        if not self.net.hidden or self.net.dropout:
            raise ValueError("matching needs a net with hidden layers and without dropout; use net=Mlp(hidden=(64,))")

    rounds = 1  # Nets come in one exchange.

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Take all nets and match them."""
        task = task_of(hub)
        answers = peers.tolerant.ask(self.give_net)
        form, shape = self._form(), hub.data.shape
        sent = {name: check_model(form, task, one["net"], shape, name) for name, one in answers.items() if one}
        nets = {name: net for name, net in sent.items() if CONSTANT not in net}
        if not sent:
            raise ValueError("no party has any rows to learn from; deal the rows anew")
        if not nets:
            hub.memory["model"] = next(iter(sent.values()))
        else:
            counts = np.array([_check_counts(answers[name].get("counts"), task, name) for name in nets])
            hub.memory["model"] = match_nets(list(nets.values()), counts, self.matching, hub.rng)
        yield

    def fit_opening(self) -> Opening:
        """One question, which parties may answer before it is asked."""
        return Opening((Ask.known(self.give_net),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the server's rows through the matched net."""
        model: Weights = hub.memory["model"]
        widths = tuple(len(values) for name, values in model.items() if name.endswith(".bias"))[:-1]
        form = Network(net=Mlp(hidden=widths, final=self.net.final))
        return predict_model(form, task_of(hub), model, hub.data.part(rows)[0])

    def tuning(self) -> Mapping[str, tuple[float, ...]]:
        """The grid of the published code, behind the settings given."""
        grid = {"spread": (1.0, 0.1, 0.5), "prior": (1.0, 10.0), "gamma": (1.0, 1e-3, 50.0)}
        return {
            f"matching.{name}": tuple(dict.fromkeys((getattr(self.matching, name), *values)))
            for name, values in grid.items()
        }

    @step(
        takes=None,
        gives="its net, trained on its rows, from which rows may be guessed at, and how many rows of each class it has",
    )
    def give_net(self, party: Party) -> dict[str, Any]:
        """Train a net on this party's rows, from weights of its own; empty if it has no rows."""
        x, y = labelled(party, "train")
        task = task_of(party)
        models = fit_models(self._form(), task, [(x, y)], party.rng)
        # One output for two classes is learnt from the rows of both.
        counts = (
            np.bincount(y.astype(np.int64), minlength=len(task.classes)) if task.outputs > 1 else np.array([len(y)])
        )
        return {"net": models[0], "counts": counts} if models else {}

    def _form(self) -> Network:
        return Network(net=self.net, trainer=self.trainer)


def _check_counts(counts: object, task: Task, sender: str) -> Array:
    """How many rows of each output's class a party says it has."""
    if not isinstance(counts, np.ndarray) or counts.dtype.kind not in "iu" or counts.shape != (task.outputs,):
        raise WireError(f"{sender} did not say how many rows of each class it has; check that its plan is the same")
    if counts.min() < 0:
        raise WireError(f"{sender} says that it has fewer than no rows of a class")
    return counts

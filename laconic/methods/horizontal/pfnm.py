"""Pfnm: parties' fully connected nets are put together by matching their hidden units, in one exchange.

Yurochkin, Agarwal, Ghosh, Greenewald, Hoang, Khazaeni: Bayesian Nonparametric Federated Learning of Neural Networks
(2019).
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import step
from laconic.learn.models.clustering import Matching, match_nets
from laconic.learn.models.learner import CONSTANT, check_model, fit_models, predict_model
from laconic.learn.models.learners import Network
from laconic.learn.nets.nets import Mlp
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import labelled
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
        sent = [check_model(self._form(), task, one, hub.data.shape, name) for name, one in answers.items() if one]
        nets = [net for net in sent if CONSTANT not in net]
        if not sent:
            raise ValueError("no party has any rows to learn from; deal the rows anew")
        hub.memory["model"] = match_nets(nets, self.matching, hub.rng) if nets else sent[0]
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the server's rows through the matched net."""
        model: Weights = hub.memory["model"]
        widths = tuple(len(values) for name, values in model.items() if name.endswith(".bias"))[:-1]
        form = Network(net=Mlp(hidden=widths, final=self.net.final))
        return predict_model(form, task_of(hub), model, hub.data.part(rows)[0])

    @step(takes=None, gives="its net, trained on its rows, from which rows may be guessed at")
    def give_net(self, party: Party) -> Weights:
        """Train a net on this party's rows, from weights of its own; empty if it has no rows."""
        models = fit_models(self._form(), task_of(party), [labelled(party, "train")], party.rng)
        return models[0] if models else {}

    def _form(self) -> Network:
        return Network(net=self.net, trainer=self.trainer)

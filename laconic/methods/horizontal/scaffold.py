"""Scaffold: FedAvg that corrects each party's steps by how its gradients differ from everybody's.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: Stochastic Controlled Averaging for Federated Learning
(2020). The parties' controls are renewed as in its option II. In the first exchange all controls are zero: with a
single one it is FedAvg by plain gradient descent.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import step
from laconic.learn.models.learners import Network
from laconic.learn.models.supervised import check_model, fit_from
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.averaged import Averaging, first_model, guarded, mean_over, noise_of
from laconic.methods.families.rows import labelled
from laconic.privacy.mechanisms.sums import made_from_noised, note_final_model
from laconic.privacy.private_sgd import DpSgd
from laconic.values import Weights


class Scaffold(Averaging, frozen=True):
    """The average of nets whose every step is corrected towards everybody's direction.

    Its other settings are those of `Averaging`.

    Attributes:
        trainer: how a party trains in each exchange; plain gradient descent without momentum, for the controls are
            worked out from the length of its steps.
    """

    trainer: Sgd | DpSgd = Sgd(epochs=10, batch=32, lr=0.05, optimizer="sgd", weight_decay=0.0)

    def __post_init__(self) -> None:
        """Refuse to exchange nothing, and steps whose length says nothing about the gradient."""
        super().__post_init__()
        if self.trainer.optimizer != "sgd" or self.trainer.momentum or self.trainer.decay != "none":
            raise ValueError("Scaffold needs steps of plain gradient descent; use trainer=Sgd(optimizer='sgd', lr=...)")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Average models and controls again and again."""
        hub.memory["model"] = first_model(self.local, hub)
        hub.memory["control"] = _zeros(hub.memory["model"])
        for _ in range(self.exchanges):
            # Both means by rows: the paper's are equal, for an objective in which parties count the same. With one of
            # each kind, controls would not cancel where the pooled gradient is zero.
            asked = self.cohort_of(hub, peers)
            mean, change = self.both_means(hub, asked)
            self.advance(hub, mean)
            # Of a cohort, the controls of the others are as they were: the paper's |S| / N.
            share = np.float32(len(asked.names) / len(peers.names))
            hub.memory["control"] = {name: old + share * change[name] for name, old in hub.memory["control"].items()}
            yield
        note_final_model(hub, hub.memory["model"], noise_of(self))

    def both_means(self, hub: Party, peers: Peers) -> tuple[Weights, Weights]:
        """The means of parties' models and of the changes of their controls, after one more training."""
        model, control, noise = hub.memory["model"], hub.memory["control"], noise_of(self)
        sent = {"model": made_from_noised(model, noise), "control": made_from_noised(control, noise)}
        if self.sums is not None:
            like = {"model": model, "change": control}
            means = mean_over(self.sums, self, hub, peers, self.correct, like, **sent)
            return means["model"], means["change"]
        form = Network(net=self.local.net_for(hub))
        asked = self.trusted(hub, peers)
        answers = asked.ask(self.correct, **sent)
        self.refuse_few(len(answers))
        for name, one in answers.items():
            for part in ("model", "change"):
                check_model(form, task_of(hub), one[part], hub.data.shape, name)
        models = {name: one["model"] for name, one in answers.items()}
        kept = self.sift(hub, asked, models)
        found = [answers[name] for name in kept]
        rows = [float(one["rows"]) for one in found]
        mean = self.average.combine([one["model"] for one in found], rows)
        return mean, self.average.combine([one["change"] for one in found], rows)

    @step(
        takes="the average of all parties' models and of their gradients, from which rows may be guessed at",
        gives="its model, trained on its rows, the change of its mean gradient, from both of which rows may be guessed "
        "at, and how many rows it has",
    )
    def correct(self, party: Party, model: Weights, control: Weights) -> Any:
        """Train the average on this party's rows, each step corrected by the controls."""
        rows = labelled(party, "train")
        own = party.memory.get("control") or _zeros(model)
        push = {name: control[name] - own[name] for name in model}
        trained = fit_from(self.local.net_for(party), task_of(party), model, rows, self.trainer, party.rng, push=push)
        party.memory["control"] = self._control(len(rows[1]), model, trained, push)
        change = {name: party.memory["control"][name] - own[name] for name in model}
        starts = {"model": model, "change": _zeros(model)}
        return guarded(self, party, len(rows[1]), starts, {"model": trained, "change": change})

    def _control(self, rows: int, model: Weights, trained: Weights, push: Weights) -> Weights:
        """The mean gradient over the steps just taken: own - control + (model - trained) / (steps x lr)."""
        if rows == 0:
            return _zeros(model)
        steps = self.trainer.steps(rows) if isinstance(self.trainer, DpSgd) else self._steps(rows)
        length = steps * self.trainer.lr
        return {name: (model[name] - trained[name]) / np.float32(length) - push[name] for name in model}

    def _steps(self, rows: int) -> int:
        return self.trainer.epochs * -(-rows // self.trainer.batch)


def _zeros(model: Weights) -> Weights:
    return {name: np.zeros_like(values) for name, values in model.items()}

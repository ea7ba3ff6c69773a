"""VerticalXgboost: boosted trees over columns held by different parties, the same trees as XGBoost on all columns.

The label holder sends gradients, parties answer with histograms of their binned columns, the label holder picks each
split, and only the party whose column it is learns the rule. Cheng, Fan, Jin, Liu, Chen, Papadopoulos, Yang:
SecureBoost: A Lossless Federated Learning Framework (IEEE Intelligent Systems, 2021). XGBoost's own federated mode does
the same by sockets, and tells every rule to every party.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, declared, step
from laconic.learn.trees.dense_trees import read_model
from laconic.learn.trees.distributed_trees import (
    first_margins,
    from_columns,
    gradients,
    no_trees,
    predict_joined,
    rules_within,
)
from laconic.learn.trees.party_histograms import rule_sides
from laconic.learn.trees.xgboost_mode import Relay, Tls, federated_server, federated_worker
from laconic.methods.families.boosted import VerticalBoosting
from laconic.methods.families.rows import labelled
from laconic.values import Array, Settings


class Socket(Settings, frozen=True):
    """XGBoost's own federated mode: parties' workers joined by a server at the label holder.

    Every party must be in a process of its own. Gradients and all rules reach every party.

    Attributes:
        tls: keys and certificates, for connections that nobody else can read; None for plain ones on this machine.
    """

    tls: Tls | None = None


class VerticalXgboost(VerticalBoosting, frozen=True):
    """Boosting that loses nothing by columns being apart, at two exchanges for every level of every tree.

    Attributes:
        trees: how many trees, how deep, how fast they learn.
        sends: what a party sends of each node. `histograms`: all sums, as SecureBoost does. `best splits`: the gain of
            its best split and the sums on either side, far fewer bytes for the same trees.
        cipher: SecureBoost's encryption of gradients, so that parties cannot read labels off them; None for none.
        socket: grow the trees by XGBoost's own federated mode instead, outside the ordinary wire; None for the protocol
            here. All trees come at once: there is nothing to look at, and no byte budget to stop at, before.
    """

    socket: Socket | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.cipher is not None and self.sends != "histograms":
            raise ValueError('parties cannot compare encrypted sums: use sends="histograms", or leave cipher out')
        if self.socket is not None and (self.cipher is not None or self.sends != "histograms"):
            raise ValueError(
                "XGBoost's own mode always sends histograms in the clear: leave out socket, or sends and cipher"
            )

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Add trees, one for each output at a time; after each round of trees the model can be used."""
        if self.socket is not None:
            self._fit_by_socket(hub, peers, self.socket)
            yield
            return
        task, y = task_of(hub), labelled(hub, "train")[1]
        self.begin_all(hub, peers)
        margins = first_margins(task, y)
        hub.memory["model"] = no_trees(task, self.trees.depth, float(margins[0, 0]))
        for _ in range(self.trees.trees):
            answers = self.grow_round(hub, peers, gradients(task, margins, y))
            margins = margins + answers[hub.memory["growth"]["at"]]
            yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask each party on which side of its rules the rows are, and add up the leaves they end in."""
        given = {hub.name: rule_sides(hub.memory["growth"], hub.data.part(rows)[0])}
        given |= peers.ask(self.give_sides, rows=rows)
        packed = [given[name] for name in hub.memory["holders"]]
        return predict_joined(task_of(hub), hub.memory["model"], packed, len(hub.data.cut(rows)))

    def fit_opening(self) -> Opening:
        """Columns can be cut into bins before anybody asks."""
        return Opening((Ask.known(self.begin if self.socket is None else self.say_where),))

    def predict_opening(self, rows: str) -> Opening:
        """Parties need the name of the cut alone."""
        return Opening((Ask.known(self.give_sides, rows=rows),), then="ends")

    @step(takes=None, gives="for each row asked for, on which side of each of its rules it is")
    def give_sides(self, party: Party, rows: str) -> Array:
        """The rows of a cut by all rules of this party."""
        return rule_sides(party.memory["growth"], party.data.part(rows)[0])

    @step(takes=None, gives="the number of its process, and how many columns it has")
    def say_where(self, party: Party) -> list[int]:
        """So that nobody waits for a party that cannot work at the same time."""
        return [os.getpid(), int(np.prod(party.data.shape))]

    @step(
        takes="by sockets: the gradient of every training row, from which labels can be read, which rows are in which "
        "node, and the rules and leaves of all trees (of a numeric label, its mean too)",
        gives="by sockets, to all parties: for each node its best split, by column and value, with the sums of "
        "gradients on either side, and on which side of its splits rows are",
    )
    def work_by_socket(
        self, party: Party, port: int, rank: int, world: int, first: int, wanted: dict[str, Any]
    ) -> None:
        """Train together with the other workers, and keep the rules of this party's columns, from `first` on."""
        x, tls = party.data.part("train")[0], None if self.socket is None else self.socket.tls
        with federated_worker(x, None, wanted, self.trees.trees, rank, world, port, tls) as worker:
            model = read_model(worker.result(), self.trees.depth)
        party.memory["growth"] = rules_within(model, first, int(np.prod(party.data.shape)))

    def _fit_by_socket(self, hub: Party, peers: Peers, settings: Socket) -> None:
        """Start the server and the label holder's worker, let parties join, and book what went over sockets."""
        task, (x, y) = task_of(hub), labelled(hub, "train")
        widths = {hub.name: int(np.prod(hub.data.shape))} | self._apart(hub, peers)
        growth = self.trees.plan(task, sum(widths.values()))
        base = float(np.mean(y)) if task.kind == "regression" else 0.5
        wanted, world = growth.wanted | {"base_score": base}, len(widths)
        first = dict(zip(widths, np.cumsum([0, *widths.values()]).tolist(), strict=False))
        with federated_server(world, settings.tls) as port:
            relays = {name: Relay(port, tls=settings.tls is not None) for name in peers.names}
            at = {"world": world, "wanted": wanted}
            with federated_worker(x, y, wanted, growth.rounds, 0, world, port, settings.tls) as worker:
                questions = {
                    name: {"port": relays[name].port, "rank": rank, "first": first[name]} | at
                    for rank, name in enumerate(peers.names, start=1)
                }
                peers.ask_each(self.work_by_socket, questions)
                trees = read_model(worker.result(), self.trees.depth)
        self._book(peers, relays)
        start = 0.0 if growth.link == "logit" else base
        hub.memory["growth"] = rules_within(trees, 0, widths[hub.name])
        hub.memory["holders"] = {name: {} for name in widths}
        hub.memory["model"] = from_columns(task, trees, list(widths.values()), start)

    def _apart(self, hub: Party, peers: Peers) -> dict[str, int]:
        """How many columns each peer has, if all can work at the same time as the label holder."""
        told = peers.ask(self.say_where)
        here = [name for name, (process, _) in told.items() if process == os.getpid()]
        if here:
            raise ValueError(
                f"XGBoost's own mode needs every party in a process of its own, but {' and '.join(here)} "
                "answered from the hub's; use the runtime Processes(), or socket=None"
            )
        if not hub.data.columns:
            raise ValueError(f"{hub.name} has labels but no columns, which XGBoost's own mode needs; use socket=None")
        return {name: columns for name, (_, columns) in told.items()}

    def _book(self, peers: Peers, relays: dict[str, Relay]) -> None:
        """Write what went over each party's socket into the log: payload and framing apart."""
        words, number = declared(self.work_by_socket), peers.log.rounds[peers.log.phase]
        for name, relay in relays.items():
            relay.close()
            for what, (up, down) in (("payload", relay.payload), ("framing", relay.framing)):
                step_name = f"work_by_socket, {what}"
                peers.log.book(step_name, words.takes, words.gives, number, name, down=down, up=up)

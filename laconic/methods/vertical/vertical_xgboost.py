"""VerticalXgboost: boosted trees over columns held by different parties, the same trees as XGBoost on all columns.

The label holder sends gradients, parties answer with histograms of their binned columns, the label holder picks each
split, and only the party whose column it is learns the rule. Cheng, Fan, Jin, Liu, Chen, Papadopoulos, Yang:
SecureBoost: A Lossless Federated Learning Framework (IEEE Intelligent Systems, 2021). XGBoost's own federated mode does
the same by sockets, and shows every rule to every party.

Each level of a tree takes two rounds. In the first, parties learn which rows are in which node, and say what splits of
their columns are worth; in the second, the holder of a column that was picked says on which side of the split its rows
are. A party's bins, rows and rules are in `party.memory["growth"]`. Of each holder of columns the label holder has in
`hub.memory["holders"]` what it knows, and in `hub.memory["rules"]` how many rules it keeps.
"""

import os
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, declared, step
from laconic.learn.trees.dense_trees import Boosted, read_model
from laconic.learn.trees.distributed_trees import (
    Splits,
    State,
    TreeBuilder,
    begin_growth,
    begin_trees,
    best_splits,
    complete_pairs,
    first_margins,
    from_columns,
    gradients,
    histograms_of,
    move,
    no_trees,
    predict_joined,
    rows_of,
    rule_sides,
    rules_within,
    sides,
    sums_of,
)
from laconic.learn.trees.xgboost_mode import Relay, Tls, federated_server, federated_worker
from laconic.methods.families.rows import labelled
from laconic.privacy.encryption import Bfv, Encrypted, Sealed
from laconic.values import Array, Settings

_NO_SIDES = np.empty(0, np.uint8)
_TAKES = "the gradient of every training row, from which labels can be read, and which rows are in which node"
_TAKES_SEALED = (
    "the gradient of every training row, encrypted, and which rows are in which node, which reveals much of labels"
)
_GIVES_SEALED = (
    "for each node, how many rows and what sums of gradients each bin of its columns has, which the hub reads"
)
_GIVES = "for each node, sums of gradients by bins of its columns: they show the hub how its columns go with the label"


class Socket(Settings, frozen=True):
    """XGBoost's own federated mode: parties' workers joined by a server at the label holder.

    Every party must be in a process of its own. Gradients and all rules reach every party.

    Attributes:
        tls: keys and certificates, for connections that nobody else can read; None for plain ones on this machine.
    """

    tls: Tls | None = None


class VerticalXgboost(Method, frozen=True):
    """Boosting that loses nothing by columns being apart, at two exchanges for every level of every tree.

    Attributes:
        trees: how many trees, how deep, how fast they learn.
        sends: what a party sends of each node. `histograms`: all sums, as SecureBoost does. `best splits`: the gain of
            its best split and the sums on either side, far fewer bytes for the same trees.
        cipher: SecureBoost's encryption of gradients, so that parties cannot read labels off them; None for none.
        socket: grow the trees by XGBoost's own federated mode instead, outside the ordinary wire; None for the protocol
            here. All trees come at once: there is nothing to look at, and no byte budget to stop at, before.
    """

    trees: Boosted = Boosted()
    sends: Literal["histograms", "best splits"] = "histograms"
    cipher: Encrypted | None = None
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
        self._begin_all(hub, peers)
        margins = first_margins(task, y)
        hub.memory["model"] = no_trees(task, self.trees.depth, float(margins[0, 0]))
        for _ in range(self.trees.trees):
            answers = self._grow_round(hub, peers, gradients(task, margins, y))
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

    @step(takes=None, gives="how many bins each of its columns was cut into: its number of different values, at most")
    def begin(self, party: Party) -> Array:
        """Cut the columns of the training rows into bins."""
        party.memory["growth"] = begin_growth(party.data.part("train")[0], self.trees.bins)
        counts: Array = party.memory["growth"]["counts"]
        return counts

    @step(takes=_TAKES, gives=_GIVES)
    def look_at(
        self, party: Party, slopes: Array | None, split: Array, right: Array, built: Array, totals: Array | None
    ) -> dict[str, Array]:
        """Send the rows of split nodes to their children, and sum gradients over the rows of some nodes.

        Args:
            slopes: gradients and hessians, or gradients alone if all hessians are 1; None within a tree.
            split: the nodes split last; none at the root. right: which of their rows go right, as bits.
            built: nodes to sum over.
            totals: sums of all open nodes, if the best splits are to be found here.
        """
        state = party.memory["growth"]
        if slopes is not None:
            self._start(state, slopes)
        else:
            move(state, split, right, self.trees.depth)
        return self._offer(state, split, built, totals)

    @step(takes="a public key, made of randomness alone", gives=None)
    def take_key(self, party: Party, key: bytes) -> None:
        """Keep the key by which this party will hide which rows it added."""
        party.memory["key"] = key

    @step(takes=_TAKES_SEALED, gives=_GIVES_SEALED)
    def add_sealed(
        self,
        party: Party,
        numbers: list[list[bytes]] | None,
        outputs: int,
        length: int,
        count: bool,
        split: Array,
        right: Array,
        built: Array,
    ) -> dict[str, Any]:
        """As `look_at`, with encrypted gradients.

        Args:
            numbers: the ciphertexts; None within a tree.
            outputs: how many trees grow at once. length: how many rows share a ciphertext.
            count: whether to count the rows of each bin too, as hessians that are all 1 are not sent.
            split, right, built: as for `look_at`.
        """
        state = party.memory["growth"]
        if numbers is not None:
            party.memory["numbers"] = numbers
            begin_trees(state, outputs, self.trees.depth)
        else:
            move(state, split, right, self.trees.depth)
        rows, sums, many = sums_of(state, built)
        keys = Bfv(public=party.memory["key"])
        try:
            found = [keys.add_up(part, rows, sums, many, length) for part in party.memory["numbers"]]
        finally:
            keys.close()
        return {"sums": found, "counts": np.bincount(sums, minlength=many).astype(np.int32) if count else None}

    @step(
        takes="which of its splits the label holder picked, by what they reveal of labels",
        gives="for every row of the nodes it splits, on which side of a value one of its columns is",
    )
    def part(self, party: Party, nodes: Array, columns: Array | None, cuts: Array | None) -> Array:
        """Note the rules of the splits picked, and send the sides of their rows; None picks its own best splits."""
        state = party.memory["growth"]
        if columns is None or cuts is None:
            at = [state["open"].tolist().index(node) for node in nodes.tolist()]
            columns, cuts = state["columns"][at], state["cuts"][at]
        return sides(state, nodes, columns, cuts)

    @step(takes=None, gives="for each row asked for, on which side of each of its rules it is", by_row=False)
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

    def _begin_all(self, hub: Party, peers: Peers) -> None:
        """Let every holder of columns cut them into bins, and hand out a key if gradients are to be encrypted."""
        hub.memory["growth"] = begin_growth(hub.data.part("train")[0], self.trees.bins)
        own = {hub.name: hub.memory["growth"]["counts"]} if hub.data.columns else {}
        hub.memory["holders"] = {name: {"counts": one} for name, one in (own | peers.ask(self.begin)).items()}
        hub.memory["rules"] = dict.fromkeys(hub.memory["holders"], 0)
        if self.cipher is not None:
            hub.memory["secret"] = self._share_key(peers)

    def _grow_round(self, hub: Party, peers: Peers, slopes: Array) -> Array:
        """Add one tree for each output to the model; the value that each node adds to the predictions of its rows."""
        state, depth = hub.memory["growth"], self.trees.depth
        sealed = (
            None if self.cipher is None else Sealed(self.cipher, hub.memory["secret"], slopes, self._most_sums(hub))
        )
        self._start(state, slopes if sealed is None else sealed.slopes)
        roots = state["at"][:, 0].copy()
        trees = TreeBuilder(len(slopes), depth, roots, _root_totals(state, roots))
        right: Array | None = None
        for _ in range(depth):
            offers = self._offers(hub, peers, trees, right, sealed)
            picked = trees.pick(list(offers.values()), list(hub.memory["rules"].values()))
            if not picked:
                break
            mine = {name: picked[who] for who, name in enumerate(offers) if who in picked}
            right = self._parted(hub, peers, trees.split, mine)
            for name, (nodes, _, _) in mine.items():
                hub.memory["rules"][name] += len(nodes)
            move(state, trees.split, right, depth)
        if sealed is not None:
            sealed.close()
        answers = trees.answers(self.trees.lr, self.trees.penalty)
        hub.memory["model"] = trees.add_to(hub.memory["model"], answers)
        return answers

    def _offers(
        self, hub: Party, peers: Peers, trees: TreeBuilder, right: Array | None, sealed: Sealed | None
    ) -> dict[str, Splits]:
        """Each holder's best splits of the open nodes; `right` are the sides of the level above, None at the root."""
        state, holders = hub.memory["growth"], hub.memory["holders"]
        totals = trees.totals if self.sends == "best splits" else None
        found = {hub.name: self._offer(state, trees.split, trees.built, totals)} if hub.data.columns else {}
        question: dict[str, Any] = {
            "split": trees.split,
            "right": _NO_SIDES if right is None else right,
            "built": trees.built,
        }
        if sealed is None:
            slopes = _sent(state["gradients"]) if right is None else None
            found |= peers.ask(self.look_at, **question, slopes=slopes, totals=totals)
        else:
            question |= {"numbers": sealed.numbers if right is None else None, "outputs": len(state["at"])}
            answers = peers.ask(self.add_sealed, **question, length=sealed.length, count=sealed.counts_rows)
            for name, answer in answers.items():
                shape = len(trees.built), int(holders[name]["counts"].sum())
                found[name] = {"sums": sealed.read(answer["sums"], answer["counts"], shape)}
        return {name: self._read(holders[name], found[name], trees) for name in found}

    def _read(self, holder: State, found: dict[str, Array], trees: TreeBuilder) -> Splits:
        if self.sends == "best splits":
            unknown = np.zeros(len(trees.open), np.int64)
            return Splits(found["gain"], unknown, unknown, found["left"], found["right"])
        sums = complete_pairs(holder, trees.split, trees.built, found["sums"], self.trees.depth)
        return best_splits(sums, holder["counts"], trees.totals, self.trees.penalty)

    def _offer(self, state: State, split: Array, built: Array, totals: Array | None) -> dict[str, Array]:
        """What a holder says of the nodes of a level."""
        sums = histograms_of(state, built)
        if totals is None:
            return {"sums": sums}
        whole = complete_pairs(state, split, built, sums, self.trees.depth)
        best = best_splits(whole, state["counts"], totals, self.trees.penalty)
        state["columns"], state["cuts"] = best.column, best.cut
        return {"gain": best.gain, "left": best.left, "right": best.right}

    def _parted(self, hub: Party, peers: Peers, split: Array, picked: dict[str, tuple[Array, Array, Array]]) -> Array:
        """Which rows of the nodes just split go right, as bits."""
        known = self.sends == "histograms"
        questions: dict[str, dict[str, Any]] = {
            name: {"nodes": nodes, "columns": columns if known else None, "cuts": cuts if known else None}
            for name, (nodes, columns, cuts) in picked.items()
        }
        own = questions.pop(hub.name, None)
        packed = {hub.name: self.part(hub, **own)} if own is not None else {}
        packed |= peers.ask_each(self.part, questions) if questions else {}
        _, slots = rows_of(hub.memory["growth"], split)
        right = np.zeros(len(slots), dtype=np.uint8)
        for name, bits in packed.items():
            mine = np.isin(split, picked[name][0])[slots]
            right[mine] = np.unpackbits(bits, count=int(mine.sum()))
        return np.packbits(right)

    def _share_key(self, peers: Peers) -> bytes:
        """Draw keys, hand out the public one, and return the secret one."""
        keys = Bfv()
        try:
            peers.ask(self.take_key, key=keys.public)
            return keys.secret
        finally:
            keys.close()

    def _most_sums(self, hub: Party) -> int:
        """How many sums a tree takes, at most, at the party with most bins."""
        widest = max(int(holder["counts"].sum()) for holder in hub.memory["holders"].values())
        return int(widest * 2 ** (self.trees.depth - 1))

    def _start(self, state: State, slopes: Array) -> None:
        state["gradients"] = slopes if slopes.shape[2] == 2 else np.concatenate([slopes, np.ones_like(slopes)], axis=2)
        begin_trees(state, len(slopes), self.trees.depth)

    def _fit_by_socket(self, hub: Party, peers: Peers, settings: Socket) -> None:
        """Start the server and the label holder's worker, let parties join, and book what went over sockets."""
        task, (x, y) = task_of(hub), labelled(hub, "train")
        widths = {hub.name: int(np.prod(hub.data.shape))} | self._apart(hub, peers)
        base = float(np.mean(y)) if task.kind == "regression" else 0.5
        wanted, world = self.trees.plan(task, sum(widths.values())) | {"base_score": base}, len(widths)
        rounds = self.trees.trees
        first = dict(zip(widths, np.cumsum([0, *widths.values()]).tolist(), strict=False))
        with federated_server(world, settings.tls) as port:
            relays = {name: Relay(port, tls=settings.tls is not None) for name in peers.names}
            at = {"world": world, "wanted": wanted}
            with federated_worker(x, y, wanted, rounds, 0, world, port, settings.tls) as worker:
                questions = {
                    name: {"port": relays[name].port, "rank": rank, "first": first[name]} | at
                    for rank, name in enumerate(peers.names, start=1)
                }
                peers.ask_each(self.work_by_socket, questions)
                trees = read_model(worker.result(), self.trees.depth)
        self._book(peers, relays)
        start = base if task.kind == "regression" else 0.0
        hub.memory["growth"] = rules_within(trees, 0, widths[hub.name])
        hub.memory["holders"] = {name: {} for name in widths}
        hub.memory["model"] = from_columns(task, trees, list(widths.values()), start)

    def _apart(self, hub: Party, peers: Peers) -> dict[str, int]:
        """How many columns each peer has, if all can work at the same time as the label holder."""
        found = peers.ask(self.say_where)
        here = [name for name, (process, _) in found.items() if process == os.getpid()]
        if here:
            raise ValueError(
                f"XGBoost's own mode needs every party in a process of its own, but {' and '.join(here)} "
                "answered from the hub's; use the runtime Processes(), or socket=None"
            )
        if not hub.data.columns:
            raise ValueError(f"{hub.name} has labels but no columns, which XGBoost's own mode needs; use socket=None")
        return {name: columns for name, (_, columns) in found.items()}

    def _book(self, peers: Peers, relays: dict[str, Relay]) -> None:
        """Write what went over each party's socket into the log: payload and framing apart."""
        words, number = declared(self.work_by_socket), peers.log.rounds[peers.log.phase]
        for name, relay in relays.items():
            relay.close()
            for what, (up, down) in (("payload", relay.payload), ("framing", relay.framing)):
                crossing = f"work_by_socket, {what}"
                peers.log.book(crossing, words.takes, words.gives, number, name, down=down, up=up)


def _root_totals(state: State, roots: Array) -> Array:
    """Sums over all rows, added up as XGBoost does: by the bins of the first column where there is one."""
    if len(state["counts"]):
        return np.asarray(histograms_of(state, roots)[:, : state["counts"][0]].cumsum(axis=1)[:, -1])
    return np.asarray(state["gradients"].sum(axis=1, dtype=np.float64))


def _sent(slopes: Array) -> Array:
    """Without hessians where they are all 1, as for squared error."""
    return np.ascontiguousarray(slopes[:, :, :1]) if (slopes[:, :, 1] == 1).all() else slopes

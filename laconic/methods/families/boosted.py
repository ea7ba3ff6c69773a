"""Growing trees together: the label holder picks splits by sums of gradients that parties make of their own columns.

Each level of a tree takes two rounds. In the first, parties are told which rows are in which node, and say what splits
of their columns are worth; in the second, who keeps the columns picked says on which side of each split its rows are.
"""

from typing import Any, Literal

import numpy as np

from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import step
from laconic.learn.trees.dense_trees import Boosted
from laconic.learn.trees.distributed_trees import TreeBuilder
from laconic.learn.trees.party_histograms import (
    Splits,
    State,
    begin_growth,
    begin_trees,
    best_splits,
    complete_pairs,
    histograms_of,
    move,
    rows_of,
    sides,
    sums_of,
)
from laconic.privacy.encryption import Bfv, Encrypted, Sealed
from laconic.values import Array

_NO_SIDES = np.empty(0, np.uint8)
_TAKES = "the gradient of every training row, from which labels can be read, and which rows are in which node"
_TAKES_SEALED = "the gradient of every training row, encrypted, and which rows are in which node, which tells of labels"
_GIVES_SEALED = (
    "for each node, how many rows and what sums of gradients each bin of its columns has, which the hub reads"
)
_GIVES = "for each node, sums of gradients by bins of its columns: they show the hub how its columns go with the label"


class VerticalBoosting(Method, frozen=True):
    """Abstract: a method that grows trees over columns held by different parties.

    A party's bins, rows and rules are in `party.memory["growth"]`. Of each holder of columns the label holder has in
    `hub.memory["holders"]` what it knows, and in `hub.memory["rules"]` how many rules it keeps; the trees are in
    `hub.memory["model"]`.

    Attributes:
        trees: how many trees, how deep, how fast they learn.
        sends: what a party sends of each node.
        cipher: encryption of gradients; None for none.
    """

    trees: Boosted = Boosted()
    sends: Literal["histograms", "best splits"] = "histograms"
    cipher: Encrypted | None = None

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

    @step(takes="a public key, made of chance alone", gives=None)
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
        takes="which of its splits the label holder picked, by what they tell of labels",
        gives="for every row of the nodes it splits, on which side of a value one of its columns is",
    )
    def part(self, party: Party, nodes: Array, columns: Array | None, cuts: Array | None) -> Array:
        """Note the rules of the splits picked, and send the sides of their rows; None picks its own best splits."""
        state = party.memory["growth"]
        if columns is None or cuts is None:
            at = [state["open"].tolist().index(node) for node in nodes.tolist()]
            columns, cuts = state["columns"][at], state["cuts"][at]
        return sides(state, nodes, columns, cuts)

    def begin_all(self, hub: Party, peers: Peers) -> None:
        """Let every holder of columns cut them into bins, and hand out a key if gradients are to be encrypted."""
        hub.memory["growth"] = begin_growth(hub.data.part("train")[0], self.trees.bins)
        own = {hub.name: hub.memory["growth"]["counts"]} if hub.data.columns else {}
        hub.memory["holders"] = {name: {"counts": one} for name, one in (own | peers.ask(self.begin)).items()}
        hub.memory["rules"] = dict.fromkeys(hub.memory["holders"], 0)
        if self.cipher is not None:
            hub.memory["secret"] = self._share_key(peers)

    def grow_round(self, hub: Party, peers: Peers, slopes: Array) -> Array:
        """Add one tree for each output to the model; what the rows of each node are told."""
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


def _root_totals(state: State, roots: Array) -> Array:
    """Sums over all rows, added up as XGBoost does: by the bins of the first column where there is one."""
    if len(state["counts"]):
        return np.asarray(histograms_of(state, roots)[:, : state["counts"][0]].cumsum(axis=1)[:, -1])
    return np.asarray(state["gradients"].sum(axis=1, dtype=np.float64))


def _sent(slopes: Array) -> Array:
    """Without hessians where they are all 1, as for squared error."""
    return np.ascontiguousarray(slopes[:, :, :1]) if (slopes[:, :, 1] == 1).all() else slopes

"""VerticalXgboost: boosted trees over columns held by different parties, the same trees as XGBoost on all columns.

The label holder sends gradients, parties answer with histograms of their binned columns, the label holder picks each
split, and only the party whose column it is learns the rule. Cheng, Fan, Jin, Liu, Chen, Papadopoulos, Yang:
SecureBoost: A Lossless Federated Learning Framework (IEEE Intelligent Systems, 2021).
"""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import step
from laconic.core.values import Array
from laconic.learn.boosting import first_margins, gradients
from laconic.learn.growth import (
    State,
    begin_growth,
    begin_trees,
    complete_pairs,
    histograms_of,
    move,
    rows_of,
    rule_sides,
    sides,
)
from laconic.learn.histograms import Splits, best_splits
from laconic.learn.joined_trees import no_trees, predict_joined
from laconic.learn.trees import Boosted
from laconic.methods.growing import GrowingTrees
from laconic.methods.rows import labelled

_TAKES = "the gradient of every training row, from which labels can be read, and which rows are in which node"
_GIVES = "for each node, sums of gradients by bins of its columns: they show the hub how its columns go with the label"


class VerticalXgboost(Method, frozen=True):
    """Boosting that loses nothing by columns being apart, at two exchanges for every level of every tree.

    Attributes:
        trees: how many trees, how deep, how fast they learn.
        sends: what a party sends of each node. `histograms`: all sums, as SecureBoost does. `best splits`: the gain of
            its best split and the sums on either side, far fewer bytes for the same trees.
    """

    trees: Boosted = Boosted()
    sends: Literal["histograms", "best splits"] = "histograms"

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Add trees, one for each output at a time; after each round of trees the model can be used."""
        task, y = task_of(hub), labelled(hub, "train")[1]
        state = begin_growth(hub.data.part("train")[0], self.trees.bins)
        hub.memory["growth"] = state
        own = {hub.name: state["counts"]} if hub.data.columns else {}
        hub.memory["holders"] = {name: {"counts": one} for name, one in (own | peers.ask(self.begin)).items()}
        margins = first_margins(task, y)
        hub.memory["model"] = no_trees(task, self.trees.depth, float(margins[0, 0]))
        hub.memory["rules"] = dict.fromkeys(hub.memory["holders"], 0)
        for _ in range(self.trees.trees):
            answers = self._grow(hub, peers, gradients(task, margins, y))
            margins = margins + answers[state["at"]]
            yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask each party on which side of its rules the rows are, and add up the leaves they end in."""
        given = {hub.name: rule_sides(hub.memory["growth"], hub.data.part(rows)[0])}
        given |= peers.ask(self.give_sides, rows=rows)
        packed = [given[name] for name in hub.memory["holders"]]
        return predict_joined(task_of(hub), hub.memory["model"], packed, len(hub.data.cut(rows)))

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

    @step(takes=None, gives="for each row asked for, on which side of each of its rules it is")
    def give_sides(self, party: Party, rows: str) -> Array:
        """The rows of a cut by all rules of this party."""
        return rule_sides(party.memory["growth"], party.data.part(rows)[0])

    def _grow(self, hub: Party, peers: Peers, slopes: Array) -> Array:
        """Add one tree for each output to the model; what the rows of each node are told."""
        state, depth = hub.memory["growth"], self.trees.depth
        self._start(state, slopes)
        roots = state["at"][:, 0].copy()
        trees = GrowingTrees(len(slopes), depth, roots, _root_totals(state, roots))
        question: dict[str, Any] = {"slopes": _sent(slopes), "right": np.empty(0, np.uint8)}
        for _ in range(depth):
            question |= {"split": trees.split, "built": trees.built}
            question["totals"] = trees.totals if self.sends == "best splits" else None
            offers = self._offers(hub, peers, question, trees)
            rules = hub.memory["rules"]
            picked = trees.pick(list(offers.values()), list(rules.values()))
            if not picked:
                break
            names = list(offers)
            right = self._parted(hub, peers, trees.split, {names[who]: what for who, what in picked.items()})
            hub.memory["rules"] = {
                n: count + len(picked.get(i, ((),))[0]) for i, (n, count) in enumerate(rules.items())
            }
            move(state, trees.split, right, depth)
            question = {"slopes": None, "right": right}
        answers = trees.answers(self.trees.lr, self.trees.penalty)
        hub.memory["model"] = trees.add_to(hub.memory["model"], answers)
        return answers

    def _offers(self, hub: Party, peers: Peers, question: dict[str, Any], trees: GrowingTrees) -> dict[str, Splits]:
        """Each holder's best splits of the open nodes."""
        own = {}
        if hub.data.columns:
            own[hub.name] = self._offer(hub.memory["growth"], trees.split, trees.built, question["totals"])
        found = own | peers.ask(self.look_at, **question)
        return {name: self._read(hub.memory["holders"][name], found[name], trees) for name in found}

    def _read(self, holder: State, found: dict[str, Array], trees: GrowingTrees) -> Splits:
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
        questions = {
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

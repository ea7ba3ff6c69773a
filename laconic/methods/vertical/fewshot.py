"""Few-shot VFL: one-shot VFL and one exchange more, in which parties learn which of their own rows deserve a label.

Sun, Xu, Yang, Nath, Li, Zhao, Xu, Chen, Roth: Communication-Efficient Vertical Federated Learning with Limited
Overlapping Samples (2023). Parties send their own rows too. The label holder guesses by attention what the other
parties would know of them; where a model of one party's numbers and a model of all numbers agree, the row may get a
label.
"""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.learn.models.clustering import cluster
from laconic.learn.models.supervised import fit_top, predict_top
from laconic.learn.nets.nets import Attention, load, to_array, to_tensor
from laconic.learn.train.semisupervised import AnyChoice, Extractor, PerClass, chances
from laconic.learn.train.sgd import evaluate
from laconic.methods.families.guided import GRADIENTS, NUMBERS, NUMBERS_AND_HEAD, Guided
from laconic.methods.families.rows import own_rows
from laconic.tables.task import Task
from laconic.values import Array, Weights

_GIVES_OWN = f"{NUMBERS}; and the same for each of its people outside the overlap of all parties"
_FULL = 255


class FewShot(Guided, frozen=True):
    """Three uploads and two downloads; parties learn by themselves in between, twice.

    Its other settings are those of `Guided`.

    Attributes:
        attention: how the numbers of parties that do not know a row are guessed.
        choice: how sure the label holder must be of a row.
    """

    attention: Attention = Attention()
    choice: AnyChoice = PerClass()

    @property
    def rounds(self) -> int | None:
        """One more than the guide needs, unless asked for more."""
        return self.guide.rounds + 1 if self.more is None else None

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Algorithm 1, few-shot, with Algorithm 2 in its middle."""
        self._refuse_evidence(hub)
        codes, classes = self.released_codes(hub)
        received = self.guide.teach(self, hub, peers, codes, classes)
        self.refuse_nothing(hub, peers, received)
        blocks = dict(received)
        if hub.data.columns:
            # From the labels as released, like everybody: what parties are sent next is derived from this too.
            self.learn_codes(hub, codes, classes)
            blocks = {hub.name: {rows: self.numbers(hub, rows) for rows in ("train", "own")}} | blocks
        sure = self._probabilities(hub, blocks, codes, classes)
        questions = {name: {"sure": self.cover(sure[name])} for name in received}
        received = peers.tolerant.ask_each(self.learn_again, questions)
        self.refuse_nothing(hub, peers, received)
        if hub.data.columns:
            self._expand(hub, sure[hub.name])
        received = self.sifted(hub, received)
        self.train_head(hub, received)
        yield
        if self.more is not None:
            yield from self.go_on(hub, peers, received)

    def fit_opening(self) -> Opening:
        """What the guide asks, and how sure the label holder is of own rows."""
        asks = (*self.guide.asks(self), Ask.later(self.learn_again))
        return Opening(asks, then="ends" if self.more is None else "yields")

    @step(takes=GRADIENTS, gives=_GIVES_OWN)
    def learn_from_gradients(self, party: Party, gradients: Array, classes: int) -> dict[str, Array]:
        """Cluster the gradients, learn the clusters as classes, and send shared and own rows."""
        self.learn_codes(party, cluster(gradients, classes, party.rng), classes)
        return {rows: self.numbers(party, rows) for rows in ("train", "own")}

    @step(takes="the labels of the shared rows, as whole numbers", gives=_GIVES_OWN)
    def learn_from_labels(self, party: Party, labels: Array, classes: int) -> dict[str, Array]:
        """Learn the classes sent, and send shared and own rows."""
        self.learn_codes(party, labels, classes)
        return {rows: self.numbers(party, rows) for rows in ("train", "own")}

    @step(
        takes="for each of its own rows how sure the label holder is of the class, worked out from labels and from all "
        "parties' numbers",
        gives=NUMBERS_AND_HEAD,
    )
    def learn_again(self, party: Party, sure: Array) -> dict[str, Array]:
        """Give own rows labels with these probabilities, learn again, and send the shared rows."""
        self._expand(party, sure)
        return self.shared_numbers(party)

    def _refuse_evidence(self, hub: Party) -> None:
        """Refuse randomised response beside columns made from true labels: what parties are sent derives from both."""
        weighed = [column.name for column in hub.data.columns if column.prepare == "woe"]
        if self.labels is not None and weighed:
            raise ValueError(
                "labels=RandomisedResponse(...) covers what is derived from labels as released, but the weight of "
                f"evidence of {hub.name}'s {', '.join(map(repr, weighed))} comes from true ones, and enters the "
                "probabilities that FewShot sends. Say prepare = 'bins' there, leave labels out, or use OneShot"
            )

    def _probabilities(
        self, hub: Party, blocks: Mapping[str, Mapping[str, Array]], codes: Array, classes: int
    ) -> dict[str, Array]:
        """Algorithm 2, InferProb: for each party's own rows the probability of a label, in 255ths."""
        task = Task(kind="multiclass", classes=tuple(map(str, range(classes))))
        prior = (np.bincount(codes, minlength=classes) + 1) / (len(codes) + classes)
        known = {name: block["train"].astype(np.float32) for name, block in blocks.items()}
        trainer = msgspec.structs.replace(self.trainer, patience=None)

        def learn(x: Array) -> Weights:
            # From released labels alone, so that probabilities give away no more. Trained even where heads are added
            # up: a party's own head would always agree with its own guess.
            return fit_top(self.form, task, [x], codes, trainer, hub.rng)

        joint = learn(np.concatenate(list(known.values()), axis=1))
        found = {}
        for name, block in blocks.items():
            own = block["own"].astype(np.float32)
            whole = np.concatenate(
                [own if other == name else self.attention.estimate(own, known[name], known[other]) for other in known],
                axis=1,
            )
            alone = predict_top(self.form, task, learn(known[name]), [own])
            both = predict_top(self.form, task, joint, [whole])
            found[name] = np.rint(_FULL * chances(alone, both, self.choice, prior)).astype(np.uint8)
        return found

    def _expand(self, party: Party, sure: Array) -> None:
        """Algorithm 2, ClientUpdateFewshot: some own rows join the labelled ones under the party's own guess."""
        own, local = own_rows(party), party.memory["local"]
        chosen = party.rng.random(len(own)) < sure / _FULL
        x, codes = party.data.part("train")[0], party.memory["codes"]
        if chosen.any():
            classes = local["head.bias"].size
            module = load(Extractor(self.extractor(party), party.data.shape, self.width, classes), local)
            guesses = to_array(evaluate(module, [to_tensor(own[chosen])]).argmax(dim=1))
            x, codes = np.concatenate([x, own[chosen]]), np.concatenate([codes, guesses])
        self.learn_rows(party, local, x, codes, own[~chosen])

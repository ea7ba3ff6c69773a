"""Local differential privacy: every party clips and noises each row before it leaves, and one model learns from that.

What a stated epsilon costs when nothing else is done. Each party's noise is priced alone; a person known to several
parties pays at each. Labels stay where they are.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from laconic.core.method import LABELLED, Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.learn.models.learners import AnyLearner, NetModel
from laconic.methods.families.rows import labelled, pooled_with_own_rows, side_by_side
from laconic.privacy.mechanisms.gaussian import LocalGaussian
from laconic.values import Array, flat


class LocalDp(Method, frozen=True):
    """The label holder learns from its own columns and the noised ones of all others.

    It learns from its labelled rows outside the overlap too; nobody sends anything about these, which would cost more.

    Attributes:
        noise: what is put on each row; rows to predict are noised as well.
        learner: the model.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "valid", LABELLED)

    noise: LocalGaussian = LocalGaussian(epsilon=8.0)
    learner: AnyLearner = NetModel()

    rounds = 1  # All columns come in one exchange.

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Collect noised columns and train."""
        cuts = self.learner.cuts
        sent = peers.ask(self.give_noised, rows="+".join(cuts))
        shared, valid = len(hub.data.cut("train")), None
        if "valid" in cuts:
            beside = self._beside(hub, "valid", [answer["valid"] for answer in sent.values()])
            valid = beside, labelled(hub, "valid")[1]
        x, y, groups = pooled_with_own_rows(hub, sent, learns=self.learner.takes_gaps)
        hub.memory["model"] = self.learner.fit_all(task_of(hub), x, y, hub.rng, valid, shared, groups)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Collect noised columns of these rows and predict."""
        sent = peers.ask(self.give_noised, rows=rows)
        x = self._beside(hub, rows, [answer[rows] for answer in sent.values()])
        return self.learner.predict(task_of(hub), hub.memory["model"], x)

    def fit_opening(self) -> Opening:
        """All rows to learn from, in one exchange."""
        return self.predict_opening("+".join(self.learner.cuts))

    def predict_opening(self, rows: str) -> Opening:
        """Parties need the names of the cuts alone."""
        return Opening((Ask.known(self.give_noised, rows=rows),), then="ends")

    @step(takes=None, gives="its columns of the rows asked for, each row clipped and under noise of a stated epsilon")
    def give_noised(self, party: Party, rows: str) -> dict[str, Any]:
        """The party's rows under fresh noise, for each of the cuts named, as `train+valid`."""
        parts = {cut: party.data.part(cut)[0] for cut in rows.split("+")}
        return {cut: self.noise.put_on(flat(x), party, cut) for cut, x in parts.items()}

    @staticmethod
    def _beside(hub: Party, rows: str, sent: list[Array]) -> Array:
        return side_by_side([hub.data.part(rows)[0], *sent] if hub.data.columns else sent)

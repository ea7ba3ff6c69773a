"""What a server can do with mixed rows beside training: whatever needs distances only (RAP, section 3).

Rotations keep every distance exactly; a scaled Gaussian matrix keeps one within a share of it as often as
`laconic.learn.rap.matrices.chance_to_keep` says. A party with a single column sends a pseudo column too, which adds
noise to distances. What the server finds out here, and all that `laconic.audit` can undo, is what parties give away.
"""

import numpy as np

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import Script, step
from laconic.core.values import Array
from laconic.learn.rap.matrices import AnyMatrix, Orthogonal
from laconic.methods.projecting import GIVES, Secrets, projected
from laconic.methods.rows import side_by_side


class MixedRows(Script, frozen=True):
    """Collects all parties' mixed rows at a server.

    Attributes:
        matrix: how columns are mixed.
        secrets: where matrices come from.
    """

    matrix: AnyMatrix = Orthogonal()
    secrets: Secrets = "seed"

    def gather(self, peers: Peers, rows: str) -> Array:
        """Everybody's mixed columns of a cut, side by side."""
        sent = peers.ask(self.give_mixed, rows=rows).values()
        return side_by_side([block for block in sent if block is not None])

    @step(takes=None, gives=GIVES)
    def give_mixed(self, party: Party, rows: str) -> Array | None:
        """The rows of a cut, mixed; None from a party without columns."""
        return projected(party, rows, self.matrix, self.secrets) if party.data.columns else None


def cluster(script: MixedRows, hub: Party, peers: Peers, rows: str, groups: int) -> Array:
    """The group, from 0, of each row of a cut: k-means."""
    from sklearn.cluster import KMeans

    model = KMeans(groups, n_init=5, random_state=int(hub.rng.integers(2**31)))
    return np.asarray(model.fit_predict(script.gather(peers, rows)))


def nearest(script: MixedRows, peers: Peers, asked: str, among: str, count: int) -> tuple[Array, Array]:
    """For each row of cut `asked`, its `count` nearest rows of cut `among`: their places and distances."""
    from sklearn.neighbors import NearestNeighbors

    finder = NearestNeighbors(n_neighbors=count).fit(script.gather(peers, among))
    distances, places = finder.kneighbors(script.gather(peers, asked))
    return np.asarray(places), np.asarray(distances)


def strangeness(script: MixedRows, peers: Peers, asked: str, among: str, count: int = 10) -> Array:
    """How far each row of cut `asked` is from its `count`-th nearest row of cut `among`: high for anomalies."""
    return np.asarray(nearest(script, peers, asked, among, count)[1][:, -1])

import numpy as np
import pytest

from laconic import Federation
from laconic.deploy import reach
from laconic.learn import Gaussian
from laconic.methods.vertical.rap import MixedRows, cluster, nearest, strangeness
from laconic.tables import Table
from laconic.testing import small_federation


@pytest.fixture(scope="module")
def federation() -> Federation:
    return small_federation("multiclass")


@pytest.fixture(scope="module")
def pooled(federation):
    return {cut: np.hstack([table.part(cut)[0] for table in federation.tables.values()]) for cut in ("train", "test")}


def test_the_server_finds_the_same_neighbours_as_on_pooled_columns(federation, pooled):
    with reach(MixedRows(), federation) as (_, peers):
        places, distances = nearest(MixedRows(), peers, "test", "train", 3)
    true = np.sort(np.linalg.norm(pooled["test"][:20, None] - pooled["train"], axis=2), axis=1)[:, :3]
    assert np.allclose(distances[:20], true, rtol=1e-4)
    assert places.shape == (len(pooled["test"]), 3)


def test_groups_found_on_mixed_rows_agree_with_the_classes_as_those_on_pooled_rows_do(federation, pooled):
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    with reach(MixedRows(), federation) as (hub, peers):
        groups = cluster(MixedRows(), hub, peers, "train", 10)
    y = federation.labels("train")
    open_groups = KMeans(10, n_init=5, random_state=0).fit_predict(pooled["train"])
    assert abs(adjusted_rand_score(y, groups) - adjusted_rand_score(y, open_groups)) < 0.1  # k-means itself varies


def test_a_row_unlike_all_others_is_the_strangest(federation):
    tables = dict(federation.tables)
    name, table = next(iter(tables.items()))
    raw = table.raw.copy()
    raw[table.cut("test")[5]] = 100.0
    tables[name] = Table(raw, table.columns, y=table.y, task=table.task, cuts=table.cuts, party=name)
    odd = Federation(name="odd", tables=tables, hub=federation.hub, aligned=True)
    with reach(MixedRows(), odd) as (_, peers):
        assert strangeness(MixedRows(), peers, "test", "train").argmax() == 5


def test_gaussian_mixing_keeps_distances_within_the_stated_error_of_most_pairs(federation, pooled):
    # Widths are 20 and more here, where for error 0.9 at least 77 % of distances of a party are to be kept.
    script = MixedRows(matrix=Gaussian(scaled=True))
    with reach(script, federation) as (_, peers):
        mixed = script.gather(peers, "train")
    pairs = np.random.default_rng(0).integers(len(mixed), size=(500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    before, after = (((x[pairs[:, 0]] - x[pairs[:, 1]]) ** 2).sum(axis=1) for x in (pooled["train"], mixed))
    assert np.mean(np.abs(after / before - 1) <= 0.9) > 0.77


def test_one_party_asked_twice_sends_the_same_rows(federation):
    with reach(MixedRows(), federation) as (_, peers):
        one, other = (MixedRows().gather(peers, "test") for _ in range(2))
    assert np.array_equal(one, other)

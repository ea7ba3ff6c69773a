"""Parties with other rows learn labels that are numbers or counts: by averaging, and by one scale of all labels."""

import numpy as np
import pandas as pd
import pytest

from laconic import FedAvg, FedDf, FedKt, FedTrees, Pate, PooledRows, SoloRows, check_method, rows_from_frames, train
from laconic.errors import DataError, WireError
from laconic.learn import Logistic, Network, Sgd, check_model
from laconic.methods import Majority
from laconic.methods.families.model_checks import mark_of
from laconic.methods.horizontal.fedavg import FedYogi
from laconic.privacy import L2
from laconic.tables import Task
from laconic.testing import small_horizontal

QUICK = Sgd(epochs=3, batch=32)
NUMBER = Task(kind="regression", label="visits")


def visits(counts=(60, 60, 60), far=0.0):
    """Parties whose visits, whole numbers, follow from two columns; those of the last lie `far` away."""
    rng, frames = np.random.default_rng(0), {}
    for name, rows in zip(("north", "south", "west"), counts, strict=True):
        x = rng.normal(size=(rows, 2))
        level = 300 + 40 * x[:, 0] - 25 * x[:, 1] + (far if name == "west" else 0.0)
        frames[name] = pd.DataFrame(x, columns=["age", "stay"]).assign(visits=rng.poisson(np.maximum(level, 1)))
    return frames


def federation(frames, public=True):
    opened = pd.DataFrame(np.random.default_rng(1).normal(size=(80, 2)), columns=["age", "stay"])
    return rows_from_frames(frames, label="visits", task=NUMBER, public=opened if public else None)


@pytest.mark.parametrize("public", [True, False], ids=["public rows", "sums"])
def test_the_scale_of_labels_is_that_of_all_parties_rows(public):
    run = train(FedAvg(trainer=QUICK, exchanges=3), federation(visits(far=5000.0), public))
    tables = [party.data for party in run.others]
    every = np.concatenate([table.part("train")[1] for table in tables])
    for table in (*tables, run.hub.data):
        assert table.task.scale.mean == pytest.approx(every.mean(), rel=1e-12)
        assert table.task.scale.spread == pytest.approx(every.std(), rel=1e-12)
        assert table.task.scale.rows == 0  # How many rows others have is not passed on.
    assert set(run.result.metrics) == {"rmse", "mae", "r2", "rmse_scaled"}


def test_counts_are_learnt_as_numbers():
    trainer = Sgd(epochs=10, batch=16, lr=0.01)
    assert train(FedAvg(trainer=trainer, exchanges=2), federation(visits())).result.metrics["r2"] > 0.7


def test_knowledge_transfer_learns_the_mean_of_what_teachers_and_students_say():
    frames = visits((90, 90, 30), far=600.0)
    plain, weighed = (
        train(FedKt(model=Logistic(), partitions=1, teachers=2, count=count), federation(frames))
        for count in (Majority(), None)
    )
    x = plain.hub.data.part("public")[0]
    said = [run.predict("public").mean() for run in (plain, weighed)]
    # At the middle of the columns two parties say 300 and one 900: the mean over parties, and over rows.
    assert said[0] == pytest.approx(500 + 40 * x[:, 0].mean(), abs=40)
    assert said[1] == pytest.approx((300 * 180 + 900 * 30) / 210, abs=40)


def test_noise_on_votes_is_refused_for_numbers_by_name():
    with pytest.raises(Exception, match="label 'visits' is a number, and L2 puts noise on votes for classes"):
        train(FedKt(model=Logistic(), level=L2()), federation(visits()))


def test_labels_that_are_all_one_number_at_a_party_are_learnt_as_that_number():
    frames = visits()
    frames["west"]["visits"] = 7
    for method in (FedTrees(least_rows=20), FedKt(model=Logistic(), teachers=2), SoloRows(model=Logistic())):
        assert np.isfinite(list(train(method, federation(frames)).result.metrics.values())).all()
    with pytest.raises(WireError, match="a constant must be one number"):
        check_model(Network(), NUMBER, {"constant": np.array([3, 4])}, (2,), "west")


def test_too_few_rows_to_say_a_scale_are_an_error_that_says_how_many_are_needed():
    with pytest.raises(DataError, match="no party has 5 training rows with a 'visits'"):
        train(FedAvg(trainer=QUICK), federation(visits((4, 4, 4))))


def test_parties_judge_models_of_numbers_by_how_they_rank_rows():
    y = np.arange(20.0)
    assert mark_of(NUMBER, y**3, y) == pytest.approx(1.0)
    assert mark_of(NUMBER, -y, y) == pytest.approx(0.0)
    assert mark_of(NUMBER, np.ones(20), y) == 0.5
    assert mark_of(NUMBER, y, np.ones(20)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [FedAvg(exchanges=2), FedYogi(exchanges=5), FedDf(), FedKt(), Pate(), PooledRows(model=Logistic()), SoloRows()],
    ids=lambda method: type(method).__name__,
)
def test_numbers_keep_the_contract(method):
    check_method(method, small_horizontal("regression"))

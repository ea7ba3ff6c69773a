"""Agreeing on columns under noise and under masks: what it covers, what one row can move, and what the hub sees."""

from itertools import product

import numpy as np
import pytest

from laconic import FedAvg, fit, price, rows_from_frames
from laconic.align.schema import SameColumns
from laconic.core import Peers, WireLog
from laconic.deploy import InProcess, Processes, ledgers_of, open_calls, roles, simulate, train
from laconic.errors import DataError, PlanError
from laconic.learn import Sgd
from laconic.methods import SecureSums
from laconic.plan import Budget, DataPlan, Plan
from laconic.privacy import ColumnBounds, DpSgd, GaussianColumns
from laconic.tables import Column, Table, Task
from tests.data.hospitals import hospitals, visits, write

BOUNDS = ColumnBounds(columns={f"size{at}": (0.0, high) for at, high in enumerate((30, 40, 200, 2500, 1, 1))})
WITH_LABEL = ColumnBounds(columns=BOUNDS.columns, label=(0.0, 200.0))
QUICK = FedAvg(trainer=Sgd(epochs=1, batch=32))
NUMBER = Task(kind="regression", label="diagnosis")


def federation(frames=None, **settings):
    return rows_from_frames(frames or hospitals(), label="diagnosis", id="patient", **settings)


def agreed(align, frames=None, **settings):
    """The tables of all parties after agreeing, and what crossed."""
    trained = train(QUICK, federation(frames, **settings), align=align)
    return trained.federation.tables, trained.result


def test_no_row_moves_all_sums_together_further_than_is_said_and_one_row_moves_them_that_far():
    columns = (Column("a", "numeric", ()), Column("b", "numeric", ()), Column("c", "categorical", ("x", "y")))
    bounds = ColumnBounds(columns={"a": (0.0, 10.0), "b": (-1.0, 3.0)}, label=(0.0, 1.0))
    # By hand: rows 1; a: 1 + 1 + 1, and 1 more since 0 is an end; b: 3; c: 1; label: 3.
    assert bounds.sensitivity(columns, "y") ** 2 == pytest.approx(1 + 4 + 3 + 1 + 3)
    assert bounds.sensitivity(columns, None) ** 2 == pytest.approx(1 + 4 + 3 + 1)
    a, b = (np.nan, -5.0, 0.0, 5.0, 10.0, 99.0), (np.nan, -1.0, 0.0, 1.0, 3.0, 1e9)
    *raw, labels = np.array(list(product(a, b, (0.0, 1.0, np.nan), (0.0, 0.5, 1.0)))).T
    every = {"train": np.arange(len(labels))}
    task = Task(kind="regression", label="y")
    table = Table(party="north", raw=np.stack(raw, axis=1), columns=columns, cuts=every, y=labels, task=task)

    def moved(row):
        sums = bounds.sums(table.changed(cuts={"train": np.array([row])}, recipe=table.recipe), columns, "y")
        return float(np.linalg.norm(np.concatenate([[sums.rows], sums.columns.ravel(), sums.label])))

    assert max(map(moved, range(len(labels)))) == pytest.approx(bounds.sensitivity(columns, "y"))


def test_without_noise_two_agreements_give_away_a_patients_number_and_with_noise_they_do_not():
    frames = visits()
    without = frames | {"north": frames["north"].iloc[1:]}
    known = frames["north"]["diagnosis"].iloc[0]

    def guessed(align):
        """A label as whoever receives both agreements works it out: the sums with the patient less those without."""
        sums = []
        for some in (frames, without):
            _, _, others = roles(QUICK, federation(some, task=NUMBER, test=0.01), seed=0)
            north = next(party for party in others if party.name == "north")
            north.data = north.data.changed(cuts={"train": np.arange(north.data.rows)})
            if align.guarded:
                given = align.give_sums(north, align.show_names(north)["columns"]).value["label"]
                sums.append(given[1] * 100 + given[0] * 100)
            else:
                scale = align.show_columns(north)["task"]["scale"]
                sums.append(scale["mean"] * scale["rows"])
        return sums[0] - sums[1]

    assert guessed(SameColumns()) == pytest.approx(known)
    noisy = SameColumns(noise=GaussianColumns(sigma=1000.0), bounds=WITH_LABEL)
    assert abs(guessed(noisy) - known) > 100  # Once in ten thousand draws it is less.


def test_noisy_agreement_is_near_the_open_one_and_leaves_names_alone():
    open_tables, _ = agreed(SameColumns(), visits(), task=NUMBER)
    noise = GaussianColumns(sigma=0.001, seeded=True)
    tables, result = agreed(SameColumns(noise=noise, bounds=WITH_LABEL), visits(), task=NUMBER)
    for name, table in tables.items():
        assert table.recipe.names == open_tables[name].recipe.names
        assert table.task.scale.mean == pytest.approx(open_tables[name].task.scale.mean, rel=0.02)
        for noisy, plain in zip(table.recipe.parts, open_tables[name].recipe.parts, strict=True):
            assert getattr(noisy, "scale", 1.0) == pytest.approx(getattr(plain, "scale", 1.0), rel=0.1)
    steps = {one.step: one for one in result.releases if one.phase == "align" and one.party == "north"}
    assert steps.keys() == {"show_names", "give_sums", "show_fingerprint"}
    assert steps["give_sums"].noise is not None
    assert steps["show_names"].noise is None
    assert "not covered: the names of columns, of levels and of classes" in steps["give_sums"].covered


def test_great_noise_leaves_columns_that_can_be_learnt_from():
    tables, result = agreed(SameColumns(noise=GaussianColumns(sigma=50.0), bounds=BOUNDS))
    parts = tables["server"].recipe.parts
    assert all(np.isfinite(getattr(part, "scale", 1.0)) for part in parts)
    assert np.isfinite(list(result.metrics.values())).all()


def test_under_masks_the_hub_gets_the_sums_of_all_and_of_no_party():
    open_tables, _ = agreed(SameColumns(), visits(), task=NUMBER)
    tables, result = agreed(SameColumns(sums=SecureSums(), bounds=WITH_LABEL), visits(), task=NUMBER)
    assert tables["server"].recipe.names == open_tables["server"].recipe.names
    for masked, plain in zip(tables["server"].recipe.parts, open_tables["server"].recipe.parts, strict=True):
        assert getattr(masked, "scale", 1.0) == pytest.approx(getattr(plain, "scale", 1.0), rel=1e-5)
    scale, wanted = tables["north"].task.scale, open_tables["north"].task.scale
    assert (scale.mean, scale.spread) == pytest.approx((wanted.mean, wanted.spread), rel=1e-6)
    labels = {one.step: one.label for one in result.releases if one.phase == "align" and one.party == "north"}
    assert labels["give_sums"] == "cryptographic"
    assert labels["show_names"] == "open"


def test_what_a_party_sends_under_masks_looks_random():
    align = SameColumns(sums=SecureSums(), bounds=BOUNDS)
    hub, _, others = roles(QUICK, federation(), seed=0)
    with open_calls(others) as carrier:
        peers = Peers(align, hub, carrier, WireLog(), carrier.names)
        columns = peers.ask(align.show_names)["north"]["columns"]
        align.sums._agreed(align, peers)
        sent = peers.ask(align.give_sums, columns=columns)
    numbers = np.concatenate(list(sent.values()))
    assert numbers.dtype == np.uint64
    assert len(np.unique(numbers)) == len(numbers)
    assert np.mean(numbers > 2**63) == pytest.approx(0.5, abs=0.25)


def test_parties_add_noise_together_under_masks_and_each_a_share():
    align = SameColumns(sums=SecureSums(), noise=GaussianColumns(sigma=2.0), bounds=BOUNDS)
    _, result = agreed(align)
    given = [one for one in result.releases if one.step == "give_sums" and one.party != "server"]
    assert {one.noise.multiplier for one in given} == {2.0}
    assert "each a share" in given[0].covered
    assert price(ledgers_of(result), 1e-5, "disjoint").epsilon == pytest.approx(
        price({"north": ledgers_of(result)["north"]}, 1e-5).epsilon
    )


def test_noise_on_labels_alone_where_columns_are_prepared_by_public_rows():
    opened = visits()["north"].drop(columns="diagnosis").iloc[:40]
    align = SameColumns(noise=GaussianColumns(sigma=1.0), bounds=ColumnBounds(label=(0.0, 200.0)))
    tables, result = agreed(align, visits(), task=NUMBER, public=opened)
    given = [one for one in result.releases if one.step == "give_sums" and one.party != "server"]
    noises = {one.noise.sensitivity for one in given}
    assert noises == {2.0}  # By hand: 1 for the row, and 1, t, t^2 of its label.
    assert 0 < tables["north"].task.scale.mean < 200


def test_a_column_without_bounds_is_refused_by_name_and_says_what_to_set():
    with pytest.raises(DataError, match=r"'size3' holds numbers.*data.agree.bounds.columns.size3"):
        bounds = {name: one for name, one in BOUNDS.columns.items() if name != "size3"}
        agreed(SameColumns(noise=GaussianColumns(sigma=1.0), bounds=ColumnBounds(columns=bounds)))
    with pytest.raises(DataError, match="label 'diagnosis' is a number"):
        agreed(SameColumns(sums=SecureSums(), bounds=BOUNDS), visits(), task=NUMBER)
    with pytest.raises(ValueError, match="the bounds of a must be two numbers that rise"):
        ColumnBounds(columns={"a": (3.0, 3.0)})


@pytest.mark.slow
def test_agreeing_under_masks_is_the_same_with_parties_truly_apart():
    align, found = SameColumns(sums=SecureSums(), bounds=BOUNDS), federation()
    one, other = (simulate(QUICK, found, runtime=runtime, align=align) for runtime in (InProcess(), Processes()))
    assert one.predictions == other.predictions
    assert one.data["fingerprint"] == other.data["fingerprint"]
    assert (one.align.bytes_up, one.align.bytes_down) == (other.align.bytes_up, other.align.bytes_down)


def plan(tmp_path, noise, budget, method=None):
    return Plan(
        method=method or FedAvg(trainer=DpSgd(epochs=2, batch=32)),
        data=DataPlan(
            files=tuple(write(tmp_path, hospitals())),
            id="patient",
            label="diagnosis",
            agree=SameColumns(noise=noise, bounds=BOUNDS),
        ),
        budget=budget,
    )


@pytest.mark.slow
def test_a_budget_pays_for_agreeing_and_learning_together(tmp_path):
    result = fit(plan(tmp_path, GaussianColumns(share=0.2), Budget(epsilon=2.0))).result
    assert 1.9 < result.privacy.epsilon <= 2.0
    alone = fit(plan(tmp_path, GaussianColumns(share=0.01), Budget(epsilon=2.0))).result
    assert 1.9 < alone.privacy.epsilon <= 2.0
    noise = [
        next(one.noise.multiplier for one in run.releases if one.step == "give_sums" and one.noise)
        for run in (result, alone)
    ]
    assert noise[1] == pytest.approx(noise[0] * 20**0.5)


def test_noise_of_no_size_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(PlanError, match=r"data.agree.noise.sigma, or budget.epsilon"):
        fit(plan(tmp_path, GaussianColumns(), Budget(), QUICK))


def test_a_bad_answer_is_an_error_that_names_its_sender():
    from laconic.align.schema import _linear
    from laconic.errors import WireError

    like = {"rows": 0.0, "columns": np.zeros((2, 4)), "label": np.zeros(3)}
    for answer in (None, {"rows": 1.0}, like | {"columns": np.zeros((1, 4))}, like | {"rows": float("nan")}):
        with pytest.raises(WireError, match="north"):
            _linear("north", answer, like)

"""Dates become parts that models can use: where in the year, the week and the day they are."""

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace

from laconic import FedAvg, FedOnce, Solo, federation, simulate
from laconic.learn import Sgd
from laconic.tables import Column, Table, apply_recipe, fit_recipe

ROWS = 900


def prepared(days):
    column = Column("since", prepare="date")
    raw = np.asarray(days, dtype=np.float64)[:, None]
    recipe = fit_recipe(raw, [column], np.arange(len(raw)))
    return dict(zip(recipe.names, apply_recipe(recipe, raw).T, strict=True))


def days(*dates):
    return [(np.datetime64(one) - np.datetime64("1970-01-01")) / np.timedelta64(1, "D") for one in dates]


def test_a_date_is_its_day_and_where_that_is_in_year_and_week():
    found = prepared(days("2012-12-31", "2013-04-01", "2013-07-06"))  # Monday, Monday, Saturday
    assert list(found) == [
        "since",
        "since: time of year (sine)",
        "since: time of year (cosine)",
        "since: day of week (sine)",
        "since: day of week (cosine)",
        "since is at the weekend",
    ]
    assert found["since: time of year (cosine)"].tolist() == pytest.approx([1, 0, -1], abs=0.05)
    assert found["since: day of week (cosine)"].tolist() == pytest.approx([1, 1, np.cos(10 * np.pi / 7)], abs=1e-6)
    assert np.sign(found["since is at the weekend"]).tolist() == [-1, -1, 1]


def test_times_of_day_count_where_there_are_any_and_parts_that_never_vary_do_not():
    found = prepared(days("2013-01-07T06:00", "2013-01-14T12:00"))
    assert [name for name in found if "week" in name or "year" in name] == []
    assert found["since: time of day (sine)"].tolist() == pytest.approx([1, 0], abs=1e-6)


def test_a_missing_date_is_nowhere_in_particular():
    found = prepared([*days("2013-01-07", "2013-04-06"), np.nan])
    assert all(values[2] == 0 for name, values in found.items() if name != "since is missing")


def drawn(seed):
    """Rows of which the label follows from the day of the week and the season of a date, and of nothing else."""
    rng = np.random.default_rng(seed)
    when = np.datetime64("2013-01-01") + rng.integers(0, 1400, ROWS)
    weekday = (when.astype("datetime64[D]").astype(int) + 3) % 7
    summer = (when.astype("datetime64[M]").astype(int) % 12 >= 4) & (when.astype("datetime64[M]").astype(int) % 12 < 9)
    label = rng.random(ROWS) < np.where((weekday >= 5) ^ summer, 0.9, 0.1)
    noise = rng.normal(size=ROWS)
    return pd.DataFrame({"id": range(ROWS), "opened": when.astype(str), "noise": noise, "left": label})


def as_numbers_only(made):
    """The same federation with dates as plain numbers of days, as they were before they had parts."""
    tables = {
        name: Table(
            table.raw, [replace(one, prepare="usual") for one in table.columns], ids=table.ids, y=table.y,
            task=table.task, party=name,
        )
        for name, table in made.tables.items()
    }  # fmt: skip
    return type(made)(name=made.name, tables=tables, hub=made.hub, aligned=False)


def test_a_model_gains_from_the_parts_of_dates_at_the_hub_and_at_a_guest():
    frame = drawn(0)
    trainer = Sgd(epochs=40, lr=0.01)
    at_hub = federation(
        {"bank": frame[["id", "opened", "left"]], "shop": frame[["id", "noise"]]}, id="id", label="left"
    )
    at_guest = federation(
        {"bank": frame[["id", "noise", "left"]], "shop": frame[["id", "opened"]]}, id="id", label="left"
    )
    for method, made in ((Solo(trainer=trainer), at_hub), (FedOnce(trainer=trainer), at_guest)):
        before = simulate(method, as_numbers_only(made), seed=0).score.value
        now = simulate(method, made, seed=0).score.value
        assert before < 0.65
        assert now > before + 0.15


def test_parties_with_other_rows_prepare_dates_the_same_and_gain_too():
    made = federation(
        {name: drawn(seed).drop(columns="id") for seed, name in enumerate(("north", "south"))}, label="left"
    )
    result = simulate(FedAvg(trainer=Sgd(epochs=40, batch=32, lr=0.01)), made, seed=0)
    assert result.score.value > 0.75

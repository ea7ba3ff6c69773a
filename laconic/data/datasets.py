"""Public data sets by name, each in one piece before it is dealt among parties.

Small ones come with scikit-learn, others from files in the folder LACONIC_DATA. Each comes from one function, and none
is read before it is asked for.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laconic.errors import DataError
from laconic.shown import counted
from laconic.tables.columns import Column
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """All rows and columns of a public data set, with its labels.

    Attributes:
        name: as `laconic data` lists it.
        raw: cells, shape (rows, columns), or uint8 images, shape (rows, channels, height, width).
        columns: what the raw columns are; one of kind `pixels` for images.
        y: class codes or numbers.
        task: what `y` is.
        ids: one per row; None stands for the row's position.
        test: row positions of the official test set; None where the publishers gave none.
        groups: natural owners of the columns, by name, where the set has some.
        note: what differs from the set as published, for reports.
    """

    name: str
    raw: Array
    columns: tuple[Column, ...]
    y: Array
    task: Task
    ids: Array | None = None
    test: Array | None = None
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""

    def __repr__(self) -> str:
        size = "images" if self.is_image else f"{counted(len(self.columns), 'column')}"
        return f"<Dataset {self.name}: {counted(self.rows, 'row')}, {size}, to predict {self.task.label}>"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.raw)

    @property
    def is_image(self) -> bool:
        """Whether rows are images rather than rows of a table."""
        return self.raw.ndim == 4

    def keys(self) -> Array:
        """One id per row: those of the set, or row positions."""
        return np.arange(self.rows) if self.ids is None else self.ids


VARIABLE = "LACONIC_DATA"
"""The environment variable that names the folder of public data sets."""


def data_file(name: str) -> Path:
    """The path of a data file."""
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        raise DataError(
            f"this data set needs the file {name}, and {VARIABLE} does not say where it is; "
            f"run: export {VARIABLE}=/folder/with/data (breast_cancer, digits and diabetes need no files)"
        )
    path = Path(folder) / name
    if not path.is_file():
        raise DataError(f"this data set needs the file {path}, which is not there; put it there or change {VARIABLE}")
    return path


def read_parquet(*names: str) -> "DataFrame":
    """One or more Parquet files below each other, rows in the order of the files."""
    import pandas

    frames = [pandas.read_parquet(data_file(name)) for name in names]
    return pandas.concat(frames, ignore_index=True)


def code_frame(frame: "DataFrame", categorical: Collection[str] = ()) -> tuple[Array, tuple[Column, ...]]:
    """All columns of a frame as one matrix of raw cells, and what they are: numbers, or levels if named categorical."""
    from laconic.data.readers.cells import code_levels

    cells = np.empty(frame.shape, dtype=np.float64)
    columns = []
    for at, name in enumerate(frame.columns):
        if name in categorical:
            cells[:, at], levels = code_levels(frame[name])
            columns.append(Column(str(name), "categorical", levels))
        else:
            cells[:, at] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
            columns.append(Column(str(name)))
    return cells, tuple(columns)


_Owners: TypeAlias = dict[str, tuple[str, ...]]
"""The natural owners of columns, by name."""

_DIGITS = tuple(str(digit) for digit in range(10))


def breast_cancer() -> Dataset:
    """Cell nuclei of 569 tumours: ten measures, each as mean, error and worst; label: benign."""
    from sklearn import datasets

    bunch = datasets.load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in bunch.feature_names]
    groups = {
        "clinic": _starting(names, "mean_"),
        "hospital": _starting(names, "worst_"),
        "laboratory": tuple(name for name in names if name.endswith("_error")),
    }
    task = Task(kind="binary", classes=tuple(map(str, bunch.target_names)), label="diagnosis")
    return _numbers("breast_cancer", bunch, names, task, groups)


def digits() -> Dataset:
    """Handwritten digits, 1797 of 8 x 8 shades, as a table of 64 columns; label: the digit."""
    from sklearn import datasets

    names = [f"row{row}_column{column}" for row in range(8) for column in range(8)]
    quarters: dict[str, tuple[str, ...]] = {}
    for at, name in enumerate(names):
        quarter = f"{'upper' if at < 32 else 'lower'}_{'left' if at % 8 < 4 else 'right'}"
        quarters[quarter] = (*quarters.get(quarter, ()), name)
    task = Task(kind="multiclass", classes=_DIGITS, label="digit")
    return _numbers("digits", datasets.load_digits(), names, task, quarters)


def diabetes() -> Dataset:
    """Ten measures of 442 patients; target: how far the disease went a year later, a number."""
    from sklearn import datasets

    bunch = datasets.load_diabetes(scaled=False)
    names = [str(name) for name in bunch.feature_names]
    groups = {"practice": tuple(names[:4]), "laboratory": tuple(names[4:])}
    return _numbers("diabetes", bunch, names, Task(kind="regression", label="progression"), groups)


def _numbers(name: str, bunch: Any, names: list[str], task: Task, groups: _Owners) -> Dataset:
    """A set of scikit-learn, all of whose columns are numbers."""
    columns = tuple(Column(one) for one in names)
    y = bunch.target.astype(_label_type(task))
    return Dataset(name=name, raw=bunch.data.astype(np.float64), columns=columns, y=y, task=task, groups=groups)


def _label_type(task: Task) -> type[np.generic]:
    return np.float64 if task.kind == "regression" else np.int64


def _starting(names: Iterable[str], *beginnings: str) -> tuple[str, ...]:
    return tuple(name for name in names if name.startswith(beginnings))


def _table(
    name: str,
    files: tuple[str, ...],
    task: Task,
    label: str | None = None,
    *,
    categorical: Collection[str] | None = (),
    trained: int | None = None,
    groups: _Owners | Callable[[list[str]], _Owners] | None = None,
    note: str = "",
) -> Dataset:
    """A table of Parquet files.

    Args:
        label: the label column; None if it is called as in the task.
        categorical: the columns whose cells are levels; None if all are.
        trained: how many rows come before the official test set; None if there is none.
        groups: the columns' owners, or a function that finds them from the names of all columns.
        note: what differs from the set as published.
    """
    frame = read_parquet(*files)
    y = frame.pop(label or task.label).to_numpy(dtype=_label_type(task))
    ids = frame.pop("ID").to_numpy(dtype=np.int64) if "ID" in frame else None
    raw, columns = code_frame(frame, frame.columns if categorical is None else categorical)
    owners = groups([column.name for column in columns]) if callable(groups) else groups or {}
    test = None if trained is None else np.arange(trained, len(y))
    return Dataset(name=name, raw=raw, columns=columns, y=y, task=task, ids=ids, test=test, groups=owners, note=note)


_TASK = Task(kind="binary", classes=("up to 50K", "over 50K"), label="income")
_TRAINED = 32561
_CATEGORIES = {
    *("workclass", "education", "marital_status", "occupation"),
    *("relationship", "race", "sex", "native_country"),
}
_OWNERS = {
    "employer": ("workclass", "education", "education_num", "occupation", "hours_per_week"),
    "registry": ("age", "marital_status", "relationship", "race", "sex", "native_country"),
    "tax_office": ("capital_gain", "capital_loss", "fnlwgt"),
}


def adult() -> Dataset:
    """People in a census, 48,842 with 14 columns, some cells missing; label: income over 50,000."""
    files = ("adult_train.parquet", "adult_test.parquet")
    return _table("adult", files, _TASK, "income_gt_50k", categorical=_CATEGORIES, trained=_TRAINED, groups=_OWNERS)


def a9a() -> Dataset:
    """The adult census as 123 yes-or-no columns, as in LIBSVM; label: income over 50,000."""
    return _table("a9a", ("a9a_train.parquet", "a9a_test.parquet"), _TASK, "label", trained=_TRAINED)


def california_housing() -> Dataset:
    """Districts of California in 1990, 20,640 with 9 columns; target: median house value."""
    groups = {
        "land_registry": ("longitude", "latitude", "housing_median_age", "ocean_proximity"),
        "census": ("total_rooms", "total_bedrooms", "population", "households", "median_income"),
    }
    task = Task(kind="regression", label="median_house_value")
    files = ("california_housing.parquet",)
    return _table("california_housing", files, task, categorical={"ocean_proximity"}, groups=groups)


_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_SIDE = 32
_TILES = 100  # images on a sheet, each way


def cifar10() -> Dataset:
    """Photographs, 60,000 colour images of 32 x 32; label: one of ten things."""
    names = (*(f"train_{sheet}" for sheet in range(1, 6)), "test")
    with np.load(data_file("cifar10/labels.npz"), allow_pickle=False) as labels:
        y, trained = np.concatenate([labels["y_train"], labels["y_test"]]), len(labels["y_train"])
    return _images(
        "cifar10", np.concatenate([_read_sheet(f"cifar10/{one}.webp") for one in names]), y, _THINGS, trained
    )


def fashion_mnist() -> Dataset:
    """Pieces of clothing, 70,000 grey images of 28 x 28; label: one of ten kinds."""
    return _grey_images("fashion_mnist", "fashion_mnist.npz", _CLOTHES)


def mnist() -> Dataset:
    """Handwritten digits, 70,000 grey images of 28 x 28; label: the digit."""
    return _grey_images("mnist", "mnist.npz", _DIGITS)


def _read_sheet(name: str) -> Array:
    """The images of one sheet, shape (10000, 3, 32, 32)."""
    from PIL import Image

    with Image.open(data_file(name)) as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
    tiles = pixels.reshape(_TILES, _SIDE, _TILES, _SIDE, 3).transpose(0, 2, 4, 1, 3)
    return tiles.reshape(_TILES * _TILES, 3, _SIDE, _SIDE)


def _grey_images(name: str, file: str, classes: tuple[str, ...]) -> Dataset:
    with np.load(data_file(file), allow_pickle=False) as arrays:
        images = np.concatenate([arrays["x_train"], arrays["x_test"]])[:, np.newaxis]
        labels = np.concatenate([arrays["y_train"], arrays["y_test"]])
        return _images(name, images, labels, classes, len(arrays["x_train"]))


def _images(name: str, raw: Array, y: Array, classes: tuple[str, ...], trained: int) -> Dataset:
    """Images with an official test set after the training ones."""
    task = Task(kind="multiclass", classes=classes, label="class")
    columns, test = (Column("image", "pixels"),), np.arange(trained, len(y))
    return Dataset(name=name, raw=raw, columns=columns, y=y.astype(np.int64), task=task, test=test)


def codrna() -> Dataset:
    """RNA sequences, 331,152 with 8 columns as in LIBSVM; label: non-coding."""
    task = Task(kind="binary", classes=("other", "non-coding"), label="rna")
    return _table("codrna", ("codrna_train.parquet", "codrna_test.parquet"), task, "label", trained=59535)


_TREES = ("spruce/fir", "lodgepole pine", "ponderosa pine", "cottonwood/willow", "aspen", "douglas-fir", "krummholz")


def covtype() -> Dataset:
    """Forest patches, 581,012 with 54 columns; label: one of seven kinds of trees."""
    task = Task(kind="multiclass", classes=_TREES, label="Cover_Type")
    every = _table("covtype", ("covtype.parquet",), task, groups=_owners_of_patches)
    # Whole numbers below 2**24: exact, at half the memory. Classes are counted from 1.
    return replace(every, raw=every.raw.astype(np.float32), y=every.y - 1)


def _owners_of_patches(names: list[str]) -> _Owners:
    far = tuple(name for name in names if "Distance_To" in name)
    wild, soil = _starting(names, "Wilderness"), _starting(names, "Soil")
    terrain = tuple(name for name in names if name not in {*far, *wild, *soil})
    return {"surveyor": terrain, "roads": far, "park": wild, "geologist": soil}


def covtype_binary() -> Dataset:
    """Forest patches as in LIBSVM, 581,012 with 54 columns; label: lodgepole pine or not."""
    every = covtype()
    task = Task(kind="binary", classes=("other trees", "lodgepole pine"), label="Cover_Type")
    return replace(every, name="covtype_binary", y=(every.y == 1).astype(np.int64), task=task)


def credit_default() -> Dataset:
    """Credit card clients in Taiwan, 30,000 with 23 columns; label: default next month."""
    # The public two-party division of this set: the label holder has 13 columns, the other party 10.
    months = range(1, 7)
    groups = {
        "bank": ("PAY_6", *(f"BILL_AMT{i}" for i in months), *(f"PAY_AMT{i}" for i in months)),
        "bureau": ("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "PAY_0", *(f"PAY_{i}" for i in range(2, 6))),
    }
    task = Task(kind="binary", classes=("pays", "defaults"), label="default_payment_next_month")
    files = ("credit_default.parquet",)
    return _table("credit_default", files, task, categorical={"SEX", "EDUCATION", "MARRIAGE"}, groups=groups)


_LATE = 15  # minutes; from here on a flight counts as late in US statistics
# Only what is known before departure: departure delay or air time would give the answer away.
_SCHEDULE = ("month", "weekday", "hour", "minute", "sched_arr_time", "carrier", "origin", "dest", "distance")
_WEATHER = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
_REGISTRY = ("year_built", "type", "manufacturer", "model", "engines", "seats", "engine")
_CATEGORIES_OF_NYCFLIGHTS13 = {"carrier", "origin", "dest", "type", "manufacturer", "model", "engine"}


def nycflights13() -> Dataset:
    """Flights out of New York in 2013, 327,346 with 25 columns; label: over 15 minutes late."""
    flights = _joined()
    raw, columns = code_frame(flights[[*_SCHEDULE, *_WEATHER, *_REGISTRY]], _CATEGORIES_OF_NYCFLIGHTS13)
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


# How the authors of the set group their 30 attributes, in its order of columns.
_OWNERS_OF_PHISHING = {"browser": 12, "crawler": 6, "page": 5, "registrar": 7}
_SITE = Task(kind="binary", classes=("phishing", "legitimate"), label="site")


def phishing() -> Dataset:
    """Web sites, 11,055 with 68 yes-or-no columns as in LIBSVM; label: legitimate."""
    return _table("phishing", ("phishing_onehot68.parquet",), _SITE, "label", groups=_owners_of_sites)


def phishing_cat30() -> Dataset:
    """Web sites, 11,055 with 30 categories of up to three levels; label: legitimate."""
    files = ("phishing_cat30.parquet",)
    every = _table("phishing_cat30", files, _SITE, "label", categorical=None, groups=_owners_of_sites)
    return replace(every, y=(every.y == 1).astype(np.int64))


def _owners_of_sites(names: list[str]) -> _Owners:
    attributes = list(dict.fromkeys(name.split("=")[0] for name in names))
    groups, start = {}, 0
    for owner, count in _OWNERS_OF_PHISHING.items():
        owned = set(attributes[start : start + count])
        groups[owner] = tuple(name for name in names if name.split("=")[0] in owned)
        start += count
    return groups


_PROPERTIES = (
    *("atomic_mass", "fie", "atomic_radius", "Density"),
    *("ElectronAffinity", "FusionHeat", "ThermalConductivity", "Valence"),
)


def superconduct() -> Dataset:
    """Superconductors, 21,263 with 77 columns on eight properties; target: critical temperature."""
    task = Task(kind="regression", label="critical_temp")
    note = "76 of the 81 published columns; number_of_elements was inferred from the entropies"
    return _table("superconduct", ("superconduct.parquet",), task, groups=_owners_of_properties, note=note)


def _owners_of_properties(names: list[str]) -> _Owners:
    groups = {owner.lower(): tuple(name for name in names if name.endswith("_" + owner)) for owner in _PROPERTIES}
    return groups | {"atomic_mass": ("number_of_elements", *groups["atomic_mass"])}


_NOT_HEARD = 100
_WEAKEST = -105  # one below the weakest signal heard, in dBm: what is not heard is far away
_NOTE = "both published files together; 520 signals only, 'not heard' (100) as -105 dBm; not the FedOnce paper's target"


def ujiindoorloc() -> Dataset:
    """Phones among 520 wireless stations, 21,048 measurements; target: longitude in metres."""
    return _measurements("ujiindoorloc", Task(kind="regression", label="longitude"))


def ujiindoorloc_latitude() -> Dataset:
    """Phones among 520 wireless stations, 21,048 measurements; target: latitude in metres."""
    return _measurements("ujiindoorloc_latitude", Task(kind="regression", label="latitude"))


def ujiindoorloc_floor() -> Dataset:
    """Phones among 520 wireless stations, 21,048 measurements; label: one of five floors."""
    task = Task(kind="multiclass", classes=tuple(str(floor) for floor in range(5)), label="floor")
    return _measurements("ujiindoorloc_floor", task)


def _measurements(name: str, task: Task) -> Dataset:
    frame = read_parquet("ujiindoorloc_train.parquet", "ujiindoorloc_validation.parquet")
    stations = _starting(frame.columns, "WAP")
    heard = frame[list(stations)].to_numpy(dtype=np.float32, copy=True)
    heard[heard == _NOT_HEARD] = _WEAKEST
    y = frame[task.label.upper()].to_numpy(dtype=_label_type(task))
    return Dataset(name=name, raw=heard, columns=tuple(Column(one) for one in stations), y=y, task=task, note=_NOTE)


AT_HAND: tuple[Callable[[], Dataset], ...] = (breast_cancer, digits, diabetes)
"""Sets that come with scikit-learn."""

FROM_FILES: tuple[Callable[[], Dataset], ...] = (
    *(credit_default, phishing, phishing_cat30, adult, a9a, codrna, covtype, covtype_binary, superconduct),
    *(california_housing, ujiindoorloc, ujiindoorloc_latitude, ujiindoorloc_floor, nycflights13),
    *(mnist, fashion_mnist, cifar10),
)
"""Sets whose files must be in the folder `LACONIC_DATA`."""


def load(name: str) -> Dataset:
    """The public data set of that name."""
    sources = {make.__name__: make for make in (*AT_HAND, *FROM_FILES)}
    if name not in sources:
        there = ", ".join(sources)
        raise ValueError(
            f"no data set is called {name!r}; there are {there}. A saved model: laconic.load_model({name!r})"
        )
    return sources[name]()


def names() -> list[tuple[str, str, bool]]:
    """Every set: its name, what it is in one line, and whether its files must be in `LACONIC_DATA`."""
    every = (*AT_HAND, *FROM_FILES)
    return [(make.__name__, (make.__doc__ or "").splitlines()[0], make in FROM_FILES) for make in every]

"""Public data sets by name; each comes from one function, and none is read before it is asked for."""

from collections.abc import Callable

from laconic.data.datasets.dataset import Dataset
from laconic.data.datasets.sets import (
    a9a,
    adult,
    breast_cancer,
    california_housing,
    cifar10,
    codrna,
    covtype,
    covtype_binary,
    credit_default,
    diabetes,
    digits,
    fashion_mnist,
    mnist,
    nycflights13,
    phishing,
    phishing_cat30,
    superconduct,
    ujiindoorloc,
    ujiindoorloc_floor,
    ujiindoorloc_latitude,
)

_AT_HAND: dict[str, Callable[[], Dataset]] = {
    "breast_cancer": breast_cancer,
    "digits": digits,
    "diabetes": diabetes,
}
_FROM_FILES: dict[str, Callable[[], Dataset]] = {
    "credit_default": credit_default,
    "phishing": phishing,
    "phishing_cat30": phishing_cat30,
    "adult": adult,
    "a9a": a9a,
    "codrna": codrna,
    "covtype": covtype,
    "covtype_binary": covtype_binary,
    "superconduct": superconduct,
    "california_housing": california_housing,
    "ujiindoorloc": ujiindoorloc,
    "ujiindoorloc_latitude": ujiindoorloc_latitude,
    "ujiindoorloc_floor": ujiindoorloc_floor,
    "nycflights13": nycflights13,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "cifar10": cifar10,
}


def load(name: str) -> Dataset:
    """The public data set of that name.

    Raises:
        ValueError: no such set; names those there are.
        DataError: its file is not there; says which and how to set `LACONIC_DATA`.
    """
    sources = _AT_HAND | _FROM_FILES
    if name not in sources:
        raise ValueError(f"no data set is called {name!r}; there are {', '.join(sources)}")
    return sources[name]()


def names() -> list[tuple[str, str, bool]]:
    """Every set: its name, what it is in one line, and whether its files must be in `LACONIC_DATA`."""
    sources = _AT_HAND | _FROM_FILES
    return [(name, (make.__doc__ or "").splitlines()[0], name in _FROM_FILES) for name, make in sources.items()]

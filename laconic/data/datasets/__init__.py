"""Public data sets by name; each comes from one function, and none is read before it is asked for."""

from laconic.data.datasets.dataset import Dataset
from laconic.data.datasets.sets import AT_HAND, FROM_FILES


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

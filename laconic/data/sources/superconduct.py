"""UCI Superconductivity: at which temperature a material loses all resistance."""

import numpy as np

from laconic.core.task import Task
from laconic.data.coding import code_frame
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_parquet

_PROPERTIES = (
    *("atomic_mass", "fie", "atomic_radius", "Density"),
    *("ElectronAffinity", "FusionHeat", "ThermalConductivity", "Valence"),
)


def superconduct() -> Dataset:
    """Superconductors, 21,263 with 77 columns on eight properties; target: critical temperature."""
    frame = read_parquet("superconduct.parquet")
    y = frame.pop("critical_temp").to_numpy(dtype=np.float64)
    raw, columns = code_frame(frame)
    names = [column.name for column in columns]
    groups = {owner.lower(): tuple(name for name in names if name.endswith("_" + owner)) for owner in _PROPERTIES}
    groups["atomic_mass"] = ("number_of_elements", *groups["atomic_mass"])
    return Dataset(
        name="superconduct",
        raw=raw,
        columns=columns,
        y=y,
        task=Task(kind="regression", label="critical_temp"),
        groups=groups,
        note="76 of the 81 published columns; number_of_elements was inferred from the entropies",
    )

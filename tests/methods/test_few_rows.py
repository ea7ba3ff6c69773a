"""So few rows that none is left to validate on: every method still gives a result."""

import numpy as np
import pandas
import pytest

from laconic import from_frames, rows_from_frames, simulate
from laconic.methods.registry import methods
from tests.inference.test_every_method import quick

# Of times to an event nobody may say the mean of so few: tests/methods/test_cox.py.
KINDS = [kind for kind in methods().values() if kind.tasks != ("survival",)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_method_does_without_rows_to_validate_on(kind):
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({"id": range(5), "a": rng.normal(size=5), "b": rng.normal(size=5), "y": list("xyzxy")})
    if kind.kind == "vertical":
        federation = from_frames({"bank": rows[["id", "a", "y"]], "shop": rows[["id", "b"]]}, id="id", label="y")
    else:
        twice = pandas.concat([rows, rows]).drop(columns="id")
        federation = rows_from_frames({"bank": twice[:5], "shop": twice[5:]}, label="y", public=rows)
    assert np.isfinite(simulate(quick(kind), federation).score.value)

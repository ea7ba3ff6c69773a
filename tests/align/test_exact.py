import numpy as np
import pandas as pd
import pytest

from laconic.core.errors import DataError
from laconic.data.frames import from_frames
from laconic.learn.sgd import Sgd
from laconic.methods.baselines.linear import Linear
from laconic.methods.vertical.fedonce import FedOnce
from laconic.runtime.processes import Processes
from laconic.simulation import simulate


def frames(shift: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=300)
    bank = pd.DataFrame({"id": np.arange(300), "income": rng.normal(size=300), "left": (hidden > 0).astype(int)})
    shop = pd.DataFrame(
        {"id": np.arange(300) + shift, "visits": hidden + 0.1 * rng.normal(size=300), "spent": rng.normal(size=300)}
    )
    order = rng.permutation(300)[:250]
    return {"bank": bank, "shop": shop.iloc[order]}


def test_rows_in_another_order_are_matched_by_id():
    result = simulate(Linear(), from_frames(frames(), id="id", label="left"))
    # Only the right rows side by side make the label predictable: the shop's column is the label's cause.
    assert result.metrics["accuracy"] > 0.9
    assert result.data["alignment"] == {
        "shared": 250,
        "rows": {"bank": 300, "shop": 250},
        "some": {"bank": 0, "shop": 0},
    }
    assert result.align.rounds == 4  # ids, rows to keep, and the fingerprint before fitting and before predicting


def test_the_ids_shown_are_listed_as_a_release():
    result = simulate(Linear(), from_frames(frames(), id="id", label="left"))
    assert any("ids" in release.words and release.phase == "align" for release in result.releases)


def test_matching_works_with_parties_apart():
    federation = from_frames(frames(), id="id", label="left")
    method = FedOnce(trainer=Sgd(epochs=5))
    apart, together = simulate(method, federation, runtime=Processes()), simulate(method, federation)
    assert apart.predictions == together.predictions


def test_no_shared_id_says_how_they_look():
    with pytest.raises(DataError, match=r"no id is at every party: bank has ids like '0'; shop has ids like"):
        simulate(Linear(), from_frames(frames(shift=5000), id="id", label="left"))

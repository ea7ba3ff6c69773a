"""Horizontal runs are attacked by their final model and by what parties sent; a single row lies open in an update."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from laconic import Analytic, FedAvg, FedKt, rows_from_frames, train
from laconic.audit import audit
from laconic.audit.upload_attacks import rebuild_from_update
from laconic.learn import Columns, Logistic, Sgd
from laconic.methods import SecureSums
from laconic.testing import small_horizontal

BINARY = small_horizontal("binary")


def test_the_final_model_and_each_upload_are_attacked():
    found = audit(FedAvg(trainer=Sgd(epochs=40)), small_horizontal("multiclass"))
    named = [one.attack for one in found]
    assert named[0] == "membership in the final model"
    for party in BINARY.peers:
        assert f"membership in what {party} sent" in named and f"rows of {party} rebuilt from its update" in named
    # A party's own model, trained long, knows its rows better than the average of three does.
    own = np.mean([one.success for one in found if "what party" in one.attack])
    assert own > max(found[0].success, 0.55)


def test_a_student_tells_less_of_members_than_a_model_of_the_rows():
    students = [one.success for one in audit(FedKt(model=Logistic()), BINARY) if "what party" in one.attack]
    assert len(students) == 3
    assert all(0.3 < one < 0.65 for one in students)


def test_what_is_under_masks_cannot_be_attacked():
    found = audit(FedAvg(trainer=Sgd(epochs=5), sums=SecureSums()), BINARY)
    assert [one.attack for one in found] == ["membership in the final model"]


def test_sums_of_few_rows_tell_members():
    named = {one.attack: one.success for one in audit(Analytic(features=Columns(), least_rows=1), BINARY)}
    assert {f"membership in the sums of {party}" for party in BINARY.peers} <= named.keys()


def test_an_audit_rebuilds_rows_from_the_sums_of_few_and_least_rows_keeps_these_at_home():
    rng = np.random.default_rng(0)

    def answers(rows):
        found = pd.DataFrame({f"question {at}": (rng.random(rows) < 0.3).astype(int) for at in range(24)})
        return found.assign(sick=np.where(rng.random(rows) < 0.5, "yes", "no"))

    federation = rows_from_frames({"north": answers(8), "south": answers(120)}, label="sick")
    named = {one.attack: one for one in audit(Analytic(features=Columns(), least_rows=1), federation)}
    assert named["rows of north rebuilt from its sums"].success > named["rows of north rebuilt from its sums"].baseline
    assert named["membership in the sums of north"].success == 1.0
    assert "rows of south rebuilt from its sums" not in named
    assert not any("north" in one.attack for one in audit(Analytic(features=Columns()), federation))


@pytest.mark.parametrize(("rows", "least", "most"), [(1, 1.0, 1.0), (100, 0.0, 0.5)])
def test_one_row_can_be_read_off_an_update_and_many_cannot(rows, least, most):
    method = FedAvg(trainer=Sgd(epochs=1, batch=1000, optimizer="sgd", weight_decay=0.0))
    fitted, table = train(method, BINARY), BINARY.tables["party1"]
    x, y = (values[:rows] for values in table.part("train"))
    # A table of one row is refused, so a party is played that has no more than these rows.
    data = SimpleNamespace(part=lambda cut: (x, y), shape=table.shape, task=table.task)
    party = SimpleNamespace(name="party1", data=data, rng=np.random.default_rng(0))
    start = fitted.hub.memory["model"]
    found = rebuild_from_update(start, method.improve(party, model=start)["model"], x, whose="party1")
    assert least <= found.success <= most


def test_shadows_are_refused_where_rows_are_not_shared():
    with pytest.raises(ValueError, match="shadows train models on other halves of shared rows"):
        audit(FedAvg(), BINARY, shadows=2)

"""Rows parted by a column of the label holder: by envelope and online as in one process."""

import numpy as np
import pandas
import pytest

from laconic.errors import PlanError
from tests.attacks.harness import HUB, Trial
from tests.deploy.conftest import World
from tests.deploy.test_training import FEDONCE, assert_same, mail_until_done, seal_all, together

BY = {"split_by": "when", "group": "home"}
BEST = '[method]\ntype = "FedOnce"\n[method.head]\ntype = "Best"\nseconds = 2\nkinds = ["linear", "trees"]\n'


def add_columns(path):
    """A day and a household for each of the bank's rows."""
    frame = pandas.read_csv(path)
    number = frame["customer"].str[1:].astype(int).to_numpy()
    frame["when"] = (np.datetime64("2013-01-01") + number).astype(str)
    frame["home"] = [f"h{one // 5}" for one in number]
    frame.to_csv(path, index=False)


def parted(plan, by):
    return plan.replace("[data]\n", f'[data]\n{by} = "{BY[by]}"\n', 1)


@pytest.mark.parametrize("match", ["AgreedIds", "ExactMatch"])
@pytest.mark.parametrize("by", BY)
def test_by_envelope(tmp_path, by, match):
    world = World(tmp_path)
    add_columns(world.home("bank") / "rows.csv")
    text = parted(world.plan(BEST if match == "ExactMatch" else FEDONCE, match=match), by)
    for name in world.parties:
        (world.home(name) / "plan.toml").write_text(text)
    if match == "AgreedIds":
        # Which rows are held out must be waited for, so that there is nothing to seal before the bank asks.
        with pytest.raises(PlanError, match="let bank start with `laconic host`"):
            seal_all(world)
    result, _ = mail_until_done(world)
    assert_same(result, together(world, text))
    assert any("held out by a column of the label holder" in one.words for one in result.releases)


@pytest.mark.parametrize("by", BY)
def test_online(tmp_path, by):
    trial = Trial(tmp_path, method=BEST)
    add_columns(trial.site(HUB) / "rows.csv")
    trial.plan = parted(trial.plan, by)
    for name in (HUB, *trial.parties):
        (trial.site(name) / "plans" / "plan.toml").write_text(trial.plan)
    result = trial.host("one")
    assert any("held out by a column of the label holder" in one.words for one in result.releases)

"""A price that is worked out from the true votes stands in no output: it would give something of them away."""

import pandas as pd
import pytest
from click.testing import CliRunner

from laconic.cli import main
from laconic.inference.bundle import load_part
from tests.data.hospitals import hospitals, open_rows


def said(*words):
    outcome = CliRunner().invoke(main, [str(word) for word in words])
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


@pytest.mark.slow
def test_a_price_made_from_votes_is_in_no_output_and_in_the_servers_folder_with_its_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    every = pd.concat(hospitals(150).values()).drop(columns="patient")
    names = [f"ward{at}" for at in range(12)]
    for at, name in enumerate(names):
        every[at::12].to_csv(f"{name}.csv", index=False)
    open_rows(60).drop(columns="patient").to_csv("open.csv", index=False)
    votes = ("level.type=L1", "level.noise.type=LaplaceVotes", "level.noise.gamma=2.0", "level.smooth=false")
    sets = [("--set", f"method.{one}") for one in (*votes, "level.secure=false", "model.type=Logistic", "queries=0.03")]
    files = ("--files", *(f"{name}.csv" for name in names), "--label", "diagnosis", "--public", "open.csv")
    kept = ("--save", "run.json", "--model", "m")
    printed = said("run", "FedKt", *files, *(word for one in sets for word in one), *kept)
    price = load_part(tmp_path / "m" / "server").memory["price"]
    assert price["dependent"] < price["independent"]
    assert "not to be published" in price["warning"]
    said("report", "run.json", "-o", "page.html")
    said("disclose", "run.json", "--party", "server", "-o", "left.html", "-o", "left.json")
    written = ("run.json", "page.html", "left.html", "left.json")
    shown = [printed, said("disclose", "m", "--party", "server"), *((tmp_path / one).read_text() for one in written)]
    # Its first digits, however many of them are printed.
    assert not any(f"{price['dependent']:.4g}" in one or "data-dependent" in one for one in shown)

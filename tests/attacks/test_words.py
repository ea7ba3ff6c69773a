"""Attack 6: what a party says when something goes wrong tells the hub about its rows."""

import pytest

from tests.attacks.harness import Trial, not_mended, own_rows, people, was_answered

CELL = "HIV positive"
PASSWORD = "hunter2-of-the-shop"  # noqa: S105


def write_bad_cell(trial):
    rows = own_rows("shop", people(60)).astype({"shop_a": object})
    rows.loc[5, "shop_a"] = CELL
    rows.to_csv(trial.site("shop") / "rows.csv", index=False)
    trial.write_party("shop", allow="methods = []\n", more='[data.columns]\nshop_a = "numeric"\n')


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path)


@not_mended(6)
def test_no_cell_is_in_what_the_hub_hears(trial):
    write_bad_cell(trial)
    said = trial.hub().greet()
    assert not was_answered(said)
    assert CELL not in str(said)


@not_mended(6)
def test_no_id_is_in_what_the_hub_hears(trial):
    rows = own_rows("shop", ["c99991", "c99991", *people(10)])
    rows.to_csv(trial.site("shop") / "rows.csv", index=False)
    trial.write_party("shop", more='on_duplicate = "error"\n')
    said = trial.hub().greet()
    assert not was_answered(said)
    assert "c99991" not in str(said)


@not_mended(6)
def test_no_password_is_in_what_the_hub_hears(trial):
    source = f"postgresql://127.0.0.1:9/shop?user=reader&password={PASSWORD}"
    trial.write_party("shop", source=source, more='query = "select 1"\n')
    said = trial.hub().greet()
    assert not was_answered(said)
    assert PASSWORD not in str(said)


@not_mended(6)
def test_no_path_of_the_party_is_in_what_the_hub_hears(trial):
    (trial.site("shop") / "rows.csv").unlink()
    said = trial.hub().greet()
    assert not was_answered(said)
    assert str(trial.root) not in str(said)


@not_mended(6)
def test_a_party_that_allows_nothing_reads_no_row_for_a_greeting(trial):
    trial.write_party("shop", allow="methods = []\n")
    said = trial.hub().greet()
    assert not was_answered(said)
    assert not list((trial.site("shop") / "runs").rglob("memory*"))


@not_mended(6)
def test_an_error_in_a_step_says_nothing_of_the_rows(trial):
    """Positions that do not exist make numpy say how many rows there are."""
    hub = trial.hub()
    hub.greet()
    hub.ask("show_ids", "align")
    said = hub.keep_rows(61)
    assert not was_answered(said)
    assert "60" not in str(said)


@not_mended(6)
def test_a_refusal_bears_a_number_by_which_the_party_finds_it_in_its_own_log(trial):
    write_bad_cell(trial)
    said = trial.hub().greet()
    logs = "".join(path.read_text() for path in trial.site("shop").rglob("*.log"))
    assert CELL in logs
    assert any(word in logs for word in said["words"].split() if any(map(str.isdigit, word)))

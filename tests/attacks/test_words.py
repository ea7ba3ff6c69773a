"""Attack 6: what a party says when something goes wrong tells the hub about its rows."""

import re
import sys
from sqlite3 import OperationalError

import pytest

from laconic import FedOnce
from laconic.deploy import responder
from laconic.deploy.transports.flare import components
from laconic.errors import DataError, LaconicError, PlanError, Refused, StepError, WireError
from tests.attacks.harness import ALLOW, HUB, Trial, own_rows, people, was_answered, was_refused

FIXED = re.compile("could not answer; its own log has the details under reference [0-9a-f]{16}")
"""All that a hub hears of an error that is no refusal."""
CELL = "HIV positive"
PASSWORD = "hunter2-of-the-shop"  # noqa: S105


def write_bad_cell(trial, allow=ALLOW):
    rows = own_rows("shop", people(60)).astype({"shop_a": object})
    rows.loc[5, "shop_a"] = CELL
    rows.to_csv(trial.site("shop") / "rows.csv", index=False)
    trial.write_party("shop", allow=allow, more='[data.columns]\nshop_a = "numeric"\n')


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path)


@pytest.mark.parametrize("allow", ["methods = []\n", ALLOW])
def test_no_cell_is_in_what_the_hub_hears(trial, allow):
    write_bad_cell(trial, allow)
    said = trial.hub().greet()
    assert not was_answered(said)
    assert CELL not in str(said)


def test_no_id_is_in_what_the_hub_hears(trial):
    rows = own_rows("shop", ["c99991", "c99991", *people(10)])
    rows.to_csv(trial.site("shop") / "rows.csv", index=False)
    trial.write_party("shop", more='on_duplicate = "error"\n')
    said = trial.hub().greet()
    assert not was_answered(said)
    assert "c99991" not in str(said)


def test_no_password_is_in_what_the_hub_hears(trial):
    source = f"postgresql://127.0.0.1:9/shop?user=reader&password={PASSWORD}"
    trial.write_party("shop", source=source, more='query = "select 1"\n')
    said = trial.hub().greet()
    assert not was_answered(said)
    assert PASSWORD not in str(said)


def test_no_path_of_the_party_is_in_what_the_hub_hears(trial):
    (trial.site("shop") / "rows.csv").unlink()
    said = trial.hub().greet()
    assert not was_answered(said)
    assert str(trial.root) not in str(said)


def test_a_party_that_allows_nothing_reads_no_row_for_a_greeting(trial, monkeypatch):
    read, usual = [], responder.read_rows
    monkeypatch.setattr(responder, "read_rows", lambda *given: read.append(given) or usual(*given))
    for allow, rows_read in (("methods = []\n", 0), ('methods = ["ExactMatch", "Rap"]\n', 0), (ALLOW, 1)):
        trial.write_party("shop", allow=allow)
        assert was_answered(trial.hub().greet()) is bool(rows_read)
        assert len(read) == rows_read
    assert not list((trial.site("shop") / "runs").rglob("memory*"))


def test_an_error_in_a_step_says_nothing_of_the_rows(trial):
    """Positions that do not exist make numpy say how many rows there are."""
    hub = trial.hub()
    hub.greet()
    hub.ask("show_ids", "align")
    said = hub.keep_rows(61)
    assert not was_answered(said)
    assert FIXED.fullmatch(said["words"])


def test_a_refusal_bears_a_number_by_which_the_party_finds_it_in_its_own_log(trial):
    write_bad_cell(trial)
    said = trial.hub().greet()
    logs = "".join(path.read_text() for path in trial.site("shop").rglob("*.log"))
    assert CELL in logs
    assert any(word in logs for word in said["words"].split() if any(map(str.isdigit, word)))


MARK = "c00017-secret"


def _exit(words):
    sys.exit(words)


def _chained(words):
    try:
        raise KeyError(words)
    except KeyError as problem:
        raise RuntimeError from problem


def _raise(kind):
    def fail(words):
        raise kind(words)

    return fail


KINDS = [
    *(_raise(kind) for kind in (DataError, PlanError, StepError, WireError, Refused, LaconicError)),
    *(_raise(kind) for kind in (ValueError, KeyError, OSError, MemoryError, RecursionError, AssertionError)),
    *(_raise(kind) for kind in (OperationalError, StopIteration, type(MARK, (Exception,), {}))),
    _raise(lambda words: UnicodeDecodeError("utf-8", words.encode(), 0, 1, words)),
    _raise(lambda words: FileNotFoundError(2, words, f"/{words}")),
    _raise(lambda words: ExceptionGroup(words, [KeyError(words)])),
    float,
    lambda words: _raise(Exception)("\ud800" + words),
    _exit,
    _chained,
]


@pytest.mark.parametrize("fail", KINDS)
def test_no_error_of_any_kind_in_a_step_tells_the_hub_what_it_says(trial, monkeypatch, fail):
    """However a step fails, no byte of its words leaves, and the party has them in its log and answers on."""
    hub = trial.hub()
    hub.greet()
    hub.match()
    with monkeypatch.context() as patch:
        patch.setattr(FedOnce, "learn_and_send", failing_step(FedOnce.learn_and_send, fail))
        heard = trial.desks["shop"].hear(hub.question("learn_and_send"))
    assert MARK.encode() not in heard
    assert not was_refused(trial.hear("shop", hub.question("learn_and_send"), HUB))
    assert MARK in (trial.site("shop") / "errors.log").read_text()


def failing_step(step, fail):
    """A step that fails with the mark, and is declared as the one in whose place it is."""

    def failing(self, party, **payload):
        fail(MARK)

    failing.__dict__.update(step.__dict__)
    return failing


@pytest.mark.parametrize("fail", [one for one in KINDS if one is not KINDS[4]])
def test_no_error_of_any_kind_in_reading_tells_the_hub_what_it_says(trial, monkeypatch, fail):
    monkeypatch.setattr(responder, "read_rows", lambda *_: fail(MARK))
    heard = trial.desks["shop"].hear(trial.hub().greeting())
    assert MARK.encode() not in heard
    assert MARK in (trial.site("shop") / "errors.log").read_text()


def test_a_party_file_that_is_broken_later_is_quoted_nowhere(trial):
    hub = trial.hub()
    hub.greet()
    (trial.site("shop") / "party.toml").write_text(f'name = "shop"\nsource = "postgresql://me:{PASSWORD}@db"')
    for frame in (hub.greeting(), hub.question("show_ids", "align")):
        assert FIXED.fullmatch(trial.hear("shop", frame, HUB)["words"])


def test_an_engine_with_a_broken_party_file_sends_no_trace(trial):
    """What a function raises that FLARE calls, FLARE sends with its trace."""
    (trial.site("shop") / "party.toml").write_text(f'name = "shop"\nsource = "postgresql://me:{PASSWORD}@db"')
    trial.desks["shop"] = None
    assert FIXED.fullmatch(trial.hear("shop", b"whatever", HUB)["words"])
    assert PASSWORD in (trial.site("shop") / "errors.log").read_text()
    assert not [one for one in vars(components.FlareParty) if one == "take_part"]


def test_a_rule_stays_readable_and_says_nothing_of_how_many_rows_there_are(trial):
    trial.write_party("shop", allow=f"{ALLOW}max_rows = 10\n")
    hub = trial.hub()
    hub.greet()
    hub.match()
    said = hub.ask("learn_and_send")
    assert was_refused(said)
    assert "max_rows = 10" in said["words"]
    assert not re.search(r"\b(60|48|36|54)\b", said["words"])


def test_a_log_does_not_grow_for_ever_and_is_its_owners(trial, monkeypatch):
    for _ in range(700):
        trial.desks["shop"].answer("one", b"\xc1 no frame")
    logs = list(trial.site("shop").glob("*.log"))
    assert {path.stat().st_mode & 0o777 for path in logs} == {0o600}
    before = sum(path.stat().st_size for path in logs)
    monkeypatch.setattr("laconic.deploy.responder._MOST", 10_000)
    for _ in range(50):
        trial.desks["shop"].answer("one", b"\xc1 no frame")
    assert sum(path.stat().st_size for path in trial.site("shop").glob("*.log")) < before

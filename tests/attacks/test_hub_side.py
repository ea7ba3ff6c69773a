"""Attacks 10, 13 and 17: a party that lies to the hub, and hubs that get in each other's way."""

from types import SimpleNamespace

import numpy as np
import pytest

from laconic import FedOnce, VimSgd
from laconic.core import Peers, WireLog
from laconic.deploy import responder
from laconic.errors import LaconicError, PartyAbsent
from laconic.testing import bare_party
from tests.attacks.harness import (
    ENGINE_HUB,
    HUB,
    Trial,
    answer_of,
    decode,
    encode,
    frame,
    read_frame,
    size_of,
    was_answered,
)

BLOB = 32_768
"""Bytes that the lying party sends in each part."""


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, parties=("shop", "insurer"))


def test_an_honest_run_ends_with_a_result(trial):
    assert trial.host().score.value > 0.5


def test_a_hub_does_not_fill_its_disk_with_an_answer_of_any_stated_size(trial):
    parts = []

    def endless(name, asked, honest):
        kind = read_frame(asked)
        if name != "shop" or kind["type"] not in ("Ask", "More"):
            return honest(name, asked)
        if kind["type"] == "Ask":
            return frame("Answer", size=2**62, digest=bytes(16), data=bytes(BLOB))
        parts.append(kind["at"])
        if len(parts) >= 50:
            raise ConnectionError("this would have gone on for ever")
        return frame("Have", at=kind["at"], data=bytes(BLOB))

    with pytest.raises((LaconicError, ConnectionError)):
        trial.host(bring=endless)
    assert not parts, f"{len(parts)} parts of 2**62 bytes were fetched, {size_of(trial.site(HUB)):,} bytes on the disk"


def test_greetings_do_not_fill_a_partys_disk(tmp_path):
    trial = Trial(tmp_path, rows=2000)
    trial.hub(run="first").greet()
    once = size_of(trial.site("shop"))
    for number in range(8):
        assert was_answered(trial.hub(run=f"run-{number}").greet())
    assert size_of(trial.site("shop")) == once, "copies of the rows, or whatever else"


def test_half_sent_questions_do_not_fill_a_partys_disk(trial, monkeypatch):
    """In each of many runs, a hub sends all of a long question but its end."""
    monkeypatch.setattr(responder, "_LONGEST", 100_000)
    for number in range(8):
        hub = trial.hub(run=f"run-{number}")
        hub.greet()
        assert hub.send_part(bytes(8_000))["type"] == "Have"
    kept = [path.parent.name for path in (trial.site("shop") / "runs").glob("*/asked.*")]
    assert sorted(kept) == ["run-5", "run-6", "run-7"], (
        "at most what one question may have, 100,000 bytes, of which 80,000 are yet to come"
    )


def _lying(wrong):
    """A line on which the shop's answers to `learn_and_send` are replaced, as often as `wrong` has elements."""

    def bring(name, asked, honest):
        said, kind = honest(name, asked), read_frame(asked)
        if name == "shop" and kind["type"] == "Ask" and b"learn_and_send" in kind["blob"] and wrong:
            told = answer_of(decode(said))
            blob = encode({cut: wrong[0](numbers) for cut, numbers in told.items()})
            wrong.pop(0)
            return frame("Answer", size=len(blob), digest=bytes(16), data=blob)
        return said

    return bring


def _nan(numbers):
    return np.full_like(numbers, np.nan)


def test_an_answer_that_is_no_number_ends_the_run_with_the_partys_name(trial):
    try:
        trial.host(bring=_lying([_nan]))
        words = "a model was trained on it"
    except Exception as problem:
        words = str(problem)
    assert "shop" in words


def test_a_bad_answer_is_not_replayed_once_the_party_is_mended(trial):
    wrong = [_nan]
    try:
        trial.host(bring=_lying(wrong))
    except Exception:
        wrong.clear()
    try:
        ended = trial.host().score.value > 0.5
    except Exception as problem:
        ended = str(problem)
    assert ended is True, f"the same command again: {ended}"


def test_a_second_host_command_does_not_end_the_first(trial):
    """Both are given by the same hub for the same plan; the second may be refused, and the first must go on."""
    folder = trial.site(HUB) / "runs" / "one"
    seen = []

    def line(name, asked, seconds):
        if not seen:
            seen.append("second")
            trial.host_as_engine("one", line)
            # What the first command would find while it waits for its own result.
            seen.append((folder / "error").exists() or (folder / "absent").exists())
        return trial.bring(name, asked, ENGINE_HUB)

    trial.host_as_engine("one", line)
    assert (folder / "result").exists()
    assert seen == ["second", False]


def test_a_run_that_cannot_match_without_a_party_does_not_advise_the_method_it_runs(trial):
    with pytest.raises(LaconicError) as caught:
        trial.host(away=("insurer",))
    assert "insurer" in str(caught.value)
    assert "FedOnce" not in str(caught.value)


def test_a_party_that_is_to_join_and_is_away_is_no_reason_for_the_same_method():
    """Nobody answers the guest's first question when a model of FedOnce is to take it in."""
    nobody = SimpleNamespace(carry=lambda *_: iter(()))
    method, others = FedOnce(), VimSgd()
    with pytest.raises(PartyAbsent) as caught:
        method.take_in(Peers(method, bare_party("bank"), nobody, WireLog(), ("insurer",)))
    assert "insurer did not answer" in str(caught.value) and "FedOnce" not in str(caught.value)
    with pytest.raises(PartyAbsent, match="FedOnce can"):
        Peers(others, bare_party("bank"), nobody, WireLog(), ("insurer",)).ask(others.begin)


WRONG = {
    "infinite": lambda blob: encode({"train": np.array([[np.inf]])}),
    "half": lambda blob: encode({"train": np.full((4, 2), np.nan, np.float16)}),
    "deep": lambda blob: encode({"train": [[1.0, {"inner": float("inf")}]]}),
    "cut off": lambda blob: blob[:-3],
    "no blob": lambda blob: b"\xc1",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_no_bad_number_or_bytes_get_into_the_journal(trial, wrong):
    def bring(name, asked, honest):
        said, kind = honest(name, asked), read_frame(asked)
        if name != "insurer" or kind["type"] != "Ask" or b"learn_and_send" not in kind["blob"]:
            return said
        blob = wrong(decode(said)["data"])
        return frame("Answer", size=len(blob), digest=bytes(16), data=blob)

    with pytest.raises(LaconicError, match="answer of insurer to `learn_and_send`"):
        trial.host(bring=bring)
    assert trial.host().score.value > 0.5


@pytest.mark.parametrize("size", [-1, 0, 5, 2**31 + 1])
def test_a_size_that_cannot_be_is_refused_before_anything_is_spooled(trial, size):
    def bring(name, asked, honest):
        if name != "shop" or read_frame(asked)["type"] != "Ask":
            return honest(name, asked)
        return frame("Answer", size=size, digest=bytes(16), data=bytes(BLOB))

    with pytest.raises(LaconicError, match="shop says that its answer has"):
        trial.host(bring=bring)
    assert not list(trial.site(HUB).rglob("incoming/*"))


def test_a_hub_begins_no_more_runs_in_a_day_than_the_party_allows(tmp_path):
    """Greeted and asked something, each run keeps rows; one that has begun goes on."""
    trial = Trial(tmp_path)
    file = trial.site("shop") / "party.toml"
    file.write_text("runs_per_day = 3\n" + file.read_text())
    hubs = [trial.hub(run=f"run-{number}") for number in range(5)]
    said = []
    for hub in hubs:
        hub.greet()
        said.append(hub.ask("show_ids", "align"))
    assert [one["type"] for one in said] == ["Answer"] * 3 + ["No"] * 2
    assert "runs_per_day" in said[3]["words"]
    assert hubs[4].send_part(b"a long question")["type"] == "No"
    assert hubs[0].keep_rows(60)["type"] == "Answer"
    assert len(list((trial.site("shop") / "runs").iterdir())) == 3

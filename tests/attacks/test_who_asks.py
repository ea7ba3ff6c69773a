"""Attack 1: a party, or a stranger on the engine, asks another party in the hub's name."""

import pytest

from tests.attacks.harness import (
    ENGINE_HUB,
    HUB,
    Trial,
    answer_of,
    decode,
    frame,
    not_mended,
    was_answered,
    was_refused,
)


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, parties=("shop", "insurer"))


def test_the_hub_itself_is_answered(trial):
    hub = trial.hub("insurer")
    assert was_answered(hub.greet())
    hub.match()
    assert answer_of(hub.ask("learn_and_send"))["train"].shape == (43, 2)


@not_mended(1)
def test_a_party_cannot_begin_a_run_in_the_hubs_name(trial):
    said = trial.hear("insurer", trial.hub("insurer").greeting(), sender="shop")
    assert was_refused(said)


@not_mended(1)
def test_a_party_cannot_ask_another_in_a_run_that_the_hub_began(trial):
    hub = trial.hub("insurer")
    hub.greet()
    hub.match()
    said = trial.hear("insurer", hub.question("learn_and_send"), sender="shop")
    assert not was_answered(said), f"the shop got {answer_of(said)['train'].shape} numbers of the insurer"


@not_mended(1)
def test_a_party_cannot_read_anothers_ledger(trial):
    hub = trial.hub("insurer")
    hub.greet()
    hub.match()
    assert not was_answered(trial.hear("insurer", frame("ShowLedger", run="one"), sender="shop"))


@not_mended(1)
def test_a_frame_that_no_session_key_signed_is_refused_even_if_the_engine_says_that_it_is_the_hubs(trial):
    trial.hub("insurer").greet()
    forger = trial.hub("insurer")
    said = trial.hear("insurer", forger.unsigned_question("show_ids", "align"), sender=HUB)
    assert not was_answered(said)


@not_mended(1)
def test_a_frame_heard_once_is_not_answered_for_who_sends_it_again(trial):
    """A recording of the hub's frame in another's hands: kept answers must not be given out to it."""
    hub = trial.hub("insurer")
    hub.greet()
    question = hub.question("show_ids", "align")
    answer_of(trial.hear("insurer", question, sender=HUB))
    assert not was_answered(trial.hear("insurer", question, sender="shop"))


def test_the_engine_brings_the_hubs_frames(trial):
    assert was_answered(trial.hear_over_engine("insurer", trial.hub("insurer").greeting(), caller=ENGINE_HUB))


@not_mended(1)
def test_the_engine_does_not_bring_another_partys_frames(trial):
    """FLARE gives every client a proxy of every other, and says truly who calls."""
    assert not was_answered(trial.hear_over_engine("insurer", trial.hub("insurer").greeting(), caller="shop"))


@not_mended(1)
@pytest.mark.parametrize("kind", ["Ask", "Part", "More", "ShowLedger"])
def test_no_kind_of_frame_is_heard_from_another_party(trial, kind):
    hub = trial.hub("insurer")
    hub.greet()
    asked = hub.question("show_ids", "align")
    answer_of(trial.hear("insurer", asked, sender=HUB))
    name = decode(asked)["question"]
    frames = {
        "Ask": asked,
        "Part": frame("Part", run="one", question="0" * 32, at=0, size=100, data=b"something"),
        "More": frame("More", run="one", question=name, at=0),
        "ShowLedger": frame("ShowLedger", run="one"),
    }
    said = trial.hear("insurer", frames[kind], sender="shop")
    assert said["type"] == "No", f"the insurer said {said['type']} to the shop"

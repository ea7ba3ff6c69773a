"""Attacks 7 and 15: the hub asks about rows that the plan does not ask about, or finds out who is there at all."""

import pytest

from laconic.align.psi import hide_ids, multiply, new_secret
from tests.attacks.harness import (
    ALLOW,
    FEW_POINTS,
    HUB,
    Mail,
    Trial,
    answer_of,
    people,
    was_answered,
)  # fmt: skip

SHARED = 40
"""Of the shop's 60 people."""


@pytest.fixture
def matched(tmp_path):
    """The hub of a run whose rows are matched, and whose party has learnt."""
    hub = Trial(tmp_path).hub()
    hub.greet()
    hub.match(shared=SHARED)
    answer_of(hub.ask("learn_and_send"))
    return hub


def test_the_cuts_that_the_plan_asks_for_are_answered(matched):
    assert len(answer_of(matched.ask("represent", "final", rows="test"))) == 8


@pytest.mark.parametrize("rows", ["own", "alone", "shared"])
def test_rows_that_no_plan_asks_for_are_not_answered_about(matched, rows):
    said = matched.ask("represent", "final", rows=rows)
    assert not was_answered(said), f"{len(answer_of(said))} rows of people whom nobody agreed upon"


def test_a_hub_cannot_skip_matching_and_call_all_rows_shared(tmp_path):
    hub = Trial(tmp_path).hub()
    hub.greet()
    assert not was_answered(hub.keep_rows(60))


def test_a_hub_cannot_match_a_second_time_with_more_rows(matched):
    assert not was_answered(matched.keep_rows(60))


def test_an_envelope_about_rows_outside_the_list_is_not_answered(tmp_path):
    """The list of ids that all agreed upon names 40 of the shop's 60 people."""
    mail = Mail(tmp_path, agreed=SHARED)
    mail.seal_plan()
    assert mail.answer("represent", "final", 2, rows="test") == 8
    told = mail.answer("represent", "final", 3, rows="own")
    assert told is None, f"{told} people who are not on the list"


def test_a_hub_cannot_test_any_number_of_guessed_ids(tmp_path):
    """Private matching tells the hub which of the points that it brings are the shop's; it brings all its guesses."""
    trial = Trial(tmp_path, match="PrivateMatch", rows=6, allow=ALLOW + FEW_POINTS)
    hub = trial.hub()
    hub.greet()
    theirs = _found_by_guessing(hub, people(2000))
    assert len(theirs) == 0, f"{len(theirs)} of the shop's 6 people were found among 2,000 guesses"


def test_a_hub_cannot_begin_matching_again_and_again(tmp_path):
    trial = Trial(tmp_path, match="PrivateMatch", rows=6, allow=ALLOW + FEW_POINTS)
    hub = trial.hub()
    hub.greet()
    begun = sum(was_answered(hub.ask("begin", "align")) for _ in range(10))
    assert begun < 10


def _found_by_guessing(hub, guesses):
    """Which guesses are among the party's ids: points hidden by both secrets are alike whoever hid them first."""
    secret = new_secret()
    if not was_answered(hub.ask("begin", "align")):
        return []
    own = hub.ask("show_points", "align", part=0)
    took = hub.ask("take_points", "align", owner=HUB, part=0, points=hide_ids(guesses, secret, 1))
    given = hub.ask("hand_on", "align", owner=HUB, part=0)
    if not (was_answered(own) and was_answered(took) and was_answered(given)):
        return []
    back = {point.tobytes() for point in answer_of(given)}
    return [point for point in multiply(answer_of(own), secret, 1) if point.tobytes() in back]


def test_the_attack_by_guessing_works_where_nothing_limits_it(tmp_path):
    """Or the test above would show nothing."""
    hub = Trial(tmp_path, match="PrivateMatch", rows=6).hub()
    hub.greet()
    assert len(_found_by_guessing(hub, people(3))) == 3

"""Attacks 7 and 15: the hub asks about rows that the plan does not ask about, or finds out who is there at all."""

import inspect

import numpy as np
import pytest

from laconic.align.psi import hide_ids, multiply, new_secret
from laconic.core import steps_of
from laconic.methods import methods
from tests.attacks.harness import (
    ALLOW,
    FEW_POINTS,
    HUB,
    OPEN,
    Mail,
    Trial,
    answer_of,
    people,
    was_answered,
    was_denied,
    was_refused,
)  # fmt: skip

SHARED = 40
"""Of the shop's 60 people."""
FEW_SHOT = '[method]\ntype = "FewShot"\n'
"""A method that learns from own rows too."""


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
    mail = Mail(tmp_path, agreed=SHARED, method=f"{OPEN}[method.more]\nepochs = 1\n")
    mail.seal_plan()
    told = mail.answer("represent", "final", 1, rows="own")
    assert told is None, f"{told} people who are not on the list"
    assert mail.answer("represent", "final", 2, rows="test") == 8


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


def test_rows_named_among_others_are_not_answered_about(matched):
    for rows in ("train+own", "own+own", "", "own "):
        assert was_refused(matched.ask("represent", "final", rows=rows))


def test_a_hub_cannot_ask_before_rows_are_matched(tmp_path):
    hub = Trial(tmp_path).hub()
    hub.greet()
    assert was_refused(hub.ask("learn_and_send"))
    assert was_refused(hub.ask("represent", "final", rows="train"))


def test_own_rows_are_answered_about_where_the_method_learns_from_them(tmp_path):
    method = FEW_SHOT
    for allow, answered in (('["train", "valid", "test", "own"]', True), ('["train", "valid", "test"]', False)):
        trial = Trial(
            tmp_path / str(answered), method=method, allow=f'methods = ["FewShot", "ExactMatch"]\nrows = {allow}\n'
        )
        hub = trial.hub()
        hub.greet()
        hub.match(shared=SHARED)
        assert was_answered(hub.ask("give_outputs", "final", rows="own")) is False  # It has learnt nothing yet.
        assert was_refused(hub.ask("give_outputs", "final", rows="own")) is not answered


def test_a_party_says_which_rows_it_answers_about(tmp_path):
    hub = Trial(tmp_path, allow=f'{ALLOW}rows = ["train", "valid"]\n').hub()
    hub.greet()
    hub.match()
    answer_of(hub.ask("learn_and_send"))
    answer_of(hub.ask("represent", "final", rows="train"))
    assert was_refused(hub.ask("represent", "final", rows="test"))


def test_a_method_that_learns_from_rows_which_are_not_listed_is_refused(tmp_path):
    hub = Trial(tmp_path, allow=f'{ALLOW}rows = ["train", "test"]\n').hub()
    hub.greet()
    hub.match()
    assert was_refused(hub.ask("learn_and_send")), "it sends validation rows too"


def test_private_matching_cannot_be_skipped(tmp_path):
    """Marks for all rows need points of others to compare with."""
    hub = Trial(tmp_path, match="PrivateMatch", rows=6).hub()
    hub.greet()
    answer_of(hub.ask("begin", "align"))
    everyone = np.packbits(np.ones(6, dtype=bool))
    assert was_denied(hub.ask("keep_rows", "align", marks=everyone, seed=1))
    hub.ask("take_points", "align", owner=HUB, part=0, points=hide_ids(people(3), new_secret(), 1))
    hub.ask("hand_on", "align", owner=HUB, part=0)
    assert was_denied(hub.ask("keep_rows", "align", marks=everyone, seed=1)), "6 of 3 points"


def test_there_is_a_limit_on_points_where_the_party_names_none(tmp_path):
    hub = Trial(tmp_path, match="PrivateMatch", rows=6).hub()
    hub.greet()
    assert _found_by_guessing(hub, people(1001)) == []


def test_points_that_come_in_parts_or_after_a_restart_add_up(tmp_path):
    trial = Trial(tmp_path, match="PrivateMatch", rows=6, allow=ALLOW + FEW_POINTS)
    hub = trial.hub()
    hub.greet()
    answer_of(hub.ask("begin", "align"))
    taken = []
    for part in range(4):
        points = hide_ids(people(25), new_secret(), 1)
        taken.append(was_answered(hub.ask("take_points", "align", owner=f"party {part}", part=0, points=points)))
        trial.restart("shop")
        hub.greet()
    assert taken == [True, True, False, False]


def test_matching_is_limited_over_all_runs_too(tmp_path):
    for rule in ("matches_per_day = 3\n", "matches_per_day = 100\nmax_matches = 3\n"):
        trial = Trial(tmp_path / rule[:6] / str(len(rule)), match="PrivateMatch", rows=6, allow=ALLOW + rule)
        begun = []
        for run in "abcde":
            hub = trial.hub(run=run)
            hub.greet()
            begun.append(was_answered(hub.ask("begin", "align")))
        assert begun == [True, True, True, False, False]


_KEYS = {("share_secrets", "keys"), ("take_keys", "keys"), ("confirm_present", "present")}
_KEYS |= {("unmask", word) for word in ("shares", "present", "confirmed")}
"""Of secure sums: public keys, locked shares, names of parties and marks; these steps look at no rows."""


def test_the_steps_of_all_methods_name_rows_by_the_word_that_rules_look_for():
    """A cut by any other word would pass the rules unseen."""
    words = {
        (name, word)
        for name, kind in methods().items()
        for step in steps_of(kind)
        for word, one in inspect.signature(getattr(kind, step)).parameters.items()
        if one.annotation in (str, "str") and word != "rows" and (step, word) not in _KEYS
    }
    assert words == set()

"""A client of a party's served part names other rows than those it asked for by id, and reads what errors say."""

import re

import pytest

from laconic.core import Question, encode
from laconic.inference.predict import cut_name
from laconic.methods import methods
from laconic.tables import Table
from tests.attacks.harness import make_model, people, serve_part
from tests.attacks.test_words import FIXED, KINDS, MARK, failing_step

FEW = people(5)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model whose question names several cuts at once, and brings the shop's columns as they are."""
    folder = tmp_path_factory.mktemp("part")
    make_model(folder, "Linear")
    return folder


def post(client, step, **payload):
    return client.post("/answer", content=encode(Question(step, "final", 1, payload)))


def test_an_honest_hub_is_answered(place):
    with serve_part(place) as client:
        assert client.find(FEW)
        assert client.answers("give_columns", rows=cut_name(FEW))[cut_name(FEW)].shape == (5, 3)


@pytest.mark.parametrize(
    "name", ["asked x", "asked ", cut_name(people(6)), cut_name(FEW[::-1]), f"{cut_name(FEW)}+own"]
)
def test_a_hub_does_not_choose_what_a_cut_is_called(place, name):
    """Noise and prices hang on a cut's name: other people under the same name would have the same noise."""
    with serve_part(place) as client:
        assert not client.find(FEW, name)


def test_a_name_does_not_come_to_mean_other_people(place):
    """Whoever knows what one name means, and has it changed by one person, has the difference."""
    with serve_part(place) as client:
        client.find(FEW)
        client.find(people(6), cut_name(FEW))
        assert len(client.answers("give_columns", rows=cut_name(FEW))[cut_name(FEW)]) == 5


def test_several_cuts_in_one_question_do_not_pass_the_limit_of_a_day(tmp_path):
    make_model(tmp_path, "Linear")
    groups = [people(60)[at : at + 5] for at in range(0, 30, 5)]
    with serve_part(tmp_path, serve="ids_per_day = 40\n") as client:
        for group in groups:
            assert client.find(group)
        told = client.answers("give_columns", rows="+".join(map(cut_name, groups)))
    assert told is None, f"{sum(map(len, told.values()))} people for nothing, where 10 were left for the day"


@pytest.mark.parametrize("rows", ["own", "train", "asked x", "asked x+train", f"{cut_name(FEW)}+train", ""])
def test_rows_that_were_not_asked_for_by_id_are_not_answered_about(place, rows):
    with serve_part(place) as client:
        client.find(FEW)
        said = post(client, "give_columns", rows=rows)
        assert (said.status_code, "by their ids" in said.text) == (403, True)


def test_a_party_that_does_not_allow_new_rows_does_not_tell_whom_it_knows(place):
    assert serve_part(place, allow='rows = ["train", "valid", "test"]\n') is None
    client = serve_part(place, allow='rows = ["train", "valid", "test", "new"]\n')
    with client:
        assert client.find(FEW)


def test_a_rule_stays_readable_and_says_nothing_of_how_many_rows_there_are(place):
    with serve_part(place, allow="max_rows = 3\n") as client:
        client.find(FEW)
        said = post(client, "give_columns", rows=cut_name(FEW))
    assert said.status_code == 403
    assert "max_rows = 3" in said.text
    assert "5 rows" not in said.text


def heard_of(place, said):
    """The reference that a client hears, once it hears no more and the party's own log has the rest."""
    assert said.status_code == 400
    words = said.json()["error"]
    assert FIXED.fullmatch(words), words
    reference = words.split()[-1]
    assert reference in (place / "errors.log").read_text()
    return reference


@pytest.mark.parametrize("fail", KINDS)
def test_no_error_of_any_kind_in_a_step_tells_the_client_what_it_says(place, monkeypatch, fail):
    linear = methods()["Linear"]
    with serve_part(place) as client:
        client.find(FEW)
        with monkeypatch.context() as patch:
            patch.setattr(linear, "give_columns", failing_step(linear.give_columns, fail))
            said = post(client, "give_columns", rows=cut_name(FEW))
        assert MARK not in said.text
        heard_of(place, said)
        assert MARK in (place / "errors.log").read_text()
        assert client.answers("give_columns", rows=cut_name(FEW)) is not None, "it answers on"


@pytest.mark.parametrize("fail", KINDS)
def test_no_error_of_any_kind_in_finding_rows_tells_the_client_what_it_says(place, monkeypatch, fail):
    with serve_part(place) as client, monkeypatch.context() as patch:
        patch.setattr(Table, "with_cut", lambda *_, **__: fail(MARK))
        said = post(client, "find_rows", ids=FEW, rows=cut_name(FEW))
        assert MARK not in said.text
        heard_of(place, said)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        encode({"step": MARK}),
        encode(Question("find_rows", "final", 1, {"ids": [MARK], "rows": cut_name([MARK]), "more": 1})),
        encode(Question("give_columns", "final", 1, {"rows": cut_name(FEW), MARK: 1})),
    ],
)
def test_a_question_that_is_none_gets_fixed_words(place, body):
    with serve_part(place) as client:
        client.find(FEW)
        said = client.post("/answer", content=body)
        assert MARK not in said.text
        heard_of(place, said)


def test_details_are_for_the_partys_owner_only(place):
    with serve_part(place) as client:
        first, second = (heard_of(place, client.post("/answer", content=b"\xc1")) for _ in range(2))
    assert first != second
    assert (place / "errors.log").stat().st_mode & 0o777 == 0o600
    assert re.search(f"reference {first}\nTraceback", (place / "errors.log").read_text())


def test_an_id_that_looks_like_two_does_not_stand_for_them(place):
    """Their names would be the same."""
    joined = [*FEW[:3], "\0".join(FEW[3:])]
    assert cut_name(joined) == cut_name(FEW)
    with serve_part(place) as client:
        assert not client.find(joined)

"""What a prompt and a notebook show: one short line each, and HTML in which nothing can be smuggled."""

import pytest

import laconic
from laconic.core import Ledger
from laconic.shown import counted, html_table, in_bytes
from laconic.tables import Score
from tests.report.results import GAUSSIAN, paid, release, result

FED = laconic.deal(laconic.load("breast_cancer"), laconic.Equal(parties=3))


@pytest.mark.parametrize(
    "thing",
    [
        result(releases=(release(),) * 40),
        FED,
        FED.tables["bank"],
        paid(open=("x",) * 30),
        release(),
        Ledger(),
        Score("auc", 1.0),
        laconic.load("breast_cancer"),
        laconic.disclose(result(releases=(release("shop"),) * 2), "shop"),
    ],
)
def test_a_prompt_shows_one_short_line(thing):
    assert len(repr(thing)) < 160
    assert "\n" not in repr(thing)
    assert " object at 0x" not in repr(thing)


def test_a_result_says_what_it_scored_and_cost():
    assert repr(result()) == "<Result of FedOnce on people, AUC 0.9800; 1 round, 1.4 kB; 1 release; seed 0>"


def test_a_price_says_first_what_it_does_not_cover():
    assert repr(paid()) == "<Price: 1 open release not covered; epsilon 2 at delta 1e-05>"


NOISED = Ledger(result(releases=(release(noise=GAUSSIAN),)).releases)


@pytest.mark.parametrize("thing", [result(), FED, NOISED, laconic.disclose(result(), "shop")])
def test_a_notebook_shows_a_table(thing):
    assert "<table>" in thing._repr_html_()


def test_what_parties_call_themselves_is_text_in_a_notebook():
    shown = result(releases=(release(party="<script>alert(1)</script>"),))._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_a_long_table_says_how_much_more_there_is():
    assert "40 more lines" in html_table("t", ["n"], [[n] for n in range(100)])


def test_numbers_are_said_with_their_noun():
    assert (counted(1, "round"), counted(2000, "round"), in_bytes(1500)) == ("1 round", "2,000 rounds", "1.5 kB")


def test_a_score_is_a_number():
    assert float(Score("auc", 0.5)) == 0.5

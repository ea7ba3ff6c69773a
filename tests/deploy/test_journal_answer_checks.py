from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laconic.core import Noised, Party, Question, Script, encode, step
from laconic.deploy.journal import AnswerCheck
from laconic.errors import StepError
from laconic.testing import small_federation
from laconic.values import Array

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypes


class Asks(Script, frozen=True):
    """Steps that return all kinds of things."""

    @step(takes=None, gives="numbers")
    def give_array(self, party: Party, rows: str) -> Array:
        raise NotImplementedError

    @step(takes=None, gives="numbers")
    def give_arrays(self, party: Party) -> dict[str, Array]:
        raise NotImplementedError

    @step(takes=None, gives="numbers")
    def give_noised(self, party: Party, rows: str) -> Noised[Array] | Array | None:
        raise NotImplementedError

    @step(takes=None, gives="packed numbers", by_row=False)
    def give_packed(self, party: Party, rows: str) -> Array:
        raise NotImplementedError

    @step(takes=None, gives="whole numbers")
    def give_counts(self, party: Party) -> list[int]:
        raise NotImplementedError

    @step(takes=None, gives="a share")
    def give_share(self, party: Party) -> float:
        raise NotImplementedError

    @step(takes=None, gives="anything")
    def give_any(self, party: Party) -> Any:
        raise NotImplementedError

    @step(takes=None, gives="what only a type checker knows")
    def give_unknown(self, party: Party) -> "OnlyForTypes":
        raise NotImplementedError

    @step(takes=None, gives=None)
    def keep(self, party: Party) -> None:
        raise NotImplementedError


@pytest.fixture(scope="module")
def check():
    federation = small_federation("binary")
    return AnswerCheck(Party(federation.hub, federation.tables[federation.hub], 0))


@pytest.fixture(scope="module")
def count():
    federation = small_federation("binary")
    return len(federation.tables[federation.hub].cut("test"))


def look_at(check, name, value, **payload):
    check(Asks(), "shop", encode(Question(name, "fit", 1, payload)), encode(value))


def test_answers_as_declared_pass(check, count):
    rows = np.ones((count, 3), np.float32)
    look_at(check, "give_array", rows, rows="test")
    look_at(check, "give_array", np.ones((7, 2)), rows="another cut")
    look_at(check, "give_arrays", {"test": rows, "means": np.ones(3)})
    for value in (rows, None):
        look_at(check, "give_noised", value, rows="test")
    look_at(check, "give_packed", np.ones((2, 5), np.uint8), rows="test")
    look_at(check, "give_counts", [1, 2])
    look_at(check, "give_share", 1)
    look_at(check, "give_any", {"whatever": [None, "it", 1.5]})
    look_at(check, "give_unknown", "whatever")
    look_at(check, "keep", None)


UNFIT = [
    ("give_array", "words", {"rows": "train"}),
    ("give_array", np.ones((1, 3)), {"rows": "test"}),
    ("give_array", np.float32(1.0).reshape(()), {"rows": "test"}),
    ("give_arrays", {"test": [1.0]}, {}),
    ("give_arrays", {"means": "words"}, {}),
    ("give_noised", np.ones((1, 3)), {"rows": "test"}),
    ("give_packed", "words", {"rows": "test"}),
    ("give_counts", [1, "two"], {}),
    ("give_share", "half", {}),
    ("give_any", [1.0, float("nan")], {}),
    ("keep", 0, {}),
]


@pytest.mark.parametrize(("name", "value", "payload"), UNFIT)
def test_other_answers_are_refused_with_the_partys_name(check, name, value, payload):
    with pytest.raises(StepError, match=f"the answer of shop to `{name}` (is|holds) "):
        look_at(check, name, value, **payload)


def test_parties_with_other_people_may_answer_about_other_numbers_of_rows():
    look_at(AnswerCheck(), "give_array", np.ones((1, 3)), rows="test")


def test_no_words_of_the_answer_make_an_error_long(check):
    with pytest.raises(StepError) as caught:
        look_at(check, "give_array", {f"key {number}": 1 for number in range(10_000)}, rows="test")
    assert len(str(caught.value)) < 600

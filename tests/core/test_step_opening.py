import pytest

from laconic.core.step import Ask, Opening
from laconic.errors import StepError
from tests.broken.methods import Sound


def test_a_question_is_declared_as_it_is_asked():
    assert Ask.known(Sound().mix, rows="train") == Ask("mix", {"rows": "train"})
    assert Ask.later(Sound().mix) == Ask("mix", None)


@pytest.mark.parametrize("declare", [Ask.known, Ask.later])
def test_only_steps_can_be_declared(declare):
    with pytest.raises(StepError, match="`gather` is not a step"):
        declare(Sound().gather)


def test_a_method_that_says_nothing_opens_nothing():
    assert Sound().fit_opening() == Sound().predict_opening("test") == Opening((), "unknown")

import pytest

from laconic.errors import ContractBroken
from laconic.testing.check_method import check_method, small_federation
from tests.broken import methods


@pytest.fixture(scope="module")
def federation():
    return small_federation("binary")


def test_a_sound_method_passes_on_every_kind_of_task():
    assert check_method(methods.Sound()).fit.rounds == 1


def test_questions_declared_as_they_are_asked_pass(federation):
    assert check_method(methods.Declares(), federation).fit.rounds == 1


def test_a_question_that_depends_on_labels_may_not_be_declared():
    with pytest.raises(ContractBroken, match=r"with {'count': 2}, but it asked .* with {'count': 10}"):
        check_method(methods.OpensByLabels())


@pytest.mark.parametrize(
    ("method", "clause"),
    [
        (methods.SmugglesState(), "differs with parties apart and together"),
        (methods.LeansOnArrival(), "differs with parties apart and together"),
        (methods.GivesUndeclared(), "says it gives nothing"),
        (methods.TurnsRows(), "say by_row=False"),
        (methods.SaysAnotherType(), "not what that step returns"),
        (methods.BreaksRounds(), "promised 1 rounds and took 2"),
        (methods.LeaksColumns(), "carries raw columns"),
        (methods.ChangesItself(), "changed its own settings"),
        (methods.LearnsFromLooks(), "differs with and without looking"),
        (methods.RemembersObjects(), "cannot be sent"),
        (methods.SendsLabels(), "carries labels"),
        (methods.Guesses(), "no better than guessing"),
        (methods.ForgetsRows(), "predictions have shape"),
        (methods.NeedsOldRows(), "cannot predict rows that come later"),
        (methods.OpensWithOtherRows(), "with {'rows': 'valid'}, but it asked `mix` in fit 1 with {'rows': 'train'}"),
        (methods.OpensTooMuch(), "`mix` in fit 2, but it asked `mix` in final 1"),
        (methods.EndsTooSoon(), "nothing more, but it asked `mix` in final 2"),
        (methods.YieldsAgain(), "`mix` in final 1 with {'rows': 'test'}, but it asked `mix` in look 2"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_broken_method_is_found_out(method, clause, federation):
    with pytest.raises(ContractBroken, match=clause):
        check_method(method, federation)

import pytest

from laconic.check import check_method, small_federation
from laconic.core.errors import ContractBroken
from tests.broken import methods


@pytest.fixture(scope="module")
def federation():
    return small_federation("binary")


def test_a_sound_method_passes_on_every_kind_of_task():
    assert check_method(methods.Sound()).fit.rounds == 1


@pytest.mark.parametrize(
    ("method", "clause"),
    [
        (methods.SmugglesState(), "differs with parties apart and together"),
        (methods.LeansOnArrival(), "differs with parties apart and together"),
        (methods.GivesUndeclared(), "says it gives nothing"),
        (methods.BreaksRounds(), "promised 1 rounds and took 2"),
        (methods.LeaksColumns(), "carries raw columns"),
        (methods.ChangesItself(), "changed its own settings"),
        (methods.LearnsFromLooks(), "differs with and without looking"),
        (methods.RemembersObjects(), "cannot be sent"),
        (methods.SendsLabels(), "carries labels"),
        (methods.Guesses(), "no better than chance"),
        (methods.ForgetsRows(), "predictions have shape"),
        (methods.NeedsOldRows(), "cannot predict rows that come later"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_broken_method_is_found_out(method, clause, federation):
    with pytest.raises(ContractBroken, match=clause):
        check_method(method, federation)

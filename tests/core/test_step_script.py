import numpy as np
import pytest

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.core.step import Script, answer, declared, step, steps_of
from laconic.core.wire import Question, decode, encode
from laconic.errors import StepError, WireError
from laconic.tables import Column, Table

NOISE = Noise(mechanism="gaussian", scale=1.0, sensitivity=None, unit="row", caveat="nothing is proven")


class Greeting(Script, frozen=True):
    loud: bool = False

    @step(takes=None, gives="a sum over its rows")
    def add(self, party: Party, times: int) -> float:
        return float(party.data.raw.sum()) * times

    @step(takes=None, gives=None)
    def stay_silent(self, party: Party) -> None:
        party.memory["asked"] = True

    @step(takes=None, gives=None)
    def blurt(self, party: Party) -> int:
        return 3

    @step(takes=None, gives="noisy numbers")
    def murmur(self, party: Party) -> dict[str, Noised[float]]:
        return {"a": Noised(1.5, NOISE)}

    @step(takes="labels", gives="chance")
    def draw(self, party: Party, labels: np.ndarray) -> float:
        return float(party.rng.random())

    def not_a_step(self, party: Party) -> int:
        return 1


@pytest.fixture
def party() -> Party:
    table = Table(np.arange(6.0).reshape(3, 2), (Column(name="a", kind="numeric"), Column(name="b", kind="numeric")))
    return Party("shop", table, seed=1)


def ask(party: Party, name: str, number: int = 1, **payload: object) -> object:
    return decode(answer(Greeting(), party, encode(Question(name, "fit", number, payload))))


def test_an_answer_is_the_step_s_value_and_stands_in_the_ledger(party):
    assert ask(party, "add", times=2) == 30.0
    ask(party, "add", number=2, times=1)
    (entry,) = party.ledger.entries
    assert (entry.step, entry.words, entry.times, entry.noise) == ("add", "a sum over its rows", 2, None)


def test_a_silent_step_writes_nothing_in_the_ledger(party):
    assert ask(party, "stay_silent") is None
    assert party.memory == {"asked": True}
    assert party.ledger.entries == ()


def test_a_step_that_says_it_gives_nothing_may_not_give(party):
    with pytest.raises(StepError, match="says it gives nothing"):
        ask(party, "blurt")


def test_a_noised_answer_is_not_an_open_release(party):
    assert ask(party, "murmur") == {"a": 1.5}
    assert party.ledger.entries[0].noise == NOISE


def test_only_marked_steps_can_be_asked(party):
    for name in ("not_a_step", "__init__", "loud", "nonsense"):
        with pytest.raises(StepError, match="knows no step"):
            ask(party, name)
    assert set(steps_of(Greeting)) == {"add", "stay_silent", "blurt", "murmur", "draw"}


def test_a_question_that_takes_nothing_may_bring_no_arrays(party):
    with pytest.raises(StepError, match="says it takes nothing"):
        ask(party, "add", times=np.ones(3))


def test_a_wrong_payload_names_the_step(party):
    with pytest.raises(StepError, match="`add` at shop was asked wrongly"):
        ask(party, "add", turns=2)


def test_chance_depends_on_seed_party_phase_and_round_only(party):
    labels = np.ones(2)
    first = ask(party, "draw", number=1, labels=labels)
    assert ask(party, "draw", number=2, labels=labels) != first
    assert ask(party, "draw", number=1, labels=labels) == first
    other = Party("bank", party.data, seed=1)
    assert ask(other, "draw", number=1, labels=labels) != first


def test_what_is_not_a_step_cannot_be_asked():
    with pytest.raises(StepError, match="is not a step"):
        declared(Greeting().not_a_step)


def test_a_blob_that_is_no_question_is_a_wire_error(party):
    with pytest.raises(WireError):
        answer(Greeting(), party, b"\x93\x01\x02")

"""What a party can answer unasked is what the hub will ask, to the byte."""

from contextlib import contextmanager

import numpy as np
import pytest

from laconic import Federation, FedOnce, LateFusion, Linear, OneShot, Rap, SplitNN, VimAdmm
from laconic.align import AgreedIds, ExactMatch, PrivateMatch
from laconic.core import Question, encode, read_heading
from laconic.deploy.execute import simulate
from laconic.deploy.session import SERVER, QuestionForecast
from laconic.deploy.transports.inprocess import open_calls
from laconic.learn import LinearModel, Pca, Sgd
from laconic.methods import Gradients
from laconic.privacy import RowsOnce
from laconic.tables import Column, Table, Task
from tests.broken.methods import Sound

FEDONCE = FedOnce(encoder=Pca(dim=2), trainer=Sgd(epochs=1))


class Listening:
    """The in-process runtime, which writes down what one party is asked."""

    def __init__(self, name):
        self.name, self.heard = name, []

    @contextmanager
    def open(self, parties):
        with open_calls(parties) as carrier:
            self.carrier, self.names, self.ledgers = carrier, carrier.names, carrier.ledgers
            yield self

    def carry(self, script, blobs, deadline):
        self.heard += [blobs[self.name]] if self.name in blobs else []
        yield from self.carrier.carry(script, blobs, deadline)


def unmatched(rows=60):
    rng = np.random.default_rng(0)
    y = np.arange(rows) % 2
    tables = {}
    for name in ("bank", "shop"):
        x = rng.normal(size=(rows, 3)) + y[:, None]
        labels = {"y": y, "task": Task(kind="binary", classes=("0", "1"))} if name == "bank" else {}
        ids = [f"{one:03d}" for one in range(rows)]
        tables[name] = Table(x, [Column(f"{name}{at}") for at in range(3)], ids=ids, party=name, **labels)
    return Federation(name="small", tables=tables, hub="bank", aligned=False)


def names(predicted):
    headings = [read_heading(one.blob) for one in predicted]
    return [f"{one.phase} {one.round} {one.step}" for one in headings]


@pytest.mark.parametrize("look_every", [None, 1])
@pytest.mark.parametrize("align", [AgreedIds(), ExactMatch(), PrivateMatch()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("method", [FEDONCE, Linear(), Rap(learner=LinearModel())], ids=lambda one: type(one).__name__)
def test_questions_are_predicted_to_the_byte(method, align, look_every):
    listening = Listening("shop")
    simulate(method, unmatched(), seed=5, align=align, look_every=look_every, runtime=listening)
    schedule = QuestionForecast(method, align, SERVER if method.server else "bank", 5, look_every, "bank")
    opening = [one.blob for one in schedule.opening()]
    assert opening == listening.heard[: len(opening)]
    headings = [read_heading(blob) for blob in listening.heard]
    confirmed = next(one.round for one in headings if one.step == "show_fingerprint")
    at = next(at for at, one in enumerate(headings) if one.phase == "fit")
    rest = schedule.following(listening.heard[at], confirmed)
    assert [one.blob for one in rest] == listening.heard[at + 1 :]


def test_a_whole_run_is_opened_where_nothing_depends_on_rows():
    assert names(QuestionForecast(FEDONCE, AgreedIds(), "bank", 3, look_every=2).opening()) == [
        "align 1 keep_agreed",
        "align 2 show_fingerprint",
        "fit 1 learn_and_send",
        "look 1 represent",
        "align 3 show_fingerprint",
        "final 1 represent",
    ]


@pytest.mark.parametrize(
    ("method", "opening"),
    [
        (LateFusion(), []),
        (OneShot(), []),
        (OneShot(guide=Gradients(numbers=3)), ["fit 1 begin_and_send"]),
        (SplitNN(), ["fit 1 begin"]),
        (FedOnce(more=Sgd(epochs=1)), ["fit 1 learn_and_send"]),
        (VimAdmm(), []),
        (Sound(), []),
    ],
    ids=["LateFusion", "OneShot", "OneShot, numbers said", "SplitNN", "FedOnce, more", "VimAdmm", "nothing declared"],
)
def test_a_run_is_opened_up_to_the_first_question_that_depends_on_rows(method, opening):
    assert names(QuestionForecast(method, None, "bank", 3).opening()) == opening


def test_after_a_question_comes_what_waits_for_nothing_else():
    frozen = VimAdmm(privacy=RowsOnce(clip=1.0, sigma=1.0))
    asked = encode(Question("begin", "fit", 1, {"seed": 1, "outputs": 1, "parties": 2}))
    upload = ["fit 2 give_outputs"]
    assert names(QuestionForecast(VimAdmm(), None, "bank", 3).following(asked, None)) == ["fit 2 exchange"]
    assert names(QuestionForecast(frozen, None, "bank", 3).following(asked, None)) == [*upload, "final 1 give_outputs"]
    # How often it can be looked at depends on the number of batches.
    assert names(QuestionForecast(frozen, None, "bank", 3, 1).following(asked, None)) == [
        *upload,
        "look 1 give_outputs",
    ]


def test_nothing_follows_what_was_not_declared_or_not_confirmed():
    schedule = QuestionForecast(FEDONCE, PrivateMatch(), "bank", 3)
    asked = encode(Question("learn_and_send", "fit", 1, {}))
    assert schedule.following(asked, None) == ()
    assert names(schedule.following(asked, 8)) == ["align 9 show_fingerprint", "final 1 represent"]
    assert schedule.following(encode(Question("represent", "fit", 7, {})), 8) == ()

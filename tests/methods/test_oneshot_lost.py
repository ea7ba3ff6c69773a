"""One-shot and few-shot VFL with parties that are late or lost, and means that stand in for them."""

from contextlib import contextmanager

import numpy as np
import pytest

from laconic import simulate
from laconic.core import decode_question
from laconic.deploy import Faults, InProcess, open_calls, roles
from laconic.learn import Boosted, FixMatchTab, Mlp, Sgd
from laconic.methods.vertical.fewshot import FewShot
from laconic.methods.vertical.oneshot import OneShot
from laconic.testing import open_peers

QUICK = {"local": FixMatchTab(steps=30, lr=1e-2), "trainer": Sgd(epochs=15, lr=1e-2)}


def test_a_lost_party_is_left_out_of_fitting_and_counts_as_its_mean_in_prediction(cancer):
    alone = simulate(OneShot(**QUICK), cancer, runtime=InProcess(faults=Faults(absent=("shop",))))
    assert {(absence.party, absence.step) for absence in alone.absences} == {("shop", "begin_and_send")}
    assert alone.score.value > 0.9


class Losing:
    """The in-process runtime, in which one party is lost when it is asked a certain step, and stays so."""

    def __init__(self, party, step):
        self.party, self.step, self.gone = party, step, False

    @contextmanager
    def open(self, parties):
        with open_calls(parties) as self.within:
            self.names, self.ledgers = self.within.names, self.within.ledgers
            yield self

    def carry(self, script, blobs, deadline):
        if self.party in blobs:
            self.gone = self.gone or decode_question(blobs[self.party]).step == self.step
        there = {name: blob for name, blob in blobs.items() if not (self.gone and name == self.party)}
        yield from self.within.carry(script, there, deadline)


@pytest.mark.parametrize("step", ["learn_from_gradients", "learn_again"])
def test_few_shot_goes_on_without_a_party_that_is_lost_on_the_way(overlap, step):
    result = simulate(FewShot(**QUICK), overlap, runtime=Losing("shop", step))
    assert {(absence.party, absence.step) for absence in result.absences} == {("shop", step)}
    asked = {one.party for one in result.wire if one.step == "give_outputs"}
    assert asked == set(overlap.peers) - {"shop"}
    assert result.score.value > 0.9


@pytest.mark.parametrize("kind", [OneShot, FewShot])
def test_the_mean_row_of_a_party_keeps_up_with_fine_tuning(overlap, kind):
    method = kind(**QUICK, more=Sgd(epochs=20, batch=32, lr=1e-2, decay="cosine"))
    hub, _, others = roles(method, overlap, seed=0)
    with open_peers(method, hub, others) as peers:
        list(method.fit(hub, peers))
        now = {name: values.mean(axis=0) for name, values in peers.ask(method.give_outputs, rows="train").items()}
    for name, mean in now.items():
        # The rows were last sent within the last epoch, when nets hardly moved any more.
        assert np.linalg.norm(hub.memory["means"][name] - mean) < 0.02 * np.linalg.norm(mean)


@pytest.mark.parametrize("method", [OneShot(**QUICK), FewShot(**QUICK), OneShot(**QUICK, more=Sgd(epochs=2))])
def test_a_label_holder_with_columns_goes_on_alone_if_everybody_is_lost(cancer, method):
    alone = simulate(method, cancer, runtime=InProcess(faults=Faults(absent=cancer.peers)))
    assert alone.score.value > 0.9


@pytest.mark.parametrize("kind", [OneShot, FewShot])
@pytest.mark.parametrize("head", [Mlp(hidden=()), Boosted()])
def test_a_label_holder_without_columns_ends_naming_those_who_are_lost(overlap, kind, head):
    with pytest.raises(ValueError, match=f"no columns of its own, and none of {', '.join(overlap.peers)} answered"):
        simulate(kind(**QUICK, head=head), overlap, runtime=InProcess(faults=Faults(absent=overlap.peers)))

"""One-shot and few-shot VFL with parties that are late or lost, and means that stand in for them."""

import numpy as np
import pytest

from laconic.core.log import WireLog
from laconic.core.peers import Peers
from laconic.learn.fixmatch_tab import FixMatchTab
from laconic.learn.nets import Mlp
from laconic.learn.sgd import Sgd
from laconic.learn.trees import Boosted
from laconic.methods.vertical.fewshot import FewShot
from laconic.methods.vertical.oneshot import OneShot
from laconic.runtime.faults import Faults
from laconic.runtime.inprocess import InProcess
from laconic.simulation import seats, simulate

QUICK = {"local": FixMatchTab(steps=30, lr=1e-2), "trainer": Sgd(epochs=15, lr=1e-2)}


def test_a_lost_party_is_left_out_of_fitting_and_counts_as_its_mean_in_prediction(cancer):
    alone = simulate(OneShot(**QUICK), cancer, runtime=InProcess(faults=Faults(absent=("shop",))))
    assert {(absence.party, absence.step) for absence in alone.absences} == {("shop", "begin_and_send")}
    assert alone.score.value > 0.9


@pytest.mark.parametrize("kind", [OneShot, FewShot])
def test_the_mean_row_of_a_party_keeps_up_with_fine_tuning(overlap, kind):
    method = kind(**QUICK, more=Sgd(epochs=20, batch=32, lr=1e-2, decay="cosine"))
    hub, _, others = seats(method, overlap, seed=0)
    with InProcess().open(others) as carrier:
        peers = Peers(method, hub, carrier, WireLog(), carrier.names)
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

"""Forked workers give what one process gives."""

import pytest

from laconic.check import small_federation, small_horizontal
from laconic.core.errors import StepError
from laconic.learn.classifiers import Logistic
from laconic.learn.sgd import Sgd
from laconic.methods.horizontal.fedkt import FedKt
from laconic.methods.horizontal.scaffold import Scaffold
from laconic.methods.vertical.splitnn import SplitNN
from laconic.runtime.forked import Forked
from laconic.simulation import simulate


@pytest.mark.parametrize(
    ("method", "federation"),
    [
        (FedKt(model=Logistic()), small_horizontal("binary")),
        (Scaffold(exchanges=2, trainer=Sgd(epochs=1, optimizer="sgd", lr=0.1)), small_horizontal("multiclass")),
        (SplitNN(trainer=Sgd(epochs=1)), small_federation("binary")),
    ],
    ids=["one exchange", "memory between exchanges", "vertical"],
)
def test_numbers_bytes_and_ledgers_are_those_of_one_process(method, federation):
    alone, forked = simulate(method, federation), simulate(method, federation, runtime=Forked(workers=2))
    assert forked.predictions == alone.predictions
    assert forked.fit.bytes == alone.fit.bytes
    assert forked.releases == alone.releases


def test_an_error_in_a_worker_names_the_party():
    federation = small_horizontal("binary")
    del federation.tables["party2"].cuts["train"]
    with pytest.raises(StepError, match="party2"):
        simulate(FedKt(model=Logistic()), federation, runtime=Forked())


def test_no_workers_are_refused():
    with pytest.raises(ValueError, match="1 or more"):
        Forked(workers=0)

"""Every method passes the device on to all that learns in it, at the hub and at the parties."""

import numpy as np
import pandas
import pytest
import torch

from laconic import execute, read_plan, simulate
from laconic.core import answer
from laconic.deploy import Forked, InProcess, Processes
from laconic.deploy.transports import inprocess
from laconic.errors import PlanError
from laconic.learn import Sgd, device_asked, on_device
from laconic.methods.registry import methods
from laconic.methods.vertical.fedonce import FedOnce
from laconic.methods.vertical.splitnn import SplitNN
from laconic.plan import plan_fingerprint
from laconic.testing import drawn_times
from tests.far_device import far_device

DATA = 'data.name = "breast_cancer"\nruntime = {type = "InProcess", workers = 1}\n'
QUICK = "method.trainer.epochs = 2"
NETWORK = 'method.model = {type = "Network", trainer.epochs = 2}'
LEARNER = 'method.learner = {type = "NetModel", trainer.epochs = 2}'
SETTINGS = {
    **dict.fromkeys(("FedOnce", "OneShot", "FewShot", "SplitNN", "FedBCD", "FedCVT", "Solo", "LateFusion"), QUICK),
    **dict.fromkeys(("Centralised", "FedAvg", "FedProx", "FedDf", "Pfnm"), QUICK),
    **dict.fromkeys(("VimSgd", "VimAdmm", "VimAdmmJoint", "Vafl", "Fdml"), "method.epochs = 1"),
    **dict.fromkeys(("FedKt", "Pate", "SoloRows", "PooledRows"), NETWORK),
    "Rap": LEARNER,
    "LocalDp": f"{LEARNER}\nmethod.noise = {{epsilon = 8.0, seeded = true}}",
    "Scaffold": 'method.trainer = {epochs = 2, lr = 0.05, optimizer = "sgd", weight_decay = 0.0}',
    **dict.fromkeys(("OneShot", "FewShot"), f'{QUICK}\nmethod.head = {{type = "Mlp", hidden = []}}'),
    "FedOnce": 'method.trainer = {type = "Sgd", epochs = 2}',
}
BY_NUMPY = ("Analytic", "Cox", "FedTrees", "Linear", "VerticalXgboost")
"""Methods that learn without torch."""
BATCHED = ("FedKt", "Pate", "Pfnm")
"""Methods whose nets numpy trains all at once on the processor, with other draws than torch elsewhere."""
LONG = ("FewShot", "OneShot")
"""Methods that take long on a device whose every operation is counted."""
OURS = [name for name, kind in methods().items() if kind.__module__.startswith("laconic.")]


@pytest.fixture
def plan_of(tmp_path):
    """The plan of a method, on a public set; of one for times to an event, on drawn ones in two files."""

    def written(name):
        data = DATA
        if methods()[name].tasks == ("survival",):
            drawn = drawn_times(200)
            frame = pandas.DataFrame(drawn.raw, columns=[one.name for one in drawn.columns])
            frame["days"], frame["died"] = np.abs(drawn.y), (drawn.y > 0).astype(int)
            paths = [str(tmp_path / f"{name}.csv") for name in ("north", "south")]
            for path, rows in zip(paths, (frame[:100], frame[100:]), strict=True):
                rows.to_csv(path, index=False)
            data = f'data = {{files = {paths}, label = "days", event = "died"}}\n'
        return read_plan(f'method.type = "{name}"\n{SETTINGS.get(name, "")}\n{data}')

    return written


@pytest.mark.parametrize("name", OURS)
def test_no_tensor_is_left_to_the_default_device(name, plan_of):
    usual = execute(plan_of(name))
    with on_device("cpu"), torch.device("meta"):
        found = execute(plan_of(name))
    assert found.predictions == usual.predictions


@pytest.mark.parametrize(
    "name", [name if name not in LONG else pytest.param(name, marks=pytest.mark.slow) for name in OURS]
)
def test_another_device_learns_as_well(name, plan_of):
    usual = execute(plan_of(name))
    with far_device() as far:
        found = execute(plan_of(name))
    assert (far.count > 0) == (name not in BY_NUMPY)
    # The same draws, rounded otherwise: at most a few of the hundred or so test rows can turn.
    if name not in BATCHED:
        assert found.score.value == pytest.approx(usual.score.value, abs=0.03)


def test_where_a_plan_learns_does_not_change_its_fingerprint():
    plan = read_plan(f'method.type = "Linear"\n{DATA}')
    here = read_plan(f'method.type = "Linear"\ndevice = "cpu"\n{DATA}')
    assert plan.device == "auto"
    assert plan_fingerprint(here) == plan_fingerprint(plan)


def test_a_plan_for_a_device_that_is_not_there_is_refused():
    with pytest.raises(PlanError, match='device = "cuda"'):
        execute(read_plan(f'method.type = "Linear"\ndevice = "cuda"\n{DATA}'))


def test_parties_in_threads_are_on_the_device_of_the_run(cancer, monkeypatch):
    seen = []

    def look_and_answer(*given):
        seen.append(device_asked())
        return answer(*given)

    monkeypatch.setattr(inprocess, "answer", look_and_answer)
    simulate(SplitNN(trainer=Sgd(epochs=1)), cancer, runtime=InProcess(workers=2), device="cpu")
    assert set(seen) == {"cpu"}


@pytest.mark.parametrize("runtime", [Processes(), Forked()])
def test_parties_in_processes_learn_the_same(runtime, cancer):
    method = FedOnce(trainer=Sgd(epochs=1))
    assert simulate(method, cancer, runtime=runtime, device="cpu").predictions == simulate(method, cancer).predictions


def test_forked_workers_refuse_a_gpu(cancer, monkeypatch):
    monkeypatch.setattr("laconic.learn.device._devices_here", lambda: ["cuda", "cpu"])
    monkeypatch.setattr("laconic.learn.device._found", lambda name: torch.device("cpu"))
    with pytest.raises(PlanError, match='device = "cuda" cannot be used by forked workers; set device to "cpu"'):
        simulate(FedOnce(), cancer, runtime=Forked(), device="cuda")

import subprocess
import sys

import pytest
import torch

from laconic.errors import PlanError
from laconic.learn import device
from laconic.learn.device import device_asked, device_now, is_on_cpu, on_device

CPU = torch.device("cpu")


@pytest.fixture
def machine(monkeypatch):
    """Says what the machine has, best first."""

    def has(*names):
        device._found.cache_clear()
        monkeypatch.setattr(device, "_devices_here", lambda: [*names, "cpu"])

    yield has
    device._found.cache_clear()


def test_auto_takes_the_best_device_there_is(machine):
    machine("cuda", "mps")
    assert device_now() == torch.device("cuda")
    machine("mps")
    assert device_now() == torch.device("mps")
    assert not is_on_cpu()
    machine()
    assert device_now() == CPU
    assert is_on_cpu()


def test_a_block_inside_another_keeps_its_device_unless_it_names_one(machine):
    machine("cuda")
    with on_device("cpu"):
        with on_device():
            assert device_now() == CPU
        with on_device("cuda"):
            assert device_now() == torch.device("cuda")
        assert device_asked() == "cpu"
    assert device_asked() == "auto"


def test_a_device_that_is_not_there_is_refused_with_those_that_are(machine):
    machine("mps")
    with (
        pytest.raises(
            PlanError, match=r'device = "cuda": torch finds no such device .* only mps, cpu; set device to one'
        ),
        on_device("cuda"),
    ):
        pass
    assert device_asked() == "auto"


def test_an_unknown_device_is_refused_with_those_that_are_known():
    with (
        pytest.raises(PlanError, match=r'device = "gpu" is not known; did you mean cpu. Allowed: auto, cpu, cuda, mps'),
        on_device("gpu"),
    ):
        pass


def test_naming_the_processor_imports_no_torch():
    program = (
        "import sys; from laconic.learn.device import on_device\nwith on_device('cpu'): print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

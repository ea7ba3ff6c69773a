"""Where torch learns: on the processor or on a GPU; the one place that decides it.

Randomness is always drawn on the processor, so that a seed draws the same numbers everywhere. What is computed from
them is promised to the bit on the processor only: a GPU rounds and adds up in its own way.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from laconic.errors import PlanError, closest

if TYPE_CHECKING:
    import torch

Device: TypeAlias = Literal["auto", "cpu", "cuda", "mps"]
"""`auto` is the first of cuda (NVIDIA, AMD), mps (Apple) and cpu that this machine has."""


@contextmanager
def on_device(name: Device | None = None) -> Iterator[None]:
    """Let everything that learns by torch do so on this device for as long as the block lasts; also a decorator.

    Args:
        name: which; None keeps that of the block around this one, and is `auto` where there is none.

    Raises:
        PlanError: this machine has no such device, or there is none of that name.

    Example:
        >>> with on_device("cpu"):
        ...     device_now()
        device(type='cpu')
    """
    if name is not None:
        _refuse_unknown(name)
    if name in ("cuda", "mps"):
        _found(name)
    before = _asked.set(name or _asked.get())
    try:
        yield
    finally:
        _asked.reset(before)


def device_asked() -> Device:
    """The device asked for in this thread; `auto` outside of every block."""
    return _asked.get()


def device_now() -> "torch.device":
    """Where tensors that something is learnt from are made in this thread."""
    return _found(_asked.get())


def is_on_cpu() -> bool:
    """Whether learning is on the processor, where numpy and compiled code can take it over."""
    return device_now().type == "cpu"


@cache
def _found(name: Device) -> "torch.device":
    import torch

    here = _devices_here()
    if name != "auto" and name not in here:
        raise PlanError(
            f'device = "{name}": torch finds no such device on this machine, only {", ".join(here)}; set device to one '
            'of these, or to "auto"'
        )
    return torch.device(here[0] if name == "auto" else name)


def _devices_here() -> list[str]:
    """What this machine has, best first."""
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [name for name, is_there in there.items() if is_there]


def _refuse_unknown(name: str) -> None:
    known = get_args(Device)
    if name not in known:
        raise PlanError(f'device = "{name}" is not known; {closest(name, list(known))}')


_asked: ContextVar[Device] = ContextVar("device", default="auto")

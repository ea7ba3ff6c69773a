"""A device that a machine without a GPU can have: its numbers are in the processor's memory, but they count as far.

A tensor here is on torch's device `meta`. As on a GPU, torch refuses to hand it to numpy and to mix it with tensors of
the processor. Stricter than a GPU, it also refuses row numbers from the processor.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

from laconic.learn import device

FAR = torch.device("meta")
_ACROSS = (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)
"""What may have tensors of both sides."""


class FarTensor(Tensor):
    """A tensor whose numbers are far."""

    numbers: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, numbers: Tensor) -> Self:
        found = torch.Tensor._make_wrapper_subclass(
            cls, numbers.shape, strides=numbers.stride(), storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype, device=FAR, requires_grad=numbers.requires_grad,
        )  # fmt: skip
        found.numbers = numbers
        return found

    def __repr__(self) -> str:
        return f"FarTensor({self.numbers!r})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["numbers"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _carried_out(func, args, kwargs or {})


class FarDevice(TorchDispatchMode):
    """While it lasts, tensors that are made on the far device have numbers; counts how often one was made or sent."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = _carried_out(func, args, kwargs or {})
        self.count += isinstance(found, FarTensor)
        return found


class _FarData(TorchFunctionMode):
    """While it lasts, `torch.tensor` on the far device keeps the numbers given, which `meta` would drop."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and kwargs.get("device") == FAR:
            return torch.tensor(*args, **kwargs | {"device": "cpu"}).to(FAR)
        return func(*args, **kwargs)


@contextmanager
def far_device() -> Iterator["FarDevice"]:
    """Learn on the far device for as long as the block lasts."""

    def found(name: str) -> torch.device:
        return FAR if name == "auto" else torch.device(name)

    # Torch cannot make views of its own classes of tensors in inference mode; without gradients is as good.
    def without_gradients(mode: bool = True) -> AbstractContextManager[None]:
        return torch.no_grad() if mode else nullcontext()

    with (
        mock.patch.object(device, "_found", found),
        mock.patch.object(torch, "inference_mode", without_gradients),
        FarDevice() as far,
        _FarData(),
    ):
        yield far


def _carried_out(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    given = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
    asked = kwargs.get("device")
    is_far = any(isinstance(one, FarTensor) for one in given)
    if is_far and func not in _ACROSS and any(not isinstance(one, FarTensor) and one.dim() for one in given):
        raise RuntimeError(f"{func} is asked to mix tensors of two devices")
    if any(isinstance(one, torch.Generator) for one in tree_flatten((args, kwargs))[0]) and (is_far or asked == FAR):
        raise RuntimeError(f"{func} is asked to draw randomness on the far device")
    inner_args, inner = tree_map_only(FarTensor, lambda one: one.numbers, (args, dict(kwargs)))
    to_far = is_far
    if asked is not None:
        to_far = torch.device(asked) == FAR
        inner["device"] = torch.device("cpu")
    elif func is torch.ops.aten.copy_.default:
        to_far = isinstance(args[0], FarTensor)
    found = func(*inner_args, **inner)
    if not to_far:
        return found if func is not torch.ops.aten.copy_.default else args[0]
    found = tree_map_only(Tensor, FarTensor, found)
    return return_and_correct_aliasing(func, args, kwargs, found) if is_far else found

"""What a party remembers, parted into a tree that JSON can hold and arrays that safetensors can hold."""

from math import isfinite
from typing import Any

import numpy as np

from laconic.core.errors import DataError
from laconic.core.values import Array

_SCALAR, _NUMBER, _BYTES, _ARRAY = "value", "number", "bytes", "array"
_VALUES, _LIST, _PAIRS = "values", "list", "pairs"


def part_arrays(value: Any) -> tuple[Any, dict[str, Array]]:
    """A tree for JSON in which every array is a number, and the arrays by that number.

    Takes what the wire can carry: arrays, numbers, text, bytes, lists and dicts.
    """
    arrays: dict[str, Array] = {}
    return _write(value, arrays), arrays


def join_arrays(tree: Any, arrays: dict[str, Array]) -> Any:
    """What `part_arrays` took apart, equal to the bit."""
    match tree:
        case {"array": str(name)} if name in arrays:
            return arrays[name]
        case {"value": bool() | int() | float() | str() | None as value}:
            return value
        case {"number": str(text)}:
            return float(text)
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"values": list(items)}:
            return items
        case {"list": list(items)}:
            return [join_arrays(item, arrays) for item in items]
        case {"pairs": list(pairs)}:
            return {join_arrays(key, arrays): join_arrays(item, arrays) for key, item in pairs}
    raise DataError(f"found {str(tree)[:60]!r} where a saved value was expected; the file was changed by hand")


def _write(value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        # A copy in C order: safetensors writes a view's memory, whatever the view shows.
        arrays[name] = value.copy(order="C")
        return {_ARRAY: name}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return {_NUMBER: repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return {_SCALAR: value}
    if isinstance(value, bytes):
        return {_BYTES: value.hex()}
    if isinstance(value, list | tuple):
        if all(isinstance(item, str | int) for item in value):
            return {_VALUES: list(value)}
        return {_LIST: [_write(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {_PAIRS: [[_write(key, arrays), _write(item, arrays)] for key, item in value.items()]}
    raise TypeError(f"cannot be saved: a {type(value).__name__}; remember arrays, numbers, text, lists or dicts")

"""The wire: what crosses between parties, as bytes that hold data and never code.

Values are written as msgpack. An array is one extension: a letter for its type, its shape, and its raw little-endian
buffer. Reading is strict: a blob is walked before anything is built from it, so that a hostile one costs an error and
not memory.
"""

import struct
from collections.abc import Iterator
from math import prod
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from laconic.errors import WireError
from laconic.values import Array

_ARRAY = 1
_TYPES = {letter.encode(): np.dtype(letter).newbyteorder("<") for letter in "?bBhHiIqQefd"}
_MOST_AXES = 8
_LARGE = 1 << 16
"""From so many bytes on, an array is written without copying it first; above what a short extension can hold."""

T = TypeVar("T")
Blob: TypeAlias = bytes | memoryview
"""What crosses; a view where copying would cost too much."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a blob may hold: bytes, values (an array is one), and lists within lists."""

    bytes: int = 2**31
    items: int = 100_000
    depth: int = 16


class Heading(msgspec.Struct, frozen=True, array_like=True):
    """A question without what the step is given: enough to know which question it is."""

    step: str
    phase: str
    round: int


class Question(Heading, frozen=True, array_like=True):
    """What the hub asks a party: a step, when it is asked, and what the step is given."""

    payload: dict[str, Any]


def encode(value: object) -> bytes:
    """Write arrays, numbers, text, bytes, lists and dicts; anything else is a `WireError`."""
    try:
        pieces = list(_pieces(value))
    except (TypeError, OverflowError, RecursionError, struct.error) as problem:
        raise WireError(f"cannot be sent: {problem}; send arrays, numbers, text, lists or dicts") from problem
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], bytes) else b"".join(pieces)


def decode(blob: Blob, limits: Limits | None = Limits()) -> Any:  # noqa: B008 (frozen)
    """Read what `encode` wrote; anything else is a `WireError`. None for no limits: what this machine itself wrote."""
    return _read(_any_decoder, blob, limits)


def decode_question(blob: Blob, limits: Limits = Limits()) -> Question:  # noqa: B008 (frozen)
    """Read a question; a blob of any other form is a `WireError`."""
    return _read(_question_decoder, blob, limits)


def read_heading(blob: Blob, limits: Limits = Limits()) -> Heading:  # noqa: B008 (frozen)
    """Which question a blob asks, without building what it brings."""
    return _read(_heading_decoder, blob, limits)


def describe(value: object) -> str:
    """The form of a value in a few words, for ledgers: `float32 512x8`, `3 values`, `nothing`."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {'x'.join(map(str, value.shape)) or 'number'}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {describe(inner)}" for key, inner in value.items()) or "nothing"
    if isinstance(value, list | tuple):
        return f"{len(value)} values"
    return "nothing" if value is None else type(value).__name__


def outline(blob: Blob, limits: Limits = Limits()) -> str:  # noqa: B008 (frozen)
    """As `describe` of what a blob holds, without copying its arrays."""
    return describe(_read(_outline_decoder, blob, limits))


def _read(decoder: msgspec.msgpack.Decoder[T], blob: Blob, limits: Limits | None) -> T:
    if limits is not None and len(blob) > limits.bytes:
        raise WireError(f"a blob of {len(blob):,} bytes is over the limit of {limits.bytes:,}")
    try:
        if limits is not None:
            _walk(blob, limits)
        return decoder.decode(blob)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, struct.error, IndexError) as problem:
        raise WireError(f"not a readable blob: {problem}") from problem


def _pieces(value: object) -> Iterator[bytes | memoryview]:
    """The blob of a value in pieces, large arrays among them as they are in memory.

    An upload may be as large as a party's table, and the encoder would copy it twice.
    """
    if isinstance(value, np.ndarray) and value.nbytes >= _LARGE:
        head, content = _parts(value)
        yield b"\xc9" + struct.pack(">IB", len(head) + len(content), _ARRAY) + head
        yield content
    elif isinstance(value, dict) and any(_is_large(inner) for inner in value.values()):
        yield _table_heading(len(value))
        for key, inner in value.items():
            yield _encoder.encode(key)
            yield from _pieces(inner)
    elif isinstance(value, Question) and _is_large(value.payload):
        yield b"\x94"  # A list of four.
        yield from map(_encoder.encode, (value.step, value.phase, value.round))
        yield from _pieces(value.payload)
    else:
        yield _encoder.encode(value)


def _is_large(value: object) -> bool:
    if isinstance(value, dict):
        return any(_is_large(inner) for inner in value.values())
    return isinstance(value, np.ndarray) and value.nbytes >= _LARGE


def _table_heading(count: int) -> bytes:
    """How msgpack begins a table of so many values."""
    if count < 16:
        return bytes([0x80 | count])
    return struct.pack(">cH", b"\xde", count) if count < 1 << 16 else struct.pack(">cI", b"\xdf", count)


def _parts(value: Array) -> tuple[bytes, memoryview]:
    """What says what an array is, and its cells."""
    letter = value.dtype.char.encode()
    # The platform's own "long" letters (l, L) name the same types as q, Q.
    letter = {b"l": b"q", b"L": b"Q"}.get(letter, letter)
    if letter not in _TYPES or value.ndim > _MOST_AXES:
        raise TypeError(f"an array of {value.dtype} with {value.ndim} axes")
    head = struct.pack(f"<cB{value.ndim}Q", letter, value.ndim, *value.shape)
    flat = np.ascontiguousarray(value, dtype=_TYPES[letter]).reshape(-1)
    return head, flat.view(np.uint8).data


def _pack(value: object) -> object:
    if isinstance(value, np.ndarray):
        return msgspec.msgpack.Ext(_ARRAY, b"".join(_parts(value)))
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__}")


def _unpack(code: int, data: memoryview) -> Array:
    found = _in_place(code, data)
    return found.astype(found.dtype.newbyteorder("="), copy=True)


def _outlined(code: int, data: memoryview) -> Array:
    """An array's shape and type, without its numbers."""
    found = _in_place(code, data)
    return np.broadcast_to(np.empty((), found.dtype.newbyteorder("=")), found.shape)


def _in_place(code: int, data: memoryview) -> Array:
    """An array as it lies in the blob."""
    if code != _ARRAY:
        raise WireError(f"unknown extension {code}")
    letter, axes = struct.unpack_from("<cB", data)
    if letter not in _TYPES or axes > _MOST_AXES:
        raise WireError(f"unknown array type {letter!r} or too many axes ({axes})")
    shape = struct.unpack_from(f"<{axes}Q", data, 2)
    buffer = data[2 + 8 * axes :]
    if prod(shape, start=_TYPES[letter].itemsize) != len(buffer):
        raise WireError(f"an array of shape {shape} does not fit its {len(buffer)} bytes")
    flat = np.frombuffer(buffer, dtype=_TYPES[letter])
    try:
        return flat.reshape(shape)
    except ValueError as problem:  # No numbers, but one side of 0 and others beyond all memory.
        raise WireError(f"an array of shape {shape} cannot be: {problem}") from problem


_encoder = msgspec.msgpack.Encoder(enc_hook=_pack)
_any_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_unpack)
_outline_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_outlined)
_question_decoder = msgspec.msgpack.Decoder(Question, ext_hook=_unpack)
_heading_decoder = msgspec.msgpack.Decoder(Heading, ext_hook=_unpack)

# By the first byte of a value of msgpack: how many bytes follow that are not counted, how wide a length comes after it,
# and how many values each of that length stands for, 0 if it counts bytes.
_FORMS = dict.fromkeys((*range(0x80), 0xC0, 0xC2, 0xC3, *range(0xE0, 0x100)), (0, 0, 0))
_FORMS |= {0xA0 + length: (length, 0, 0) for length in range(32)}
_FORMS |= {0xCA: (4, 0, 0), 0xCB: (8, 0, 0)}
_FORMS |= {first + power: (1 << power, 0, 0) for first in (0xCC, 0xD0) for power in range(4)}
_FORMS |= {0xD4 + power: (1 + (1 << power), 0, 0) for power in range(5)}
for _first, _extra in ((0xC4, 0), (0xC7, 1), (0xD9, 0)):
    _FORMS |= {_first + power: (_extra, 1 << power, 0) for power in range(3)}
_FORMS |= {0xDC: (0, 2, 1), 0xDD: (0, 4, 1), 0xDE: (0, 2, 2), 0xDF: (0, 4, 2)}


def _walk(blob: Blob, limits: Limits) -> None:
    """Count values and depth without building any of them."""
    at, items, open_lists = 0, 0, [1]
    while open_lists:
        if open_lists[-1] == 0:
            open_lists.pop()
            continue
        open_lists[-1] -= 1
        items += 1
        skip, inside = _next(blob, at)
        at += skip
        if at > len(blob) or inside > len(blob) - at:
            raise WireError("the blob is cut off")
        if inside:
            open_lists.append(inside)
        if items > limits.items or len(open_lists) > limits.depth + 1:
            raise WireError(f"the blob holds more than {limits.items:,} values or {limits.depth} levels")
    if at != len(blob):
        raise WireError(f"{len(blob) - at} bytes too many at the end of the blob")


def _next(blob: Blob, at: int) -> tuple[int, int]:
    """How many bytes the value at `at` takes before what is inside it, and how many values are inside."""
    first = blob[at]
    if 0x80 <= first < 0xA0:  # A short table or list.
        return 1, (first & 0x0F) * (2 if first < 0x90 else 1)
    if first not in _FORMS:
        raise WireError(f"byte {first:#x} begins no value")
    extra, width, each = _FORMS[first]
    length = int.from_bytes(blob[at + 1 : at + 1 + width], "big")
    return 1 + width + extra + (0 if each else length), each * length

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from laconic.core import wire
from laconic.core.wire import Limits, Question, decode, decode_question, describe, encode
from laconic.errors import WireError

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
arrays = hnp.arrays(
    st.sampled_from([np.bool_, np.int8, np.uint8, np.int64, np.float16, np.float32, np.float64]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)


def outcome(read, blob):
    """What reading came to; any other exception fails the test."""
    try:
        read(blob)
    except WireError:
        return "refused"
    return "value"


@given(plain)
def test_plain_values_come_back_as_they_were(value):
    assert decode(encode(value)) == value


@given(arrays)
def test_arrays_come_back_to_the_bit_and_writable(array):
    back = decode(encode({"a": array}))["a"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == np.ascontiguousarray(array).tobytes()
    assert back.flags.writeable


@given(st.integers(0, 3), st.integers(0, 20), st.booleans())
def test_large_arrays_are_written_as_small_ones_are(large, small, nested):
    value: dict = {f"large{number}": np.arange(10_000, dtype=np.float64) + number for number in range(large)}
    value |= {f"small{number}": np.arange(number) for number in range(small)}
    value = {"inner": value, "word": "x"} if nested else value
    question = Question("step", "fit", 300, value)
    for one in (value, question, np.arange(20_000)):
        assert encode(one) == wire._encoder.encode(one)
    assert decode(memoryview(encode(value))).keys() == value.keys()


def test_an_array_costs_its_buffer_and_a_few_bytes():
    assert len(encode(np.zeros((1000, 16), np.float32))) <= 64_000 + 32


@given(st.binary(max_size=400))
@settings(max_examples=2000)
def test_any_bytes_give_a_value_or_a_wire_error(blob):
    assert outcome(decode, blob) in {"value", "refused"}
    assert outcome(decode_question, blob) in {"value", "refused"}


@given(plain.map(encode) | arrays.map(encode), st.data())
@settings(max_examples=1000)
def test_a_mutated_blob_gives_a_value_or_a_wire_error(blob, data):
    if not blob:
        return
    broken = bytearray(blob)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    broken = broken[: data.draw(st.integers(0, len(broken)))]
    assert outcome(decode, bytes(broken)) in {"value", "refused"}


@pytest.mark.parametrize(
    "blob",
    [
        b"\xdd\xff\xff\xff\xff",  # a list of four thousand million values
        b"\xdf\xff\xff\xff\xff",  # a dict of as many
        b"\xc6\xff\xff\xff\xff",  # four gigabytes of bytes
        b"\xc9\xff\xff\xff\xff\x01",  # an array of four gigabytes
        b"\xc7\x12\x01f\x02" + b"\xff" * 16,  # an array whose shape is beyond all memory
        b"\x91" * 100_000,  # a hundred thousand lists within each other
        b"\xdc\xff\xff" + b"\x90" * 65_535 + b"\x90" * 100,  # trailing bytes
        b"\xdd\x00\x0f\x42\x40" + b"\x90" * 1_000_000,  # a million empty lists, 56 bytes each once built
        b"\xc1",
        b"",
    ],
)
def test_a_hostile_blob_costs_neither_memory_nor_time(blob):
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(WireError):
        decode(blob)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    assert time.perf_counter() - started < 60  # A hang would take far longer; a busy machine does not.


def test_limits_are_kept():
    with pytest.raises(WireError, match="over the limit"):
        decode(encode(b"12345"), Limits(bytes=3))
    with pytest.raises(WireError, match="more than 2"):
        decode(encode([1, 2, 3]), Limits(items=2))
    with pytest.raises(WireError, match="levels"):
        decode(encode([[[[1]]]]), Limits(depth=2))


def test_what_is_not_data_cannot_be_sent():
    for value in (object(), np.array(["text"]), np.array([object()]), lambda: 1):
        with pytest.raises(WireError, match="cannot be sent"):
            encode(value)


def test_a_question_of_another_form_is_refused():
    assert decode_question(encode(Question("a", "fit", 1, {"x": 1}))).payload == {"x": 1}
    for wrong in ([1, 2], {"step": "a"}, ["a", "fit", "one", {}]):
        with pytest.raises(WireError):
            decode_question(encode(wrong))


def test_describe_says_the_form_in_words():
    assert describe({"train": np.zeros((5, 2), np.float16)}) == "train: float16 5x2"
    assert describe(None) == "nothing"


def test_an_outline_is_the_description_without_the_arrays():
    value = {"train": np.zeros((3, 2), np.float16), "count": 4, "none": None, "list": [1, 2]}
    assert wire.outline(wire.encode(value)) == wire.describe(value)
    assert wire.outline(memoryview(wire.encode(None))) == "nothing"

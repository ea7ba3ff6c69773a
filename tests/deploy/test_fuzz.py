import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_party import draw, greeting, make_responder, question, verdict
from laconic.deploy.transports import rpc_messages as frames

GOOD = {"Refusal", "Entries", "Welcome", "BytesReceived", "Answer"}


@pytest.fixture(scope="module")
def responder(tmp_path_factory):
    return make_responder(tmp_path_factory.mktemp("fuzz"))


def test_drawn_blobs_find_no_crash_no_hang_and_no_forbidden_answer(responder):
    rng = np.random.default_rng(1)
    assert {verdict(responder, draw(rng, number)) for number in range(1500)} <= GOOD


values = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=40) | st.binary(max_size=40)
asks = st.builds(
    frames.Ask,
    st.just("run"),
    st.text(max_size=8),
    st.none() | st.integers(0, 9),
    st.text(max_size=34),
    values.filter(lambda value: value is None or isinstance(value, bytes)),
)
parts = st.builds(
    frames.Part, st.just("run"), st.text(max_size=34), st.integers(-9, 2**62), st.integers(-9, 2**62), st.binary()
)
greets = st.builds(
    frames.Greet,
    st.text(max_size=20),
    st.text(max_size=34),
    st.text(max_size=8),
    st.text(max_size=8),
    st.just(("shop",)),
)


@given(st.one_of(asks, parts, greets).map(frames.write) | st.binary(max_size=300))
@settings(max_examples=300, deadline=5000)
def test_frames_that_hypothesis_makes_are_answered_or_refused(responder, blob):
    assert verdict(responder, blob) in GOOD


def test_the_party_still_answers_what_is_allowed_and_only_that(responder):
    assert verdict(responder, frames.write(greeting())) == "Welcome"
    assert verdict(responder, question("represent", 10**10, {"rows": "train"})) == "Refusal"
    assert verdict(responder, question("learn_and_send", 10**10, {})) == "Answer"

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_party import KINDS, STRANGER, Target, greeting, question
from laconic.deploy.transports import rpc_messages as frames

GOOD = {"Refusal", "NotGreeted", "Entries", "Welcome", "BytesReceived", "Answer"}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return Target(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_blobs_find_no_crash_no_hang_and_no_answer_to_strangers_or_of_what_is_forbidden(target, kind):
    rng = np.random.default_rng(1)
    drawn = [target.draw(rng, number) for number in range(KINDS.index(kind), 2500, len(KINDS))]
    found = {target.verdict(blob, kind) for blob in drawn}
    assert found <= (GOOD if kind == "hostile hub" else {STRANGER})


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
    st.just(("shop",)),
)


@given(st.one_of(asks, parts, greets).map(frames.write) | st.binary(max_size=300))
@settings(max_examples=300, deadline=5000)
def test_frames_that_hypothesis_makes_are_answered_or_refused(target, blob):
    assert target.verdict(blob, "hostile hub") in GOOD
    assert target.verdict(blob, "no channel") == STRANGER


def test_the_party_still_answers_what_is_allowed_and_only_that(target):
    assert target.verdict(frames.write(greeting()), "hostile hub") == "Welcome"
    assert target.verdict(question("represent", 10**10, {"rows": "train"}), "hostile hub") == "Refusal"
    assert target.verdict(question("learn_and_send", 10**10, {}), "hostile hub") == "Answer"

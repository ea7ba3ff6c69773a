"""The fuzzing of `benchmarks/envelopes.py`, at a size for every day."""

from benchmarks.envelope_mutants import insiders, mutants
from benchmarks.envelopes import fuzz


def test_no_mutant_opens_and_none_crashes():
    ends = fuzz(mutants, 2000, seed=1)
    assert sum(ends.values()) == 2000
    assert "opened" not in ends
    assert {"Tampered", "Truncated", "NotAnEnvelope", "UnknownKey", "OtherVersion"} <= set(ends)


def test_what_an_insider_signs_opens_as_signed_or_is_refused():
    ends = fuzz(insiders, 500, seed=1)
    assert set(ends) <= {"opened", "CoverMismatch"}
    assert ends["CoverMismatch"] > 250

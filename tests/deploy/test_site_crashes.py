"""Server, hospitals and engines are killed at random in the middle of a run, which ends as if nothing had been."""

import pytest

from benchmarks.site_crashes import disturbed, equal, furnish, undisturbed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [4, 6])
def test_a_run_between_hospitals_that_are_killed_ends_equal_to_an_undisturbed_one(tmp_path, seed):
    sites = furnish(tmp_path)
    found, killed = disturbed(sites, seed, kills=3, limit=400)
    assert len(killed) == 3
    assert equal(found, undisturbed(sites))

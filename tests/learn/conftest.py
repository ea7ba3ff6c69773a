"""Learners are tested as they are run: within a block that limits threads."""

from collections.abc import Iterator

import pytest

from laconic.threads import limit_threads


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    with limit_threads():
        yield

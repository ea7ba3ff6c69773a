"""What each test costs, for choosing which are slow: python -m pytest -p tests.cpu_times [--cpu-times FILE].

Seconds of processor time, those of child processes included: they change little when others use the machine, and two
workers take about half their sum. What a shared fixture costs is counted for the test that came first.
"""

import resource
from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--cpu-times", type=Path, default=Path("cpu_times.txt"), help="where times go, one line per test")


def cpu_seconds():
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before = cpu_seconds()
    result = yield
    # At once, so that a run that is cut off has measured something.
    with item.config.getoption("--cpu-times").open("a") as file:
        file.write(f"{cpu_seconds() - before:.2f} {item.nodeid}\n")
    return result

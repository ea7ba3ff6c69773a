"""Closes every run of the tests with what was left out, and with what was skipped for want of which program."""

import signal
from collections import Counter

import pytest

LEFT_OUT = pytest.StashKey[int]()


def pytest_configure(config):
    config.stash[LEFT_OUT] = 0
    # A shell script starts what it puts in the background (`make test &`) deaf to Ctrl-C, and so would be the commands
    # that tests start and stop by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_endless_wait(request):
    """A test that waits for something that never comes fails, and the others go on."""
    limit = 1200 if request.node.get_closest_marker("slow") else 180

    def give_up(*_):
        pytest.fail(f"this test took over {limit} s, and was ended")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def one_thread():
    """For tests of a method's parts: methods run on one thread, and a small net on two can take 40 times as long."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_deselected(items):
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config = slow[0].config
        config.stash[LEFT_OUT] += len(slow)
        # A worker of xdist has this dict, and sends it to the process that writes the summary.
        getattr(config, "workeroutput", {})["left_out"] = config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    # Every worker collects the same tests. One that crashed sends nothing.
    left_out = getattr(node, "workeroutput", {}).get("left_out", 0)
    node.config.stash[LEFT_OUT] = max(node.config.stash[LEFT_OUT], left_out)


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.section("left out and skipped")
    for line in closing_lines(config.stash[LEFT_OUT], terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line)


def closing_lines(left_out, skipped):
    """What the summary says; skips for the same reason are counted together."""
    if left_out:
        yield f"{left_out} slow tests left out. Run them: make test-slow. Run everything: make test-all."
    else:
        yield "No slow test left out."
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in sorted(reasons.items()):
        yield f"{count} skipped: {reason}"
    if not reasons:
        yield "No test skipped: all that these tests need is here."

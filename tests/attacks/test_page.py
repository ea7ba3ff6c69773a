"""docs/security.md promises as holding what a test shows, and nothing else."""

import importlib
import re
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
PAGE = HOME / "docs" / "security.md"
ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<state>holds|planned) \| (?P<tests>[^|]+) \|$", re.M)
PROMISES = [match.groupdict() for match in ROW.finditer(PAGE.read_text())]


def function_of(name):
    """The function of a test that the page names."""
    path, _, function = name.partition("::")
    path = path if path.startswith("tests/") else f"tests/attacks/{path}"
    return getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), function)


def is_mended(function):
    return not any(mark.name == "xfail" for mark in getattr(function, "pytestmark", ()))


def names_in(promise):
    return re.findall(r"`([^`]+)`", promise["tests"])


@pytest.mark.parametrize("promise", PROMISES, ids=[one["promise"][:50] for one in PROMISES])
def test_a_promise_holds_if_all_its_tests_pass(promise):
    mended = all(is_mended(function_of(name)) for name in names_in(promise))
    assert promise["state"] == ("holds" if mended else "planned"), promise["promise"]


def test_every_attack_that_is_not_mended_is_on_the_page():
    named = {name.rpartition("::")[2] for promise in PROMISES for name in names_in(promise)}
    for path in Path(__file__).parent.glob("test_*.py"):
        module = importlib.import_module(f"tests.attacks.{path.stem}")
        attacks = {name for name, one in vars(module).items() if name.startswith("test_") and not is_mended(one)}
        assert attacks <= named, f"{path.name}: {sorted(attacks - named)} is not in docs/security.md"


def test_every_row_of_the_page_was_read():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "::" in line]
    assert len(rows) == len(PROMISES) > 30

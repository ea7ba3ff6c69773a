"""Every name of `laconic` itself has an entry in the reference, with an example that runs."""

import doctest
import re
from importlib import import_module

import pytest

import laconic
from laconic.moved import OLD_VERBS
from tools.api_examples import EXAMPLES
from tools.package_examples import GROUPED, PACKAGE_EXAMPLES
from tools.site_hooks import _ROOMS, grouped, public_names

QUICK = ("load", "Equal", "Dirichlet", "Budget", "DataPlan", "read_plan", "Method", "LaconicError", "Federation")


def test_every_public_name_is_on_one_page_and_has_an_example():
    names = public_names()
    paged = [name for _, members in grouped(names).values() for name in members]
    assert sorted(paged) == sorted(names)
    lacking = [name for name in paged if name not in EXAMPLES and ">>>" not in (getattr(laconic, name).__doc__ or "")]
    assert not lacking, f"tools/api_examples.py needs an example of {lacking}"


@pytest.mark.parametrize("room", _ROOMS)
def test_every_name_of_a_package_has_an_example_that_uses_it(room):
    package, at_top = import_module(f"laconic.{room}"), public_names()
    lacking = [
        name
        for name, path in public_names(room).items()
        if (room, name) not in PACKAGE_EXAMPLES
        and at_top.get(name) != path
        and ">>>" not in (getattr(package, name).__doc__ or "")
    ]
    assert not lacking, f"tools/package_examples.py needs an example of {lacking}"
    for inside, names, text in GROUPED:
        for name in names.split() if inside == room else ():
            assert hasattr(package, name), f"laconic.{room} has no {name} any more"
            assert re.search(rf"\b{name}\b", text), f"the example beside {names.split()[0]} does not use {name}"


@pytest.mark.parametrize("text", [*EXAMPLES.values(), *(text for _, _, text in GROUPED)])
def test_an_example_uses_no_name_that_will_go(text):
    assert not re.search(rf"from laconic import .*\b({'|'.join(OLD_VERBS)})\b|laconic\.({'|'.join(OLD_VERBS)})\b", text)


def run(name):
    run_text(name, EXAMPLES[name])


def run_text(name, text):
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    printed = []
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=printed.append).failed
    assert not failed, "".join(printed)


@pytest.mark.parametrize("name", QUICK)
def test_a_short_example_does_what_it_says(name):
    run(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(QUICK)))
def test_an_example_does_what_it_says(name):
    run(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", range(len(GROUPED)), ids=[f"{room}-{names.split()[0]}" for room, names, _ in GROUPED]
)
def test_an_example_of_a_package_does_what_it_says(number):
    run_text(GROUPED[number][1], GROUPED[number][2])

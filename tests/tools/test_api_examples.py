"""Every name of `laconic` itself has an entry in the reference, with an example that runs."""

import doctest

import pytest

import laconic
from tools.api_examples import EXAMPLES
from tools.site_hooks import grouped, public_names

QUICK = ("load", "Equal", "Dirichlet", "Budget", "DataPlan", "read_plan", "Method", "LaconicError", "Federation")


def test_every_public_name_is_on_one_page_and_has_an_example():
    names = public_names()
    paged = [name for _, members in grouped(names).values() for name in members]
    assert sorted(paged) == sorted(names)
    lacking = [name for name in paged if name not in EXAMPLES and ">>>" not in (getattr(laconic, name).__doc__ or "")]
    assert not lacking, f"tools/api_examples.py needs an example of {lacking}"


def run(name):
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
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

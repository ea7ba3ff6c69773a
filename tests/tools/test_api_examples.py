"""Every name of `laconic` itself has an entry in the reference, with an example that runs."""

import doctest

import pytest

import laconic
from tools.api_examples import EXAMPLES, GROUPS
from tools.site_hooks import public_names

QUICK = ("load", "Equal", "Dirichlet", "Budget", "DataPlan", "read_plan", "Method", "LaconicError", "Federation")


def test_every_public_name_is_in_one_group_and_has_an_example():
    grouped = [name for _, names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(public_names())
    assert len(set(grouped)) == len(grouped)
    for name in grouped:
        assert name in EXAMPLES or ">>>" in (getattr(laconic, name).__doc__ or ""), f"{name} has no example"


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

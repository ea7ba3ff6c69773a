"""What methods offer beyond fit and predict stands in one place, and is known by their functions alone."""

import ast
from pathlib import Path

from click.testing import CliRunner

import laconic
from laconic import FedOnce, Solo, VimSgd
from laconic.cli import main
from laconic.core.capabilities import (
    CAPABILITIES,
    Attributable,
    Budgeted,
    Cacheable,
    Exportable,
    Growable,
    Refittable,
    capabilities_of,
)

ROOT = Path(laconic.__file__).parent


def test_a_method_offers_what_it_has_the_functions_for():
    assert capabilities_of(FedOnce) == (Budgeted, Cacheable, Growable, Attributable, Refittable, Exportable)
    assert capabilities_of(VimSgd()) == (Attributable,)
    assert capabilities_of(Solo()) == (Exportable,)


def test_every_capability_says_in_a_sentence_what_it_is():
    assert all((one.__doc__ or "").partition("\n")[0].endswith(".") for one in CAPABILITIES)


def test_capabilities_are_in_no_other_file():
    """A protocol that is checked while running is a capability, and belongs where people look for it."""
    found = set()
    for path in ROOT.rglob("*.py"):
        classes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
        marks = {getattr(mark, "id", "") for node in classes for mark in node.decorator_list}
        found |= {path.relative_to(ROOT).as_posix()} if "runtime_checkable" in marks else set()
    assert found == {"core/capabilities.py"}


def test_the_list_of_methods_says_what_each_offers():
    listed = " ".join(CliRunner().invoke(main, ["methods"]).stdout.split())
    assert "offers: budgeted, cacheable, growable, attributable" in listed
    assert "growable Lets a party join a fitted model" in listed

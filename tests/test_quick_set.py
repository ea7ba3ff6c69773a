"""`make test` leaves slow tests out, says so, and yet keeps a test of every package, every method and every verb.

Reads the tests as text. What a test uses is what it names, what the functions, fixtures and constants of its file name
that it names, and so on.
"""

import ast
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from laconic.cli import main
from laconic.methods import methods

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "laconic"
PACKAGES = sorted(".".join(path.parent.relative_to(TESTS.parent).parts) for path in PACKAGE.rglob("*/__init__.py"))


def names(node):
    """All names that a piece of code takes, arguments included: these may be fixtures."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.arg):
            yield one.arg


def words(node):
    """All constants of a piece of code, by the place that they have in a call, a list or a tuple."""
    for one in ast.walk(node):
        parts = one.args if isinstance(one, ast.Call) else one.elts if isinstance(one, ast.List | ast.Tuple) else ()
        yield from ((place, part.value) for place, part in enumerate(parts) if isinstance(part, ast.Constant))


def is_slow(node):
    return any("slow" in (getattr(one, "attr", ""), getattr(one, "id", "")) for one in ast.walk(node))


class WithoutSlowParameters(ast.NodeTransformer):
    def visit_Call(self, node):
        if getattr(node.func, "attr", "") == "param" and is_slow(node):
            return None
        return self.generic_visit(node)


class File:
    """A file of tests: what is defined in it, and what is imported from where."""

    def __init__(self, text):
        tree = WithoutSlowParameters().visit(ast.parse(text))
        self.defined, self.imported = {}, {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.defined[node.name] = node
            elif isinstance(node, ast.Assign):
                self.defined |= {name: node for target in node.targets for name in names(target)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                self.imported |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}

    def quick_tests(self):
        marks = self.defined.get("pytestmark")
        if marks is None or not is_slow(marks):
            for name, node in self.defined.items():
                if name.startswith("test_") and not any(map(is_slow, node.decorator_list)):
                    yield node

    def reach(self, node):
        """The pieces of this file that a piece needs, itself among them."""
        found, waiting = {}, [node]
        while waiting:
            piece = waiting.pop()
            if id(piece) not in found:
                found[id(piece)] = piece
                waiting += [self.defined[name] for name in names(piece) if name in self.defined]
        return list(found.values())


def used(texts):
    """What the quick tests of some files use: full names of imports, and what they type, by its place."""
    imports, typed = set(), set()
    for file in map(File, texts):
        for test in file.quick_tests():
            pieces = file.reach(test)
            mine = {file.imported[name] for piece in pieces for name in names(piece) if name in file.imported}
            said = {word for piece in pieces for word in words(piece)}
            imports |= mine
            if {"click.testing.CliRunner", "laconic.cli.main"} <= mine or {(1, "-m"), (2, "laconic")} <= said:
                typed |= said
    return imports, typed


@cache
def homes():
    """Where each public name is defined, by the name that tests import: what the generated stubs say."""
    found = {}
    for stub in PACKAGE.rglob("__init__.pyi"):
        package = ".".join(stub.parent.relative_to(TESTS.parent).parts)
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                home = f"{package}.{node.module}" if node.level else node.module
                found |= {f"{package}.{one.name}": f"{home}.{one.name}" for one in node.names}
    return found


@cache
def used_here():
    imports, typed = used(path.read_text() for path in sorted(TESTS.rglob("test_*.py")))
    return imports | {homes()[name] for name in imports if name in homes()}, typed


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_keeps_a_quick_test(package):
    imports, _ = used_here()
    assert any(name.startswith(f"{package}.") for name in imports), f"all tests of {package} are marked slow"


@pytest.mark.parametrize("verb", sorted(main.commands))
def test_every_verb_keeps_a_quick_test(verb):
    _, typed = used_here()
    assert (0, verb) in typed, f"all tests of `laconic {verb}` are marked slow"


@pytest.mark.parametrize("method", list(methods()))
def test_every_method_keeps_a_quick_test(method):
    imports, typed = used_here()
    found = any(name.endswith(f".{method}") for name in imports) or any(word == method for _, word in typed)
    assert found, f"all tests of {method} are marked slow"


FILE = """
import pytest
from click.testing import CliRunner
from laconic.cli import main
from laconic.deploy.party_context import open_context

def laconic(*words):
    return CliRunner().invoke(main, words)

{mark}
def test_something():
    open_context(laconic("seal", "plan.toml"))
"""


@pytest.mark.parametrize("mark", ["@pytest.mark.slow", "pytestmark = [pytest.mark.slow]"])
def test_a_slow_test_does_not_count(mark):
    imports, typed = used([FILE.format(mark="")])
    assert "laconic.deploy.party_context.open_context" in imports
    assert typed == {(0, "seal"), (1, "plan.toml")}
    assert used([FILE.format(mark=mark)]) == (set(), set())


def test_a_slow_parameter_does_not_count():
    text = FILE.format(mark='@pytest.mark.parametrize("x", [("open",), pytest.param("host", marks=pytest.mark.slow)])')
    assert used([text])[1] == {(0, "seal"), (1, "plan.toml"), (0, "x"), (0, "open")}


THREE = """
import pytest

def test_quick():
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.skipif(True, reason="needs a harp: buy one")
@pytest.mark.parametrize("tune", range(3))
def test_skipped(tune):
    pass
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_closes_with_what_it_left_out_and_why_it_skipped(tmp_path, workers):
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_three.py").write_text(THREE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: left out\n")
    command = [sys.executable, "-m", "pytest", "-n", workers, "-m", "not slow"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "1 slow tests left out. Run them: make test-slow." in said
    assert "3 skipped: needs a harp: buy one" in said

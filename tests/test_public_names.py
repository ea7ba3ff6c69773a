"""The names at the top of the package and of its packages: few, typed once, and imported when first used."""

import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import laconic
from laconic.methods import methods
from laconic.moved import NEW_HOME, OLD_VERBS, RENAMED
from tools.names import MOST_AT_TOP, PACKAGES, ROOT, module_of, stubs

HEAVY = ("torch", "pandas", "sklearn", "scipy", "numpy", "msgspec")
TYPED = """
from laconic import FedOnce, simulate
from laconic.privacy import DpSgd
reveal_type(FedOnce().precision)
reveal_type(simulate)
reveal_type(DpSgd().clip)
"""


def test_the_stubs_are_what_the_tree_and_the_list_of_names_give():
    stale = [path for path, text in stubs().items() if not path.is_file() or path.read_text() != text]
    assert not stale, "run: make names"


def test_every_package_with_a_stub_is_written_by_the_list_of_names():
    assert set(ROOT.rglob("*.pyi")) == set(stubs())


def test_the_top_has_few_names():
    assert len(laconic.__all__) <= MOST_AT_TOP


def test_every_method_of_ours_is_at_the_top():
    ours = {name: kind for name, kind in methods().items() if kind.__module__.startswith("laconic.")}
    assert {name: getattr(laconic, name) for name in ours} == ours


@pytest.mark.parametrize("package", ["laconic", *(f"laconic.{package}" for package in PACKAGES)])
def test_every_name_of_a_package_is_there(package):
    found = importlib.import_module(package)
    assert found.__all__ == dir(found)
    assert [name for name in found.__all__ if getattr(found, name, None) is None] == []


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = laconic.no_such_name


def test_a_name_that_is_defined_nowhere_cannot_be_exported():
    with pytest.raises(LookupError, match=r"NoSuchName should be defined once in laconic/privacy, but is in: nowhere"):
        module_of("NoSuchName", "privacy")


def test_importing_laconic_and_its_packages_imports_nothing_heavy():
    packages = ", ".join(["laconic", *(f"laconic.{package}" for package in PACKAGES)])
    code = f"import {packages}, sys; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", NEW_HOME)
def test_a_name_that_has_moved_is_still_understood_with_one_line(name):
    vars(laconic).pop(name, None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # What `from laconic import name` does.
        found = getattr(__import__("laconic", fromlist=[name]), name)
    new = RENAMED.get(name, name)
    assert found is getattr(importlib.import_module(NEW_HOME[name]), new)
    lines = [str(one.message) for one in said if one.category is DeprecationWarning]
    assert lines == [f"laconic.{name} has moved: write `from {NEW_HOME[name]} import {new}`"]


@pytest.mark.parametrize("verb", OLD_VERBS)
def test_a_verb_of_before_works_with_one_line_that_names_the_new_one(verb):
    vars(laconic).pop(verb, None)
    with pytest.warns(DeprecationWarning, match=r"write `laconic\.fit\("):
        assert callable(getattr(laconic, verb))


@pytest.mark.slow
def test_a_type_checker_sees_the_types_behind_lazy_names(tmp_path):
    (tmp_path / "uses.py").write_text(TYPED)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "", "--follow-imports=silent", "--strict", "uses.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT.parent), "MYPY_CACHE_DIR": str(Path(ROOT.parent) / ".mypy_cache" / "names")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    seen = [line.partition("Revealed type is ")[2] for line in checked.stdout.splitlines()[:3]]
    assert seen[0] == "\"Literal['float32'] | Literal['float16']\""
    assert seen[1].endswith('-> laconic.deploy.result.Result"')
    assert seen[2] == '"float"'

import importlib
import subprocess
import sys

import laconic
from laconic.homes import HOME_OF

HEAVY = ("torch", "pandas", "sklearn", "scipy")


def test_every_public_name_is_what_its_home_holds():
    for name in laconic.__all__:
        assert getattr(laconic, name) is getattr(importlib.import_module(HOME_OF[name]), name)


def test_public_names_and_their_homes_are_the_same_list():
    assert sorted(laconic.__all__) == sorted(HOME_OF)


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert getattr(laconic, "no_such_name", None) is None


def test_importing_laconic_imports_nothing_heavy():
    code = f"import laconic, sys; print([name for name in {(*HEAVY, 'numpy')} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

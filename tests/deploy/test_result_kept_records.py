"""A record knows which code made it."""

import sys
from importlib import invalidate_caches

import pytest

from laconic import FedAvg, FedOnce, Solo
from laconic.core import Method
from laconic.deploy import result
from laconic.deploy.result import code_digest, modules_of


def test_a_methods_code_is_its_file_and_what_that_leads_to():
    modules = modules_of(FedOnce.__module__)
    assert {"laconic.methods.vertical.fedonce", "laconic.core.method", "laconic.learn.train.sgd"} <= set(modules)
    assert "laconic.methods.horizontal.fedavg" not in modules
    assert len({code_digest(kind) for kind in (Solo, FedOnce, FedAvg)}) == 3


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "their_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("their_package")]:
        del sys.modules[name]


def digest_with(folder, used, unused):
    (folder / "used.py").write_text(used)
    (folder / "unused.py").write_text(unused)
    (folder / "method.py").write_text("def build():\n    from their_package.used import number\n    return number\n")
    invalidate_caches()
    for one in (result.modules_of, result._code, result._file):
        one.cache_clear()
    return code_digest(type("Theirs", (Method,), {"__module__": "their_package.method"}))


def test_only_code_that_is_reached_and_only_what_it_does_counts(package):
    first = digest_with(package, "number = 1\n", "other = 1\n")
    assert digest_with(package, '"""Words."""\n\nnumber = 1  # More words.\n', "other = 2\n") == first
    assert digest_with(package, "number = 2\n", "other = 1\n") != first

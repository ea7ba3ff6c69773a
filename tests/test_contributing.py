"""The method shown in CONTRIBUTING.md is real: it is under 60 lines and keeps the contract."""

import importlib
import re
from pathlib import Path

from laconic import check_method

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()


def example():
    """The code of the method shown."""
    return re.search(r"```python\n(.*?)```", TEXT, re.DOTALL).group(1)


def test_the_method_shown_keeps_the_contract(tmp_path, monkeypatch):
    code = example()
    assert len(code.splitlines()) < 60
    (tmp_path / "shown_method.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    shown = importlib.import_module("shown_method")
    assert check_method(shown.RandomSums()).fit.rounds == 1

"""The tree's own rules: imports point down, no method imports another, noise is made in one place."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "laconic"
FILES = sorted(ROOT.rglob("*.py"))


def lint(folder):
    """What import-linter says of the package in a folder, by the contracts in its pyproject.toml."""
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([command, "--no-cache", "--no-logo"], cwd=folder, capture_output=True, text=True, check=False)


def test_the_contracts_of_imports_are_kept():
    said = lint(ROOT.parent)
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("tables/task.py", "import laconic.plan.plan", "Imports point down only BROKEN"),
        ("methods/vertical/rap.py", "import laconic.methods.vertical.fedonce", "No method imports another BROKEN"),
        ("stranger.py", "", "not listed as layers"),
    ],
)
def test_an_import_that_breaks_a_contract_is_found(tmp_path, file, line, contract):
    shutil.copytree(ROOT, tmp_path / "laconic", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT.parent / "pyproject.toml", tmp_path)
    with (tmp_path / "laconic" / file).open("a") as text:
        text.write(f"\n{line}\n")
    said = lint(tmp_path)
    assert said.returncode == 1
    assert contract in said.stdout


def test_noised_values_are_made_in_privacy_only():
    for path in FILES:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {getattr(call.func, "id", None) for call in calls}
        if "Noised" in names:
            assert "privacy" in path.relative_to(ROOT).parts, f"{path} makes a Noised value"


def test_no_file_reads_or_writes_pickles():
    for path in FILES:
        text = path.read_text()
        assert "import pickle" not in text
        assert "torch.load(" not in text
        assert "joblib" not in text


def test_importing_laconic_loads_neither_torch_nor_pandas():
    code = "import sys, laconic; print([m for m in ('torch', 'pandas', 'sklearn') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

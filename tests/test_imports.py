"""The tree's own rules: imports point down, no method imports another, noise is made in one place."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "laconic"
LEVELS = [
    {"core"},
    {"learn", "privacy", "data", "envelope"},
    {"align", "methods", "audit"},
    {"runtime", "report"},
]
FILES = sorted(ROOT.rglob("*.py"))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("laconic")}


def level(parts: tuple[str, ...]) -> int:
    for height, names in enumerate(LEVELS):
        if len(parts) > 0 and parts[0] in names:
            return height
    return len(LEVELS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_only(path):
    own = path.relative_to(ROOT).parts
    for name in imported(path):
        parts = tuple(name.split(".")[1:])
        if parts:
            assert level(parts) <= level(own), f"{path.name} imports {name} from above it"


def test_no_method_imports_another():
    folders = [ROOT / "methods" / kind for kind in ("vertical", "horizontal", "baselines")]
    for path in (path for folder in folders for path in folder.glob("[!_]*.py")):
        others = {name for name in imported(path) if any(f"methods.{folder.name}." in name for folder in folders)}
        assert not others, f"{path.name} imports {others}"


def test_noised_values_are_made_in_privacy_only():
    for path in FILES:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {getattr(call.func, "id", None) for call in calls}
        if "Noised" in names:
            assert path.parent.name == "privacy", f"{path} makes a Noised value"


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

"""Every study runs to its end in its quick form and writes a table."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import public_data

ROOT = Path(__file__).parent.parent.parent
STUDIES = sorted(path.stem for path in (ROOT / "studies").glob("*.py") if "arguments(" in path.read_text())
NOT_STUDIES = {"harness"}


@public_data
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name not in NOT_STUDIES])
def test_a_study_runs_in_its_quick_form(name, tmp_path):
    command = [sys.executable, "-m", f"studies.{name}", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    tables = list(tmp_path.glob("*.md"))
    assert tables
    assert all("|" in table.read_text() for table in tables)

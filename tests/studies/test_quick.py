"""Every study runs to its end in its quick form and writes a table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
STUDIES = sorted(path.stem for path in (ROOT / "studies").glob("*.py") if "arguments(" in path.read_text())
NOT_STUDIES = {"harness"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name not in NOT_STUDIES])
def test_a_study_runs_in_its_quick_form(name, tmp_path):
    if "LACONIC_DATA" not in os.environ:
        pytest.skip("needs the public data sets; set LACONIC_DATA to the folder that holds them")
    command = [sys.executable, "-m", f"studies.{name}", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    tables = list(tmp_path.glob("*.md"))
    assert tables
    assert all("|" in table.read_text() for table in tables)

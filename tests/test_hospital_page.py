"""The page about three hospitals and a stick is real: three windows, and every command as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from laconic import Result
from laconic.deploy import read_public
from tests.data.hospitals import NAMES, hospitals, open_rows

PAGE = (Path(__file__).parent.parent / "docs" / "three_hospitals_and_a_stick.md").read_text()
BLOCKS = re.compile(r"In the (north|south|west)'s window:\n\n```\n(.*?)```", re.DOTALL)
FILES = re.compile(r"`((?:schema|party)\.toml)`, at [^\n]*\n\n```toml\n(.*?)```", re.DOTALL)
COLUMNS = ["patient", "size0", "size1", "ward"]


@pytest.fixture
def windows(tmp_path):
    """Three folders with a hospital's own files each, a stick, and `laconic` as a command."""
    for name in (*NAMES, "usb", "bin"):
        (tmp_path / name).mkdir()
    for name, frame in hospitals(150).items():
        frame[[*COLUMNS, "diagnosis"]].to_csv(tmp_path / name / "rows.csv", index=False)
        open_rows(40)[COLUMNS].to_csv(tmp_path / name / "next.csv", index=False)
        for file, text in FILES.findall(PAGE):
            (tmp_path / name / file).write_text(text.replace("HOSPITAL", name))
    program = tmp_path / "bin" / "laconic"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m laconic "$@"\n')
    program.chmod(0o755)
    return tmp_path


def by_phone(root):
    """The digits as each reads them out, once it has keys."""
    public = {name: root / name / "keys" / f"{name}.public" for name in NAMES}
    return {f"DIGITS_OF_{name.upper()}": read_public(one).fingerprint for name, one in public.items() if one.exists()}


@pytest.mark.slow
def test_three_windows_and_a_stick(windows):
    blocks = BLOCKS.findall(PAGE)
    assert len(blocks) == 10
    assert len(FILES.findall(PAGE)) == 2
    for name, commands in blocks:
        environment = os.environ | by_phone(windows) | {
            "USB": str(windows / "usb"),
            "PATH": f"{windows / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        outcome = subprocess.run(
            ["/bin/sh", "-e", "-c", commands], cwd=windows / name, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert outcome.returncode == 0, f"{commands}\n{outcome.stdout}\n{outcome.stderr}"
    assert len({(windows / name / "scores.csv").read_bytes() for name in NAMES}) == 1
    result = Result.from_json((windows / "north" / "result.json").read_bytes())
    assert set(result.by_party) == set(NAMES)
    assert result.score.value > 0.8

"""The page about envelopes is real: two windows, a stick, and every command as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from laconic.core.result import Result
from laconic.demo import write_files
from laconic.envelope.keys import read_public
from laconic.plan import execute, read_plan

PAGE = (Path(__file__).parent.parent / "docs" / "envelopes.md").read_text()
BLOCKS = re.compile(r"In the (bank|shop)'s window:\n\n```\n(.*?)```", re.DOTALL)
PARTY_FILES = re.compile(r"`((?:bank|shop)\.toml)`[^\n]*\n\n```toml\n(.*?)```", re.DOTALL)


@pytest.fixture
def windows(tmp_path):
    """Two folders with a party's own files each, a stick, and `laconic` as a command."""
    for name in ("bank", "shop", "usb", "bin"):
        (tmp_path / name).mkdir()
    write_files(tmp_path / "trial")
    people = {}
    for name in ("bank", "shop"):
        lines = (tmp_path / "trial" / f"{name}.csv").read_text().splitlines()
        people[name] = [line.partition(",")[0] for line in lines[1:]]
        (tmp_path / name / f"{name}.csv").write_text("\n".join(lines) + "\n")
    both = sorted(set(people["bank"]) & set(people["shop"]))
    for name in ("bank", "shop"):
        (tmp_path / name / "customers.txt").write_text("\n".join(both[:-20]) + "\n")
        (tmp_path / name / "november.txt").write_text("\n".join(both[-20:]) + "\n")
    for name, text in PARTY_FILES.findall(PAGE):
        (tmp_path / name.partition(".")[0] / name).write_text(text)
    program = tmp_path / "bin" / "laconic"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m laconic "$@"\n')
    program.chmod(0o755)
    return tmp_path


def by_phone(root):
    """The digits as each reads them out, once it has keys."""
    found = {}
    for name in ("bank", "shop"):
        public = root / name / "keys" / f"{name}.public"
        if public.exists():
            found[f"DIGITS_OF_THE_{name.upper()}"] = read_public(public).fingerprint
    return found


@pytest.mark.slow
def test_two_windows_and_a_stick(windows):
    said = {}
    blocks = BLOCKS.findall(PAGE)
    assert len(blocks) == 8
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
        said[commands.splitlines()[-1]] = outcome.stdout
    sealed = next(words for command, words in said.items() if command.startswith("head"))
    assert "Nothing was written and nothing was spent." in sealed
    assert sealed.rstrip().splitlines()[-1].startswith("step: ")
    scores = (windows / "bank" / "scores.csv").read_text().splitlines()
    assert len(scores) == 21
    _same_as_in_one_process(windows)


def _same_as_in_one_process(windows):
    """The plan with everybody's rows at hand; both files hold the agreed customers only."""
    customers = set((windows / "bank" / "customers.txt").read_text().split())
    for name in ("bank", "shop"):
        path = windows / name / f"{name}.csv"
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([head, *(row for row in rows if row.partition(",")[0] in customers)]) + "\n")
    text = (windows / "bank" / "plan.toml").read_text()
    for name in ("bank", "shop"):
        text = text.replace(f'"{name}.toml"', f'"{windows / name / name}.toml"')
    together = execute(read_plan(text))
    by_mail = Result.from_json((windows / "bank" / "result.json").read_bytes())
    assert by_mail.predictions == together.predictions
    assert by_mail.wire == together.wire

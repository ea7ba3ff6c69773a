"""The page about envelopes is real: two windows, a stick, and every command as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from laconic import Result, execute, read_plan
from laconic.cli.demo_runs import write_files
from laconic.deploy import read_public

PAGE = (Path(__file__).parent.parent / "docs" / "envelopes.md").read_text()
BLOCKS = re.compile(r"In the (bank|shop)'s window:\n\n```\n(.*?)```", re.DOTALL)
PARTY_FILES = re.compile(r"`((?:bank|shop)\.toml)`[^\n]*\n\n```toml\n(.*?)```", re.DOTALL)


def rows_of(root, name):
    return (root / "trial" / f"{name}.csv").read_text().splitlines()


def put_rows(root, without=()):
    """Each party's own file, but for people who come later."""
    for name in ("bank", "shop"):
        rows = [row for row in rows_of(root, name) if row.partition(",")[0] not in without]
        (root / name / f"{name}.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture
def windows(tmp_path):
    """Two folders with a party's own files each, a stick, and `laconic` as a command."""
    for name in ("bank", "shop", "usb", "bin"):
        (tmp_path / name).mkdir()
    write_files(tmp_path / "trial")
    people = [{line.partition(",")[0] for line in rows_of(tmp_path, name)[1:]} for name in ("bank", "shop")]
    both = sorted(set.intersection(*people))
    for name in ("bank", "shop"):
        (tmp_path / name / "customers.txt").write_text("\n".join(both[:-20]) + "\n")
        (tmp_path / name / "november.txt").write_text("\n".join(both[-20:]) + "\n")
    put_rows(tmp_path, without=both[-20:])
    for name, text in PARTY_FILES.findall(PAGE):
        # With the plan's seed, so that the scores can be compared with those of one process.
        (tmp_path / name.partition(".")[0] / name).write_text(f'seed = "plan"\n{text}')
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
        if "november" in commands:
            put_rows(windows)
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
    """The same plan with everybody's rows at hand, where the ids that both have are found by comparing them."""
    put_rows(windows, without=(windows / "bank" / "november.txt").read_text().split())
    text = (windows / "bank" / "plan.toml").read_text().replace('"AgreedIds"', '"ExactMatch"')
    for name in ("bank", "shop"):
        text = text.replace(f'"{name}.toml"', f'"{windows / name / name}.toml"')
    together = execute(read_plan(text))
    by_mail = Result.from_json((windows / "bank" / "result.json").read_bytes())
    assert by_mail.predictions == together.predictions
    assert by_mail.metrics == together.metrics
    for phase in ("fit", "final"):
        counted = [getattr(result, phase) for result in (by_mail, together)]
        assert counted[0].bytes_up == counted[1].bytes_up
        assert counted[0].bytes_down == counted[1].bytes_down

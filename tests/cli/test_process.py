"""The command in a process of its own, as a shell starts it."""

import os
import resource
import shlex
import signal
import subprocess
import sys
import time

import pytest

LACONIC = (sys.executable, "-m", "laconic")


def shell(*words, cwd=None):
    return subprocess.run([*LACONIC, *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_help_comes_at_once():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = shell("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # A tenth of a second of processor time, whoever else uses the machine; the next test holds what keeps it quick.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
    assert "laconic demo" in outcome.stdout


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("plan", "--help"), ("demo", "--help")])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys\nfrom laconic.cli import main\n"
        f"main({list(words)}, standalone_mode=False)\n"
        "print([name for name in ('numpy', 'torch', 'pandas', 'sklearn', 'msgspec', 'rich') if name in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.splitlines()[-1] == "[]"


def test_a_run_loads_no_library_that_its_first_line_does_not_need():
    code = (
        "import sys; from laconic.deploy.execute import execute; from laconic import FedOnce; FedOnce(); "
        "print([name for name in ('scipy.optimize', 'scipy.special', 'scipy.stats', 'sklearn') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_bad_input_is_one_line_and_exit_code_2():
    outcome = shell("run", "FedOnce", "--data", "breast_cancer", "--set", "method.encoder.dmi=3")
    assert outcome.returncode == 2
    assert len(outcome.stderr.splitlines()) == 1
    assert "method.encoder.dmi" in outcome.stderr
    assert outcome.stdout == ""


@pytest.mark.slow
def test_stopping_by_hand_is_one_short_line():
    words = ["run", "SplitNN", "--data", "breast_cancer", "--set", "method.trainer.epochs=100000"]
    words += ["--set", "method.trainer.patience=none"]
    process = subprocess.Popen([*LACONIC, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    time.sleep(8)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip() == "Stopped before the result was saved."


def test_the_demo_runs_in_an_empty_folder_and_so_does_the_command_it_prints(tmp_path):
    before = os.times()
    outcome = shell("demo", cwd=tmp_path)
    after = os.times()
    assert outcome.returncode == 0, outcome.stderr
    # Under a minute is the promise; processor time does not hang on what else the machine does, and is 5 s.
    assert after.children_user + after.children_system - before.children_user - before.children_system < 30
    assert all(name in outcome.stdout for name in ("Solo", "FedOnce", "SplitNN", "Centralised"))
    command = outcome.stdout.rstrip().splitlines()[-1]
    then = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert then.returncode == 0, then.stderr
    assert "FedOnce on bank.csv, shop.csv: AUC" in then.stdout

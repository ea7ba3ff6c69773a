"""Ctrl-C at any time: what is said of what was saved is true, and nothing half-written stays."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import laconic.atomic_files
import laconic.inference.bundle
import laconic.inference.save
from laconic import Result
from laconic.atomic_files import unbroken
from laconic.cli import main
from laconic.cli.demo_runs import write_files
from laconic.inference import parts_of

QUICK = ("--set", "method.trainer.epochs=2")


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def press(monkeypatch, place, name):
    """Press Ctrl-C whenever a function is about to do its work."""
    true = getattr(place, name)

    def interrupted(*given, **named):
        os.kill(os.getpid(), signal.SIGINT)
        return true(*given, **named)

    monkeypatch.setattr(place, name, interrupted)


@pytest.fixture
def words(tmp_path):
    write_files(tmp_path)
    ours = ("--files", *sorted(tmp_path.glob("*.csv")), "--id", "customer", "--label", "diagnosis")
    return ("run", "FedOnce", *ours, *QUICK, "--save", tmp_path / "run.json", "--model", tmp_path / "model")


def left(tmp_path):
    return sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(("run", "model")))


def test_before_anything_is_saved_nothing_is_said_to_be(words, tmp_path, monkeypatch):
    press(monkeypatch, laconic.inference.save, "make_card")
    outcome = call(*words)
    assert outcome.exit_code == 130
    assert outcome.stderr.splitlines()[-1] == "Stopped before the result was saved."
    assert left(tmp_path) == []


@pytest.mark.parametrize("function", ["write_folder", "folder_name"])
def test_a_model_is_saved_with_all_its_parts_or_not_at_all(words, tmp_path, monkeypatch, function):
    press(monkeypatch, laconic.inference.bundle, function)
    outcome = call(*words)
    assert outcome.exit_code == 130
    assert outcome.stderr.splitlines()[-1] == f"Stopped. Saved before that: {tmp_path / 'model'}."
    assert left(tmp_path) == ["model"]
    assert set(parts_of(tmp_path / "model")) == {"bank", "shop"}


def test_a_result_that_is_being_written_is_finished_and_named(words, tmp_path, monkeypatch):
    press(monkeypatch, laconic.atomic_files, "note_written")
    outcome = call(*words[:-2])
    assert outcome.exit_code == 130
    assert outcome.stderr.splitlines()[-1] == f"Stopped. Saved before that: {tmp_path / 'run.json'}."
    assert left(tmp_path) == ["run.json"]


def test_forgetting_is_done_whole_and_said(words, tmp_path, monkeypatch):
    assert call(*words).exit_code == 0
    press(monkeypatch, laconic.inference.bundle, "write_folder")
    outcome = call("forget", "shop", tmp_path / "model")
    assert outcome.exit_code == 130
    assert outcome.stderr.splitlines()[-1] == f"Stopped. Saved before that: {tmp_path / 'model' / 'bank'}."
    assert parts_of(tmp_path / "model")["bank"].about.peers == ()


def test_ctrl_c_waits_for_the_end_of_a_block_and_then_comes():
    reached = []
    with pytest.raises(KeyboardInterrupt), unbroken():
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("end")
    assert reached == ["end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_whenever_ctrl_c_comes_what_is_said_is_true(words, tmp_path):
    command = [sys.executable, "-m", "laconic", *map(str, words)]
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = time.monotonic() - start
    for share in (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.99, 1.0):
        (tmp_path / "run.json").unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        going = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(share * whole)
        going.send_signal(signal.SIGINT)
        hold_to_what_is_said(tmp_path, going.communicate(timeout=60)[1], going.returncode)


def hold_to_what_is_said(tmp_path, said, code):
    assert "Traceback" not in said
    assert code in (0, 130)
    assert not list(tmp_path.rglob("*.part"))
    for name in ("run.json", "model"):
        assert (tmp_path / name).exists() == (code == 0 or str(tmp_path / name) in said)
    if (tmp_path / "model").exists():
        assert set(parts_of(tmp_path / "model")) == {"bank", "shop"}
    if (tmp_path / "run.json").exists():
        assert Result.from_json((tmp_path / "run.json").read_bytes()).score


def test_a_reader_that_goes_away_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "laconic", "methods"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert ended.stderr == ""
    assert ended.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_under_standard_output_is_one_line():
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "laconic", "data"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[0] == "Error: no space left on device"
    assert "Traceback" not in ended.stderr

"""What is installed is what the locks say, its licences are known, and it can be listed."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tools.installed import extras, needed
from tools.licences import EXCEPTIONS, PAGE, is_allowed, licence_of, page, refused
from tools.lock import HOME, LOCKS, build_needs, contents, pins, read_lock
from tools.sbom import document


@pytest.fixture(scope="module")
def locked():
    """Version and hashes of everything in any lock but the one for a folder of its own."""
    found = {}
    for name in ("core", "dev", "torch"):
        found |= read_lock(name)
    return found


def test_what_is_installed_is_what_the_locks_say(locked):
    installed = {name: need.version.split("+")[0] for name, need in needed(extras()).items()}
    assert {name: number for name, (number, _) in locked.items() if name in installed} == installed
    assert version("torch") in {read_lock("torch-cpu")["torch"][0], read_lock("torch")["torch"][0]}


def test_every_lock_has_the_versions_of_the_constraints_and_a_hash_for_each(locked):
    assert {name: number for name, (number, _) in locked.items()} == pins()
    for path in LOCKS.glob("*.txt"):
        for name, (_, hashes) in read_lock(path.stem).items():
            assert hashes, f"{path.name} has no hash for {name}; write it with `python -m tools.lock`"
            assert len(set(hashes)) == len(hashes)


def test_the_locks_hold_what_is_needed_and_nothing_else():
    for name, markers in contents().items():
        assert set(read_lock(name)) == set(markers), f"locks/{name}.txt is out of date; run `python -m tools.lock`"
    assert set(build_needs()) <= set(read_lock("core"))


def test_make_installs_by_hash_or_what_the_constraints_name():
    lines = [line for line in (HOME / "Makefile").read_text().splitlines() if line.startswith("\t$(INSTALL")]
    assert len(lines) == 6
    for line in lines:
        assert "$(INSTALL_BY_HASH) " in line or ("--no-build-isolation -e" in line and "-c $(CONSTRAINTS)" in line)
    rest = (HOME / "Makefile").read_text() + (HOME / ".ci" / "run").read_text()
    assert rest.count("pip install") == 1


def test_a_file_without_an_accepted_hash_is_not_installed(tmp_path):
    """pip holds to a lock: here one for another file than the one it finds."""
    wheel = tmp_path / "nothing-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not what was locked")
    (tmp_path / "lock.txt").write_text(f"nothing==1.0 --hash=sha256:{'0' * 64}\n")
    words = ["-m", "pip", "install", "--dry-run", "--no-index", "--find-links", tmp_path, "--no-deps"]
    tried = subprocess.run(
        [sys.executable, *words, "--require-hashes", "-r", tmp_path / "lock.txt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tried.returncode != 0
    assert "DO NOT MATCH THE HASHES" in tried.stderr


def test_every_licence_is_allowed_or_an_exception_with_a_reason():
    assert set(refused()) == set(EXCEPTIONS)
    for name, why in EXCEPTIONS.items():
        licence, _, reason = why.partition(": ")
        assert licence_of(name) == licence
        assert len(reason) > 5


@pytest.mark.parametrize(
    ("licence", "good"),
    [
        ("MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("", False),
        ("MIT AND AGPL-3.0-only", False),
        ("GPL-2.0-or-later", False),
    ],
)
def test_a_licence_counts_with_all_that_it_names(licence, good):
    assert is_allowed(licence) is good


def test_the_page_of_licences_is_up_to_date():
    assert PAGE.read_text() == page(), "write it anew: make licences"


def test_the_list_of_parts_has_what_the_format_asks_for():
    found = json.loads(json.dumps(document(("serve", "sql"))))
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found["serialNumber"])
    refs = [part["bom-ref"] for part in found["components"]]
    assert len(set(refs)) == len(refs) == len(needed(("serve", "sql")))
    for part in found["components"]:
        assert part["type"] == "library"
        assert part["name"] and part["version"] and part["purl"] == part["bom-ref"]
        assert part["licenses"][0]["expression"]
        assert all(re.fullmatch("[0-9a-f]{64}", one["value"]) for one in part["properties"])
    known = {*refs, found["metadata"]["component"]["bom-ref"]}
    assert {one["ref"] for one in found["dependencies"]} == known
    assert all(set(one["dependsOn"]) <= known for one in found["dependencies"])


def test_the_list_of_parts_is_the_same_every_time_and_written_by_a_command(tmp_path):
    out = tmp_path / "sbom.json"
    subprocess.run([sys.executable, "-m", "tools.sbom", "--extras", "serve", "-o", out], check=True, cwd=HOME)
    assert json.loads(out.read_text()) == document(("serve",))


def test_no_lock_names_where_files_come_from():
    for path in [*LOCKS.glob("*.txt"), Path(HOME / "constraints.txt")]:
        assert "://" not in path.read_text()

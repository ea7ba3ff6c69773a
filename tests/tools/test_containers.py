"""The files for containers and for CI on GitHub name what there is. No engine is at hand here to build or run them."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from laconic.cli import main
from tools.dist import PYTHONS
from tools.lock import HOME


def stages():
    """The instructions of the Dockerfile, with lines that go on put together."""
    text = re.sub(r"\\\n\s*", "", (HOME / "Dockerfile").read_text())
    return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]


def lint(program, *given):
    """Run a linter that `dev` brings; what it found, and nothing if it found nothing."""
    words = [str(Path(sys.executable).with_name(program)), *map(str, given)]
    done = subprocess.run(words, cwd=HOME, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_hadolint_finds_nothing_in_the_dockerfile(tmp_path):
    assert lint("hadolint", "Dockerfile") == ""
    (tmp_path / "Dockerfile").write_text((HOME / "Dockerfile").read_text().replace(" --no-cache-dir", "", 1))
    assert "DL3042" in lint("hadolint", tmp_path / "Dockerfile")


@pytest.mark.parametrize(
    ("schema", "file", "change"),
    [
        ("vendor.compose-spec", "docker/compose.yaml", ("read_only:", "readonly:")),
        ("vendor.github-workflows", ".github/workflows/ci.yml", ("runs-on:", "run-on:")),
    ],
)
def test_compose_file_and_workflow_keep_to_their_schemas(schema, file, change, tmp_path):
    assert lint("check-jsonschema", "--builtin-schema", schema, file) == ""
    broken = tmp_path / "broken.yaml"
    broken.write_text((HOME / file).read_text().replace(*change))
    assert "broken.yaml" in lint("check-jsonschema", "--builtin-schema", schema, broken)


def test_the_image_copies_what_there_is_and_runs_without_root():
    allowed = {line[1:] for line in (HOME / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for word, rest in stages():
        if word == "COPY" and not rest.startswith("--from"):
            sources = {one.removeprefix("./") for one in rest.split()[:-1]}
            assert sources <= allowed
            assert all((HOME / one).exists() for one in sources)
    words = [word for word, _ in stages()]
    assert words.index("USER") > max(place for place, word in enumerate(words) if word == "FROM")


def test_the_image_installs_from_outside_by_hash_only():
    installs = [part for word, rest in stages() if word == "RUN" for part in rest.split("||") if "pip install" in part]
    assert len(installs) == 4
    for one in installs:
        assert "--require-hashes" in one or "--no-build-isolation '.[" in one
        assert all((HOME / found).exists() for found in re.findall(r"(?<=-r )\S+", one))


def test_each_party_of_the_compose_file_runs_a_command_that_there_is():
    services = yaml.safe_load((HOME / "docker/compose.yaml").read_text())["services"]
    assert list(services) == ["bank", "shop", "insurer"]
    for name, service in services.items():
        verb, *given = service["command"]
        shown = CliRunner().invoke(main, [verb, "--help"]).output
        assert all(word in shown for word in given if word.startswith("--"))
        assert f"./sites/{name}:/site" in service["volumes"]
        assert service["read_only"] and service["cap_drop"] == ["ALL"]


def test_the_workflow_runs_goals_of_make_on_every_python_that_the_metadata_names():
    jobs = yaml.safe_load((HOME / ".github/workflows/ci.yml").read_text())["jobs"]
    assert tuple(jobs["quick"]["strategy"]["matrix"]["python"]) == PYTHONS
    goals = set(re.findall(r"^([a-z./-]+):", (HOME / "Makefile").read_text(), re.M))
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    asked = {goal for run in runs if run.startswith("make ") for goal in shlex.split(run)[1:]}
    assert {"test", "test-slow", "lint", "types", "docs", "dist"} <= asked <= goals


@pytest.mark.parametrize("python", PYTHONS)
def test_wheels_are_tried_on_every_python_that_the_metadata_names(python):
    import tomllib

    settings = tomllib.loads((HOME / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert f"cp{python.replace('.', '')}-*" in settings["build"]

"""Packages of somebody else's, installed into a folder as pip does it, without an index and without building."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.test_contributing import example


def make_wheel(folder: Path, name: str, entries: dict[str, str], text: str) -> Path:
    """A wheel of one module that offers methods by entry points."""
    folder.mkdir(parents=True, exist_ok=True)
    about = f"{name}-1.0.dist-info"
    offers = "".join(f"{called} = {where}\n" for called, where in entries.items())
    files = {
        f"{name}.py": text,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[laconic.methods]\n{offers}",
    }
    files[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{about}/RECORD"])
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, content in files.items():
            wheel.writestr(file, content)
    return path


def install(target: Path, *wheels: Path) -> None:
    """Install into a folder of its own."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), *map(str, wheels)], check=True, timeout=120)


def random_sums(folder: Path) -> Path:
    """The method of CONTRIBUTING.md as a package of its own."""
    return make_wheel(folder, "their_sums", {"RandomSums": "their_sums:RandomSums"}, example())


def run_with(target: Path, script: str, folder: Path) -> dict[str, object]:
    """What a script prints last, as JSON, where the packages in `target` are installed."""
    path = os.pathsep.join([str(target), os.environ.get("PYTHONPATH", str(Path(__file__).parents[2]))])
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found

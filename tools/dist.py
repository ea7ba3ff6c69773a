"""`python -m tools.dist`: build the sdist and the wheel, look into them, and try the wheel in an empty environment.

The sdist is built first and the wheel from it, so that what is missing in the sdist is missing in the wheel too. The
environment is made anew, gets PyTorch and the core by the locks and then the wheel alone; `laconic demo` runs there,
far from this folder. A second wheel is built without a compiler: the compiled part is optional.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path, PurePosixPath

from tools.installed import ROOT
from tools.lock import HOME

PYTHONS = ("3.11", "3.12", "3.13")
COMPILED = "laconic/learn/_dense_net"
_NOT_SHIPPED = re.compile(r"^(tests|studies|benchmarks|tools|docs|examples|notebooks)/|\.(so|pyc)$")


def build(folder: Path, *, compiler: bool = True) -> tuple[Path, Path]:
    """Build both into a folder; without a compiler, the wheel lacks the compiled part and works all the same."""
    env = dict(os.environ) if compiler else os.environ | {"CC": "/bin/false"}
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(HOME)]
    subprocess.run(words, check=True, env=env, stdout=subprocess.DEVNULL)  # noqa: S603 (our own command)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def faults_of_wheel(wheel: Path) -> list[str]:
    """What is wrong with a wheel: a file of the package that it lacks, one that it should not have, or metadata."""
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (place,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        said = Parser().parsestr(opened.read(place).decode())
    there = {name for name in names if name.startswith("laconic/") and not name.endswith(".so")}
    faults = [f"the wheel lacks {name}" for name in sorted(package_files() - there)]
    faults += [f"the wheel holds {name}, which is no file of the package" for name in sorted(there - package_files())]
    faults += [f"the wheel holds {name}" for name in names if _NOT_SHIPPED.match(name)]
    return faults + _faults_of_metadata(said)


def faults_of_sdist(sdist: Path) -> list[str]:
    """What is wrong with an sdist: files that the package is built from and that it lacks, or compiled ones."""
    with tarfile.open(sdist) as opened:
        names = {PurePosixPath(name).relative_to(PurePosixPath(name).parts[0]).as_posix() for name in opened.getnames()}
    wanted = package_files() | {"pyproject.toml", "README.md", "LICENSE"}
    faults = [f"the sdist lacks {name}" for name in sorted(wanted - names)]
    return faults + [f"the sdist holds {name}" for name in sorted(names) if name.endswith((".so", ".pyc"))]


def package_files() -> set[str]:
    """The files of the package that git knows."""
    words = ["git", "-C", str(HOME), "ls-files", "laconic"]
    return set(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split())  # noqa: S603


def _faults_of_metadata(said: Message) -> list[str]:
    pythons = [mark.rsplit(":: ", 1)[-1] for mark in said.get_all("Classifier", []) if ":: Python :: 3." in mark]
    wanted = {"Name": ROOT, "Requires-Python": ">=3.11", "License-Expression": "Apache-2.0"}
    faults = [f"{key} is {said[key]}, not {value}" for key, value in wanted.items() if said[key] != value]
    faults += [] if tuple(pythons) == PYTHONS else [f"the wheel names Python {pythons}, not {PYTHONS}"]
    strangers = [need for need in said.get_all("Requires-Dist", []) if re.match(r"laconic(?!-fl)", need)]
    return faults + [f"an extra needs {need}, which is another project" for need in strangers]


def try_out(wheels: Sequence[Path], folder: Path) -> list[str]:
    """Install each wheel into one empty environment by the locks, and run the demo there; what it printed each time."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    by_hash = [*pip, "--require-hashes", "-r"]
    if subprocess.run([*by_hash, str(HOME / "locks/torch-cpu.txt")], capture_output=True, check=False).returncode:  # noqa: S603
        subprocess.run([*by_hash, str(HOME / "locks/torch.txt")], check=True)  # noqa: S603
    subprocess.run([*by_hash, str(HOME / "locks/core.txt")], check=True)  # noqa: S603
    printed = []
    for place, wheel in enumerate(wheels):
        subprocess.run([*pip, "--force-reinstall", str(wheel)], check=True)  # noqa: S603
        subprocess.run([str(python), "-m", "pip", "check"], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        there = folder / f"elsewhere{place}"
        there.mkdir()
        words = [str(python.parent / "laconic"), "demo"]
        env = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(there)}
        ran = subprocess.run(words, check=True, cwd=there, env=env, capture_output=True, text=True)  # noqa: S603
        printed.append(ran.stdout)
    return printed


def main() -> None:
    """Build, look, install and run; end with an error if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.dist", description="Build and test wheel and sdist.")
    parser.add_argument("--out", type=Path, default=HOME / "dist", help="where to; older builds there are removed")
    given = parser.parse_args()
    for old in [*given.out.glob("laconic_fl-*.whl"), *given.out.glob("laconic_fl-*.tar.gz")]:
        old.unlink()
    sdist, wheel = build(given.out)
    with tempfile.TemporaryDirectory() as folder:
        bare = build(Path(folder), compiler=False)[1]
        faults = faults_of_sdist(sdist) + faults_of_wheel(wheel) + faults_of_wheel(bare)
        faults += [] if is_compiled(wheel) else [f"{wheel.name} lacks {COMPILED}; is there a compiler?"]
        faults += [f"a wheel built without a compiler holds {COMPILED}"] if is_compiled(bare) else []
        if faults:
            raise SystemExit("\n".join(faults))
        print(f"{sdist.name}: {sdist.stat().st_size:,} bytes; {wheel.name}: {wheel.stat().st_size:,} bytes")
        printed = try_out([wheel, bare], Path(folder))
        print(f"laconic demo ran from both wheels, compiled and not: {printed[0][:60]!r}...")


def is_compiled(wheel: Path) -> bool:
    """Whether a wheel has the compiled part."""
    with zipfile.ZipFile(wheel) as opened:
        return any(name.startswith(COMPILED) for name in opened.namelist())


if __name__ == "__main__":
    main()

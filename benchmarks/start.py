"""How soon something happens: `import laconic`, `laconic --help`, and the first line that `laconic run` prints.

Asked for: 80 ms, 200 ms and 1.5 s. Run on a quiet machine: `python -m benchmarks.start`. Each is a fresh process, ten
times after one that warms the disk's cache; an empty Python is timed beside them. The processor's work is what a quiet
machine's clock shows, and what is held against these figures; the clock stands beside it.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

TURNS = 10
ROWS = 500


def main() -> None:
    """Print the middle and the greatest of each, as processor time and by the clock."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory() as folder:
        files = _write_files(Path(folder))
        run = [*_laconic("run", "FedOnce", "--files", *files), "--id", "customer", "--label", "churned"]
        _line("an empty Python", [sys.executable, "-c", "pass"], None)
        _line("import laconic", [sys.executable, "-c", "import laconic"], 0.080)
        _line("laconic --help", _laconic("--help"), 0.200)
        _line("laconic run, two files of 500 rows, first output", run, 1.5, first=True)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def _laconic(*words: str) -> list[str]:
    return [sys.executable, "-c", "from laconic.cli import main; main()", *words]


def _write_files(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    bank, shop = rng.normal(size=(ROWS, 4)), rng.normal(size=(ROWS, 4))
    churned = np.where(bank[:, 0] + shop[:, 0] > 0, "yes", "no")
    lines = [f"{row},{','.join(f'{x:.3f}' for x in bank[row])},{churned[row]}" for row in range(ROWS)]
    (folder / "bank.csv").write_text("\n".join(["customer,a,b,c,d,churned", *lines]) + "\n")
    lines = [f"{row},{','.join(f'{x:.3f}' for x in shop[row])}" for row in range(ROWS)]
    (folder / "shop.csv").write_text("\n".join(["customer,e,f,g,h", *lines]) + "\n")
    return [str(folder / "bank.csv"), str(folder / "shop.csv")]


def _line(name: str, command: Sequence[str], most: float | None, *, first: bool = False) -> None:
    _once(command, first=first)
    worked, clock = zip(*(_once(command, first=first) for _ in range(TURNS)), strict=True)
    middle = float(np.median(worked))
    asked = "" if most is None else f" ({most:g} s asked for: {'kept' if middle <= most else 'NOT KEPT'})"
    print(
        f"{name}: {middle:.3f} s of the processor's work, at most {max(worked):.3f}{asked}; "
        f"{np.median(clock):.3f} s by the clock, at most {max(clock):.3f}",
        flush=True,
    )


def _once(command: Sequence[str], *, first: bool) -> tuple[float, float]:
    """Processor time and clock of one process, up to its first line of output or to its end."""
    before, started = _children(), time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if first and process.stdout is not None:
        process.stdout.read(1)
        worked, clock = _worked_by(process.pid), time.perf_counter() - started
        process.kill()
        process.communicate()
        return worked, clock
    if process.communicate() and process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return _children() - before, time.perf_counter() - started


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _worked_by(pid: int) -> float:
    """Processor time of a process that is still running, in all its threads, as Linux counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

"""`python -m tools.pictures`: draw `docs/images/demo.svg`, what `laconic demo` prints, from a run of it."""

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "demo.svg"


def draw_demo() -> str:
    """The demo's table and sentences as SVG, without a font from elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "laconic", "demo"]
        printed = subprocess.run(words, check=True, cwd=folder, capture_output=True, text=True).stdout  # noqa: S603
    shown = printed.split("Next, files of your own")[0].rstrip()
    console = Console(record=True, width=82, file=io.StringIO())
    console.print(Text(shown))
    drawn = console.export_svg(title="laconic demo", theme=DIMMED_MONOKAI)
    return re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.S)


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw_demo(), encoding="utf-8")
    print(PICTURE.name)

"""Programs and data that some tests need. Where one is missing, its tests skip, and the summary says how to get it."""

import os
from pathlib import Path
from shutil import which

import pytest

BROWSER = os.environ.get("LACONIC_CHROMIUM") or which("chromium") or which("chromium-browser")
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))[-1:]

# For tests that find out only while they run.
NAMESPACES = "needs network namespaces: be root, and apt-get install iproute2"
FULL_XGBOOST = "needs the full xgboost package: make .venv/xgboost, or set LACONIC_XGBOOST to a folder that holds it"

chromium = pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium: apt-get install chromium, or set LACONIC_CHROMIUM to its path"
)
postgres = pytest.mark.skipif(not POSTGRES, reason="needs PostgreSQL: apt-get install postgresql")
openssl = pytest.mark.skipif(which("openssl") is None, reason="needs the openssl command: apt-get install openssl")
gcc = pytest.mark.skipif(which("gcc") is None, reason="needs a C compiler: apt-get install gcc libc6-dev")
public_data = pytest.mark.skipif(
    not os.environ.get("LACONIC_DATA"),
    reason="needs the public data sets: set LACONIC_DATA to the folder that holds them",
)

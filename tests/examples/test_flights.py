"""The commands of docs/flights.md run as written, with fewer flights."""

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from examples.flights import write_flights
from laconic import Result
from laconic.cli import main
from tests.needs import public_data

NAMES = ("airline", "weather_office", "registry")
PAGE = Path(__file__).parents[2] / "docs" / "flights.md"
pytestmark = public_data


def commands():
    """All commands on the page, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


def test_every_command_of_the_page_runs_and_the_report_is_about_its_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, *others = commands()
    assert first[:3] == ["python", "-m", "examples.flights"]
    write_flights(Path(first[3]), 700)
    assert {words[1] for words in others} == {"doctor", "run"}
    for words in others:
        assert words[0] == "laconic"
        outcome = CliRunner().invoke(main, words[1:])
        assert outcome.exit_code == 0, (words, outcome.output)
    assert "Together: " in CliRunner().invoke(main, ["doctor", *(f"flights/{name}.toml" for name in NAMES)]).stdout
    result = Result.from_json(Path("fedonce.json").read_bytes())
    assert result.parties == NAMES
    assert result.task.label == "late"
    alignment = result.data["alignment"]
    assert alignment["rows"]["airline"] == 700
    # The registry knows about 84 of 100 aircraft; hardly any hour has no weather.
    assert 0.75 < alignment["shared"] / 700 < 0.92
    assert not any("in the clear" in release.words for release in result.releases)

"""The architecture page names every room, in the order that import-linter holds imports to."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rooms_of(page):
    table = page.split("## The rooms")[1].split("Beneath all of them")[0]
    return re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)


def layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return next(one["layers"] for one in contracts if one["type"] == "layers")


def test_the_page_names_the_rooms_that_there_are():
    there = {path.name for path in (ROOT / "laconic").iterdir() if (path / "__init__.py").exists()}
    assert sorted(rooms_of(PAGE)) == sorted(there)


def test_the_page_has_the_rooms_in_the_order_of_their_layers():
    assert rooms_of(PAGE) == layers()[:-1]
    diagram = re.search(r"flowchart TD\n\s*(.+)\n", PAGE)
    assert diagram is not None
    assert diagram.group(1).split(" --> ") == layers()[:-1]


def test_the_page_names_the_files_beneath_the_rooms():
    beneath = {name.strip() for name in layers()[-1].split(":")} - {"moved"}
    sentence = re.search(r"Beneath all of them are five single files: (.+)\.", PAGE)
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence.group(1))) == beneath


def test_a_room_that_the_page_forgets_is_found():
    assert "deploy" not in rooms_of(PAGE.replace("| `deploy` |", "| deployment |"))


def test_the_way_of_a_question_goes_through_modules_that_there_are():
    for module in re.findall(r"as ((?:core|deploy)\.\w+)", PAGE):
        path = ROOT / "laconic" / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or path.is_dir(), module

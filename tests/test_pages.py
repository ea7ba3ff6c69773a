"""Pages for readers hang together: no leftovers of a merge, no link that leads nowhere."""

import re
import tomllib
from pathlib import Path

import pytest

import laconic
from laconic.moved import NEW_HOME, OLD_VERBS, RENAMED
from tools.prose import long_sentences, page_blocks, pages

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_leftovers_of_a_merge(page):
    found = [line for line in (ROOT / page).read_text().splitlines() if re.match(r"(<{7}|={7}|>{7})( |$)", line)]
    assert not found, f"{page} was merged by half: {found}"


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\((?!\w+:)([^)#\s]+)", (ROOT / page).read_text())
    missing = [link for link in links if not ((ROOT / page).parent / link).exists()]
    assert not missing, f"{page} links to what is not there: {missing}"


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("docs/methods/")])
def test_no_page_installs_the_stranger_of_this_name_from_the_package_index(page):
    assert not re.search(r"pip install '?laconic\b(?!-fl)", (ROOT / page).read_text())


def test_no_page_has_a_sentence_of_more_than_35_words():
    blocks = [
        ("page", path.relative_to(ROOT).as_posix(), block)
        for path in pages()
        for block in page_blocks(path.read_text())
    ]
    found = long_sentences(blocks)
    assert not found, "end the sentence earlier:\n" + "\n".join(found)


def test_the_changelog_has_no_entry_twice():
    starts = re.findall(r"^- (.{60,90})", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    twice = {one for one in starts if starts.count(one) > 1}
    assert not twice, f"a merge keeps both copies of a changed entry; delete one of: {twice}"


def changelog_parts():
    """The text of each version, by the words of its heading."""
    parts = re.split(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_changelog_has_a_heading_per_version_and_the_newest_is_this_one():
    first, *versions = changelog_parts()
    dated = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d{2}-\d{2})\)", one) for one in versions]
    assert first == "Unreleased"
    assert dated
    assert all(dated), f"write headings as `## 0.1.0 (2026-11-18)`: {versions}"
    assert versions[0].split()[0] == laconic.__version__
    numbers = [tuple(map(int, one.groups()[:3])) for one in dated if one]
    assert numbers == sorted(set(numbers), reverse=True)


def test_the_changelog_names_every_deprecated_name_and_when_it_goes():
    text = "".join(changelog_parts().values())
    deprecated = "".join(re.findall(r"^### Deprecated\n(.*?)(?=^##|\Z)", text, flags=re.M | re.S))
    words = set(re.findall(r"\w+", deprecated))
    assert {*OLD_VERBS, *RENAMED, *RENAMED.values()} <= words
    assert words & set(NEW_HOME), "an example of a name that has moved"
    major, minor, _ = laconic.__version__.split(".")
    assert f"gone with {major}.{int(minor) + 1}" in deprecated


def test_the_page_on_installing_names_every_extra_and_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs/installing.md").read_text()
    extras = {name for name, needs in project["optional-dependencies"].items() if needs}
    assert extras <= set(re.findall(r"`(\w+)`", page))
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert pythons
    assert all(one in page for one in pythons)


def test_the_readme_saves_a_result_before_it_uses_it():
    text = (ROOT / "README.md").read_text()
    assert -1 < text.index("--save run.json") < text.index("disclose run.json")

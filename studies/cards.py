"""Put the figures of saved study results into the cards of methods and the README, and find those that are not there.

A figure in a document has its source in a comment right behind it, which no reader sees:

    FedOnce scores 0.9705<!-- phishing > FedOnce, BestEncoder --> there.

`<!-- figures from fedonce_oneshot/table.md -->` above it says which file; `studies.figures` says how cells are named,
and `<!-- short C = a long heading -->` lets `C > ...` stand for a section with a long name.
The number is written anew with as many decimals as it has. `N<!-- paper: Table 7 -->` is a paper's own figure,
`N<!-- in PATH -->` stands word for word in that file of the repository. A table is written from its pattern:

    <!-- table
    | | Solo | FedOnce |
    |---|---|---|
    | phishing | {phishing > Solo} | {phishing > FedOnce, BestEncoder as 0.00} |
    -->
    ...
    <!-- end of table -->

Run `python -m studies.cards` after a study has written its tables, or with `--check` to change nothing, or with
`--where 0.9705` to learn the names of all cells that hold that number.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from studies.figures import NUMBER, ROOT, FigureError, like, names_of, numbers_in, text_of, value_of
from studies.harness import write_whole

_FROM = r"<!--\s*figures from\s+(?P<file>\S+)\s*-->"
_SHORT = r"<!--\s*short\s+(?P<name>\w+)\s*=\s*(?P<meaning>[^>]*?)\s*-->"
_TABLE = r"<!-- table\n(?P<pattern>.*?)\n-->\n.*?<!-- end of table -->"
_SOURCED = rf"(?P<shown>{NUMBER}(?: ± {NUMBER})?)<!--(?P<source>.*?)-->"
_MARKS = re.compile(f"{_FROM}|{_SHORT}|{_TABLE}|{_SOURCED}", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\([^)]*\)|https?://\S+")
_UNITS = r"%|MB|kB|GB|TB|s|ms|us|times|points|rounds|minutes|seconds|hours"
_MEASURED = re.compile(
    rf"(?<![\w.-])(?<!Python )(?:\d[\d,]*\.\d+(?:e-?\d+)?(?!\.?\d)|\d[\d,]*(?=\s?(?:{_UNITS})(?![\w-])))"
)


def main() -> None:
    """Refresh every document, or say which are not fresh."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="documents (default: README, guide, privacy, all cards)")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a figure is stale or unsourced")
    parser.add_argument("--where", metavar="NUMBER", help="only list the cells of all results that hold this number")
    chosen = parser.parse_args()
    if chosen.where:
        print("\n".join(names_of(chosen.where)) or f"no saved result has a cell that reads {chosen.where}")
        return
    problems: list[str] = []
    for path in chosen.files or documents():
        problems += _look_over(path, check=chosen.check)
    print("\n".join(problems) or "all figures are those of the results")
    sys.exit(1 if problems else 0)


def documents() -> list[Path]:
    """Every document whose figures must come from results: README, guide, privacy and cards.

    Walk-throughs are not among them: the figures there are a benchmark's, with the command that prints them beside.
    """
    pages = [ROOT / "docs" / name for name in ("guide.md", "privacy.md", "style.md")]
    return [ROOT / "README.md", *pages, *sorted((ROOT / "docs" / "methods").glob("*.md"))]


def refresh(text: str) -> str:
    """The document with every sourced figure and every table as the results have them now."""
    file: str | None = None
    shorts: dict[str, str] = {}

    def put(match: re.Match[str]) -> str:
        nonlocal file
        try:
            if match["pattern"]:
                filled = _fill(_spell_out(match["pattern"], shorts), file)
                return f"<!-- table\n{match['pattern']}\n-->\n{filled}\n<!-- end of table -->"
            if match["source"]:
                shown = _again(match["shown"], _spell_out(match["source"], shorts), file)
                return f"{shown}<!--{match['source']}-->"
        except FigureError as problem:
            raise FigureError(f"line {text.count(chr(10), 0, match.start()) + 1}: {problem}") from problem
        if match["name"]:
            shorts[match["name"]] = match["meaning"]
        else:
            file = match["file"]
        return match[0]

    return _MARKS.sub(put, text)


def unsourced(text: str) -> Iterator[tuple[int, str]]:
    """Numbers that look measured (a decimal point, or a unit) and say no source, each with its line."""
    for pattern in (_MARKS, _COMMENT, _CODE, _LINK):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n") + "\0", text)
    for match in _MEASURED.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[0]


def _look_over(path: Path, *, check: bool) -> list[str]:
    text = path.read_text(encoding="utf-8")
    name = path.resolve().relative_to(ROOT)
    try:
        fresh = refresh(text)
    except FigureError as problem:
        return [f"{name}, {problem}"]
    problems = [f"{name}, line {line}: {number} says no source" for line, number in unsourced(text)]
    if fresh != text and check:
        old, new = text.splitlines(), fresh.splitlines()
        stale = [line for line, (one, other) in enumerate(zip(old, new, strict=False), 1) if one != other]
        first = stale[0] if stale else len(old)
        problems.append(f"{name}, line {first}: not as the results are; run python -m studies.cards")
    elif fresh != text:
        write_whole(path, fresh)
        print(f"{name}: refreshed")
    return problems


def _again(shown: str, comment: str, file: str | None) -> str:
    """A figure as it is now, written as it was, from the source in the comment behind it."""
    source = " ".join(comment.split())
    if source.startswith("paper"):
        return shown
    if source.startswith("in "):
        _stands_in(shown, source.removeprefix("in "))
        return shown
    return _write(source, shown, file)


def _spell_out(text: str, shorts: dict[str, str]) -> str:
    """The text with the short names of sections spelt out, where a section is meant: before the first `>`."""
    for name, meaning in shorts.items():
        text = re.sub(rf"(?<![\w>])(?<!> ){name}(?=\s+>)", meaning.replace("\\", r"\\"), text)
    return text


def _stands_in(shown: str, name: str) -> None:
    path = ROOT / name
    if not path.is_file():
        raise FigureError(f"{shown} should be in {name}, which is not there")
    if not re.search(rf"(?<![\d.]){re.escape(shown)}(?!\.?\d)", path.read_text(encoding="utf-8")):
        raise FigureError(f"{shown} is not in {name}")


def _fill(pattern: str, file: str | None) -> str:
    """A table's pattern with each {name} or {formula as SAMPLE} replaced by what it stands for."""

    def put(match: re.Match[str]) -> str:
        written = re.fullmatch(r"(.*) as (\d[\d,. ±]*)", match[1], re.DOTALL)
        return _write(written[1], written[2], file) if written else text_of(match[1], file)

    return re.sub(r"\{([^{}]*)\}", put, pattern)


def _write(source: str, sample: str, file: str | None) -> str:
    if "±" in sample and "[" not in source:
        return like(sample, numbers_in(text_of(source, file))[:2])
    return like(sample, [value_of(source, file)])


if __name__ == "__main__":
    main()

"""What readers meet in pages, help, errors, ledgers and reports: words that were replaced, and sentences too long.

`python -m tools.prose` prints both; `tests/test_prose.py` allows none. A sentence ends with its mark or with its block:
a paragraph, a list item, a heading, a cell of a table. Code, figures' sources and quoted output are not prose.
"""

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
MOST_WORDS = 35

_PER = (
    r"rows?|part(?:y|ies)|rounds?|seconds?|epochs?|batch(?:es)?|person|class|steps?|runs?|peers?|cells?|guests?|days?"
)
_COUNTED = r"bytes|numbers|times|nets|MB|kB|gradients|values|cents|rounds?|predictions?"
REPLACED: dict[str, str] = {
    r"chances?\b(?! of| that| to)": "randomness",
    r"told": "released, said, distinguished",
    r"alike": "the same, equal, duplicate",
    r"lies on the labels?|lies about labels?": "randomised response",
    r"people at several parties": "shared ids",
    r"says so": "what it says",
    r"desks?|seat(?:s|ed|ing)?": "responder, session",
    r"rehears\w+|foretold|foretell\w*": "forecast",
    r"guests?": "party",
    rf"(?<!how many )(?:{_COUNTED}) an? (?:{_PER})": "per",
}
"""Patterns of words that were replaced, and what stands in their place."""

_PAPERS_WORDS = ("laconic/methods/", "laconic/deploy/policy.py", "docs/methods/fedonce_l1.md")
"""Where `guest` may stand: a paper's own algorithm is written out there, or handed the parties by that name."""


def sentences(block: str) -> list[str]:
    """The sentences of one block of text."""
    parted = re.split(r"(?<=[.!?])[\"')*\]]*\s+(?=[\"'(*`\[]*[A-Z0-9`])", block)
    return [one.strip() for one in parted if one.strip()]


def words(sentence: str) -> int:
    """How many words a sentence has; numbers and names count, marks alone do not."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def page_blocks(text: str) -> Iterator[str]:
    """The blocks of a Markdown page that are prose."""
    text = re.sub(r"^---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"^ *(```+|~~~+).*?^ *\1 *$", "\n\n", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "`code`", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )|\n(?=#)|(?<=\|)\n", text):
        if block.lstrip().startswith("|"):
            yield from (cell.strip() for cell in block.strip().strip("|").split("|"))
        else:
            yield " ".join(re.sub(r"^\s*(?:[-*+>]|\d+\.|#+)\s+", "", block).split())


def notebook_blocks(path: Path) -> Iterator[str]:
    """The prose of a notebook's text cells."""
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            yield from page_blocks("".join(cell["source"]))


def help_blocks(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command, of its options, and of the commands below it."""
    for block in re.split(r"\n\s*\n", command.help or ""):
        if "\b" not in block:
            yield name, " ".join(block.split())
    for option in command.params:
        yield f"{name} {option.name}", " ".join((getattr(option, "help", None) or "").split())
    for below, one in getattr(command, "commands", {}).items():
        yield from help_blocks(one, f"{name} {below}")


def text_blocks(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Texts in a module that people read: errors, ledger words, lines of terminal and page.

    That is every string of at least four words that is no docstring, with `X` for what is put in at run time. Outside
    of errors, one that begins without a capital is a phrase and no sentence, as ledgers' words are.
    """
    raised = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    inner = {id(part) for node in ast.walk(tree) for part in _inside(node)}
    for node in ast.walk(tree):
        text = " ".join(_literal(node).split()) if id(node) not in inner else ""
        if text.count(" ") > 2 and not re.search(r"[<{=]/?\w+[>}]|SELECT |CREATE |INSERT ", text):
            sentence = id(node) in raised or text[0].isupper()
            yield "text" if sentence else "phrase", getattr(node, "lineno", 1), text


def docstring_blocks(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The paragraphs of a module's docstrings, examples left out."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            text = re.sub(r"^ *>>>.*?(?=\n\s*\n|\Z)", "", text, flags=re.M | re.S)
            for block in re.split(r"\n\s*\n|\n(?=\s*(?:\w+|\*\w+): )", re.sub(r"``?[^`]*``?", "`code`", text)):
                yield getattr(node, "lineno", 1), " ".join(block.split())


def _inside(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Expr(value=ast.Constant() as text):
            return [text]
        case ast.JoinedStr(values=values):
            return values
        case _:
            return []


def _literal(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_literal(one) if isinstance(one, ast.Constant) else "X" for one in values)
        case _:
            return ""


def pages() -> list[Path]:
    """Pages that users read: all but decisions, which are never edited, and licences, which others wrote."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path for path in found if "decisions" not in path.parts and path.name != "licences.md")


def read() -> Iterator[tuple[str, str, str]]:
    """Every block that a user may meet: what kind of text it is, where it stands, and the text."""
    for path in pages():
        yield from (("page", path.relative_to(ROOT).as_posix(), block) for block in page_blocks(path.read_text()))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        yield from (("page", path.relative_to(ROOT).as_posix(), block) for block in notebook_blocks(path))
    from laconic.cli import main

    yield from (("help", where, block) for where, block in help_blocks(main, "laconic"))
    for path in sorted((ROOT / "laconic").rglob("*.py")):
        tree = ast.parse(path.read_text())
        where = path.relative_to(ROOT).as_posix()
        yield from ((kind, f"{where}:{line}", block) for kind, line, block in text_blocks(tree))
        yield from (("docstring", f"{where}:{line}", block) for line, block in docstring_blocks(tree))


def long_sentences(blocks: Iterable[tuple[str, str, str]]) -> list[str]:
    """Sentences of more words than a reader should meet, in pages, help, errors and what is printed."""
    found = [
        (kind, where, one)
        for kind, where, block in blocks
        if kind not in ("docstring", "phrase")
        for one in sentences(block)
    ]
    return [f"{kind} {where}: {words(one)} words: {one}" for kind, where, one in found if words(one) > MOST_WORDS]


def replaced_words(blocks: Iterable[tuple[str, str, str]]) -> list[str]:
    """Words that were replaced, where they still stand."""
    return [
        f"{kind} {where}: {found.group()!r} ({instead}): ...{block[max(0, found.start() - 60) : found.end() + 60]}..."
        for kind, where, block in blocks
        for pattern, instead in REPLACED.items()
        if not ("guests" in pattern and where.startswith(_PAPERS_WORDS))
        for found in re.finditer(rf"\b(?:{pattern})\b", block, flags=re.I)
    ]


if __name__ == "__main__":
    everything = list(read())
    sys.stdout.write("\n".join([*long_sentences(everything), *replaced_words(everything)]) + "\n")

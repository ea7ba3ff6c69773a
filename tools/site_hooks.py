"""What `mkdocs build` calls for our site: pages that are made from code, links that lead out of docs/, and diagrams.

The reference is written from the stubs of public names and from docstrings; examples that a docstring lacks come from
`tools/api_examples.py`. A link to a file that is no page of the site becomes the name of that file.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tools.api_examples import EXAMPLES, GROUPS
from tools.diagrams import draw
from tools.package_examples import GROUPED, PACKAGE_EXAMPLES

HOME = Path(__file__).parent.parent
_FROM_HOME = {
    "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security_policy.md",
    "README.md": "index.md",
    "laconic/__init__.pyi": "api/index.md",
}  # fmt: skip
"""Pages in the repository's own folder, and what they are called on the site."""

_ROOMS = (
    "core",
    "data",
    "deploy",
    "inference",
    "learn",
    "methods",
    "plan",
    "privacy",
    "report",
    "audit",
    "align",
    "testing",
    "tables",
)


def public_names(package: str = "") -> dict[str, str]:
    """The public names of a package, and where each is defined, by the stub.

    >>> public_names()["FedOnce"]
    'laconic.methods.vertical.fedonce.FedOnce'
    """
    folder = HOME / "laconic" / package
    stub = folder / "__init__.pyi"
    if not stub.exists():
        return {}
    inside = ".".join(["laconic", *([package] if package else [])])
    found = [node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {one.name: f"{inside}.{node.module}.{one.name}" for node in found for one in node.names}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    outside = {name: source for source, name in _FROM_HOME.items() if "/" not in source and name != "index.md"}
    made = {name: (HOME / source).read_text(encoding="utf-8") for name, source in outside.items()} | _reference()
    for folder in ("methods", "decisions"):
        made[f"{folder}/index.md"] = _list_of(folder, folder.capitalize(), files)
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 (as mkdocs calls it)
    """Draw diagrams, and name files that are no pages instead of linking to them."""
    markdown = re.sub(r"```mermaid\n(.*?)```", lambda found: draw(found[1]), markdown, flags=re.S)
    markdown = _lists_apart(re.sub(r"<!--.*?-->", "", markdown, flags=re.S))
    pattern = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
    return pattern.sub(lambda found: _link(found, page.file.src_uri, files), markdown)


def _lists_apart(markdown: str) -> str:
    """An empty line before each list: without one, this site's Markdown takes it for more of the paragraph above."""
    lines: list[str] = []
    fenced = listed = False
    for line in markdown.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        begins = not fenced and re.match(r"(?:[-*]|\d+\.) ", line) is not None
        if begins and not listed and lines and lines[-1].strip():
            lines.append("")
        listed = begins or (listed and bool(line.strip()))
        lines.append(line)
    return "\n".join(lines)


def _link(found: "re.Match[str]", source: str, files: Files) -> str:
    picture, words, target, anchor = found[1], found[2], found[3], found[4] or ""
    is_home = source in _FROM_HOME.values() and source not in ("index.md", "api/index.md")
    place = _joined("" if is_home else str(Path("docs") / Path(source).parent), target)
    page = _FROM_HOME.get(place) or (place.removeprefix("docs/") if place.startswith("docs/") else "")
    if page.rstrip("/") in ("decisions", "methods"):
        page = f"{page.rstrip('/')}/index.md"
    if page and files.get_file_from_path(page) is not None:
        up = "../" * (len(Path(source).parts) - 1)
        return f"{picture}[{words}]({up}{page}{anchor})"
    if (HOME / place).exists():
        return f"{words} (`{place}`)" if words.strip("`") != place else f"`{place}`"
    return found[0]


def _joined(folder: str, target: str) -> str:
    parts: list[str] = []
    for part in [*Path(folder).parts, *Path(target).parts]:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _list_of(folder: str, title: str, files: Files) -> str:
    pages = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri.startswith(f"{folder}/"))
    lines = [f"# {title}", ""]
    if folder == "methods":
        table = re.search(r"^\| \| method .*?\n\n", (HOME / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S)
        lines += [table[0].replace("docs/methods/", "") if table else "", "By name:", ""]
    for page in pages:
        first = (HOME / "docs" / page).read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        lines.append(f"- [{first}]({Path(page).name})")
    return "\n".join(lines)


def grouped(names: Iterable[str]) -> dict[str, tuple[str, list[str]]]:
    """The pages of the reference for these names; those that no group lists come last."""
    names = list(names)
    listed = {one for _, members in GROUPS.values() for one in members}
    found = {group: (title, [one for one in members if one in names]) for group, (title, members) in GROUPS.items()}
    rest = [one for one in names if one not in listed]
    return found | ({"more": ("More", rest)} if rest else {})


def _reference() -> dict[str, str]:
    names = public_names()
    pages = {"api/index.md": _start(names)}
    for group, (title, members) in grouped(names).items():
        pages[f"api/{group}.md"] = _page(title, {name: names[name] for name in members}, "laconic")
    for room in _ROOMS:
        inside = public_names(room)
        if inside:
            pages[f"api/packages/{room}.md"] = _package_page(room, inside)
    return pages


def _start(names: dict[str, str]) -> str:
    lines = [
        "# API",
        "",
        "Names of `laconic` itself, by what they are for. Each entry has an example that the tests run.",
        "",
    ]
    for group, (title, members) in grouped(names).items():
        links = ", ".join(f"[`{name}`]({group}.md#{names[name]})" for name in members)
        lines.append(f"- [{title}]({group}.md): {links}")
    lines += ["", "Everything else is in its package:", ""]
    lines += [f"- [`laconic.{room}`](packages/{room}.md)" for room in _ROOMS if public_names(room)]
    return "\n".join(lines)


def _page(title: str, names: dict[str, str], inside: str) -> str:
    parts = [f"# {title}", ""]
    for name, path in names.items():
        parts += [f"::: {path}", ""]
        if name in EXAMPLES:
            parts += ["**Example**", "", "```pycon", EXAMPLES[name].strip(), "```", ""]
    return "\n".join([*parts, f"Import them from `{inside}`.", ""])


def _package_page(room: str, names: dict[str, str]) -> str:
    """The names of a package, with an example at the first of each group and a link to it at the others."""
    first = {name: members.split()[0] for package, members, _ in GROUPED if package == room for name in members.split()}
    parts = [f"# laconic.{room}", ""]
    for name, path in names.items():
        parts += [f"::: {path}", ""]
        if first.get(name) == name:
            parts += ["**Example**", "", "```pycon", PACKAGE_EXAMPLES[room, name].strip(), "```", ""]
        elif name in first:
            parts += [f"Example: beside [`{first[name]}`](#{names[first[name]]}).", ""]
    return "\n".join([*parts, f"Import them from `laconic.{room}`.", ""])

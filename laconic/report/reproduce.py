"""How to run results again: the command line that gives the same numbers."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from laconic.core.method import Method
from laconic.deploy.result import Result
from laconic.errors import PlanError
from laconic.moved import with_current_names
from laconic.plan.plan import DataPlan
from laconic.plan.text import change_plan, draft, value_text
from laconic.report.comparisons import Comparison, MethodRuns, comparisons_of, settings_given, settings_key

_SHORT = {
    "name": "--data",
    "id": "--id",
    "label": "--label",
    "event": "--event",
    "public": "--public",
    "parties": "--parties",
}


def commands_for(results: Iterable[Result]) -> dict[str, str]:
    """Commands by what they run: a method's settings (`settings_key`), or the title of a whole federation.

    What no command line can say, such as rows that came from Python, is left out.
    """
    found: dict[str, str] = {}
    for part in comparisons_of(results):
        found |= {settings_key(arm.first): command for arm in part.arms if (command := _of_arm(arm)) is not None}
        together = _of_part(part)
        if together is not None:
            found[part.title] = together
    return found


def _of_arm(arm: MethodRuns) -> str | None:
    """`laconic run` for one seed, `laconic compare` for several in a row."""
    seeds, settings, data = _seeds(arm), _settings(arm, "method"), _data(arm.first)
    if settings is None or data is None or seeds is None:
        return None
    if len(seeds) == 1 and arm.allowed is None:
        return shlex.join(["laconic", "run", arm.kind, *data, "--seed", str(seeds[0]), *settings])
    return shlex.join(
        ["laconic", "compare", arm.kind, *data, *_seed_words(seeds), *_tune_words(arm), "--no-yardsticks", *settings]
    )


def _of_part(part: Comparison) -> str | None:
    """One `laconic compare` for all arms, where each is of another method and all have the same seeds."""
    kinds = [arm.kind for arm in part.arms]
    seeds = {tuple(_seeds(arm) or ()) for arm in part.arms}
    settings = [_settings(arm, arm.kind) for arm in part.arms]
    data = _data(part.first)
    several = len(set(kinds)) == len(kinds) > 1 and len(seeds) == 1 and () not in seeds
    several &= len({arm.allowed for arm in part.arms}) == 1
    if not several or data is None or any(one is None for one in settings):
        return None
    own = [word for words in settings for word in words or []]
    how_often = [*_seed_words(next(iter(seeds))), *_tune_words(part.arms[0])]
    return shlex.join(["laconic", "compare", *kinds, *data, *how_often, "--no-yardsticks", *own])


def _seeds(arm: MethodRuns) -> Sequence[int] | None:
    seeds = [result.seed for result in arm.results]
    return seeds if seeds == list(range(seeds[0], seeds[0] + len(seeds))) else None


def _seed_words(seeds: Sequence[int]) -> list[str]:
    return [*(["--seed", str(seeds[0])] if seeds[0] else []), "--seeds", str(len(seeds))]


def _tune_words(arm: MethodRuns) -> list[str]:
    if arm.allowed is None:
        return []
    trials, seconds = arm.allowed
    return ["--tune", "--trials", str(trials), "--seconds", f"{seconds:g}"]


def _settings(arm: MethodRuns, prefix: str) -> list[str] | None:
    """What is not as usual in a method's settings, as `--set` options; None if that would not give the same method."""
    from laconic.methods.registry import methods

    kind = methods().get(arm.kind)
    if kind is None:
        return None
    plain = _as_read(with_current_names(settings_given(arm.first)))
    changes = _unusual(plain, _as_read(draft(kind)["method"]))
    changes = [shorter for key, value in changes for shorter in _in_short(kind, key, value)]
    named = [("data.name", "breast_cancer"), *((f"method.{key}", value) for key, value in changes)]
    try:
        same = msgspec.to_builtins(change_plan(draft(kind), named).method)
    except PlanError:
        return None
    if _as_read(same) != plain:
        return None
    return [word for key, value in changes for word in ("--set", f"{prefix}.{key}={value_text(value)}")]


def _in_short(kind: type[Method], key: str, value: Any) -> list[tuple[str, Any]]:
    """Settings of another type by their type and what is not as usual for it; anything else as it is."""
    if not isinstance(value, dict) or "type" not in value:
        return [(key, value)]
    named = [("data.name", "breast_cancer"), (f"method.{key}.type", value["type"])]
    try:
        begun: Any = _as_read(msgspec.to_builtins(change_plan(draft(kind), named).method))
    except PlanError:
        return [(key, value)]
    for part in key.split("."):
        begun = begun[part]
    return [(f"{key}.type", value["type"]), *((f"{key}.{inner}", one) for inner, one in _unusual(value, begun))]


def _data(result: Result) -> list[str] | None:
    plan = result.data.get("plan")
    if not isinstance(plan, dict):
        return None
    usual = _as_read(msgspec.to_builtins(DataPlan(name="breast_cancer"))) | {"name": None}
    words: list[str] = []
    for key, value in _as_read(plan).items():
        if (value == usual[key] and key != "parties") or (key == "parties" and plan.get("name") is None):
            continue
        if key == "files":
            if isinstance(value, dict):
                words += ["--set", f"data.files={value_text(value)}"]
            else:
                words += ["--files", *map(str, value)]
        elif key in _SHORT:
            words += [_SHORT[key], str(value)]
        else:
            words += ["--set", f"data.{key}={value_text(value)}"]
    return words


def _as_read(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they come back from a file: lists for tuples."""
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings))
    return read


def _unusual(settings: dict[str, Any], usual: dict[str, Any]) -> list[tuple[str, Any]]:
    """The keys whose values are not as usual; settings of another type are set whole."""
    found: list[tuple[str, Any]] = []
    for key, value in settings.items():
        before = usual.get(key)
        if value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict) and value.get("type") == before.get("type"):
            found += [(f"{key}.{inner}", one) for inner, one in _unusual(value, before)]
        else:
            found.append((key, value))
    return found

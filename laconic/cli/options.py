"""Options that say what to run. Each is a short way to set one key of the plan, and `--set` reaches all of them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from laconic.core.errors import PlanError

if TYPE_CHECKING:
    from laconic.core.method import Method
    from laconic.plan import Plan

Command = TypeVar("Command", bound=Callable[..., object])
Change: TypeAlias = tuple[str, object]
_CHANGES = "laconic.changes"
_FOR_DEALT = ("data.parties", "data.cut", "data.hub", "data.overlap")
_FOR_FILES = ("data.id", "data.label", "data.public", "data.kinds", "data.task", "data.match")
_WITH_OPTION = ("data.parties", "data.id", "data.label", "data.public")
_RUNTIMES = {"inprocess": "InProcess", "processes": "Processes"}


class ManyFiles(click.Command):
    """A command whose `--files` takes all the words up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say `--files` before each of its words, as click wants it."""
        spelt: list[str] = []
        following = False
        for word in args:
            if following and not word.startswith("-"):
                spelt += ["--files", word]
                continue
            following = word == "--files"
            if not following:
                spelt.append(word)
        return super().parse_args(ctx, spelt)


def plan_options(command: Command) -> Command:
    """Add every option that changes the plan."""
    for option in reversed(_options()):
        command = option(command)
    return command


def plan_from(source: str, context: click.Context) -> "Plan":
    """The plan that the command line asks for: a method by name or a plan file, with the options' changes."""
    return plan_with(source, changes_of(context))


def changes_of(context: click.Context) -> list[Change]:
    """What the options change in a plan, in the order given."""
    changes: list[Change] = context.meta.get(_CHANGES, [])
    return changes


def plan_with(source: str, changes: list[Change]) -> "Plan":
    """A method by name or a plan file, with these changes."""
    from laconic.plan import change_plan, draft, read_plan, to_plain

    path = Path(source)
    if path.suffix == ".toml":
        if not path.is_file():
            raise PlanError(
                f"there is no plan file {source}; write one with: laconic plan FedOnce --data breast_cancer"
            )
        plain = to_plain(read_plan(path.read_text(encoding="utf-8")))
    else:
        plain = draft(find_method(source))
    _refuse_contradictions(plain["data"], changes, source)
    return change_plan(plain, changes)


def find_method(name: str) -> "type[Method]":
    """The method of that name, in whatever case."""
    from laconic.methods import METHODS
    from laconic.plan.keys import closest

    known = {method.__name__.casefold(): method for method in METHODS}
    if name.casefold() not in known:
        names = [method.__name__ for method in METHODS]
        raise PlanError(f"there is no method {name!r}; {closest(name, names, 'The methods are')}")
    return known[name.casefold()]


def _refuse_contradictions(data: dict[str, Any], changes: list[Change], source: str) -> None:
    """Refuse options of which one would be put aside without a word: two sources of rows, or what goes with another."""
    named = [value for key, value in changes if key == "data.name" and value not in (None, "none")]
    files = [value for key, value in changes if key.split(".")[:2] == ["data", "files"] and value]
    if named and files:
        raise PlanError(f"--data {named[-1]} and --files say two different sources of rows; leave one of them out")
    for given, there, option in ((named, data["files"], "--data"), (files, data["name"], "--files")):
        if given and there:
            rows = there if isinstance(there, str) else ", ".join(map(str, there))
            raise PlanError(
                f"{source} is on {rows}, which {option} would put aside; leave {option} out, or change [data] in a "
                "copy of the plan"
            )
    if files or data["files"]:
        _refuse_idle(changes, _FOR_DEALT, "is for a public data set, but the rows are of your own files")
    elif named or data["name"]:
        _refuse_idle(changes, _FOR_FILES, "is for your own files, but the rows are of a public data set")


def _refuse_idle(changes: list[Change], idle: tuple[str, ...], words: str) -> None:
    for key, _ in changes:
        if ".".join(key.split(".")[:2]) in idle:
            option = f" (--{key.removeprefix('data.')})" if key in _WITH_OPTION else ""
            raise PlanError(f"{key}{option} {words}; leave it out")


def _options() -> list[Callable[[Command], Command]]:
    runtimes = click.Choice(list(_RUNTIMES))
    return [
        _option("--data NAME", _named_data, "A public data set; see `laconic data`."),
        _option("--files FILE...", _files, "Your own CSV or Parquet files, one a party.", multiple=True),
        _option("--id COLUMN", _key("data.id"), "The column that says who a row is about, in every file."),
        _option("--label COLUMN", _key("data.label"), "The column to predict: in one file, or with other rows in all."),
        _option("--public FILE", _key("data.public"), "Rows that everybody may see, for parties with other rows."),
        _option("--parties K", _key("data.parties"), "Deal a public data set among K parties.", click.INT),
        _option("--set KEY=VALUE", _settings, "Set any key of the plan; may be repeated.", multiple=True),
        _option("--seed N", _key("seed"), "All chance comes from it. [0]", click.INT),
        _option("--max-bytes N", _key("budget.max_bytes"), "Stop fitting before more bytes cross.", click.INT),
        _option("--look-every N", _key("look_every"), "Score the model every N turns of fitting.", click.INT),
        _option("--runtime", _runtime, "Where parties are. [inprocess]", runtimes),
    ]


def _option(
    usage: str,
    changes: Callable[[Any], list[Change]],
    words: str,
    kind: "click.ParamType[Any]" = click.STRING,
    *,
    multiple: bool = False,
) -> Callable[[Command], Command]:
    """An option that is noted down as changes of the plan, in the order given."""

    def note(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None and value != ():
            context.meta.setdefault(_CHANGES, []).extend(changes(value))

    flag, _, metavar = usage.partition(" ")
    return click.option(
        flag, metavar=metavar or None, callback=note, expose_value=False, help=words, type=kind, multiple=multiple
    )


def _key(key: str) -> Callable[[object], list[Change]]:
    return lambda value: [(key, value)]


def _named_data(name: str) -> list[Change]:
    return [("data.files", []), ("data.name", name)]


def _files(paths: tuple[str, ...]) -> list[Change]:
    return [("data.name", None), ("data.files", list(paths))]


def _runtime(name: str) -> list[Change]:
    return [("runtime.type", _RUNTIMES[name])]


def _settings(spelt: tuple[str, ...]) -> list[Change]:
    from laconic.plan import read_value

    changes: list[Change] = []
    for words in spelt:
        key, equals, value = words.partition("=")
        if not equals or not key.strip():
            raise PlanError(f"--set needs KEY=VALUE, such as method.encoder.dim=8, not {words!r}")
        changes.append((key.strip(), read_value(value.strip())))
    return changes

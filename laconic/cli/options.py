"""Options that say what to run. Each is a short way to set one key of the plan, and `--set` reaches all of them."""

import warnings
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager
from errno import EPIPE
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from laconic.atomic_files import noting_written
from laconic.errors import DataError, LaconicError, PackageNotUsed, PlanError
from laconic.moved import RenamedWarning

if TYPE_CHECKING:
    from laconic.core.method import Method
    from laconic.data.federation import Federation
    from laconic.deploy.execute import OnRead
    from laconic.deploy.result import Result
    from laconic.plan.plan import Plan
    from laconic.values import Listener


Command = TypeVar("Command", bound=Callable[..., object])
Change: TypeAlias = tuple[str, object]
_CHANGES = "laconic.changes"
_FOR_DEALT = ("data.parties", "data.cut", "data.overlap")
_FOR_FILES = (
    "data.id",
    "data.label",
    "data.event",
    "data.public",
    "data.kinds",
    "data.task",
    "data.match",
    "data.split_by",
    "data.group",
    "data.memory",
)
_WITH_OPTION = ("data.parties", "data.id", "data.label", "data.event", "data.public", "data.group")
_RUNTIMES = {"inprocess": "InProcess", "processes": "Processes"}

FILE: Any = click.Path(path_type=Path, dir_okay=False)
FOLDER: Any = click.Path(path_type=Path, file_okay=False)
model_argument = click.argument(
    "folder", metavar="MODEL", type=click.Path(path_type=Path, exists=True, file_okay=False)
)


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


def result_options(command: Command) -> Command:
    """Add the options of commands that give one result."""
    saved = click.option("--save", type=FILE, metavar="FILE", help="Save the result as JSON.")
    return click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")(saved(command))


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
    return list(context.meta.get(_CHANGES, ()))


def plan_with(source: str, changes: list[Change]) -> "Plan":
    """A method by name, a plan file or a preset of a paper (fedonce#phishing-table5), with these changes."""
    from laconic.methods.registry import find_method
    from laconic.plan.published import read_preset
    from laconic.plan.text import change_plan, draft, read_plan_file, to_plain

    path = Path(source)
    if "#" in source and not path.exists():
        plain = to_plain(read_preset(source))
    elif path.suffix == ".toml":
        refuse_no_plan(path)
        plain = to_plain(read_plan_file(path))
    else:
        _refuse_path(path)
        plain = draft(find_method(source))
    _refuse_contradictions(plain["data"], changes, source)
    return change_plan(plain, changes)


def refuse_no_plan(path: Path) -> None:
    """Refuse a plan file that is not there, and say how to write one."""
    if not path.is_file():
        raise PlanError(f"there is no plan file {path}; write one with: laconic plan FedOnce --data breast_cancer")


def _refuse_path(path: Path) -> None:
    """Refuse a file or folder where a method or plan is expected, and say what it is for."""
    if path.is_dir() and any(path.rglob("model.json")):
        raise PlanError(f"{path} is a saved model, not a method or plan; use it with: laconic predict {path}")
    if path.is_file() and path.suffix:
        raise PlanError(
            f"{path} is not a plan file (NAME.toml); name a method first, and your own files after --files, such as: "
            f"laconic run FedOnce --files {path} ... --id COLUMN --label COLUMN"
        )


def _refuse_contradictions(data: dict[str, Any], changes: list[Change], source: str) -> None:
    """Refuse options of which one would be ignored: two sources of rows, or what belongs to another source."""
    named = [value for key, value in changes if key == "data.name" and value not in (None, "none")]
    files = [value for key, value in changes if key.split(".")[:2] == ["data", "files"] and value]
    if named and files:
        raise PlanError(f"--data {named[-1]} and --files are two different sources of rows; leave one of them out")
    for given, there, option in ((named, data["files"], "--data"), (files, data["name"], "--files")):
        if given and there:
            rows = there if isinstance(there, str) else ", ".join(map(str, there))
            raise PlanError(
                f"{source} is on {rows}, which {option} would replace; leave {option} out, or change [data] in a copy "
                "of the plan"
            )
    if files or data["files"]:
        _refuse_idle(changes, _FOR_DEALT, "is for a public data set, but the rows come from your own files")
    elif named or data["name"]:
        _refuse_idle(changes, _FOR_FILES, "is for your own files, but the rows come from a public data set")


def _refuse_idle(changes: list[Change], idle: tuple[str, ...], words: str) -> None:
    for key, _ in changes:
        if ".".join(key.split(".")[:2]) in idle:
            option = f" (--{key.removeprefix('data.')})" if key in _WITH_OPTION else ""
            raise PlanError(f"{key}{option} {words}; leave it out")


def _options() -> list[Callable[[Command], Command]]:
    runtimes = click.Choice(list(_RUNTIMES))
    return [
        _option("--data NAME", _named_data, "A public data set; see `laconic data`."),
        _option("--files FILE...", _files, "Your own CSV or Parquet files, one per party.", multiple=True),
        _option("--id COLUMN", _key("data.id"), "The column that says who a row is about, in every file."),
        _option("--label COLUMN", _key("data.label"), "The column to predict: in one file; horizontal: in all."),
        _option("--event COLUMN", _key("data.event"), "Whether the event came, where the label is the time to it."),
        _option("--split-by COLUMN", _key("data.split_by"), "Score on the last rows by this column of dates."),
        _option(
            "--group COLUMN", _key("data.group"), "Keep rows of one value together, all learnt from or all scored."
        ),
        _option("--public FILE", _key("data.public"), "Rows that everybody may see, for horizontal methods."),
        _option("--parties K", _key("data.parties"), "Deal a public data set among K parties.", click.INT),
        _option(
            "--encoder NAME", _key("method.encoder.type"), "How FedOnce's parties encode rows; Pca lays no column open."
        ),
        _option("--set KEY=VALUE", _settings, "Set any key of the plan; may be repeated.", multiple=True),
        _option("--seed N", _key("seed"), "Seed of all randomness. [0]", click.INT),
        _option("--max-bytes N", _key("budget.max_bytes"), "Stop fitting before more bytes cross.", click.INT),
        _option("--look-every N", _key("look_every"), "Score the model every N turns of fitting.", click.INT),
        _option(
            "--runtime", lambda one: [("runtime.type", _RUNTIMES[one])], "Where parties are. [inprocess]", runtimes
        ),
    ]


def _option(
    usage: str,
    changes: Callable[[Any], list[Change]],
    words: str,
    kind: "click.ParamType[Any]" = click.STRING,
    *,
    multiple: bool = False,
) -> Callable[[Command], Command]:
    """An option that is kept as changes of the plan, in the order given."""

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


def _settings(spelt: tuple[str, ...]) -> list[Change]:
    from laconic.plan.text import read_value

    changes: list[Change] = []
    for words in spelt:
        key, equals, value = words.partition("=")
        if not equals or not key.strip():
            raise PlanError(f"--set needs KEY=VALUE, such as method.encoder.dim=8, not {words!r}")
        changes.append((key.strip(), read_value(value.strip())))
    return changes


_DEBUG = "laconic.debug"
_BAD_INPUT, _FAILED, _STOPPED = 2, 1, 130
_NOTED = ("run", "compare", "report", "disclose", "predict", "add", "forget")
"""Commands whose saved files are all recorded; others may have saved more when they are stopped."""


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_DEBUG] = True


debug_option = click.option(
    "--debug", is_flag=True, is_eager=True, expose_value=False, callback=_remember, help="Show where an error arose."
)


def _note(usual: Callable[..., None]) -> Callable[..., None]:
    """Show an unusable package or a renamed class once, as one line; other warnings as usual."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if issubclass(category, PackageNotUsed | RenamedWarning):
            if str(message) not in shown:
                click.echo(f"Note: {message}", err=True)
            shown.add(str(message))
        else:
            usual(message, category, *where)

    return show


class Commands(click.Group):
    """A group that prints errors without a stack trace; `--debug` shows the trace."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        written: list[Path] = []
        try:
            with noting_written() as written, warnings.catch_warnings():
                warnings.showwarning = _note(warnings.showwarning)
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(f"\n{_stopped(ctx.invoked_subcommand, written)}", err=True)
            ctx.exit(_STOPPED)
        except OSError as problem:
            # What no command expected: a full disk, a folder that was removed.
            if ctx.meta.get(_DEBUG) or problem.errno in (None, EPIPE):
                raise
            where = "" if problem.filename is None else f"{problem.filename}: "
            click.echo(f"Error: {where}{(problem.strerror or str(problem)).lower()}", err=True)
            ctx.exit(_FAILED)
        except (LaconicError, ValueError) as problem:
            if ctx.meta.get(_DEBUG):
                raise
            click.echo(f"Error: {problem}", err=True)
            # A ValueError is a setting that does not suit the data: the user can correct it, as a plan.
            ctx.exit(_BAD_INPUT if isinstance(problem, PlanError | DataError | ValueError) else _FAILED)


def _stopped(command: str | None, written: list[Path]) -> str:
    """What a command that was stopped by Ctrl-C had saved by then, as far as that is known."""
    if written:
        return f"Stopped. Saved before that: {', '.join(map(str, written))}."
    return "Stopped before the result was saved." if command in _NOTED else "Stopped."


@contextmanager
def showing_done(what: str, done: Sized, shown: Callable[[], object]) -> Iterator[None]:
    """When Ctrl-C ends this block, show what is done by then, which is nowhere saved, and say so."""
    try:
        yield
    except KeyboardInterrupt:
        if done:
            show(shown())
        count = len(done)
        click.echo(
            f"\nStopped: {f'{count} {what} are shown above' if count else f'no {what} yet'}; nothing was saved.",
            err=True,
        )
        click.get_current_context().exit(_STOPPED)


@contextmanager
def showing_progress() -> "Iterator[Listener | None]":
    """Show what is going on within this block; gives None, and shows nothing, when nobody watches a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from laconic.values import listening

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    words = TextColumn("{task.description}")
    columns = (SpinnerColumn(), words, BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bars = {"": progress.add_task("getting ready", total=None, count="")}

        def show(what: str, done: int, of: int | None) -> None:
            if "" in bars:
                progress.remove_task(bars.pop(""))
            if what not in bars:
                bars[what] = progress.add_task(what, total=of, count="")
            # A method may stop early or take longer than it expects: no total is better than a wrong one.
            total = of if of is not None and done <= of else None
            count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            progress.update(bars[what], completed=done, total=total, count=count)

        with listening(show):
            yield show


watch_option = click.option(
    "--watch", "watched", is_flag=True, help="Show the run on a page while it goes on, on this machine only."
)


@contextmanager
def watch_run(watched: bool, title: str, parties: Sequence[str] = ()) -> "Iterator[Listener | None]":
    """Show progress on the terminal and, if watched, on a live page too; gives who is to be called with progress."""
    with showing_progress() as shown:
        if not watched:
            yield shown
            return
        from laconic.core.traffic import watching
        from laconic.deploy.watch import Watch
        from laconic.report.page.view import serve_live
        from laconic.values import listening

        watch = Watch(title, parties)

        def note(what: str, done: int, of: int | None) -> None:
            watch.note(what, done, of)
            if shown is not None:
                shown(what, done, of)

        with serve_live(watch.state) as address, watching(watch), listening(note):
            say_address(address)
            words = "stopped before it was finished"
            try:
                yield note
                words = "finished"
            except LaconicError as problem:
                words = f"ended: {problem}"
                raise
            finally:
                watch.end(words)


def say_address(address: str) -> None:
    """Say where the live page is, on standard error."""
    click.echo(f"Watch at {address}", err=True)


def show_notes(notes: list[str]) -> None:
    """Say what was decided when reading files, beside what a command prints."""
    for note in notes:
        click.echo(f"Read: {note}", err=True)


columns_option = click.option(
    "--columns", "every_column", is_flag=True, help="Show a line for every column of your files, odd or not."
)


def read_aloud(every: bool, methods: "Sequence[Method]" = ()) -> "OnRead":
    """Shows what own files hold as soon as they are read, and what of it the methods lay open as they are set."""

    def show_files(federation: "Federation") -> None:
        for party, reading in federation.readings.items():
            for line in reading.lines(party, every=every):
                click.echo(line, err=True)
        say_what_lies_open(methods)

    return show_files


def say_what_lies_open(methods: "Sequence[Method]") -> None:
    """What of their columns parties lay open unless something else is set, before anything is learnt."""
    from laconic.methods.vertical.fedonce import FedOnce

    most = max((one.laid_open for one in methods if isinstance(one, FedOnce)), default=0)
    if most:
        click.echo(
            f"Before it starts: with FedOnce as it is set, every party that is asked lays up to {most} columns of its "
            "table open to the label holder, by rank. `laconic widths` shows what less would cost; --encoder Pca "
            "sends sums alone.",
            err=True,
        )


def hand_over(result: "Result", as_json: bool, save: Path | None) -> None:
    """Save the result if asked, and show it."""
    if save is not None:
        result.save(save)
    if as_json:
        click.echo(result.to_json())
        return
    from laconic.report.tables import show_result

    show(show_result(result))


def show(*shown: object) -> None:
    """Print tables and texts on the terminal."""
    from rich.console import Console

    Console().print(*shown)

"""A progress bar on standard error, for people who watch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laconic.core.values import Listener


@contextmanager
def showing_progress() -> "Iterator[Listener | None]":
    """Show what is going on within this block; gives None, and shows nothing, when nobody watches a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from laconic.learn.progress import listening

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bars = {"": progress.add_task("getting ready", total=None)}

        def show(what: str, done: int, of: int | None) -> None:
            if "" in bars:
                progress.remove_task(bars.pop(""))
            if what not in bars:
                bars[what] = progress.add_task(what, total=of)
            progress.update(bars[what], completed=done, total=of)

        with listening(show):
            yield show

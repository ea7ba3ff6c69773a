"""How every command ends: errors as one clear line, Ctrl-C as a short one, exit codes that mean something."""

from typing import Any

import click

from laconic.core.errors import DataError, LaconicError, PlanError

_DEBUG = "laconic.debug"
_BAD_INPUT, _FAILED, _STOPPED = 2, 1, 130


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_DEBUG] = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember,
    help="Show where an error came from.",
)


class Commands(click.Group):
    """A group that prints what a user can mend without a stack trace; `--debug` shows the trace."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nStopped. What was saved before stays saved.", err=True)
            ctx.exit(_STOPPED)
        except OSError as problem:
            # What no command foresaw of a file: a disk that is full, a folder that went away.
            if ctx.meta.get(_DEBUG) or problem.filename is None:
                raise
            click.echo(f"Error: {problem.filename}: {(problem.strerror or str(problem)).lower()}", err=True)
            ctx.exit(_FAILED)
        except (LaconicError, ValueError) as problem:
            if ctx.meta.get(_DEBUG):
                raise
            click.echo(f"Error: {problem}", err=True)
            # A ValueError is a setting that does not suit the data: the user's to mend, like a plan.
            ctx.exit(_BAD_INPUT if isinstance(problem, PlanError | DataError | ValueError) else _FAILED)

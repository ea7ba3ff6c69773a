"""Put a view into its template, with styles, scripts and the chart library inside the page."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from laconic.core.result import Result
from laconic.report.page.view import view_of
from laconic.report.parts import parts_of
from laconic.report.words import in_bytes, in_seconds

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = "laconic.report.page"
_CHARTS = ("vendor/d3.min.js", "vendor/plot.min.js")


def render_page(results: Sequence[Result], commands: Mapping[str, str] | None = None, title: str | None = None) -> str:
    """The page of some results.

    Args:
        results: runs of one method or several, on one federation or several.
        commands: how to run them again, as `laconic.again.commands_for` gives them.
        title: of the page; by default the data's name.

    Raises:
        ValueError: there are no results.
    """
    if not results:
        raise ValueError("there are no results to report")
    parts = parts_of(results)
    view = view_of(parts, commands or {})
    heading = title or "; ".join(part.title for part in parts)
    return fill("page.html", view | {"title": heading, "charts": [read_text(name) for name in _CHARTS]})


def fill(template: str, view: Mapping[str, Any]) -> str:
    """A template with its values; everything that is not markup of our own is escaped."""
    shared = {"style": read_text("style.css"), "script": read_text("page.js")}
    return _environment().get_template(template).render(**shared, **view)


def read_text(name: str) -> str:
    """A file that comes with the package."""
    return files(_HERE).joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader(_HERE, ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters |= {"in_bytes": in_bytes, "in_seconds": in_seconds}
    return found

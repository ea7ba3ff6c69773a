"""One self-contained HTML page for a run, a comparison or a study. Opens offline: nothing is fetched."""

from laconic.report.page.view import render_page

__all__ = ["render_page"]

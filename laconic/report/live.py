"""A page that shows a run while it goes on: on this machine only, and only to be read.

It is served on 127.0.0.1 under an address that nobody can guess, answers GET and nothing else, and refuses requests
that name another host, as a web page of a stranger would by a name that leads here.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from time import monotonic, time
from typing import Any

from markupsafe import Markup

from laconic.deploy.watch import RunState
from laconic.errors import LaconicError
from laconic.report.page.charts import Series, draw_lines
from laconic.report.page.view import fill, read_text
from laconic.report.words import figure, in_bytes, in_seconds, metric_name

_LOOPBACK = "127.0.0.1"
_LINGERS = 3.0
_PHASES = {"align": "matching rows", "fit": "fitting", "look": "looking part way", "final": "scoring held-out rows"}
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@contextmanager
def serve_live(state: Callable[[], RunState]) -> Iterator[str]:
    """Serve the page of a run within this block; gives its address.

    A browser that is looking when the block ends gets the last state first, within a few seconds.

    Args:
        state: how the run stands, asked for at every request.
    """
    server = _Server(state)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    try:
        yield server.address
        server.linger()
    except LaconicError:
        server.linger()
        raise
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, state: Callable[[], RunState]) -> None:
        super().__init__((_LOOPBACK, 0), _Handler)
        self.state, self.secret = state, secrets.token_urlsafe(16)
        self.seen, self.saw_end = 0.0, Event()
        self.hosts = {f"{name}:{self.server_port}" for name in (_LOOPBACK, "localhost")}

    @property
    def address(self) -> str:
        return f"http://{_LOOPBACK}:{self.server_port}/{self.secret}/"

    def linger(self) -> None:
        """Let a browser that has asked in the last seconds see how it ended."""
        if self.seen and monotonic() - self.seen < _LINGERS:
            self.saw_end.wait(_LINGERS)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "laconic", ""
    timeout = 10

    def do_GET(self) -> None:
        """The page, or its inner part as it is now."""
        parts = self.path.split("?")[0].split("/")
        known = len(parts) == 3 and secrets.compare_digest(parts[1].encode(), self.server.secret.encode())
        if self.headers.get("Host") not in self.server.hosts or not known or parts[2] not in ("", "now"):
            self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.\n", "text/plain")
            return
        now = self.server.state()
        self.server.seen = monotonic()
        self._answer(HTTPStatus.OK, fill("now.html" if parts[2] else "live.html", _view(now)), "text/html")
        if _ended(now):
            self.server.saw_end.set()

    def _answer(self, status: HTTPStatus, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (_HEADERS | {"Content-Type": f"{kind}; charset=utf-8"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing: the terminal belongs to the command."""


def _ended(now: RunState) -> bool:
    return now.state not in ("running", "waiting for parties")


def _view(now: RunState) -> dict[str, Any]:
    last = now.scores[-1] if now.scores else None
    phase = _PHASES.get(now.phase, "getting ready")
    passed = max(0.0, (now.changed if _ended(now) else time()) - (now.began or time()))
    return {
        "title": now.title,
        "state": phase if now.state == "running" else now.state,
        "ended": _ended(now),
        "seconds": in_seconds(passed),
        "score": "" if last is None else figure(last.value),
        "metric": "" if last is None else metric_name(last.metric),
        "is_final": last is not None and last.final,
        "bytes": in_bytes(sum(now.bytes.values())),
        "rounds": f"{sum(now.rounds.values()):,}",
        "progress": [(what, done, of) for what, (done, of) in now.progress.items()],
        "phases": [(name, _PHASES[name], now.rounds.get(name, 0), now.bytes.get(name, 0)) for name in _PHASES],
        "parties": now.parties,
        "scores": now.scores,
        "chart": _chart(now),
        "live_script": read_text("live.js"),
    }


def _chart(now: RunState) -> Markup:
    """Scores part way by bytes; nothing before there are two."""
    if len(now.scores) < 2:
        return Markup("")
    metric = metric_name(now.scores[-1].metric)
    points = [(one.bytes / 1000, one.value) for one in now.scores]
    words = "; ".join(f"{figure(one.value)} after {in_bytes(one.bytes)}" for one in now.scores)
    # Drawn by our own functions, which escape every name.
    return Markup(draw_lines([Series("", points)], "kB of fitting", metric, f"{metric}: {words}"))  # noqa: S704

"""A page on loopback that shows how a run or a sweep gets on. It answers this machine only, and only reads."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from simfl.errors import SimflError
from simfl.http_server import DEFAULT_LIMITS, BoundedHandler, BoundedServer, Limits, serving_in_background
from simfl.report.live import Watched

__all__ = ["ADDRESS", "serving"]

ADDRESS = "127.0.0.1"
TEMPLATES = Path(__file__).parent / "templates"

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class _Server(BoundedServer):
    def __init__(self, port: int, watched: Watched, limits: Limits) -> None:
        self.watched, self.lock = watched, Lock()
        super().__init__(ADDRESS, port, _Handler, limits=limits)


class _Handler(BoundedHandler):
    server: _Server

    def serve(self) -> None:
        self.peer.expect(None)
        try:
            asked = urlsplit(self.path)
            chosen = parse_qs(asked.query, max_num_fields=100).get("run", [])
        except ValueError:
            self._answer(400, "text/plain", "this address cannot be read\n")
            return
        if not self.is_addressed():
            self._answer(403, "text/plain", "only for this machine\n")
        elif self.command not in ("GET", "HEAD"):
            self._answer(405, "text/plain", "only GET\n")
        elif asked.path == "/":
            self._answer(200, "text/html", _page())
        elif asked.path == "/state.json":
            self._answer(200, "application/json", json.dumps(self._state(chosen)))
        else:
            self._answer(404, "text/plain", "not here\n")

    def _state(self, chosen: list[str]) -> dict[str, Any]:
        with self.server.lock:
            try:
                return self.server.watched.look(chosen)
            except SimflError as error:
                return {"error": str(error)}

    def _answer(self, status: int, kind: str, text: str) -> None:
        self.answer(status, f"{kind}; charset=utf-8", text.encode(), HEADERS)

    def answer_error(self, status: int, message: str) -> None:
        self._answer(status, "text/plain", f"{message}\n")


def _page() -> str:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    parts = {name: (TEMPLATES / file).read_text(encoding="utf-8") for name, file in
             (("style", "report.css"), ("more", "watch.css"), ("script", "watch.js"))}  # fmt: skip
    return environment.get_template("watch.html").render(**parts)


@contextmanager
def serving(watched: Watched, port: int = 0, limits: Limits = DEFAULT_LIMITS) -> Iterator[_Server]:
    """A server that answers from another thread.

    Args:
        watched: what it shows.
        port: 0 = a free one; ``server.server_port`` is the one taken.
        limits: what peers can take from the server.

    Raises:
        SimflError: the port is taken.
    """
    try:
        server = _Server(port, watched, limits)
    except OSError as error:
        raise SimflError(f"port {port}: {error.strerror or error}; --port 0 takes a free one") from None
    with serving_in_background(server):
        yield server

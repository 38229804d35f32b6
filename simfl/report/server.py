"""A page on loopback that shows how a run or a sweep gets on. It answers this machine only, and only reads."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from simfl.errors import SimflError
from simfl.report.live import Watched

__all__ = ["ADDRESS", "serving"]

ADDRESS = "127.0.0.1"
SILENT_S = 10
"""A client that says nothing for so many seconds is left."""
TEMPLATES = Path(__file__).parent / "templates"

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, watched: Watched) -> None:
        self.watched, self.lock = watched, Lock()
        super().__init__((ADDRESS, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up or falls silent is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SILENT_S

    def do_GET(self) -> None:
        # A page elsewhere may point its own host name at this machine; it then still sends that name.
        name = self.headers.get("Host", "").rsplit(":", 1)[0]
        asked = urlsplit(self.path)
        if name not in (ADDRESS, "localhost"):
            self._answer(403, "text/plain", "only for this machine\n")
        elif asked.path == "/":
            self._answer(200, "text/html", _page())
        elif asked.path == "/state.json":
            self._answer(200, "application/json", json.dumps(self._state(parse_qs(asked.query).get("run", []))))
        else:
            self._answer(404, "text/plain", "not here\n")

    def _state(self, chosen: list[str]) -> dict[str, Any]:
        with self.server.lock:
            try:
                return self.server.watched.look(chosen)
            except SimflError as error:
                return {"error": str(error)}

    def _answer(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(data)),
            **HEADERS,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def _page() -> str:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    parts = {name: (TEMPLATES / file).read_text(encoding="utf-8") for name, file in
             (("style", "report.css"), ("more", "watch.css"), ("script", "watch.js"))}  # fmt: skip
    return environment.get_template("watch.html").render(**parts)


@contextmanager
def serving(watched: Watched, port: int = 0) -> Iterator[_Server]:
    """A server that answers from another thread.

    Args:
        watched: what it shows.
        port: 0 = a free one; ``server.server_port`` is the one taken.

    Raises:
        SimflError: the port is taken.
    """
    from threading import Thread

    try:
        server = _Server(port, watched)
    except OSError as error:
        raise SimflError(f"port {port}: {error.strerror or error}; --port 0 takes a free one") from None
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

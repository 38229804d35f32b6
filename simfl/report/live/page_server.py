"""A page on loopback that shows how a run or a sweep gets on. It answers this machine only, and only reads."""

import json
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from simfl.core.errors import SimflError
from simfl.core.http.bounded_server import DEFAULT_LIMITS, BoundedServer, ConnectionLimits, listening
from simfl.core.http.handler import BoundedHandler, Query, RequestError
from simfl.core.json_data import JsonObject
from simfl.report.live.terminal import CAPTION
from simfl.report.live.watched_folder import WatchedFolder

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


class _Handler(BoundedHandler):
    """Answers for a folder that is watched."""

    query_fields = 100
    wrong_host = "only for this machine"

    def __init__(self, folder: WatchedFolder, lock: Lock, *connection: Any) -> None:
        self.folder, self.lock = folder, lock
        super().__init__(*connection)

    def reply(self, path: str, query: Query) -> None:
        self.peer.expect(None)
        if self.command not in ("GET", "HEAD"):
            raise RequestError(405, "only GET")
        if path == "/":
            self._answer(200, "text/html", _page())
        elif path == "/state.json":
            self._answer(200, "application/json", json.dumps(self._state(query.get("run", []))))
        else:
            raise RequestError(404, "not here")

    def _state(self, chosen: list[str]) -> JsonObject:
        with self.lock:
            try:
                return self.folder.look(chosen)
            except SimflError as error:
                return {"error": str(error)}

    def _answer(self, status: int, kind: str, text: str) -> None:
        self.answer(status, f"{kind}; charset=utf-8", text.encode(), HEADERS)

    def answer_error(self, status: int, message: str) -> None:
        self._answer(status, "text/plain", f"{message}\n")


def _page() -> str:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    files = {"style": "../../templates/report.css", "more": "watch.css", "script": "watch.js"}
    parts = {name: (TEMPLATES / file).read_text(encoding="utf-8") for name, file in files.items()}
    return environment.get_template("watch.html").render(**parts, exposed=f"{CAPTION} – where they do not.")


def serve_page(
    folder: WatchedFolder, port: int = 0, limits: ConnectionLimits = DEFAULT_LIMITS
) -> AbstractContextManager[BoundedServer]:
    """A server that answers from another thread, at a free port where that is 0: ``server.server_port``.

    Raises:
        SimflError: the port is taken.
    """
    return listening(ADDRESS, port, partial(_Handler, folder, Lock()), limits=limits)

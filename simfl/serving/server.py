"""HTTP for clients outside: one request a connection, small answers, and whatever is wrong with a request is 4xx."""

import json
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from simfl.addresses import is_loopback
from simfl.errors import SimflError
from simfl.serving.desk import Desk, Refused

__all__ = ["LOOPBACK", "listening"]

LOOPBACK = "127.0.0.1"

SILENT_S = 10
"""A peer that says nothing for so many seconds is left."""

MOST_JSON = 1 << 16
"""Bytes of a JSON document."""

MOST_LEFT = 1 << 20
"""Bytes of a refused request that are read away, so that its sender gets to see the answer."""

MOST_AT_ONCE = 512
"""Connections; more are closed at once."""

PLACES = {
    "GET": (r"/project", r"/jobs", r"/models/(0|[1-9][0-9]{0,18})"),
    "POST": (r"/clients", r"/scores"),
    "PUT": (r"/updates/(0|[1-9][0-9]{0,18})",),
}
"""What there is, by method."""

CLIENT_ERROR = {501: 405, 505: 400}
"""What Python's server calls its own fault and is the request's."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, desk: Desk) -> None:
        self.desk, self.host = desk, host
        self.places = BoundedSemaphore(MOST_AT_ONCE)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Without asking anybody for this machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.host, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that hangs up or falls silent is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def called(self, name: str) -> bool:
        """Whether a Host header names this server: a page elsewhere may point its own name at this machine."""
        host = name.rpartition(":")[0] if re.search(r":[0-9]*$", name) else name
        return host.strip("[]").lower() in (self.host, *(("localhost",) if is_loopback(self.host) else ()))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SILENT_S
    left = 0  # bytes of the request that nobody has read

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_GET

    def _serve(self) -> None:
        try:
            self.left = self._length()
            if not self.server.called(self.headers.get("Host", "")):
                raise Refused(403, "this server goes by another name")
            self._answer(*self._reply())
        except Refused as refused:
            self._answer(refused.status, refused.message)

    def _reply(self) -> tuple[int, Any]:
        try:
            asked = urlsplit(self.path)
            query = parse_qs(asked.query, max_num_fields=10)
        except ValueError:
            raise Refused(400, "this address cannot be read") from None
        found = {
            method: match
            for method, patterns in PLACES.items()
            for pattern in patterns
            if (match := re.fullmatch(pattern, asked.path, re.ASCII))
        }
        if not found:
            raise Refused(404, "there is nothing here")
        if self.command not in found:
            raise Refused(405, f"only {', '.join(found)}")
        match = found[self.command]
        number = int(match[1]) if match.groups() else 0
        desk, place = self.server.desk, asked.path.split("/")[1]
        if place in ("project", "clients"):
            if not desk.may_join(self._token()):
                raise Refused(401, "the project's token is needed")
            return (200, desk.about) if place == "project" else self._join()
        client = desk.whose(self._token())
        if place == "jobs":
            return 200, desk.jobs(client, _number(query, "wait", 0.0))
        if place == "models":
            return 200, desk.model(client, number)
        if place == "scores":
            document = self._json()
            desk.tell(client, document)
            return 200, {"scores": len(document)}
        try:
            data = self._body(desk.room(client, number))
            return (201 if desk.update(client, number, data, _number(query, "loss")) else 200), {"job": number}
        except Refused as refused:
            desk.refused(client, refused.message)
            raise

    def _join(self) -> tuple[int, Any]:
        document = self._json()
        name, slot = document.pop("name", ""), document.pop("slot", None)
        if document or type(name) is not str or len(name) > 100 or not name.isprintable():
            raise Refused(422, "name (100 printable letters) and slot are all there is to say")
        if slot is not None and type(slot) is not int:
            raise Refused(422, "slot is the number of a client")
        client, token = self.server.desk.join(name, slot)
        return 201, {"slot": client, "token": token}

    # -- reading -------------------------------------------------------------------------------------

    def _token(self) -> str:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""

    def _length(self) -> int:
        """
        Raises:
            Refused: how long the request is cannot be told.
        """
        said = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers or len(said) > 1:
            raise Refused(400, "one Content-Length and no Transfer-Encoding")
        if not said:
            return 0
        if not re.fullmatch(r"[0-9]{1,18}", said[0].strip(), re.ASCII):
            raise Refused(400, "Content-Length is no number")
        return int(said[0])

    def _body(self, room: int) -> bytes:
        if self.left > room:
            raise Refused(413, f"at most {room} bytes")
        if "Content-Length" not in self.headers:
            raise Refused(411, "Content-Length is missing")
        data = self.rfile.read(self.left)
        if len(data) < self.left:
            self.left = 0
            raise Refused(400, "the request ends too early")
        self.left = 0
        return data

    def _json(self) -> dict[str, Any]:
        try:
            found = json.loads(self._body(MOST_JSON) or b"{}")
        except (ValueError, RecursionError):
            raise Refused(400, "not a JSON document") from None
        if not isinstance(found, dict):
            raise Refused(422, "a JSON object is needed")
        return found

    # -- answering -----------------------------------------------------------------------------------

    def _answer(self, status: int, content: Any) -> None:
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        if status >= 400:
            content = {"error": content}
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **HEADERS}.items():
            self.send_header(name, value)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What Python's own reading of a request complains about."""
        self.close_connection = True
        self.left = MOST_LEFT
        self._answer(CLIENT_ERROR.get(int(code), int(code)), message or "this request cannot be read")

    def parse_request(self) -> bool:
        read = super().parse_request()
        if not read and not self.requestline.split():  # to which Python's server says nothing
            self.send_error(400)
        return read

    def send_response_only(self, code: int, message: str | None = None) -> None:
        """Answers have a status line, also where the request was none of HTTP/1."""
        self.request_version = "HTTP/1.0"
        super().send_response_only(code, message)

    def version_string(self) -> str:
        return "simfl"

    def finish(self) -> None:
        """Reads what is left of a refused request, or its sender would see a reset instead of the answer."""
        with suppress(OSError):
            self.wfile.flush()
            if self.left:
                self.connection.shutdown(socket.SHUT_WR)
                self.connection.settimeout(1)
                left = min(self.left, MOST_LEFT)
                while left > 0 and (read := self.connection.recv(min(left, 1 << 16))):
                    left -= len(read)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def _number(query: dict[str, list[str]], name: str, default: float | None = None) -> float:
    """
    Raises:
        Refused: there is none.
    """
    values = query.get(name, [] if default is None else [str(default)])
    try:
        (text,) = values
        found = float(text)
    except ValueError:
        raise Refused(422, f"{name}=NUMBER is needed in the address") from None
    if found != found or (name == "wait" and found < 0):
        raise Refused(422, f"{name} is no number that makes sense")
    return found


def check_host(host: str, insecure: bool) -> None:
    """Refuses to send models and tokens over a network in clear.

    Raises:
        SimflError: the address is not this machine's own, and nobody has said that the network is trusted.
    """
    if not (insecure or is_loopback(host)):
        raise SimflError(
            f"--host {host}: models, updates and tokens would cross the network in clear; use {LOOPBACK} behind an SSH "
            "tunnel or a TLS proxy, or --insecure if the network is trusted"
        )


@contextmanager
def listening(desk: Desk, host: str = LOOPBACK, port: int = 0, insecure: bool = False) -> Iterator[str]:
    """Answers from other threads.

    Args:
        desk: what there is to say.
        host: address to listen at.
        port: 0 = a free one.
        insecure: it may be another than this machine's own.

    Yields:
        The address, ``http://HOST:PORT``.

    Raises:
        SimflError: the address is refused or taken.
    """
    check_host(host, insecure)
    try:
        server = _Server(host, port, desk)
    except OSError as error:
        raise SimflError(f"{host} port {port}: {error.strerror or error}; --port 0 takes a free one") from None
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

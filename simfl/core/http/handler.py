"""Requests of ``serve`` and ``watch``: read within the server's limits, answered or refused."""

import re
import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from typing import Any
from urllib.parse import parse_qs, urlsplit

from simfl.core.http.bounded_server import BoundedServer, is_server_name

DRAIN_S = 2.0
"""How long the rest of a refused request is read, so that its sender gets to see the answer."""

DRAIN_BYTES = 1 << 20
"""How much of it is read."""

CLIENT_ERROR = {501: 405, 505: 400}
"""Statuses by which Python's server blames itself for a mistake of the client."""

Query = dict[str, list[str]]
"""Values of each field of a request's query."""


class RequestError(Exception):
    """A request that is not granted.

    Args:
        status: of HTTP, 4xx.
        message: why, in a line.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class BoundedHandler(BaseHTTPRequestHandler, ABC):
    """Reads one request of a connection within the server's limits. Subclasses answer it in ``reply``."""

    server: BoundedServer
    command = ""
    requestline = ""
    unread_bytes = 0
    """Of the request's body."""

    query_fields = 10
    """Fields that the query of a request may have."""

    wrong_host = "the Host header does not name this server"
    """What a request to another host is answered."""

    @abstractmethod
    def reply(self, path: str, query: Query) -> None:
        """Answers the request whose head has been read, by one call of ``answer``.

        Raises:
            RequestError: it is not granted.
        """

    def do_GET(self) -> None:
        try:
            self.unread_bytes = self._content_length()
            name, arrived_at = self.headers.get("Host", ""), self.connection.getsockname()[0]
            if not is_server_name(name, self.server.host, arrived_at, self.server.names):
                raise RequestError(403, self.wrong_host)
            try:
                target = urlsplit(self.path)
                query = parse_qs(target.query, max_num_fields=self.query_fields)
            except ValueError:
                raise RequestError(400, "this address cannot be read") from None
            self.reply(target.path, query)
        except RequestError as error:
            self.answer_error(error.status, error.message)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_GET

    def setup(self) -> None:
        super().setup()
        self.peer = self.server.connection(self.request)
        self.rfile.close()
        self.rfile = _HeadReader(self.connection.makefile("rb", buffering=0), self.server.limits.head_bytes)

    def transfer_s(self, size_bytes: int) -> float:
        """Seconds that a peer has for sending or receiving so much."""
        return self.server.limits.request_s + size_bytes / self.server.limits.bytes_per_s

    def _content_length(self) -> int:
        """
        Raises:
            RequestError: the length of the body is not given, or in two ways.
        """
        values = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers or len(values) > 1:
            raise RequestError(400, "one Content-Length and no Transfer-Encoding")
        if not values:
            return 0
        length = values[0].strip(" \t")  # what HTTP calls white space
        if not re.fullmatch(r"[0-9]{1,18}", length, re.ASCII):
            raise RequestError(400, "Content-Length is no number")
        return int(length)

    def read_body(self, max_bytes: int) -> bytes:
        """The body of the request.

        Raises:
            RequestError: it is longer, of unknown length, or ends too early.
        """
        if self.unread_bytes > max_bytes:
            raise RequestError(413, f"at most {max_bytes} bytes")
        if "Content-Length" not in self.headers:
            raise RequestError(411, "Content-Length is missing")
        self.peer.expect(self.transfer_s(self.unread_bytes))
        data = self.rfile.read(self.unread_bytes)
        self.peer.expect(None)
        if len(data) < self.unread_bytes:
            self.unread_bytes = 0
            raise RequestError(400, "the request ends too early")
        self.unread_bytes = 0
        return data

    def answer(self, status: int, kind: str, data: bytes, headers: dict[str, str]) -> None:
        """
        Args:
            status: of HTTP.
            kind: media type.
            data: body.
            headers: further header fields.
        """
        self.peer.expect(self.transfer_s(len(data)))
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @abstractmethod
    def answer_error(self, status: int, message: str) -> None:
        """Answers a request that cannot be read or is not granted, in the subclass's form.

        Args:
            status: of HTTP, 400 to 599.
            message: a line that says why.
        """

    # -- what Python's reading of a request complains about ------------------------------------------

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except LineTooLong:  # in the request line
            self.send_error(431)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.close_connection = True
        self.unread_bytes = DRAIN_BYTES
        if code == 431:
            message = f"request line and headers have at most {self.server.limits.head_bytes} bytes and 100 lines"
        self.answer_error(CLIENT_ERROR.get(int(code), int(code)), message or "this request cannot be read")

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
        self.peer.admit(False)
        with suppress(OSError):
            self.wfile.flush()
            if self.unread_bytes:
                self.peer.expect(DRAIN_S)
                self.connection.shutdown(socket.SHUT_WR)
                left = min(self.unread_bytes, DRAIN_BYTES)
                while left > 0 and (read := self.connection.recv(min(left, 1 << 16))):
                    left -= len(read)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class _HeadReader(BufferedReader):
    """A reader whose lines, those of the request's head, have a bounded length in all."""

    def __init__(self, raw: Any, head_bytes: int) -> None:
        super().__init__(raw)
        self._left = head_bytes

    def readline(self, size: int | None = -1, /) -> bytes:
        """
        Raises:
            LineTooLong: the head is longer.
        """
        line = super().readline(self._left + 1)
        if len(line) > self._left:
            raise LineTooLong("request head")
        self._left -= len(line)
        return line

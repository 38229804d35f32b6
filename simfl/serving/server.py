"""HTTP for clients outside: one request a connection, small answers, and whatever is wrong with a request is 4xx."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from simfl.addresses import check_name, is_loopback
from simfl.errors import SimflError
from simfl.http_server import DEFAULT_LIMITS, BoundedHandler, BoundedServer, Limits, serving_in_background
from simfl.serving.desk import Desk, Refused

__all__ = ["LOOPBACK", "listening"]

LOOPBACK = "127.0.0.1"

MOST_JSON = 1 << 16
"""Bytes of a JSON document."""

PLACES = {
    "GET": (r"/project", r"/jobs", r"/models/(0|[1-9][0-9]{0,18})"),
    "POST": (r"/clients", r"/scores"),
    "PUT": (r"/updates/(0|[1-9][0-9]{0,18})",),
}
"""What there is, by method."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class _Server(BoundedServer):
    def __init__(self, host: str, port: int, desk: Desk, names: Sequence[str], limits: Limits) -> None:
        self.desk = desk
        super().__init__(host, port, _Handler, names, limits)


class _Handler(BoundedHandler):
    server: _Server

    def serve(self) -> None:
        try:
            self.unread_bytes = self._length()
            if not self.is_addressed():
                raise Refused(403, "the Host header does not name this server; simfl serve --name NAME adds a name")
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
            self._admit()
            return (200, desk.about) if place == "project" else self._join()
        client = desk.whose(self._token())
        self._admit()
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

    def _admit(self) -> None:
        """The peer has a valid token: it is not evicted, and a job is waited for without a time limit of the peer's."""
        self.peer.admit()
        self.peer.expect(None)

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
        if self.unread_bytes > room:
            raise Refused(413, f"at most {room} bytes")
        if "Content-Length" not in self.headers:
            raise Refused(411, "Content-Length is missing")
        self.peer.expect(self.transfer_s(self.unread_bytes))
        data = self.rfile.read(self.unread_bytes)
        self.peer.expect(None)
        if len(data) < self.unread_bytes:
            self.unread_bytes = 0
            raise Refused(400, "the request ends too early")
        self.unread_bytes = 0
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
        self.answer(status, kind, data, HEADERS | ({"WWW-Authenticate": "Bearer"} if status == 401 else {}))

    def answer_error(self, status: int, message: str) -> None:
        self._answer(status, message)


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
def listening(
    desk: Desk,
    host: str = LOOPBACK,
    port: int = 0,
    insecure: bool = False,
    names: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[str]:
    """Answers from other threads.

    Args:
        desk: what there is to say.
        host: address to listen at.
        port: 0 = a free one.
        insecure: it may be another than this machine's own.
        names: under which clients may address the server besides its own names and addresses.
        limits: what peers can take from the server.

    Yields:
        The address, ``http://HOST:PORT``, with the first of the names if there are any.

    Raises:
        SimflError: the address is refused or taken, or a name is none.
    """
    check_host(host, insecure)
    for name in names:
        check_name(name)
    try:
        server = _Server(host, port, desk, names, limits)
    except OSError as error:
        raise SimflError(f"{host} port {port}: {error.strerror or error}; --port 0 takes a free one") from None
    shown = (*names, host)[0]
    with serving_in_background(server):
        yield f"http://{f'[{shown}]' if ':' in shown else shown}:{server.server_port}"

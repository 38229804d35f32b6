"""HTTP server of ``serve`` and ``watch``: a thread a connection, with bounds on what any peer can take from it.

A connection is *open to eviction* while the server waits for its peer and the peer has shown no valid token. Where a
connection would exceed a limit, the one among these that has waited longest is closed. An honest request is read within
milliseconds, so that it is never the oldest, however many others are held open.
"""

import ipaddress
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader
from threading import BoundedSemaphore, Condition, Event, Lock, Thread
from typing import Any

from simfl.addresses import is_server_name

__all__ = ["DEFAULT_LIMITS", "BoundedHandler", "BoundedServer", "Limits", "serving_in_background"]

TICK_S = 0.25
"""Resolution of the time limits."""

EVICTION_S = 1.0
"""How long a new connection waits for the place of one that was evicted."""

CLOSING_S = 1.0
"""How long the end of the server waits for answers that are being sent."""

DRAIN_S = 2.0
"""How long the rest of a refused request is read, so that its sender gets to see the answer."""

DRAIN_BYTES = 1 << 20
"""How much of it is read."""

CLIENT_ERROR = {501: 405, 505: 400}
"""Statuses by which Python's server blames itself for a mistake of the client."""


@dataclass(frozen=True)
class Limits:
    """What peers can take from a server.

    Attributes:
        connections: at once, over all addresses.
        connections_per_address: at once, of those that are open to eviction; an IPv6 network of 64 bits counts as one
            address.
        head_bytes: request line and header fields together (Python allows 100 fields).
        request_s: seconds until a request has been read, and until its answer has been sent, in all rather than
            between two bytes.
        bytes_per_s: slowest transfer: bodies and answers have one second more for so many bytes.
    """

    connections: int = 512
    connections_per_address: int = 256
    head_bytes: int = 16_384
    request_s: float = 10.0
    bytes_per_s: float = 10_000.0


DEFAULT_LIMITS = Limits()


class _Connection:
    """A connection and what its peer may still do. Any thread may call its methods."""

    def __init__(self, peer: socket.socket, origin: str, seconds: float) -> None:
        self.origin = origin
        self._socket = peer
        self._lock = Lock()
        self._left_s: float | None = None
        self._admitted = self._dropped = False
        self.expect(seconds)

    def expect(self, seconds: float | None) -> None:
        """Sets what the peer has left for its part; None = the server is at work, the peer has all the time."""
        with self._lock:
            self._left_s = seconds
            if not self._dropped:
                with suppress(OSError):
                    self._socket.settimeout(seconds)

    def admit(self, admitted: bool = True) -> None:
        """Protects the connection from eviction, or ends that."""
        with self._lock:
            self._admitted = admitted

    @property
    def evictable(self) -> bool:
        with self._lock:
            return self._left_s is not None and not self._admitted and not self._dropped

    def pass_time(self, seconds: float) -> None:
        """Counts the time down; drops a peer that has none left."""
        with self._lock:
            if self._left_s is None:
                return
            self._left_s -= seconds
            late = self._left_s <= 0
        if late:
            self.drop()

    def drop(self) -> None:
        """Ends all reading and writing; the connection's thread then ends it."""
        with self._lock:
            self._dropped = True
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class BoundedServer(ThreadingHTTPServer):
    """
    Args:
        host, port: where to listen; port 0 = a free one.
        handler: answers a request.
        names: under which the server may be addressed besides its own names and addresses.
        limits: what peers can take.

    Raises:
        OSError: the address is no address of this machine, or taken.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(
        self,
        host: str,
        port: int,
        handler: "type[BoundedHandler]",
        names: Sequence[str] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.host, self.names, self.limits = host, tuple(names), limits
        self._connections: dict[Any, _Connection] = {}  # in the order in which they came
        self._changed = Condition()
        self._places = BoundedSemaphore(limits.connections)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Without asking a name server for this machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.host, self.server_address[1]

    def connection(self, request: Any) -> _Connection:
        """What is known of the connection of a socket."""
        with self._changed:
            return self._connections[request]

    def is_called(self, name: str, arrived_at: str) -> bool:
        """Whether a Host header names this server: a page elsewhere may point a name of its own at this machine."""
        return is_server_name(name, self.host, arrived_at, self.names)

    # -- accepting -----------------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        origin = _origin(client_address[0])
        victim = self._victim(origin)
        if victim is not None:
            victim.drop()
        if not self._places.acquire(timeout=EVICTION_S if victim else 0):
            self.shutdown_request(request)
            return
        with self._changed:
            self._connections[request] = _Connection(request, origin, self.limits.request_s)
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread can be started
            self._forget(request)
            raise

    def _victim(self, origin: str) -> _Connection | None:
        """Whom a new connection replaces: of its own address if that has its share, else of the one with the most."""
        with self._changed:
            waiting = [each for each in self._connections.values() if each.evictable]
            full = len(self._connections) >= self.limits.connections
        count = Counter(each.origin for each in waiting)
        if count[origin] < self.limits.connections_per_address:
            if not full or not count:
                return None
            origin = max(count, key=lambda each: count[each])
        return next(each for each in waiting if each.origin == origin)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: Any) -> None:
        with self._changed:
            del self._connections[request]
            self._changed.notify_all()
        self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that hangs up, falls silent or was dropped is no error of the server."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    # -- time ----------------------------------------------------------------------------------------

    def enforce_time_limits(self, closing: Event) -> None:
        """Drops connections whose time is up, until the server closes."""
        while not closing.wait(TICK_S):
            for each in self._open():
                each.pass_time(TICK_S)

    def drop_all(self) -> None:
        """Drops every peer that the server waits for, and the others as soon as they have their answers."""
        for each in self._open():
            if each.evictable:
                each.drop()
        with self._changed:
            self._changed.wait_for(lambda: not self._connections, CLOSING_S)
        for each in self._open():
            each.drop()

    def _open(self) -> list[_Connection]:
        with self._changed:
            return list(self._connections.values())


class BoundedHandler(BaseHTTPRequestHandler):
    """Reads one request of a connection within the server's limits. Subclasses answer it in ``serve``."""

    server: BoundedServer
    command = ""
    requestline = ""
    unread_bytes = 0
    """Of the request's body."""

    def serve(self) -> None:
        """Answers the request whose head has been read, by one call of ``answer``."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.serve()

    do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_GET

    def setup(self) -> None:
        super().setup()
        self.peer = self.server.connection(self.request)
        self.rfile.close()
        self.rfile = _HeadReader(self.connection.makefile("rb", buffering=0), self.server.limits.head_bytes)

    def is_addressed(self) -> bool:
        """Whether the Host header names this server."""
        return self.server.is_called(self.headers.get("Host", ""), self.connection.getsockname()[0])

    def transfer_s(self, size_bytes: int) -> float:
        """Seconds that a peer has for sending or receiving so much."""
        return self.server.limits.request_s + size_bytes / self.server.limits.bytes_per_s

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

    def answer_error(self, status: int, message: str) -> None:
        """Answers a request that cannot be read, in the subclass's form."""
        raise NotImplementedError

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

    def log_message(self, format: str, *args: Any) -> None:
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


def _origin(address: str) -> str:
    """What counts as one address: an IPv4 address, or an IPv6 network of 64 bits, as one customer is given."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)


@contextmanager
def _signals_left_to_this_thread() -> Iterator[None]:
    """Threads started meanwhile, and those that they start, take no signals.

    Python handles signals in the main thread, which does not wake up from waiting if another thread took the signal.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def serving_in_background(server: BoundedServer) -> Iterator[None]:
    """Answers from other threads; at the end, peers that the server waits for are dropped."""
    closing = Event()
    threads = [
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True),
        Thread(target=server.enforce_time_limits, args=(closing,), daemon=True),
    ]
    with _signals_left_to_this_thread():
        for thread in threads:
            thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        server.drop_all()
        closing.set()
        for thread in threads:
            thread.join()

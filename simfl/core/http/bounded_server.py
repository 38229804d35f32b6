"""HTTP server of ``serve`` and ``watch``: a thread a connection, with bounds on what any peer can take from it.

A connection is *open to eviction* while the server waits for its peer and the peer has shown no valid token. Where a
connection would exceed a limit, the one among these that has waited longest is closed. An honest request is read within
milliseconds, so that it is never the oldest, however many others are held open.
"""

import ipaddress
import re
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Condition, Event, Lock, Thread
from typing import Any

from simfl.core.errors import SimflError

TICK_S = 0.25
"""Resolution of the time limits."""

EVICTION_S = 1.0
"""How long a new connection waits for the place of one that was evicted."""

CLOSING_S = 1.0
"""How long the end of the server waits for answers that are being sent."""


@dataclass(frozen=True)
class ConnectionLimits:
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


DEFAULT_LIMITS = ConnectionLimits()


class Connection:
    """A connection and the time that its peer has left. Any thread may call its methods."""

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


def origin_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or an IPv6 network of 64 bits, as one customer is given."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


class BoundedServer(ThreadingHTTPServer):
    """
    Args:
        host, port: where to listen; port 0 = a free one.
        handler: makes what answers a request of (socket, address of the peer, server).
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
        handler: Callable[..., BaseHTTPRequestHandler],
        names: Sequence[str] = (),
        limits: ConnectionLimits = DEFAULT_LIMITS,
    ) -> None:
        self.host, self.names, self.limits = host, tuple(names), limits
        self._connections: dict[Any, Connection] = {}  # in the order in which they came
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

    def connection(self, request: object) -> Connection:
        """What is known of the connection of a socket."""
        with self._changed:
            return self._connections[request]

    # -- accepting -----------------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        origin = origin_of(client_address[0])
        victim = self._victim(origin)
        if victim is not None:
            victim.drop()
        if not self._places.acquire(timeout=EVICTION_S if victim else 0):
            self.shutdown_request(request)
            return
        with self._changed:
            self._connections[request] = Connection(request, origin, self.limits.request_s)
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread can be started
            self._forget(request)
            raise

    def _victim(self, origin: str) -> Connection | None:
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

    def _forget(self, request: object) -> None:
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

    def _open(self) -> list[Connection]:
        with self._changed:
            return list(self._connections.values())


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
def listening(
    host: str,
    port: int,
    handler: Callable[..., BaseHTTPRequestHandler],
    names: Sequence[str] = (),
    limits: ConnectionLimits = DEFAULT_LIMITS,
) -> Iterator[BoundedServer]:
    """A server that answers from other threads; at the end, peers that it waits for are dropped.

    Arguments are those of :class:`BoundedServer`.

    Raises:
        SimflError: the address is no address of this machine, or taken.
    """
    try:
        server = BoundedServer(host, port, handler, names, limits)
    except OSError as error:
        raise SimflError(f"{host} port {port}: {error.strerror or error}; --port 0 takes a free one") from None
    closing = Event()
    threads = [
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True),
        Thread(target=server.enforce_time_limits, args=(closing,), daemon=True),
    ]
    with _signals_left_to_this_thread():
        for thread in threads:
            thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        server.drop_all()
        closing.set()
        for thread in threads:
            thread.join()


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_name(name: str) -> None:
    """Refuses what no Host header can be equal to.

    Raises:
        SimflError: it is neither a host's name nor an address.
    """
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?", name):
        try:
            ipaddress.ip_address(name)
        except ValueError:
            raise SimflError(
                f"--name {name!r}: a host's name or address is needed, without http:// and port, e.g. fl.example.org"
            ) from None


def is_server_name(header: str, host: str, arrived_at: str, names: Collection[str] = ()) -> bool:
    """Whether the Host header of a request names the server that it has reached.

    Names that anybody could point at this machine (DNS rebinding) are refused. Right are the host that the server was
    told to listen at, the address at which the connection has arrived, ``localhost`` on a loopback address, this
    machine's own name where the server listens elsewhere too, and the names given. No name server is asked.

    Args:
        header: value of the Host header, with or without a port.
        host: where the server was told to listen.
        arrived_at: this machine's end of the connection.
        names: further right ones.
    """
    name = _normal(header.rpartition(":")[0] if re.search(r":[0-9]*$", header) else header)
    arrived = _normal(arrived_at)
    right = {_normal(each) for each in (host, arrived_at, *names)}
    if is_loopback(arrived):
        right.add("localhost")
    if not is_loopback(host):
        machine = socket.gethostname().lower()
        right |= {machine, machine.partition(".")[0]}
    return name != "" and name in right


def _normal(host: str) -> str:
    """A name in lower case, or an address as it is commonly written."""
    host = host.strip().lower()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)


def check_scheduler(address: str, insecure: bool = False) -> None:
    """Refuses a Dask scheduler that would be spoken to over a network without encryption and authentication.

    Raises:
        SimflError: it is on another machine and its address does not begin with ``tls://``.
    """
    protocol, _, rest = address.rpartition("://")
    host = rest.rpartition(":")[0].strip("[]") or rest
    if insecure or protocol == "tls" or protocol in ("", "tcp") and is_loopback(host):
        return
    raise SimflError(
        f"{address}: Dask would run whatever anybody on that network sends; use tls:// with Dask's certificates, "
        "an address on this machine, or --insecure if the network is trusted"
    )

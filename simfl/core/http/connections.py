"""Connections of an HTTP server, and what their peers can take from it."""

import ipaddress
import socket
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock


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

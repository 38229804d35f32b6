"""A line that many processes share in real time, for benchmarks/reality.py: a fair queue of pieces.

A process asks for one piece at a time. Pieces cross the line one after the other, each in its bytes over the line's
bytes per second; of those who wait, who has had least is next (start-time fair queueing: Goyal, Vin and Cheng, IEEE/ACM
Transactions on Networking 5, 1997, section II). Nothing here computes a rate: what each gets follows from the queue.

    python benchmarks/shared_line.py CLIENTS DOWN_BYTES_PER_S UP_BYTES_PER_S

prints the port that it listens at, and lets nobody begin before all clients have come.
"""

import socket
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from selectors import EVENT_READ, SelectSelector
from typing import Any

from simfl.deployment.remote.throttle import Throttle
from simfl.deployment.remote.wall_clock import ClockSource, WallClock

PIECE = 512
"""Bytes of a piece."""

DOWN, UP = 0, 1


class FairQueue:
    """One direction of the line.

    Args:
        bytes_per_s: of all together.
    """

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s, self.virtual, self.asked = bytes_per_s, 0.0, 0
        self.tags: dict[Any, float] = {}
        self.waiting: list[tuple[float, int, int, Any]] = []
        self.crossing: Any = None
        self.free_s = -inf

    def ask(self, now_s: float, who: Any, size: int) -> None:
        """Somebody has a piece; it is the only one that he has."""
        tag = max(self.virtual, self.tags.get(who, 0.0))
        self.tags[who] = tag + size
        self.asked += 1
        heappush(self.waiting, (tag, self.asked, size, who))
        if self.crossing is None:
            self._next(now_s)

    def crossed(self, now_s: float) -> list[Any]:
        """Whose pieces have crossed by now."""
        done = []
        while self.crossing is not None and self.free_s <= now_s:
            done.append(self.crossing)
            self.crossing = None
            self._next(self.free_s)
        return done

    def _next(self, begin_s: float) -> None:
        if self.waiting:
            self.virtual, _, size, self.crossing = heappop(self.waiting)
            self.free_s = begin_s + size / self.bytes_per_s


def serve(clients: int, bytes_per_s: list[float]) -> None:
    """Both directions, until all have gone."""
    clock, queues = WallClock(), [FairQueue(rate) for rate in bytes_per_s]
    with socket.create_server(("127.0.0.1", 0)) as listening, SelectSelector() as selector:
        print(listening.getsockname()[1], flush=True)
        for _ in range(clients):
            peer, _ = listening.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(peer, EVENT_READ)
        for key in list(selector.get_map().values()):
            key.fileobj.sendall(b"+")
        while selector.get_map():
            next_s = min((queue.free_s for queue in queues if queue.crossing is not None), default=inf)
            for key, _ in selector.select(None if next_s == inf else max(0.0, next_s - clock.now_s())):
                if not (asked := key.fileobj.recv(5)):
                    selector.unregister(key.fileobj)
                    continue
                direction, size = struct.unpack("!BI", asked)
                queues[direction].ask(clock.now_s(), key.fileobj, size)
            for queue in queues:
                for peer in queue.crossed(clock.now_s()):
                    peer.sendall(b"+")


@dataclass(frozen=True)
class SharedThrottle(Throttle):
    """A throttle behind which the bytes cross the line, too.

    A client has one piece at a time on its own line and one on the shared one, so that neither makes good what the
    other has held up: it is as fast as the slower of both. The shared line is the server's: requests cross it first and
    travel then, answers cross it last.

    Attributes:
        cross: waits until a piece of so many bytes has crossed in the direction.
    """

    cross: Callable[[int, int], None] = lambda direction, size: None

    def receive(self, read: Callable[[int], bytes], clock: ClockSource) -> bytes:
        data = b"".join(iter(lambda: read(1 << 18), b""))
        for _ in self._through(data, self.down_bytes_per_s, DOWN, clock):
            pass
        clock.sleep(self.latency_s)
        return data

    def pieces(self, data: bytes, clock: ClockSource) -> Iterator[bytes]:
        clock.sleep(self.latency_s)
        yield from self._through(data, self.up_bytes_per_s, UP, clock)

    def _through(self, data: bytes, bytes_per_s: float, direction: int, clock: ClockSource) -> Iterator[bytes]:
        own_s = crossed_s = clock.now_s()
        for start in range(0, len(data), PIECE):
            part = data[start : start + PIECE]
            own_s = max(own_s + len(part) / bytes_per_s, crossed_s)
            clock.sleep(own_s - clock.now_s())
            self.cross(direction, len(part))
            crossed_s = clock.now_s()
            yield part


def crossing(port: int) -> Callable[[int, int], None]:
    """Joins the line, and waits until all others have; what then lets pieces cross."""
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.recv(1)

    def cross(direction: int, size: int) -> None:
        line.sendall(struct.pack("!BI", direction, size))
        if not line.recv(1):
            raise ConnectionError("the shared line is gone")

    return cross


if __name__ == "__main__":
    serve(int(sys.argv[1]), [float(number) for number in sys.argv[2:4]])

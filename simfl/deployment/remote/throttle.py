"""A client that is slower than its machine: its line by a token bucket, its work by sleeping.

Twelve processes on one machine become twelve different devices, which differ as a file of device profiles says
(:mod:`simfl.devices.profiles`): the same columns, so that what ``simfl serve calibrate`` measures of throttled clients
can be held against how they were throttled.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from math import exp, inf
from pathlib import Path

from simfl.deployment.remote.wall_clock import ClockSource
from simfl.plugins import SimflError, Streams, suggestion

PIECES_PER_S = 50
"""Pieces in which a second's bytes pass: their sleeps are long against the clock's resolution."""

DEPTH_S = 1.0
"""Seconds whose tokens a bucket keeps: what a sleep that ended late has lost is made good."""

LEAST_PIECE, LARGEST_PIECE = 256, 1 << 18
"""Bytes of a piece."""


class TokenBucket:
    """Lets so many bytes a second pass: tokens come at the rate, at most ``depth`` are kept, a byte takes one.

    Args:
        rate: bytes per second.
        depth: tokens that it holds; so much may pass at once after a pause.
        clock: that the tokens come by.
    """

    def __init__(self, rate: float, depth: float, clock: ClockSource) -> None:
        self.rate, self.depth, self.clock = rate, depth, clock
        self.tokens = 0.0
        self.filled_s = clock.now_s()

    def take(self, size_bytes: int) -> None:
        """Waits until the tokens of a piece have come, and takes them; a piece may be larger than the bucket."""
        if self.rate == inf:
            return
        self._fill()
        if (missing := size_bytes - self.tokens) > 0:
            self.clock.sleep(missing / self.rate)
            self._fill(max(self.depth, size_bytes))
        self.tokens -= size_bytes

    def _fill(self, depth: float = 0.0) -> None:
        now_s = self.clock.now_s()
        self.tokens = min(max(self.depth, depth), self.tokens + (now_s - self.filled_s) * self.rate)
        self.filled_s = now_s


@dataclass(frozen=True)
class Throttle:
    """How slow a client is; each default is as fast as the machine.

    Attributes:
        samples_per_s, work_sigma, down_bytes_per_s, up_bytes_per_s, latency_s: as in
            :data:`simfl.devices.profiles.PROFILE_COLUMNS`.
    """

    samples_per_s: float = inf
    work_sigma: float = 0.0
    down_bytes_per_s: float = inf
    up_bytes_per_s: float = inf
    latency_s: float = 0.0

    def receive(self, read: Callable[[int], bytes], clock: ClockSource) -> bytes:
        """Reads a whole answer, as slowly as the client's line lets it in.

        Args:
            read: gives at most so many bytes, none at the end.
            clock: that is waited for.
        """
        clock.sleep(self.latency_s)
        rate, parts = self.down_bytes_per_s, []
        bucket = TokenBucket(rate, DEPTH_S * rate, clock)
        while part := read(_piece(rate)):
            bucket.take(len(part))
            parts.append(part)
        return b"".join(parts)

    def pieces(self, data: bytes, clock: ClockSource) -> Iterator[bytes]:
        """A message in pieces, each as soon as the client's line lets it out."""
        clock.sleep(self.latency_s)
        rate = self.up_bytes_per_s
        size, bucket = _piece(rate), TokenBucket(rate, DEPTH_S * rate, clock)
        for start in range(0, len(data), size):
            part = data[start : start + size]
            bucket.take(len(part))
            yield part

    def work_s(self, samples: float, job: int) -> float:
        """Seconds that a job's work takes; its spread is drawn from a stream of the job's number."""
        z = Streams(0)("throttle", job).standard_normal() if self.work_sigma else 0.0
        return samples / self.samples_per_s * exp(self.work_sigma * z)


def _piece(rate: float) -> int:
    return int(min(max(rate / PIECES_PER_S, LEAST_PIECE), LARGEST_PIECE))


def parse_throttle(text: str, client: int) -> Throttle:
    """A throttle from a text: the name of a file of device profiles, or ``column=number,...``.

    Args:
        text: as given on the command line. A file's row is that of the client or, without a column client, the one at
            its number, counted round.
        client: the client's number.

    Raises:
        SimflError: the file is broken or has no row for the client, or a word or number is wrong.
    """
    names = [field.name for field in fields(Throttle)]
    if "=" not in text:
        return _of_file(Path(text), client, names)
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        if name not in names:
            raise SimflError(f"--throttle {text}: there is no '{name}'{suggestion(name, names)}; {', '.join(names)}")
        values[name] = _number(text, name, number)
    return Throttle(**values)


def _of_file(path: Path, client: int, names: list[str]) -> Throttle:
    from simfl.plugins.devices import read_profiles

    table = read_profiles(path)
    rows = len(next(iter(table.columns.values())))
    row = client % rows
    if table.clients is not None:
        where = (table.clients == client).nonzero()[0]
        if not len(where):
            raise SimflError(f"--throttle {path}: has no row for client {client}")
        row = int(where[0])
    return Throttle(**{name: float(values[row]) for name, values in table.columns.items() if name in names})


def _number(text: str, name: str, number: str) -> float:
    from simfl.api.files import number_of
    from simfl.plugins.devices import PROFILE_COLUMNS

    bounds = PROFILE_COLUMNS[name]
    value = number_of(number, -1.0)
    if not bounds.least <= value <= bounds.most:
        raise SimflError(f"--throttle {text}: {name} is a number from {bounds.least:g} ({bounds.meaning})")
    return value

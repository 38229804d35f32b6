"""What the values of a file's links mean: which is the latency, which the bandwidth, and in what unit."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from simfl.core.errors import ScenarioError, amount, suggestion
from simfl.core.storage.text_table import MAX_CELL
from simfl.network.links import NARROWEST
from simfl.network.sites import MAX_EDGES, Edge

MAX_VALUE = 1e12

GREAT_CIRCLE = "great_circle"
"""In place of an attribute: latencies follow from the coordinates of the nodes."""

UNLIMITED = "unlimited"
"""In place of an attribute: no link limits a message, whatever the file says."""

PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}

SPELLED = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "millis": "ms", "milliseconds": "ms",
           "usec": "us", "µs": "us", "microseconds": "us", "nanoseconds": "ns"}  # fmt: skip

LATENCY_WORDS = {"latency", "delay", "rtt", "ping", "owd", "roundtrip", "trip"}

BOTH_WAYS = {"rtt", "ping", "roundtrip", "round"}

UNCLEAR = {"weight", "cost", "metric", "length", "distance", "dist", "w"}
"""Names of what may be a latency."""

BYTES_PER_S = {"byte/s": 1.0, "kbyte/s": 1e3, "Mbyte/s": 1e6, "bit/s": 0.125, "kbit/s": 125.0, "Mbit/s": 125e3,
               "Gbit/s": 125e6}  # fmt: skip

BANDWIDTH_WORDS = {"bandwidth", "bw", "capacity", "throughput"}

RATE = re.compile(r"(?:^|[\W_])(k|m|g)?(b|bits?|bytes?)(?:ps|_?per_?s(?:ec(?:ond)?)?|/s|_s)\W*$", re.IGNORECASE)

RATES = ("speed", "band", "capacity", "throughput")
"""What names of bandwidths have in them."""

MOST_SHOWN = 8
"""Names that a note lists."""


class Attributes(NamedTuple):
    """Which values of a link mean what.

    Attributes:
        latency: the value that holds its latency, or :data:`GREAT_CIRCLE`; None = the one whose name says its unit.
        unit: of that value, "s", "ms" or "us" one way, after "rtt_" there and back; None = as its name says, else s.
        one_way: whether values are those of one way; None = as the unit or the name says.
        bandwidth: the value that holds its bandwidth, or :data:`UNLIMITED`; None = the one whose name says its unit.
        bandwidth_unit: of that value, of :data:`BYTES_PER_S`; None = as its name says, else byte/s.
        path_factor: length of cables over great-circle distance.
    """

    latency: str | None = None
    unit: str | None = None
    one_way: bool | None = None
    bandwidth: str | None = None
    bandwidth_unit: str | None = None
    path_factor: float = 1.6

    def scale(self, unit: str) -> float:
        """By what values in a unit are divided for seconds one way.

        Raises:
            ScenarioError: ``one_way`` contradicts the unit.
        """
        both = unit.startswith("rtt_")
        if both and self.one_way:
            raise ScenarioError("one_way", f"is true, but {unit} is there and back; write unit: {unit[4:]}")
        return PER_SECOND[unit.removeprefix("rtt_")] * (2 if both or self.one_way is False else 1)

    def words(self, unit: str) -> str:
        """What values in a unit are: "ms, there and back"."""
        base = unit.removeprefix("rtt_")
        return f"{base}, {'one way' if self.scale(unit) == PER_SECOND[base] else 'there and back'}"


class FileLink(NamedTuple):
    """A link as a file has it.

    Attributes:
        where: the beginning of messages about it.
        values: by name, without those that are missing.
    """

    where: str
    src: str
    dst: str
    values: Mapping[str, object]


def words_of(name: str) -> list[str]:
    """A name's words in lower case: latencyMs and "latency (ms)" are both latency, ms."""
    return re.findall(r"[a-zµ]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def latency_unit(name: str) -> str | None:
    """The unit of latencies that a name says; None where it says none."""
    words = words_of(name)
    unit = SPELLED.get(words[-1], words[-1]) if words else ""
    if unit not in PER_SECOND or (words[:-1] and LATENCY_WORDS.isdisjoint(words)):
        return None
    return f"rtt_{unit}" if BOTH_WAYS & set(words) else unit


def bandwidth_unit(name: str) -> str | None:
    """The unit of bandwidths that a name says; None where it says none, or may mean bits and bytes."""
    if (rate := RATE.search(name)) is None:
        return None
    prefix, size = (rate[1] or ""), rate[2]
    if size == "B" and name.isupper():
        return None
    unit = "byte/s" if size == "B" or size.lower().startswith("byte") else "bit/s"
    unit = {"k": "k", "m": "M", "g": "G"}.get(prefix.lower(), "") + unit
    return unit if unit in BYTES_PER_S else None


def named_unit(attributes: Attributes) -> str:
    """The unit of the latencies that the scenario names.

    Raises:
        ScenarioError: the name says another one.
    """
    said = latency_unit(attributes.latency or "")
    unit = attributes.unit or said or "s"
    if said is not None and unit.removeprefix("rtt_") != said.removeprefix("rtt_"):
        raise ScenarioError("unit", f"is {unit}, but '{attributes.latency}' is in {said} by its name; leave unit out")
    return unit


@dataclass(frozen=True)
class LinkList:
    """The links of a file, and what its values mean.

    Attributes:
        rows: the links as the file has them; with :data:`GREAT_CIRCLE` each has its latency in seconds by that name.
        names: of all values that links have.
        attributes: which of them mean what.
        head: the beginning of messages about the file as a whole.
        key: the scenario's, for messages.
    """

    rows: Sequence[FileLink]
    names: Sequence[str]
    attributes: Attributes
    head: str
    key: str

    def edges(self) -> tuple[tuple[Edge, ...], list[str]]:
        """The fastest link of each two different nodes, and in words how they were read.

        Raises:
            ScenarioError: a value is missing, impossible, or of a unit that nobody says; the message names the place.
        """
        if len(self.rows) > MAX_EDGES:
            raise ScenarioError(self.key, f"{self.head}{len(self.rows)} links are too many; at most {MAX_EDGES}")
        for row in self.rows:
            self._check_ends(row)
        links = [row for row in self.rows if row.src != row.dst]
        latencies = self._latencies(links)
        latency_s = [self._latency_s(row, latencies) for row in links]
        width = self._bandwidth(links)
        fastest: dict[tuple[str, str], Edge] = {}
        for row, seconds in zip(links, latency_s, strict=True):
            edge = Edge(row.src, row.dst, seconds, self._bytes_per_s(row, width))
            if edge[:2] not in fastest or _slowness(edge) < _slowness(fastest[edge[:2]]):
                fastest[edge[:2]] = edge
        return tuple(fastest.values()), [*self._meaning(links, latencies, width), *self._left_out(links, len(fastest))]

    def _meaning(
        self, links: Sequence[FileLink], latencies: Mapping[str, str], width: tuple[str, str] | None
    ) -> list[str]:
        notes = []
        if links and GREAT_CIRCLE not in latencies:
            units = (f"'{name}' in {self.attributes.words(unit)}" for name, unit in latencies.items())
            notes.append(f"latency from {' or '.join(units)}")
        if width is not None:
            notes.append(f"bandwidth from '{width[0]}' in {width[1]}")
            if lacking := sum(width[0] not in row.values for row in links):
                notes.append(f"{lacking} of {amount(len(links), 'link')} without '{width[0]}': unlimited")
        unused = [name for name in self.names if name not in latencies and name != (width or ("",))[0]]
        rates = [name for name in unused if any(word in name.lower() for word in RATES)]
        if rates and self.attributes.bandwidth != UNLIMITED and width is None:
            notes.append(f"links are unlimited, as network.bandwidth does not name '{rates[0]}'")
        if unused:
            notes.append(f"not used, being neither the latency nor the bandwidth: {shown(unused)}")
        return notes

    def _left_out(self, links: Sequence[FileLink], pairs: int) -> list[str]:
        notes = []
        if loops := len(self.rows) - len(links):
            notes.append(f"{amount(loops, 'link')} from a node to itself left out")
        if parallel := len(links) - pairs:
            notes.append(
                f"{amount(parallel, 'parallel link')} left out: between two nodes that of least latency counts"
            )
        return notes

    def _check_ends(self, row: FileLink) -> None:
        if not row.src or not row.dst:
            raise ScenarioError(self.key, f"{row.where}a link needs two ends, not '{row.src}' and '{row.dst}'")
        if max(len(row.src), len(row.dst)) > MAX_CELL or not (row.src + row.dst).isprintable():
            why = f"a node's name has control characters or more than {MAX_CELL} characters"
            raise ScenarioError(self.key, f"{row.where}{why}")

    def _latencies(self, links: Sequence[FileLink]) -> dict[str, str]:
        """The names of latencies, each with its unit; a link has one of them."""
        attributes = self.attributes
        if attributes.latency == GREAT_CIRCLE:
            return {GREAT_CIRCLE: "s"}
        if attributes.latency is not None:
            return {attributes.latency: named_unit(attributes)}
        if attributes.unit not in (None, "s"):
            raise ScenarioError("unit", "is the unit of what latency names; name it")
        candidates = {name: unit for name in self.names if (unit := latency_unit(name)) is not None}
        if candidates or not links:
            return candidates
        for name in self.names:
            words = set(words_of(name))
            if words & (LATENCY_WORDS | UNCLEAR):
                keys = f"network.latency names the value that holds latencies: write latency: {name}, unit: ms"
                raise ScenarioError(self.key, f"{self.head}'{name}' has no unit; {keys} (or s, us, rtt_ms)")
        raise ScenarioError(self.key, f"{links[0].where}{self._lacks(links[0], ('latency_s', 'rtt_ms'))}")

    def _lacks(self, row: FileLink, names: Collection[str]) -> str:
        has = f"it has {shown(list(row.values))}" if row.values else "it has no values"
        hint = "; network.latency names the value that holds latencies"
        either = f"either {' or '.join(sorted(names))}" if len(names) > 1 else "".join(names)
        return f"link '{row.src}' to '{row.dst}' needs {either}; {has}{hint}"

    def _latency_s(self, row: FileLink, latencies: Mapping[str, str]) -> float:
        present = [name for name in latencies if name in row.values]
        if len(present) != 1:
            if self.attributes.latency is None:
                raise ScenarioError(self.key, row.where + self._lacks(row, latencies))
            name, has = self.attributes.latency, shown(list(row.values)) or "no values"
            near = suggestion(name, row.values)
            raise ScenarioError(
                self.key, f"{row.where}link '{row.src}' to '{row.dst}' has no '{name}'; it has {has}{near}"
            )
        value = number(row.values[present[0]], present[0], row.where, self.key)
        return value / self.attributes.scale(latencies[present[0]])

    def _bandwidth(self, links: Sequence[FileLink]) -> tuple[str, str] | None:
        """The name of the bandwidth and its unit; None = there is none."""
        name, unit = self.attributes.bandwidth, self.attributes.bandwidth_unit
        if name == UNLIMITED:
            return None
        if name is not None:
            said = bandwidth_unit(name)
            if said is not None and unit not in (None, said):
                why = f"is {unit}, but '{name}' is in {said} by its name; leave bandwidth_unit out"
                raise ScenarioError("bandwidth_unit", why)
            if links and not any(name in row.values for row in links):
                has = f"no link has '{name}'; links have {shown(self.names) or 'no values'}"
                raise ScenarioError("bandwidth", f"{self.head}{has}{suggestion(name, self.names)}")
            return name, unit or said or "byte/s"
        if unit is not None:
            raise ScenarioError("bandwidth_unit", "is the unit of what bandwidth names; name it")
        candidates = {name: said for name in self.names if (said := bandwidth_unit(name)) is not None}
        if len(candidates) > 1 and "bandwidth_bytes_per_s" not in candidates:
            choice = f"write bandwidth: {next(iter(candidates))}, or bandwidth: {UNLIMITED}"
            raise ScenarioError(self.key, f"{self.head}{shown(list(candidates))} are bandwidths; {choice}")
        if candidates:
            name = "bandwidth_bytes_per_s" if "bandwidth_bytes_per_s" in candidates else next(iter(candidates))
            return name, candidates[name]
        for name in self.names:
            if BANDWIDTH_WORDS & set(words_of(name)) or get_close_matches(name.lower(), ["bandwidth"], 1, 0.75):
                keys = f"write bandwidth: {name}, bandwidth_unit: Mbit/s ({', '.join(BYTES_PER_S)})"
                why = f"'{name}' has no unit; {keys}, or bandwidth: {UNLIMITED}"
                raise ScenarioError(self.key, f"{self.head}{why}")
        return None

    def _bytes_per_s(self, row: FileLink, width: tuple[str, str] | None) -> float | None:
        if width is None or width[0] not in row.values:
            return None
        rate = number(row.values[width[0]], width[0], row.where, self.key) * BYTES_PER_S[width[1]]
        if rate < NARROWEST:
            raise ScenarioError(self.key, f"{row.where}{width[0]} must be at least {NARROWEST:g} bytes per second")
        return rate


def _slowness(edge: Edge) -> tuple[float, float]:
    wide = edge.bandwidth_bytes_per_s
    return edge.latency_s, 0.0 if wide is None else 1 / wide


def shown(names: Sequence[object]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(str(name)[:40] for name in names[:MOST_SHOWN]) + more


def number(value: Any, name: str, where: str, key: str, least: float = 0.0, most: float = MAX_VALUE) -> float:
    """The value as a number from ``least`` to ``most``.

    Raises:
        ScenarioError: it is none; the message begins with ``where``.
    """
    try:
        result = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        result = math.nan
    if not least <= result <= most:
        text = f"{name} must be a number from {least:g} to {most:g}, not {str(value)[:40]!r}"
        raise ScenarioError(key, f"{where}{text}")
    return result

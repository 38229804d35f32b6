"""Networks in text tables: lists of links, and square tables of latencies."""

from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simfl.core.errors import ScenarioError, amount, suggestion
from simfl.core.storage.text_table import is_number, iterate_rows
from simfl.core.types import Floats
from simfl.network.link_values import (
    GREAT_CIRCLE,
    LATENCY_WORDS,
    MAX_VALUE,
    UNCLEAR,
    Attributes,
    FileLink,
    LinkList,
    latency_unit,
    number,
    words_of,
)
from simfl.network.site_table import SiteTable
from simfl.network.sites import SiteMap

STARTS = ("src", "source", "from", "node1", "u", "start", "origin", "sender", "a", "head", "node_a", "source_id", "i")

ENDS = ("dst", "target", "to", "node2", "v", "end", "destination", "receiver", "b", "tail", "node_b", "target_id", "j",
        "dest")  # fmt: skip

MAX_PLACES = 3000

Lines = list[tuple[str, list[str]]]

USUAL = Attributes()


class TableLine(NamedTuple):
    """A line of a square table, its cells behind the first one as numbers (NaN = empty) where all of them may be."""

    where: str
    first: str
    rest: list[str] | Floats

    @property
    def width(self) -> int:
        """Number of cells."""
        return 1 + len(self.rest)


@lru_cache(maxsize=2)
def _content(path: Path, key: str, *_: int) -> tuple[Any, Any]:
    """The rows of a list and the columns of its ends, or the names and cells of a square table."""
    rows = iterate_rows(path, key)
    where, header = next(rows, (path.name, []))
    ends = _ends(header)
    if ends is None:
        return _table(where, header, [_line(*row) for row in rows], path, key)
    lines = list(rows)
    if len(lines) == len(header) - 1 and {cells[0] for _, cells in lines} == set(header[1:]):
        return _table(where, header, [_line(*row) for row in lines], path, key)
    return [(where, header), *lines], ends


def _line(where: str, cells: list[str]) -> TableLine:
    return TableLine(where, cells[0], cells[1:] if (numbers := _numbers(cells[1:])) is None else numbers)


def read_csv(path: Path, key: str, directed: bool = False, attributes: Attributes = USUAL) -> SiteMap | SiteTable:
    """The network in a text table, by its header; the file is read once while it does not change.

    A list has one link a line: two columns name its ends (``src,dst``, ``source,target``, ``from,to``, ...), others its
    latency and perhaps its bandwidth. A square table has latencies from row to column, whose pairs are measured from
    end to end: with names in the header and before each row, in one of these places, or in none (numbers from 0).

    Raises:
        ScenarioError: the file is neither, or a line is broken; names the file and line.
    """
    status = path.stat()
    first, second = _content(path, key, status.st_mtime_ns, status.st_size)
    if isinstance(second, tuple):
        return _read_list(first, second, key, directed, attributes)
    names, table = first, second
    if attributes.latency is not None:
        why = f"is '{attributes.latency}', but {path.name} is a square table, whose cells are the latencies"
        raise ScenarioError("latency", f"{why}; leave it out, unit says their unit")
    if attributes.bandwidth is not None or attributes.bandwidth_unit is not None:
        raise ScenarioError("bandwidth", f"{path.name} is a square table, which has none; leave it out")
    unit = attributes.unit or ("ms" if attributes.one_way else "rtt_ms")
    return SiteTable.of(names, table / attributes.scale(unit), directed, attributes.words(unit))


def _ends(header: list[str]) -> tuple[int, int] | None:
    """The columns of a list that name the ends of links; None = this is no list."""
    names = [name.lower().replace(" ", "_") for name in header]
    start = next((i for i, name in enumerate(names) if name in STARTS and (len(name) > 1 or i == 0)), None)
    end = next((i for i, name in enumerate(names) if name in ENDS and (len(name) > 1 or i == 1)), None)
    if start is not None and end is not None:
        return start, end
    likely = any(latency_unit(name) or {*words_of(name)} & (LATENCY_WORDS | UNCLEAR) for name in header[2:])
    return (0, 1) if likely and header[0] else None


def _read_list(rows: Lines, ends: tuple[int, int], key: str, directed: bool, attributes: Attributes) -> SiteMap:
    (where, header), lines = rows[0], rows[1:]
    for name in header:
        if header.count(name) > 1:
            raise ScenarioError(key, f"{where}: two columns are named '{name}'")
    if attributes.latency == GREAT_CIRCLE:
        raise ScenarioError("latency", f"{where}: a list has no coordinates of nodes; GraphML, GML and JSON may")
    links = []
    for place, cells in lines:
        if len(cells) != len(header):
            raise ScenarioError(key, f"{place}: {amount(len(cells), 'value')} for {amount(len(header), 'column')}")
        values = {header[i]: cell for i, cell in enumerate(cells) if cell and i not in ends}
        links.append(FileLink(f"{place}: ", cells[ends[0]], cells[ends[1]], values))
    names = [name for i, name in enumerate(header) if i not in ends]
    edges, notes = LinkList(links, names, attributes, f"{where}: ", key).edges()
    src, dst = (header[i] for i in ends)
    return SiteMap(edges, directed, notes=(f"from '{src}' to '{dst}'", *notes))


def read_table(path: Path, key: str) -> tuple[list[str], Floats]:
    """A square table: the names, and float64 (names, names) in the order of the header; NaN where it is empty.

    Raises:
        ScenarioError: the file holds no such table; names the file and line.
    """
    rows = iterate_rows(path, key)
    return _table(*next(rows, (path.name, [])), [_line(*row) for row in rows], path, key)


def _table(at: str, header: list[str], lines: list[TableLine], path: Path, key: str) -> tuple[list[str], Floats]:
    names, lines = _with_names(at, header, lines, key)
    if len(names) < 2 or len(set(names)) < len(names) or "" in names:
        form = "src,dst,rtt_ms (or latency_s), or a corner cell and then the names of a square table"
        raise ScenarioError(key, f"{at}: wrong header; it must be {form}")
    if len(names) > MAX_PLACES:
        raise ScenarioError(key, f"{at}: {len(names)} places are too many; at most {MAX_PLACES}")
    position = {name: i for i, name in enumerate(names)}
    table = np.full((len(names), len(names)), np.nan)
    done: set[str] = set()
    for where, name, cells in lines:
        if name not in position:
            hint = suggestion(name, names) or "; a list of links has the columns src,dst,rtt_ms"
            raise ScenarioError(key, f"{where}: row '{name}' is not in the header{hint}")
        if name in done:
            raise ScenarioError(key, f"{where}: row '{name}' comes twice")
        if len(cells) != len(names):
            raise ScenarioError(key, f"{where}: {amount(len(cells), 'value')} for {amount(len(names), 'column')}")
        done.add(name)
        if isinstance(cells, list):
            for column, cell in zip(names, cells, strict=True):
                if cell:
                    number(cell, column, f"{where}: ", key)
        table[position[name]] = cells
    if missing := [name for name in names if name not in done]:
        raise ScenarioError(key, f"{path.name}: the table is not square: there is no row '{missing[0]}'")
    return names, table


def _with_names(at: str, header: list[str], lines: list[TableLine], key: str) -> tuple[list[str], list[TableLine]]:
    """The names of a table's places, and its lines, each with its name in front."""
    first = [line.first for line in lines]
    if header and all(not cell or is_number(cell) for cell in header) and len(lines) + 1 == len(header):
        counted = all(b.isdigit() and a.isdigit() and int(b) == int(a) + 1 for a, b in pairwise(header[1:]))
        if first == header[1:] and counted == bool(header[0]) and len(lines) > 1:
            remedy = "write a word into the first cell of the file if it has names, or take them out"
            raise ScenarioError(key, f"{at}: are these the names of places or latencies? {remedy}")
        if first != header[1:] or header[0]:
            numbered = [str(i) for i in range(len(header))]
            return numbered, _in_front(numbered, [_line(at, header), *lines])
    if lines and lines[0].width == len(header) + 1:
        return header, lines
    if len(lines) == len(header) and set(first).isdisjoint(header) and all(line.width == len(header) for line in lines):
        return header, _in_front(header, lines)
    return header[1:], lines


def _in_front(names: list[str], lines: list[TableLine]) -> list[TableLine]:
    """Lines whose first cells are latencies, with names before them."""
    return [
        _line(line.where, [name, line.first, *map(str, line.rest)]) for name, line in zip(names, lines, strict=True)
    ]


def _numbers(cells: list[str]) -> Floats | None:
    """Cells as latencies, NaN where they are empty; None where one cannot be."""
    try:
        values = np.fromiter((float(cell or "nan") for cell in cells) if "" in cells else map(float, cells), np.float64)
    except ValueError:
        return None
    return values if ((values >= 0) & (values <= MAX_VALUE) | np.isnan(values)).all() else None

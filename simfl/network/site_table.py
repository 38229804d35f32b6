"""Places whose latencies to one another are measured from end to end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import amount
from simfl.network.arcs import Arcs
from simfl.network.links import Paths
from simfl.network.sites import GraphSites


@dataclass(frozen=True, eq=False)
class SiteTable:
    """Named nodes and latencies between them, measured from end to end.

    See :class:`simfl.network.sites.SiteMap`.

    Attributes:
        names: of all places.
        latency_s: from row to column, float64 (names, names); NaN = not measured; on the diagonal between those who
            are at one place.
    """

    names: tuple[str, ...]
    latency_s: NDArray[np.float64]
    directed: bool = False
    notes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Sequence[str], latency_s: NDArray[np.float64], directed: bool, unit: str) -> "SiteTable":
        """The places that any measurement is of, in the order in which they first have one.

        Args:
            unit: of the file, in words.
        """
        measured = ~np.isnan(latency_s)
        within = latency_s.diagonal()
        np.fill_diagonal(measured, False)
        order, places = dict[int, None](), np.count_nonzero(measured.any(axis=1) | measured.any(axis=0))
        for place in np.flatnonzero(measured.any(axis=1)).tolist():
            if len(order) == places:
                break
            order.update(dict.fromkeys([place, *np.flatnonzero(measured[place]).tolist()]))
        index = list(order)
        notes = [f"a table of {len(names)} places, cells in {unit}"]
        if lacking := len(index) * (len(index) - 1) - int(measured.sum()):
            other = "by way of others" if directed else "as the other way, else by way of others"
            notes.append(f"{amount(lacking, 'cell')} without a value: {other}")
        if len(index) < len(names):
            notes.append(f"{amount(len(names) - len(index), 'place')} without any value left out")
        if (within > 0).any():
            notes.append("the diagonal is the latency between those at one place")
        table = latency_s if index == list(range(len(names))) else latency_s[np.ix_(index, index)]
        return cls(tuple(names[i] for i in index), table, directed, tuple(notes))

    @property
    def nodes(self) -> dict[str, int]:
        """The places with their numbers."""
        return {name: number for number, name in enumerate(self.names)}

    @property
    def linked(self) -> set[tuple[str, str]]:
        """The pairs of places that are measured."""
        return {(self.names[i], self.names[j]) for i, j in np.argwhere(~np.isnan(self.latency_s)) if i != j}

    def sites(self) -> "GraphSites | TableSites":
        """The places as sites, by their numbers."""
        return self._sites

    @cached_property
    def _sites(self) -> "GraphSites | TableSites":
        table, gaps = self.latency_s, np.isnan(self.latency_s)
        if gaps.any() and not self.directed:
            table = np.where(gaps, table.T, table)
            gaps = np.isnan(table)
        if not (gaps & ~np.eye(len(table), dtype=bool)).any():
            return TableSites(np.where(gaps, 0.0, table), np.broadcast_to(1.0, table.shape))
        src, dst = np.nonzero(~gaps)
        return GraphSites(Arcs(len(table), src, dst, table[src, dst], np.zeros(len(src))), end_to_end=True)


class TableSites(NamedTuple):
    """Sites with a known path between every two, from row to column."""

    latency_s: NDArray[np.float64]
    jitter: NDArray[np.float64]

    def paths_from(self, site: int) -> Paths:
        return Paths(self.latency_s[site], np.zeros(len(self.latency_s)), self.jitter[site])

    def paths_to(self, site: int) -> Paths:
        return Paths(self.latency_s[:, site], np.zeros(len(self.latency_s)), self.jitter[:, site])

    def paths_into(self, site: int) -> Paths:
        return self.paths_to(site)

    def near(self, site: int) -> NDArray[np.bool_]:
        return np.ones(len(self.latency_s), dtype=bool)

    def links_from(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        return np.array([bits.get((site, other), 0) for other in range(len(self.latency_s))], dtype=np.int64)

    def links_to(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        return np.array([bits.get((other, site), 0) for other in range(len(self.latency_s))], dtype=np.int64)

"""What the server of a finished run saw, read back from its record (``trace: aggregates``)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.attacks.base import ServerView
from simfl.core.errors import SimflError
from simfl.core.types import Aggregate, Job
from simfl.results.folder import ResultsFolder
from simfl.results.tables import VECTORS
from simfl.scenario import Scenario

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Recorded:
    """The record of a run.

    Attributes:
        results: of the run.
        scenario: of the run.
    """

    results: ResultsFolder
    scenario: Scenario

    def __post_init__(self) -> None:
        if "aggregates.csv" not in self.results:
            why = "the run recorded no sums; run it again with trace=aggregates"
            raise SimflError(f"{self.results.path}: {why}")

    @cached_property
    def table(self) -> "DataFrame":
        """``aggregates.csv``: what each update counted in each aggregate."""
        import pandas

        return pandas.read_csv(self.results.file("aggregates.csv"))

    @cached_property
    def last(self) -> NDArray[np.float32]:
        """The final model, (d,)."""
        return np.asarray(np.load(self.results.file("model.npy")), dtype=np.float32)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """All that was recorded, (rows, d), not in memory."""
        path = self.results.file(VECTORS)
        return np.memmap(path, dtype="<f4", mode="r").reshape(-1, len(self.last))

    @cached_property
    def shown(self) -> bool:
        """Whether the server was shown single updates."""
        return len(self.vectors) > 2 * len(self.rounds)

    @cached_property
    def rounds(self) -> NDArray[np.int64]:
        """The rounds in which something was aggregated, ascending."""
        return np.unique(self.table["round"].to_numpy())

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each such round in :attr:`vectors`, and the number of rows."""
        counts = np.searchsorted(self.table["round"], self.rounds, side="right")
        client_counts = np.diff(np.append(0, counts))
        return np.append(0, np.cumsum(2 + client_counts * self.shown))

    def model(self, version: int) -> NDArray[np.float32]:
        """The global model of a version, (d,)."""
        place = int(np.searchsorted(self.rounds, version))
        return self.last if place == len(self.rounds) else np.array(self.vectors[self.starts[place]])

    def seen(self, first: int = 0, stop: int | None = None) -> Iterator[ServerView]:
        """The aggregations of the rounds ``first`` .. ``stop - 1``, as the server saw them."""
        for place, t in enumerate(self.rounds.tolist()):
            if t < first or (stop is not None and t >= stop):
                continue
            rows = self.table.iloc[slice(*np.searchsorted(self.table["round"], [t, t + 1]))]
            ids, clients, versions = (rows[name].tolist() for name in ("job", "client", "version"))
            jobs = tuple(Job(*job, np.nan) for job in zip(ids, clients, versions, strict=True))
            block = np.array(self.vectors[self.starts[place] : self.starts[place + 1]])
            shares = rows["share"].to_numpy()
            total = Aggregate(block[1], np.array(clients, dtype=np.int32), shares, MappingProxyType({}), shares)
            sent = {version: self.model(version) for version in set(versions)}
            after = self.model(t + 1)
            yield ServerView(t, np.nan, total, jobs, sent, block[2:] if self.shown else None, after, block[0], block[1])

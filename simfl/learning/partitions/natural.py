"""Clients that the data themselves name."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split


@PARTITIONS("natural")
@dataclass(frozen=True)
class Natural:
    """The samples of one value of a column belong to one client, e.g. a writer, an occupation or a country.

    With fewer clients than values, whole values are dealt, the largest first, to the client with the fewest samples;
    with ``subset`` each client gets one value, drawn, and the samples of the others are unused. Client 0 holds the
    largest value, and of equally large ones the one that is sorted first.
    """

    column: Annotated[str, Field(min_length=1, description="column to split by; client = whom the data name")] = (
        "client"
    )
    subset: Annotated[bool, Field(description="fewer clients than values: one value each, the others unused")] = False

    example = {"column": "place"}
    leaves_nobody_out = True
    disjoint = True

    @property
    def by_seed(self) -> bool:
        """Values are drawn."""
        return self.subset

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        if self.column not in data.columns:
            known = ", ".join(data.columns) or "none"
            hint = "" if data.columns else "; in csv and parquet learning.data.client names the column of the clients"
            raise ScenarioError("column", f"no column '{self.column}' to split by; there are: {known}{hint}")
        values, code = np.unique(data.columns[self.column], return_inverse=True)
        if clients > len(values):
            raise ScenarioError(
                "column",
                f"'{self.column}' has {len(values)} values for {clients} clients; the nearest valid value of clients "
                f"is {len(values)}",
            )
        used = np.sort(rng.permutation(len(values))[:clients]) if self.subset else np.arange(len(values))
        sizes = np.bincount(code)
        client_of = np.full(len(values), -1)
        load = np.zeros(clients, dtype=np.int64)
        for value in used[np.argsort(-sizes[used], kind="stable")]:
            client_of[value] = load.argmin()
            load[client_of[value]] += sizes[value]
        positions = np.flatnonzero(client_of[code] >= 0)
        return Split.by_owner(positions, client_of[code[positions]], clients)

"""What privacy rooms hold: stages that change what is summed, and accountants that say what the sums gave away."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.columns import ROUND_COLUMNS, Column
from simfl.registry import Registry
from simfl.rng import Streams
from simfl.types import Arrays, Job

__all__ = ["ACCOUNTANTS", "COLUMNS", "PRIVACY", "STAGES", "Accountant", "History", "Members", "Privacy", "Stage"]


COLUMNS = tuple(column for column in ROUND_COLUMNS if column.name.startswith("privacy_"))
"""The columns of ``rounds.csv`` that belong to the scenario's ``privacy``."""


class Members(NamedTuple):
    """Whose updates one aggregate holds.

    Attributes:
        number: of the aggregation, from 0; with its name the address of a stage's draws.
        jobs: the jobs they come from, n, by ascending client.
        weights: float64 (n,): what each counted.
        divisor: what the sum was divided by.
    """

    number: int
    jobs: tuple[Job, ...]
    weights: NDArray[np.float64]
    divisor: float


class Stage(Protocol):
    """A privacy mechanism, e.g. clipping or noise: a frozen dataclass whose methods are pure.

    Stages work in the order of the scenario at the clients and in the reverse order at the server. A client's vector
    may grow there (a bit beside it, a padded length); the server's part of the same stage takes that away again.

    Attributes:
        columns: the facts that are columns of rounds.csv, too.
        coded: what leaves the clients is no update coordinate by coordinate (it is rotated, padded); whoever has the
            sum decodes it with the server's part.
    """

    columns: tuple[Column, ...] = ()
    coded: bool = False

    def start(self, dimension: int) -> Arrays:
        """Its state before the first aggregation."""
        return {}

    def client(
        self, vectors: NDArray[np.float32], jobs: tuple[Job, ...], state: Arrays, streams: Streams
    ) -> NDArray[np.float32]:
        """What n clients send, (n, d'), of their vectors, (n, d)."""
        return vectors

    def server(
        self, vector: NDArray[np.float32], members: Members, state: Arrays, streams: Streams
    ) -> tuple[NDArray[np.float32], Arrays]:
        """What the server makes of the aggregate, (d',) -> (d,), and the stage's next state."""
        return vector, state

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        """What accountants need to know of this aggregation, e.g. the noise multiplier and who shared it."""
        return {}


STAGES = Registry("stage", protocol=Stage)


@dataclass(frozen=True)
class History:
    """All that an accountant sees of a finished run.

    Attributes:
        participation: the weights of the clients in each aggregate, scipy CSR of shape (rounds, clients), for every
            aggregator: the server, or the clients that aggregate; zero rows where nothing was aggregated.
        facts: of each stage, by name: float64 (rounds,), NaN where it said nothing.
        single: whoever aggregates needs every single update, e.g. for a median: no sum hides them.
        samples: int64 (clients,): training samples of each client where they weigh its updates in every sum, beside
            ``participation``; None where they do not.
    """

    participation: Mapping[int, Any]
    facts: tuple[Mapping[str, NDArray[np.float64]], ...] = ()
    single: bool = False
    samples: NDArray[np.int64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(rounds, clients)."""
        return next(iter(self.participation.values())).shape


class Accountant(Protocol):
    """Says, after the last round, what every round's aggregates had given away until then.

    Attributes:
        columns: what it fills in rounds.csv.
    """

    columns: tuple[Column, ...]

    @abstractmethod
    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        """The values of its columns for every round; None = does not apply or was not evaluated."""
        ...


ACCOUNTANTS = Registry("accountant", protocol=Accountant)
PRIVACY = Registry("privacy", default="multi_round", protocol=Accountant)


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What every choice of ``privacy`` has besides its own metrics, of which it is the first accountant."""

    stages: Annotated[
        tuple[Annotated[Any, STAGES], ...], Field(description="what is done to updates and their sum, in order")
    ] = ()
    accountants: Annotated[
        tuple[Annotated[Any, ACCOUNTANTS], ...], Field(description="what else is said of what the sums give away")
    ] = ()

"""What privacy rooms hold: stages that change what is summed, and accountants that say what the sums gave away."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.columns import ROUND_COLUMNS, Column
from simfl.payload import SUMMABLE
from simfl.registry import Registry
from simfl.rng import Streams
from simfl.setting import Setting
from simfl.types import Arrays, Job

__all__ = [
    "ACCOUNTANTS", "COLUMNS", "NOT_FINITE", "PRIVACY", "STAGES", "Accountant", "Facts", "History", "Loss", "Members",
    "Privacy", "Stage",
]  # fmt: skip

Facts = Mapping[str, NDArray[np.float64]]
"""What a stage said of every round, by name: float64 (rounds,), NaN where it said nothing."""


COLUMNS = tuple(column for column in ROUND_COLUMNS if column.name.startswith("privacy_"))
"""The columns of ``rounds.csv`` that belong to the scenario's ``privacy``."""


NOT_FINITE = Column("not_finite", "Updates that are no numbers", "count",
                    "Updates in the sum that held a number that is not finite and so became 0.", -1, "sum",
                    shown=False)  # fmt: skip
"""Stages that make 0 of such updates list it; the servers fill it in."""


class Members(NamedTuple):
    """Whose updates one aggregate holds.

    Attributes:
        number: of the aggregation, from 0; with its name the address of a stage's draws.
        jobs: the jobs they come from, n, by ascending client.
        weights: float64 (n,): what each counted.
        divisor: what the sum was divided by.
        opened: of each job the last of its secrets, those that were opened after the upload; empty where none were.
        examples: int64 (n,): training samples of each job's client; None where they are not known, as of a log.
        fixed: the divisor where it is the same in every round, whoever came; else None.
        follows_data: whether a client is in it may have depended on its data.
    """

    number: int
    jobs: tuple[Job, ...]
    weights: NDArray[np.float64]
    divisor: float
    opened: tuple[tuple[bytes, ...], ...] = ()
    examples: NDArray[np.int64] | None = None
    fixed: float | None = None
    follows_data: bool = False

    @property
    def summed(self) -> int:
        """How many of them are in the sum."""
        return int((self.weights > 0).sum())


@dataclass(frozen=True)
class Loss:
    """What each round's aggregate tells about a client that is in it: its update against none, the zero-out adjacency.

    Attributes:
        mu: of Gaussian noise, sensitivity over standard deviation, (rounds,).
        pure: a pure epsilon, (rounds,).
        rdp: bounds of the Renyi divergences of the orders :data:`simfl.privacy.losses.ORDERS`, (rounds, orders).
        weighted: mu is of an update of weight 1 and grows with it; else the weight is no matter.
        span: what was noised in a round is the sum of so many of the last aggregates that there were, (rounds,); None
            = its own alone.
    """

    mu: NDArray[np.float64] | None = None
    pure: NDArray[np.float64] | None = None
    rdp: NDArray[np.float64] | None = None
    weighted: bool = False
    span: NDArray[np.int64] | None = None


class Stage(Protocol):
    """A privacy mechanism, e.g. clipping or noise: a frozen dataclass whose methods are pure.

    Stages work in the order of the scenario at the clients and in the reverse order at the server. A client's vector
    may grow there (a bit beside it, a padded length); the server's part of the same stage takes that away again.

    Attributes:
        columns: the facts that are columns of rounds.csv, too.
        observer: against whom it protects: ``server`` = also against the server, which sees who takes part; ``outside``
            = those who see the models only; empty = nobody, it adds no noise.
        gaussian: its loss is that of Gaussian noise, ``mu``.
        amplifies: the noise of each aggregate is its own, so that a client may hide in whether it is there at all.
        whole: its clients send whole numbers, int64, to be added up in a protocol's field as they are; the server's
            part gets what the sum is there, divided as any other. Only the last stage can.
        seeds: secrets that each client shares with others so that they can be opened after the upload.
        at_client: each client adds noise that protects its update by itself; shares of noise do not.
        covers: the kinds of parts (:data:`simfl.payload.Kind`) of what leaves a client that it changes; those that it
            does not cover pass it as they are.
        certificate: its column that holds an epsilon of its own; empty = none does.
    """

    columns: tuple[Column, ...] = ()
    observer: Literal["", "server", "outside"] = ""
    gaussian: bool = False
    amplifies: bool = False
    whole: bool = False
    seeds: int = 0
    at_client: bool = False
    covers: frozenset[str] = frozenset({"update"})
    certificate: str = ""

    @property
    def coded(self) -> bool:
        """Whether what clients send is in other coordinates than the model's: whole numbers, or another length."""
        return self.whole or self.length(3) != 3

    def secrets(self, job: Job, streams: Streams) -> tuple[bytes, ...]:
        """The :attr:`seeds` secrets of a job, of 32 bytes each; the server's part gets those that were opened."""
        return ()

    def length(self, dimension: int) -> int:
        """Coordinates of what it makes of a vector of so many."""
        return dimension

    def start(self, dimension: int) -> Arrays:
        """Its state before the first aggregation; where nothing is learned, vectors are empty all the same."""
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

    def loss(self, facts: Facts) -> Loss | None:
        """What its facts mean for a client; None = nothing is protected."""
        return None


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
        stages: in the order of their facts.
        exposing: names of parts that leave each client and that neither sums nor noise cover.
        silent: nothing leaves a client.
    """

    participation: Mapping[int, Any]
    facts: tuple[Facts, ...] = ()
    single: bool = False
    samples: NDArray[np.int64] | None = None
    stages: tuple[Stage, ...] = ()
    exposing: tuple[str, ...] = ()
    silent: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """(rounds, clients)."""
        return next(iter(self.participation.values())).shape


class Accountant(Protocol):
    """Says, after the last round, what every round's aggregates had given away until then.

    Attributes:
        columns: what it fills in rounds.csv.
        covers: the kinds of parts (:data:`simfl.payload.Kind`) of what leaves a client that its numbers speak of, where
            they are summed or noised; beside others it says 1, or an infinite epsilon.
    """

    columns: tuple[Column, ...]
    covers: frozenset[str] = SUMMABLE

    @abstractmethod
    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        """The values of its columns for every round; None = does not apply or was not evaluated."""
        ...

    def clients(self, history: History) -> Mapping[str, NDArray[Any]]:
        """What it says of each client after the last round, by name, (clients,); a file of the run's own holds it."""
        return {}


ACCOUNTANTS = Registry("accountant", protocol=Accountant)
PRIVACY = Registry("privacy", default="multi_round", protocol=Accountant)


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What every choice of ``privacy`` has besides its own metrics, of which it is the first accountant."""

    stages: Annotated[
        tuple[Annotated[Any, STAGES], ...], Field(description="what is done to updates and their sum, in order")
    ] = ()
    accountants: Annotated[
        tuple[Annotated[Any, ACCOUNTANTS], ...] | None,
        Field(description="what else is said of what the sums give away; null = zero_out where a stage adds noise"),
    ] = None

    def resolve(self, setting: Setting) -> Self:
        """With the accountant of what the stages protect."""
        if self.accountants is not None:
            return self
        return replace(self, accountants=tuple(ACCOUNTANTS.of("zero_out") for _ in self.stages[:1] if self.protects))

    @property
    def protects(self) -> bool:
        """Whether a stage adds noise."""
        return any(stage.observer for stage in self.stages)

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        """Stages in an order in which they cannot work."""
        early = [i for i, stage in enumerate(self.stages[:-1]) if stage.whole]
        return [(f"stages.{i}", "sends whole numbers; only the last stage can") for i in early]

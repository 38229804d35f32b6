"""What an aggregation leaves to whoever steps, attacks or reports."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from simfl.core.types import Aggregate, Floats, Updates, Vectors
from simfl.secagg.sessions import ClientUpdates, SessionResult


class ReleasedUpdate(NamedTuple):
    """What the server's stages make of an aggregate, also of a round in whose sum nobody is.

    Attributes:
        server_update: the aggregate after them, float32 (d,).
        facts, row: as of a :class:`AggregationResult`.
    """

    server_update: Vectors
    facts: tuple[dict[str, float], ...]
    row: dict[str, float]


@dataclass(frozen=True)
class AggregationResult:
    """An aggregate and how it came about.

    Attributes:
        total: as the protocol gives it; its clients are those who hold samples.
        server_update: what the server's stages make of its vector, float32 (d,).
        client_updates: what was added up.
        done: the protocol's good end.
        updates: what training made.
        contributions: what the clients had to send before any stage, float32 (n, d).
        facts: of each stage.
        row: the training's, the stages', the protocol's and the aggregate's columns of rounds.csv.
        divisor: what the sum was divided by.
        mask: what the server's step is multiplied with, float32 (d,) or one number; None = nothing.
        legible: each update and the aggregate as the server reads them, float32 (n, d) and (d,); None = coded.
        summed: what the protocol gives, before any factor.
        believed: what each update counts in it, (n,); None = nobody asks, or not known.
    """

    total: Aggregate
    server_update: Vectors
    client_updates: ClientUpdates
    done: SessionResult
    updates: Updates
    contributions: Vectors
    facts: tuple[dict[str, float], ...]
    row: dict[str, float]
    divisor: float
    mask: Any = None
    legible: tuple[Vectors | None, ...] = (None, None)
    summed: Any = None
    believed: Floats | None = None

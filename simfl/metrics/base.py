"""What a metric is: it looks at what is public of a round, or of the finished run, and fills columns of its own."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import Column
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.types import Arrays, Predictions

__all__ = ["METRICS", "Metric", "Predictions", "RoundSnapshot"]


class RoundSnapshot(NamedTuple):
    """A round that has just ended. Nothing in it can be changed.

    Attributes:
        clients: int32 (n,), ascending: whose updates were aggregated; none if the round was skipped.
        weights: (n,): the row of the participation matrix at those clients.
        row: the round's cells of rounds.csv so far, and what else was measured, by name; None = does not apply. The
            privacy columns are computed after the last round.
        model: the global model now, float32 (d,).
        predictions: what this model makes of the test samples, computed when first called; None without classes.
            It costs an evaluation, and is the same whatever ``learning.evaluate`` says. Given a function, of what that
            makes of the samples, (n, ...): float32 arrays of the same shape.
        rng: draws of the metric's own for this round; no other draw depends on them.
        attackers: bool (n,): which of the clients are out to do harm.
        shares: float64 (n,): what each update counts in the aggregate, only for metrics that say ``reads_shares``; None
            = not known.
        success: how far attacks have come by what their agents say; None = none says so. It costs an evaluation.
    """

    round: int
    clients: NDArray[np.int32]
    weights: NDArray[Any]
    row: Mapping[str, Any]
    model: NDArray[np.float32]
    predictions: Callable[..., Predictions | None]
    rng: np.random.Generator
    attackers: NDArray[np.bool_] = np.zeros(0, dtype=bool)
    shares: NDArray[np.float64] | None = None
    success: Callable[[], float | None] = lambda: None


class Metric(Plugin, Protocol):
    """A frozen dataclass whose methods are pure: what they remember is their state, which checkpoints hold.

    A metric cannot change the run: it is asked when the round is over, sees arrays that cannot be written to,
    and its draws lie under an address of its own.

    A round moves the model from (0, 0) to (3, 4), by sqrt(9 + 16) = 5:

    >>> from simfl.metrics.participation import ModelChange
    >>> metric, models = ModelChange(), np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32)
    >>> rounds = [
    ...     RoundSnapshot(t, np.array([0]), np.array([1]), {}, model, lambda: None, np.random.default_rng(0))
    ...     for t, model in enumerate(models)
    ... ]
    >>> first, state = metric.after(rounds[0], metric.start(clients=4, dimension=2))
    >>> second, state = metric.after(rounds[1], state)
    >>> first, second
    ({}, {'model_change': 5.0})

    Attributes:
        columns: what :meth:`after` fills in rounds.csv; summed up in the summary as each column's ``final`` says.
        finals: what :meth:`end` adds to the summary.
        reads_shares: it reads what each update counts, which takes another look at all of them.
    """

    reads_shares: bool = False

    columns: tuple[Column, ...] = ()
    finals: tuple[Column, ...] = ()

    def start(self, clients: int, dimension: int) -> Arrays:
        """Its state before the first round."""
        return {}

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        """The values of ``columns`` after a round (those left out are empty), and the next state."""
        return {}, state

    def end(self, table: Callable[[str], Any]) -> Mapping[str, float | None]:
        """The values of ``finals``.

        Args:
            table: gives a table of the finished run as a pandas DataFrame by name: ``"rounds.csv"``,
                ``"participation.csv"``, ``"evaluation.csv"``, ``"clients.csv"``, and those that only some runs have;
                an empty one where there is none.
        """
        return {}


METRICS = Registry[Metric](
    "metric",
    protocol=Metric,
    modules=modules_of("simfl.metrics", participation="attackers fairness_unskipped model_change"),
)
"""The scenario's ``metrics``."""

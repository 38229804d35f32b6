"""What a stage would say of aggregates that are known by who is in them only: those of a log."""

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from simfl.core.rng import Streams
from simfl.core.types import SERVER, Job
from simfl.privacy.accountant import History
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import Members, Stage


def history_of_log(stage: Stage, matrix: Any, dimension: int, alone: Any = None) -> History:
    """What accountants would have seen, had the resolved ``stage`` been at work.

    Args:
        matrix: weights, scipy CSR array (rounds, clients); a round without any aggregated nothing.
        dimension: coordinates of an update.
        alone: how many updates of each client were seen in no sum, CSR as ``matrix``; None = none are known of.
    """
    rounds = matrix.shape[0]
    state, streams = stage.start(dimension), Streams(0)
    facts: dict[str, Any] = {}
    for t in np.flatnonzero(np.diff(matrix.indptr)).tolist():
        row = slice(matrix.indptr[t], matrix.indptr[t + 1])
        weights = matrix.data[row].astype(np.float64)
        jobs = tuple(Job(client, client, t, 0.0) for client in matrix.indices[row].tolist())
        members = Members(t, jobs, weights, float(weights.sum()))
        for name, value in stage.facts(members, state).items():
            facts.setdefault(name, np.full(rounds, np.nan))[t] = value
        state = stage.server(np.zeros(stage.length(0), dtype=np.float32), members, state, streams)[1]
    view = ObserverView.of_sums(matrix)
    return History({SERVER: view if alone is None else replace(view, alone=alone)}, (facts,), (stage,))


def noise_multiplier(epsilon: float, delta: float, participations: float) -> float:
    """The standard deviation over the clip norm with which so many sums, each with noise of its own, cost epsilon."""
    return sqrt(participations) / gaussian.mu(epsilon, delta)

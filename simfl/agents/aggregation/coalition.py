"""What clients that work together know of an aggregation, for observers that are of their number."""

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.pipeline import AggregationResult
from simfl.attacks.base import CoalitionView
from simfl.training.base import Rule


def inside(parts: Components[Rule], coalition: NDArray[np.int32], result: AggregationResult) -> CoalitionView | None:
    """Their own vectors, and what the protocol lets them know; None where none of them is in the sum."""
    updates = result.client_updates
    members = np.isin(updates.clients, coalition)
    if not members.any():
        return None
    vectors = updates.weights[members, None] * updates.vectors[members]
    known = parts.protocol.known_to(result.done, updates, updates.clients[members], parts.streams)
    return CoalitionView(updates.clients[members], vectors, updates.divisor(updates.weights), known)

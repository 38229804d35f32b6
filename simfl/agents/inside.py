"""What clients that work together know of an aggregation, for observers that are of their number."""

import numpy as np
from numpy.typing import NDArray

from simfl.agents.parts import Parts
from simfl.agents.summing import Sum
from simfl.attacks.base import Inside

__all__ = ["inside"]


def inside(parts: Parts, coalition: NDArray[np.int32], found: Sum) -> Inside | None:
    """Their own vectors, and what the protocol lets them know; None where none of them is in the sum."""
    given = found.given
    members = np.isin(given.clients, coalition)
    if not members.any():
        return None
    vectors = given.weights[members, None] * given.vectors[members]
    known = parts.protocol.known_to(found.done, given, given.clients[members], parts.streams)
    return Inside(given.clients[members], vectors, given.divisor(given.weights), known)

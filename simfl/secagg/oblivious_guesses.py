"""What a coalition of parties can take off a sum for its noise, in the ways that have been proposed."""

import numpy as np
from numpy.typing import NDArray

from simfl.rng import Streams
from simfl.secagg.field import Q, to_signed
from simfl.secagg.oblivious_round import Party, Plan, choices, forward

__all__ = ["guesses"]

Vector = NDArray[np.float64]


def guesses(plan: Plan, number: int, coalition: NDArray[np.int32], scale: float, streams: Streams) -> dict[str, Vector]:
    """Noise to take off the sum of a round, (d,) each, by strategy.

    ``random``, ``mean``, ``difference``: of each two noises that a member has dealt to anybody, one at random, the
    mean of both, the first less the second (Byrd et al., ICAIF 2022, section 5.4). ``pooled``: members tell one
    another what they have dealt and drawn, so that all terms among them are known; of those dealt to outsiders they
    take the mean; and of those dealt by outsiders they know how the one taken differs from the other, since both have
    the same masks, and take half of that.

    Args:
        plan: whose noise it is.
        number: the round.
        coalition: its members, int32.
        scale: steps of the grid in 1.
        streams: the run's streams; only draws of the members, and messages that they receive, are looked at.
    """
    inside = np.isin(plan.clients, coalition)
    found = {name: np.zeros(plan.elements) for name in ("random", "mean", "difference", "pooled")}
    for i in range(plan.parties):
        dealt = Party(plan, i, streams).deal()
        passed = forward(plan, i, dealt.sent, streams)
        taken = choices(plan, number, i, streams)
        if not inside[i]:  # members see theta only
            apart = to_signed((passed.pair[1] - passed.pair[0]) % Q)
            found["pooled"] += np.where(taken, apart, -apart)[inside].sum(axis=0) / 2
            continue
        first, second = dealt.noise
        coins = streams("oblivious/coalition", number, int(plan.clients[i])).random(first.shape) < 0.5
        found["random"] += np.where(coins, first, second).sum(axis=0)
        found["mean"] += (first + second).sum(axis=0) / 2
        found["difference"] += (first - second).sum(axis=0)
        # a member compares what another has received with what it has dealt itself: the server's swap is no secret
        used = np.where(taken ^ passed.swapped, second, first)
        found["pooled"] += used[inside].sum(axis=0) + (first + second)[~inside].sum(axis=0) / 2
    return {name: value / scale for name, value in found.items()}

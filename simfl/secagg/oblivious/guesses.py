"""What a coalition of parties can take off a sum for its noise, in the ways that have been proposed."""

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.secagg.crypto.field import Q, to_signed
from simfl.secagg.oblivious.noise_messages import ObliviousPlan, Party, choices, forward

Vector = NDArray[np.float64]


def guesses(
    plan: ObliviousPlan, number: int, coalition: NDArray[np.int32], scale: float, streams: Streams
) -> dict[str, Vector]:
    """Noise to take off the sum of round ``number``, (d,) each, by strategy.

    ``random``, ``mean``, ``difference``: of each two noises that a member has dealt to anybody, one at random, the
    mean of both, the first less the second (Byrd et al., ICAIF 2022, section 5.4). ``pooled``: members tell one
    another what they have dealt and drawn, so that all terms among them are known; of those dealt to outsiders they
    take the mean; and of those dealt by outsiders they know how the one taken differs from the other, since both have
    the same masks, and take half of that. Only draws of the coalition's members, and messages that they receive, are
    looked at; ``scale`` is steps of the grid in 1.
    """
    inside = np.isin(plan.clients, coalition)
    estimates = {name: np.zeros(plan.elements) for name in ("random", "mean", "difference", "pooled")}
    for i in range(plan.parties):
        dealt = Party(plan, i, streams).draw_noise()
        passed = forward(plan, i, dealt.sent, streams)
        chosen = choices(plan, number, i, streams)
        if not inside[i]:  # members see theta only
            difference = to_signed((passed.pair[1] - passed.pair[0]) % Q)
            estimates["pooled"] += np.where(chosen, difference, -difference)[inside].sum(axis=0) / 2
            continue
        first, second = dealt.noise
        coins = streams("oblivious/coalition", number, int(plan.clients[i])).random(first.shape) < 0.5
        estimates["random"] += np.where(coins, first, second).sum(axis=0)
        estimates["mean"] += (first + second).sum(axis=0) / 2
        estimates["difference"] += (first - second).sum(axis=0)
        # a member compares what another has received with what it has dealt itself: the server's swap is no secret
        used = np.where(chosen ^ passed.swapped, second, first)
        estimates["pooled"] += used[inside].sum(axis=0) + (first + second)[~inside].sum(axis=0) / 2
    return {name: value / scale for name, value in estimates.items()}

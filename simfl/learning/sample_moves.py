"""By how much one training sample moves the model to which a client's SGD leads.

Of a loss that is convex and smooth in the model, a step of at most 2 / smoothness brings two models no further apart
(Hardt, Recht and Singer, "Train faster, generalize better", ICML 2016, lemma 3.7). With a penalty the step is that from
w - r / (1 - r p) gradient(w), r the rate and p the penalty, shortened by 1 - r p: where r (smoothness + 2 p) <= 2 it
brings them nearer by that factor. A step whose batch holds the replaced sample adds at most 2 r slope / batch. Added up
over the steps as they are made, each pass holding the sample where it does most: Wu et al., "Bolt-on differential
privacy for scalable stochastic gradient descent", SIGMOD 2017, section 3. Momentum and clipped gradients are not
covered, nor larger steps: one sample may then do anything.
"""

from functools import lru_cache
from math import inf

import numpy as np

from simfl.clients.local_training import LocalTraining
from simfl.learning.work import steps_of


@lru_cache(maxsize=4096)
def largest_move(local: LocalTraining, samples: int, version: int, slope: float, smoothness: float) -> float:
    """By how far, in the Euclidean norm, one replaced sample of so many moves a client's model at most.

    Args:
        local: how it trains.
        samples: that it holds.
        version: of the model that it starts from.
        slope: the most that the gradient of one sample's loss is long.
        smoothness: the most by which that gradient changes, over the distance of two models.

    Returns:
        0 without samples; infinite where nothing is proven.
    """
    rate, penalty = local.rate(version), local.weight_decay + local.algorithm.proximal
    if not samples:
        return 0.0
    if not local.descends or not rate * (smoothness + 2 * penalty) <= 2:
        return inf
    bounds, _, passes = steps_of(samples, local)
    sizes = np.diff(bounds)
    adds = 2 * rate * slope / sizes * (1 - rate * penalty) ** np.arange(len(sizes))[::-1]
    by_pass = np.zeros((passes, np.searchsorted(bounds[:-1], samples)))  # the last one may end early
    by_pass.ravel()[: len(sizes)] = adds
    return float(by_pass.max(axis=1).sum() if local.shuffle else by_pass.sum(axis=0).max())

"""Samples out of a first linear layer's update: a unit's weights over its bias (Geiping et al. 2020, section 3.2)."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from simfl.attacks.context import AttackerKnowledge
from simfl.clients.local_values import Parameter
from simfl.core.errors import ScenarioError

LEAST = 1e-6
"""Changes of a bias below this share of the largest one are rounding."""


def samples_of(update: NDArray[np.float32], knowledge: AttackerKnowledge) -> NDArray[np.float32]:
    """The different samples that units tell, (m, *shape), those that most units agree on first.

    Of the update, (d,), of a client or a sum. Exact for one sample whatever the local steps and momentum, not with
    weight decay; of several samples, for each that fires some ReLU unit alone.

    Raises:
        ScenarioError: the model does not begin with a linear layer with a bias.
    """
    weight, bias = _first_layer(knowledge.parameters, prod(knowledge.shape))
    rows = update[weight.elements].reshape(weight.shape).astype(np.float64)
    steps = update[bias.elements].astype(np.float64)
    large = np.abs(steps) > LEAST * np.abs(steps).max(initial=0)
    if not large.any():
        return np.empty((0, *knowledge.shape), dtype=np.float32)
    samples = (rows[large] / steps[large, None]).reshape(-1, *knowledge.shape)
    width = knowledge.high - knowledge.low
    inside = ((samples >= knowledge.low - 0.05 * width) & (samples <= knowledge.high + 0.05 * width)).reshape(
        len(samples), prod(samples.shape[1:])
    )
    order = np.argsort(-np.abs(steps[large]), kind="stable")
    samples = np.clip(samples, knowledge.low, knowledge.high)[order][inside.all(axis=1)[order]]
    return _different(samples.astype(np.float32))


def _first_layer(parameters: Sequence[Parameter], pixels: int) -> tuple[Parameter, Parameter]:
    first, *rest = parameters
    if first.layer != "Linear" or first.shape[1:] != (pixels,) or not rest or rest[0].shape != first.shape[:1]:
        why = "is analytic, but the model does not begin with a linear layer with a bias; use cosine"
        raise ScenarioError("method", why)
    return first, rest[0]


def _different(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """One of each group of nearly equal samples, the largest groups first."""
    flat, left = samples.reshape(len(samples), prod(samples.shape[1:])), np.arange(len(samples))
    groups: list[tuple[int, int]] = []
    while len(left):
        near = np.square(flat[left] - flat[left[0]]).mean(axis=1) < 1e-6 * (1 + np.square(flat[left[0]]).mean())
        groups.append((int(near.sum()), int(left[0])))
        left = left[~near]
    return samples[[first for _, first in sorted(groups, key=lambda group: -group[0])]]

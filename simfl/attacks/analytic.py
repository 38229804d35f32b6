"""Samples out of a first linear layer's update: a unit's weights over its bias (Geiping et al. 2020, section 3.2)."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from simfl.errors import ScenarioError
from simfl.lab import Bench
from simfl.variant import Parameter

__all__ = ["samples_of"]

LEAST = 1e-6
"""Changes of a bias below this share of the largest one are rounding."""


def samples_of(update: NDArray[np.float32], bench: Bench) -> NDArray[np.float32]:
    """The different samples that units tell, (m, *shape), those that most units agree on first.

    Exact for one sample whatever the local steps and momentum, not with weight decay; of several samples, for each
    that fires some ReLU unit alone.

    Args:
        update: of a client or of a sum, (d,).
        bench: the model.

    Raises:
        ScenarioError: the model does not begin with a linear layer with a bias.
    """
    weight, bias = _first_layer(bench.parameters, prod(bench.shape))
    rows = update[weight.start : weight.start + prod(weight.shape)].reshape(weight.shape).astype(np.float64)
    steps = update[bias.start : bias.start + prod(bias.shape)].astype(np.float64)
    large = np.abs(steps) > LEAST * np.abs(steps).max(initial=0)
    if not large.any():
        return np.empty((0, *bench.shape), dtype=np.float32)
    found = (rows[large] / steps[large, None]).reshape(-1, *bench.shape)
    width = bench.high - bench.low
    inside = ((found >= bench.low - 0.05 * width) & (found <= bench.high + 0.05 * width)).reshape(len(found), -1)
    order = np.argsort(-np.abs(steps[large]), kind="stable")
    found = np.clip(found, bench.low, bench.high)[order][inside.all(axis=1)[order]]
    return _different(found.astype(np.float32))


def _first_layer(parameters: Sequence[Parameter], pixels: int) -> tuple[Parameter, Parameter]:
    first, *rest = parameters
    if first.layer != "Linear" or first.shape[1:] != (pixels,) or not rest or rest[0].shape != first.shape[:1]:
        why = "is analytic, but the model does not begin with a linear layer with a bias; use cosine"
        raise ScenarioError("method", why)
    return first, rest[0]


def _different(found: NDArray[np.float32]) -> NDArray[np.float32]:
    """One of each group of nearly equal samples, the largest groups first."""
    flat, left = found.reshape(len(found), prod(found.shape[1:])), np.arange(len(found))
    groups: list[tuple[int, int]] = []
    while len(left):
        near = np.square(flat[left] - flat[left[0]]).mean(axis=1) < 1e-6 * (1 + np.square(flat[left[0]]).mean())
        groups.append((int(near.sum()), int(left[0])))
        left = left[~near]
    return found[[first for _, first in sorted(groups, key=lambda group: -group[0])]]

"""A user's partition: lists of positions of training samples, one a client, or a function that gives them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError, amount
from simfl.learning.data.base import Dataset
from simfl.learning.objects.global_seeds import seed_generators
from simfl.learning.partitions.base import Split

IndexLists = tuple[NDArray[np.int64], ...]
NEEDED = "a list of arrays of positions, one a client, or a function (labels, clients, rng) that gives one, is needed"


def read_partition(value: Any) -> IndexLists | Callable[..., object]:
    """The parts as int64 arrays, copied; a function as it is.

    Raises:
        ValueError: it is neither.
    """
    if callable(value):
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise ValueError(f"{NEEDED} (got {type(value).__name__})")
    return tuple(_positions(part, client) for client, part in enumerate(value))


def _positions(part: object, client: int) -> NDArray[np.int64]:
    try:
        positions = np.array(part)
    except (TypeError, ValueError):
        raise ValueError(f"{NEEDED}; part {client} is {type(part).__name__}") from None
    if positions.ndim == 1 and not positions.size:
        return np.empty(0, dtype=np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(f"{NEEDED}; part {client} is {positions.dtype} of shape {positions.shape}")
    return positions.astype(np.int64)


def checked_split(
    name: str, value: IndexLists | Callable[..., object], data: Dataset, clients: int, rng: np.random.Generator
) -> Split:
    """The parts, or those that a function gives.

    Args:
        name: of the partition, in messages.
        value: what :func:`read_partition` returned.
        data: what is split.
        clients: their number.
        rng: what a function may draw from.

    Raises:
        ScenarioError: they are not as many as clients, or name samples that there are not, or one twice.
    """
    parts = _call_function(name, value, data, clients, rng) if callable(value) else value
    samples = len(data.y_train)
    if len(parts) != clients:
        near = f"; the nearest valid value of clients is {len(parts)}" if parts else ""
        raise ScenarioError("", f"{name} has {amount(len(parts), 'part')} for {amount(clients, 'client')}{near}")
    for client, part in enumerate(parts):
        if len(part) and not (0 <= part.min() and part.max() < samples):
            wrong = int(part.min() if part.min() < 0 else part.max())
            reach = f"positions of training samples reach from 0 to {samples - 1}"
            raise ScenarioError("", f"{name} gives client {client} the sample {wrong}; {reach}")
        if len(np.unique(part)) < len(part):
            raise ScenarioError("", f"{name} gives client {client} a sample twice")
    return Split.of(parts)


def _call_function(
    name: str, function: Callable[..., object], data: Dataset, clients: int, rng: np.random.Generator
) -> IndexLists:
    call = f"{name}(labels, clients, rng)"
    try:
        with seed_generators(int(rng.integers(2**63))):
            parts = read_partition(function(data.y_train.copy(), clients, rng))
    except Exception as error:  # somebody else's code may raise anything
        why = " ".join(str(error).split())
        raise ScenarioError("", f"{call} raises {type(error).__name__}: {why}") from error
    if callable(parts):
        raise ScenarioError("", f"{call} returns a function; {NEEDED}")
    return parts

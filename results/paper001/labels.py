"""Which client of MNIST sorted by label holds which label, and drops out how often."""

from collections.abc import Sequence
from typing import Any

import numpy as np

MNIST_LABELS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
"""Training images of each digit."""
DROPOUT_OF_LABEL = (0.1, 0.15, 0.2, 0.25, 0.3, 0.3, 0.35, 0.4, 0.45, 0.5)
"""How probably a client drops out that holds this digit only."""
SHARDS = tuple(np.random.Generator(np.random.Philox(1)).permutation(120).tolist())
"""Each client's shard of MNIST sorted by label: dealt at random, once for all seeds."""


def dropout_by_label(shards: Sequence[int] = SHARDS) -> list[float]:
    """Each client's dropout probability, where it holds the given one of equal shards of MNIST sorted by label.

    Half the sum of the probabilities of its first and its last sample's label, as the authors' notebook has it.
    """
    labels = np.repeat(np.arange(10), MNIST_LABELS)
    size = len(labels) // len(shards)
    rates = np.asarray(DROPOUT_OF_LABEL)
    mean = (rates[labels[::size]] + rates[labels[size - 1 :: size]]) / 2
    return [round(float(mean[shard]), 4) for shard in shards]


GROUPED = {"learning.backend": "grouped"}
"""With what the runs of Table 3 are stored: their last digits depend on it, their times too."""
SORTED = {"learning.partition": "{name: data_sharing, shared: 0}"}


def by_label(shards: Sequence[int]) -> dict[str, Any]:
    """One shard of one label a client, and the dropout probability of that label."""
    return {
        "learning.partition": f"{{name: data_sharing, shared: 0, order: {list(shards)}}}",
        "devices.availability.dropout": [dropout_by_label(shards)],
    }

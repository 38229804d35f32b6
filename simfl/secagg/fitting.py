"""What can be summed under masks at all, whatever the protocol."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from simfl.core.coverage import looks_ahead
from simfl.core.scenario_view import ScenarioView


def own_weights(setting: ScenarioView, *samples: int) -> NDArray[np.float64]:
    """What clients with so many samples multiply their fresh updates by; the server's part is its row."""
    fresh, rule = np.zeros(len(samples), dtype=np.int64), setting.training
    weights, row = rule.weights(np.array(samples), fresh), np.asarray(rule.row(fresh), dtype=np.float64)
    return np.divide(weights, row, out=np.zeros(len(samples)), where=row > 0)


def unmaskable(setting: ScenarioView) -> Iterator[str]:
    """Why a rule's updates cannot be summed under masks, whatever the protocol."""
    if not np.allclose(weights := own_weights(setting, 1, 2, 3), np.rint(weights), rtol=1e-9, atol=0):
        yield f"adds whole numbers, but a client with one sample weighs {weights[0]:g}; use weighting: equal or samples"
    if looks_ahead(setting):
        yield (
            "masks an update before the model exists that it is to be compared with; add the clients' changes "
            "(mix: deltas), or use secagg: plain"
        )


def differ(setting: ScenarioView) -> bool:
    """Whether the rule weighs a client with two samples unlike one with one."""
    one, two = setting.training.weights(np.array([1, 2]), np.zeros(2, dtype=np.int64)).tolist()
    return bool(one != two)

"""Whether an aggregate is the sum that noise takes it for."""

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.core.errors import PluginError
from simfl.core.types import Aggregate
from simfl.privacy.stage import Members
from simfl.secagg.updates import ClientUpdates
from simfl.training.base import Rule


def require_sum(
    parts: Components[Rule],
    client_updates: ClientUpdates,
    total: Aggregate,
    members: Members,
    shares: NDArray[np.float64],
) -> None:
    """Looks whether an aggregate that says so is a multiple of the weighted sum, where noise rests on that; a protocol
    may have moved each coordinate of an update by the step of its grid.

    Raises:
        PluginError: it is not.
    """
    aggregate, protocol = parts.rule.aggregate, parts.protocol
    if not aggregate.sum_only or all(it.adds_noise is None and not it.certificate for it in parts.stages):
        return
    if protocol.certificate or total.clipped or any(it.whole for it in parts.stages):
        return  # adds noise of its own; says how many parts cover an update; adds whole numbers, which may wrap
    ones, used = np.ones((len(shares), 1), dtype=np.float32), shares * members.divisor
    gain = float(aggregate.combine(ones, used, members.divisor)[0]) / (float(shares.sum()) or 1.0)
    vector, summed = total.vector.astype(np.float64), np.einsum("n,nd->d", shares, client_updates.vectors)
    off, largest = np.abs(vector - gain * summed).max(initial=0.0), np.abs(vector).max(initial=0.0)
    if not off <= 1e-3 * largest + gain * total.step * np.abs(shares).sum():
        if protocol.shows_updates or protocol.sums_whoever_comes:
            raise PluginError(aggregate, "combine gives no fixed multiple of the weighted sum; say sum_only = False")
        why = f"add is off the weighted sum by {off:.3g}, more than the step of its grid, {total.step:g}; say its step"
        raise PluginError(f"secagg '{protocol.name}'", why)

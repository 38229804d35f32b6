"""What attackers achieve, and how far they are believed."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simfl.core.columns import Column
from simfl.core.types import Arrays
from simfl.metrics.base import METRICS, Metric, RoundSnapshot


@METRICS("attackers")
@dataclass(frozen=True)
class Attackers(Metric):
    """How many of a round's updates are attackers', their share of the absolute weights in the aggregate (empty where
    these are not known, as of a median), and how far attacks have come by what the agents say, which costs an
    evaluation. Who only does damage has no success: compare ``test_accuracy`` with that of standard clients.
    """

    reads_shares = True
    columns = (
        Column("attackers", "Attackers", "count", "Aggregated updates that are of attackers."),
        Column("attacker_share", "Attackers' share", "share", "Weight of attackers' updates in the aggregate.", -1),
        Column("attack_success", "Attack success", "share", "Test samples that the model takes as attackers want.", -1),
    )

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        share, success = None, snapshot.success()
        if snapshot.shares is not None and len(snapshot.clients):
            weights = np.abs(snapshot.shares)
            share = float(weights[snapshot.attackers].sum() / (weights.sum() or 1.0))
        count = int(snapshot.attackers.sum())
        return {"attackers": count, "attacker_share": share, "attack_success": success}, state

"""What attackers achieve, and how far they are believed."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simfl.core.columns import Column
from simfl.core.types import Arrays
from simfl.metrics.base import METRICS, Metric, RoundSnapshot


@METRICS("attack_success")
@dataclass(frozen=True)
class AttackSuccess(Metric):
    """How far attacks have come, as the agents say, of several the mean; each round costs an evaluation. Who only does
    damage has no success: compare ``test_accuracy`` with that of the same run of standard clients.
    """

    columns = (
        Column(
            "attack_success", "Attack success", "share", "Test samples of which the model says what attackers want.", -1
        ),
    )

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        return {"attack_success": snapshot.success()}, state


@METRICS("attacker_share")
@dataclass(frozen=True)
class AttackerShare(Metric):
    """How many of a round's updates are attackers', and their share of the absolute weights in the aggregate: empty where
    these are not known, as of a median.
    """

    reads_shares = True
    columns = (
        Column("attackers", "Attackers", "count", "Aggregated updates that are of attackers."),
        Column("attacker_share", "Attackers' share", "share", "Weight of attackers' updates in the aggregate.", -1),
    )

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        values: dict[str, float | None] = {"attackers": int(snapshot.attackers.sum())}
        if snapshot.shares is not None and len(snapshot.clients):
            weights = np.abs(snapshot.shares)
            values["attacker_share"] = float(weights[snapshot.attackers].sum() / (weights.sum() or 1.0))
        return values, state

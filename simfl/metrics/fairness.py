"""Fairness over the rounds in which something was aggregated."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simfl.core.columns import Column
from simfl.core.types import Arrays
from simfl.metrics.base import METRICS, Metric, RoundSnapshot


@METRICS("fairness_unskipped")
@dataclass(frozen=True)
class FairnessUnskipped(Metric):
    """The fairness gap among the rounds that were not skipped.

    ``fairness_gap`` divides by all rounds, as arXiv 2106.03328 defines it (section 3.3); the figures of that paper, by
    its authors' public code, divide by the rounds with an aggregation. The two differ by the share of skipped rounds.
    """

    columns = (
        Column(
            "fairness_gap_unskipped", "Fairness gap, unskipped", "number",
            "Largest minus smallest share of the rounds so far with an aggregation in which a client took part.", -1,
            words="fairness gap of rounds not skipped",
        ),
    )  # fmt: skip

    def start(self, clients: int, dimension: int) -> Arrays:
        return {"took": np.zeros(clients, dtype=np.int64), "rounds": np.array(0)}

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        took = state["took"].copy()
        took[snapshot.clients] += 1
        rounds = np.array(state["rounds"] + (len(snapshot.clients) > 0))
        gap = None if rounds == 0 else float((took.max() - took.min()) / rounds)
        return {"fairness_gap_unskipped": gap}, {"took": took, "rounds": rounds}

"""A metric of one's own: balanced accuracy, a running mean of cardinality, and how even participation was."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins import Column
from simfl.plugins.metrics import METRICS, Metric


@METRICS("balanced")
@dataclass(frozen=True)
class Balanced(Metric):
    """Accuracy as the mean over the classes of the test samples; ``memory`` of a smoothed cardinality."""

    memory: float = 0.5

    columns = (
        Column("balanced_accuracy", "Balanced accuracy", "share", "Mean recall over the classes.", 1),
        Column("smooth_cardinality", "Smoothed cardinality", "number", "Exponentially smoothed cardinality.", 1),
        Column("coin", "Coin", "number", "A draw of its own.", shown=False),
    )
    finals = (Column("participation_entropy", "Entropy", "number", "Of who was aggregated, in nats.", 1, None),)

    def start(self, clients, dimension):
        return {"smooth": np.zeros(())}

    def after(self, snapshot, state):
        smooth = self.memory * state["smooth"] + (1 - self.memory) * len(snapshot.clients)
        said = {"smooth_cardinality": float(smooth), "coin": snapshot.rng.random()}
        if snapshot.row.get("test_accuracy") is not None:
            found = snapshot.predictions()
            right = found.predicted == found.labels
            said["balanced_accuracy"] = np.mean([right[found.labels == c].mean() for c in np.unique(found.labels)])
        return said, {"smooth": smooth}

    def end(self, table):
        share = table("participation.csv").client.value_counts(normalize=True).to_numpy()
        return {"participation_entropy": float(-(share * np.log(share)).sum())}

"""An observer that keeps the sum of all aggregates and guesses that every update is their mean."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins.attacks import OBSERVERS, Observer


@OBSERVERS("recorder")
@dataclass(frozen=True)
class Recorder(Observer):
    """Its guess for every client is the aggregate itself."""

    def start(self, clients, dimension):
        return {"sum": np.zeros(dimension), "seen": np.int64(0)}

    def observe(self, seen, state, streams):
        state = {"sum": state["sum"] + seen.total.vector, "seen": state["seen"] + 1}
        return {"guess": seen.total.vector, "single": seen.vectors is not None, "sum": state["sum"]}, state

    def error(self, guess, truth):
        off = truth.updates - guess["guess"]
        return {
            "mean_squared_error": float(np.mean(off.astype(float) ** 2)),
            "single_vectors": float(guess["single"]),
            "norm_of_all": float(np.linalg.norm(guess["sum"])),
        }

"""How far the global model moves."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simfl.core.columns import Column
from simfl.core.types import Arrays
from simfl.metrics.base import METRICS, Metric, RoundSnapshot


@METRICS("model_change")
@dataclass(frozen=True)
class ModelChange(Metric):
    """Euclidean norm of what each round adds to the global model; from the second round on."""

    columns = (
        Column("model_change", "Model change", "number", "Euclidean norm of what the round added to the model."),
    )

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        after = {"model": snapshot.model}
        if "model" not in state or not len(snapshot.model):
            return {}, after
        return {"model_change": float(np.linalg.norm(snapshot.model.astype(np.float64) - state["model"]))}, after

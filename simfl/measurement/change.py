"""How far the global model moves."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simfl.columns import Column
from simfl.measurement.base import METRICS, Metric, Moment
from simfl.types import Arrays

__all__ = ["ModelChange"]


@METRICS("model_change")
@dataclass(frozen=True)
class ModelChange(Metric):
    """Euclidean norm of what each round adds to the global model; from the second round on."""

    columns = (
        Column("model_change", "Model change", "number", "Euclidean norm of what the round added to the model."),
    )

    def after(self, moment: Moment, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        after = {"model": moment.model}
        if "model" not in state or not len(moment.model):
            return {}, after
        return {"model_change": float(np.linalg.norm(moment.model.astype(np.float64) - state["model"]))}, after

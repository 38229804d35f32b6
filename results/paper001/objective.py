"""The metric ``objective`` of convergence.py's runs, a plugin file: the loss that training minimises."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from simfl.plugins import Arrays, Column, ScenarioView, Streams
from simfl.plugins.learning import DATA
from simfl.plugins.metrics import METRICS, Metric, RoundSnapshot


@lru_cache(maxsize=2)
def _drawn(seed: int, samples: int, features: int, classes: int, separation: float) -> tuple[np.ndarray, np.ndarray]:
    data = DATA["synthetic"](samples=samples, shape=(features,), classes=classes, separation=separation)
    loaded = data.load(None, Streams(seed))
    return loaded.x_train.astype(np.float64), loaded.y_train


@METRICS("objective")
@dataclass(frozen=True)
class Objective(Metric):
    """Mean cross-entropy of logistic regression over all synthetic training samples, plus weight_decay / 2 |x|^2.

    The other fields are filled in from the scenario.
    """

    every: int = 10
    seed: int | None = None
    samples: int | None = None
    features: int | None = None
    classes: int | None = None
    separation: float | None = None
    weight_decay: float | None = None

    columns = (Column("objective", "Objective", "number", "Loss over all training samples with its l2 term.", -1),)

    def resolve(self, setting: ScenarioView) -> "Objective":
        data = setting.learning.data
        return replace(
            self, seed=setting.seed, samples=data.samples, features=data.shape[0], classes=data.classes,
            separation=data.separation, weight_decay=setting.training.weight_decay,
        )  # fmt: skip

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        if (snapshot.round + 1) % self.every:
            return {}, state
        x, y = _drawn(self.seed, self.samples, self.features, self.classes, self.separation)
        model = snapshot.model.astype(np.float64)
        weights, intercepts = np.split(model, [self.classes * self.features])
        logits = x @ weights.reshape(self.classes, self.features).T + intercepts
        losses = np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(y)), y]
        return {"objective": float(losses.mean() + self.weight_decay / 2 * model @ model)}, state

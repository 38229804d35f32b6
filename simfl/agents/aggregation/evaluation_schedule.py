"""When the global model is measured; a model that has not changed is not measured twice."""

import numpy as np

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.state import Arrays
from simfl.training.base import Rule


class EvaluationSchedule:
    """Measures the model every ``evaluate_every`` rounds (0: in none) and after the last one."""

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        self.values: dict[str, float] = {}
        self.changed = True

    def after(self, t: int, changed: bool, last: bool) -> dict[str, float]:
        """The measurements due after round t (of version t + 1), by name; empty if none are.

        Args:
            t: the round that has just ended.
            changed: whether it changed the model.
            last: whether the run ends with it.
        """
        self.changed |= changed
        every = self.parts.evaluate_every
        if not (last or every and (t + 1) % every == 0):
            return {}
        if self.changed:
            self.values, self.changed = self.parts.learner.evaluator.evaluate(t + 1), False
        return self.values

    def state(self) -> Arrays:
        """The latest measurements and whether the model has changed since."""
        return {"changed": np.bool_(self.changed), **{f"value/{k}": np.float64(v) for k, v in self.values.items()}}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.changed = bool(state["changed"])
        self.values = {name[len("value/") :]: float(v) for name, v in state.items() if name.startswith("value/")}

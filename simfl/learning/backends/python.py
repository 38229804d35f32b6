"""A user's own training function, in the place of simfl's SGD."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

from simfl.clients.local_training import LocalTraining
from simfl.core.scenario_view import ScenarioView
from simfl.learning.backends.base import BACKENDS, Backend, Engine, TrainingTask
from simfl.learning.objects.choice import PythonObject

SETTINGS = ("learning_rate", "local_epochs", "batch_size", "shuffle", "momentum", "weight_decay", "clip_norm")
"""The keys of the training rule that a training function is handed."""

RATES = ("decay_at", "half_at", "schedule")
"""What makes the learning rate that it is handed another one from version to version."""


@BACKENDS("python")
@dataclass(frozen=True)
class PythonTraining(PythonObject):
    """Your own function train(model, data, settings), passed from Python or named as module:attribute.

    It trains the module in place on the samples and targets of one client, data = (x, y), and returns the mean training
    loss. What it does with them nobody knows: no certificate rests on its steps.
    """

    own_steps = True
    key = "learning.backend"
    example = {"object": "simfl.learning.objects.examples:descend"}

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        rule, why = cast(LocalTraining, setting.training), f"{self.object} makes steps of its own"
        if not rule.algorithm.stateless or rule.algorithm.proximal:
            instead = "training.client: plain and training.personal: none"
            return [("", f"{why}, and {rule.algorithm.name} changes simfl's; use {instead}")]
        if rule.local_steps is not None:
            return [("", f"{why}, and training.local_steps counts simfl's; use local_epochs")]
        return [("", f"{why}, and attacks know those of SGD; leave attacks out")] if setting.attacks else []

    def prepare(self, setting: ScenarioView) -> Backend:
        return OwnTraining(self.handle(setting).value, cast(LocalTraining, setting.training), self.object)

    def build(self, task: TrainingTask) -> Engine:
        raise NotImplementedError("prepare() gives the backend that can be built")


@dataclass(frozen=True)
class OwnTraining(Backend):
    """A training function, ready to be called; ``object`` is what messages call it, ``local`` has what it is handed."""

    function: Callable[..., Any]
    local: LocalTraining
    object: str

    name = "python"
    own_steps = True

    def refuses(self, task: TrainingTask) -> str | None:
        if task.bf16 or task.x.device.type != "cpu":
            return "it is called with a model in float32 on the processor; set learning.device to cpu and bf16 to false"
        augmented = task.crop or task.flip
        return "it is called with the samples as they are; leave learning.augment out" if augmented else None

    def build(self, task: TrainingTask) -> Engine:
        from simfl.learning.backends.own_engine import OwnEngine

        values = vars(self.local)
        changed = {f.name: values[f.name] for f in fields(LocalTraining) if values[f.name] != f.default}
        keys = {key: key for key in SETTINGS} | dict.fromkeys(RATES, "learning_rate")
        needed = {key: (keys[key], value) for key, value in changed.items() if key in keys}
        return OwnEngine(task, self.object, self.function, {name: values[name] for name in SETTINGS}, needed)

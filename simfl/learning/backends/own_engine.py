"""Calls a user's training function, for one client after the other. Imported only where torch is."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from simfl.core.errors import ScenarioError
from simfl.core.types import Floats, Vectors
from simfl.learning.backends.base import TrainingTask
from simfl.learning.backends.python import SETTINGS, OwnTraining
from simfl.learning.backends.trial import changed_part, first_line, own_buffers
from simfl.learning.models.flat import attach, layout, values
from simfl.learning.objects.fingerprint import fingerprint
from simfl.learning.objects.global_seeds import seed_generators
from simfl.learning.work import Work


class Settings(Mapping[str, Any]):
    """What a training function is told; ``read`` are the names that it has asked for."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told, self.read = told, set[str]()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.told[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.told)

    def __len__(self) -> int:
        return len(self.told)


class OwnEngine:
    """Each call has a copy of the module, with the client's start in it, and global generators seeded for the job.

    The first one is made twice, since whoever repeats a run has to get the same.
    """

    def __init__(self, task: TrainingTask, own: OwnTraining) -> None:
        self.task, self.own, self.tried = task, own, False
        self.entries, self.mark = layout(task.module), fingerprint(own.function)
        self.still = {name: buffer.clone() for name, buffer in own_buffers(task.module)}

    def train(self, works: Sequence[Work]) -> tuple[Vectors, Floats]:
        done = [self._one(work) for work in works]
        if not self.tried:
            delta, loss = self._one(works[0])
            if not (np.array_equal(delta, done[0][0], equal_nan=True) and np.array_equal(loss, done[0][1], True)):
                why = "gives two results for one model, one client and one seed; draw from torch's, numpy's or Python's"
                raise self._refusal(f"{why} global generators, which are seeded for each call")
            self.tried = True
        return np.stack([delta for delta, _ in done]), np.array([loss for _, loss in done])

    def _one(self, work: Work) -> tuple[Vectors, float]:
        held = np.sort(work.order[work.bounds[work.last_pass] :])
        epochs = len(work.order) // len(held)
        told = vars(self.own.local) | {"learning_rate": work.rate, "local_epochs": epochs}
        settings = Settings({name: told[name] for name in SETTINGS})
        module = copy.deepcopy(self.task.module).train()
        attach(module, torch.from_numpy(work.start.copy()))
        x, y = (part[torch.from_numpy(held)] for part in (self.task.x, self.task.y))
        seed = 0 if work.dropout is None else int(work.dropout().integers(2**63))
        with seed_generators(seed), torch.enable_grad():
            try:
                loss = self.own.function(module, (x, y), settings)
            except Exception as error:  # somebody else's code may raise anything
                hint = f"; settings has {', '.join(SETTINGS)}" if isinstance(error, KeyError) else ""
                raise self._refusal(f"raises {type(error).__name__}: {first_line(error)}{hint}") from error
        self._check(module, settings, epochs)
        try:
            return values(module) - work.start, float(loss)
        except (TypeError, ValueError):
            raise self._refusal(f"returns {type(loss).__name__}, not the mean training loss (a number)") from None

    def _check(self, module: torch.nn.Module, settings: Settings, epochs: int) -> None:
        """
        Raises:
            ScenarioError: a call has left behind what it should not have, or not looked at what the scenario says.
        """
        if layout(module) != self.entries:
            raise self._refusal("leaves other parameters than it was given, or froze some; train the module in place")
        if changed := changed_part(self.still, module):
            raise self._refusal(f"changes {changed}; an average of models cannot carry that")
        if fingerprint(self.own.function) != self.mark:
            why = "keeps something from call to call (a global value, a default or an attribute that it changes)"
            raise self._refusal(f"{why}, so that one client's samples could move another's model")
        said = self.own.said | ({"local_epochs": "local_epochs"} if epochs > 1 else {})
        if unread := [key for key, setting in said.items() if setting not in settings.read]:
            why = f"does not read settings['{said[unread[0]]}'], and training.{unread[0]} says"
            raise self._refusal(f"{why} {vars(self.own.local)[unread[0]]}; read it, or leave that out")

    def _refusal(self, why: str) -> ScenarioError:
        return ScenarioError("learning.backend", f"{self.own.object} {why}")

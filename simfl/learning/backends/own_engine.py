"""Calls a user's training function, for one client after the other. Imported only where torch is."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from simfl.core.errors import ScenarioError
from simfl.core.types import Floats, Vectors
from simfl.learning.backends.base import TrainingTask
from simfl.learning.backends.trial import changed_part, first_line, own_buffers
from simfl.learning.models.flat import attach, layout, values
from simfl.learning.objects.fingerprint import fingerprint
from simfl.learning.objects.global_seeds import seed_generators
from simfl.learning.work import Work


class Settings(Mapping[str, Any]):
    """What a training function is handed; ``read`` are the names that it has asked for."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self.contents, self.read = items, set[str]()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.contents[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents)

    def __len__(self) -> int:
        return len(self.contents)


class OwnEngine:
    """Each call has a copy of the module, with the client's start in it, and global generators seeded for the job.

    The first one is made twice, since whoever repeats a run has to get the same.

    Args:
        name: of the function, in messages.
        settings: what it is handed, but for the rate and the epochs of a job.
        needed: keys of the training rule that are not as they are by default, with the setting that has each and its
            value: a function that does not read them would train in another way than the scenario says.
    """

    def __init__(
        self,
        task: TrainingTask,
        name: str,
        function: Callable[..., Any],
        settings: Mapping[str, Any],
        needed: Mapping[str, tuple[str, Any]],
    ) -> None:
        self.task, self.name, self.function, self.settings, self.needed = task, name, function, settings, needed
        self.entries, self.mark, self.tried = layout(task.module), fingerprint(function), False
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
        samples = np.sort(work.order[work.bounds[work.last_pass] :])
        epochs = len(work.order) // len(samples)
        settings = Settings({**self.settings, "learning_rate": work.rate, "local_epochs": epochs})
        module = copy.deepcopy(self.task.module).train()
        attach(module, torch.from_numpy(work.start.copy()))
        x, y = (part[torch.from_numpy(samples)] for part in (self.task.x, self.task.y))
        seed = 0 if work.dropout is None else int(work.dropout().integers(2**63))
        before = torch.get_default_dtype(), torch.get_num_threads()
        with seed_generators(seed), torch.enable_grad():
            try:
                loss = self.function(module, (x, y), settings)
            except (Exception, SystemExit) as error:  # somebody else's code may raise anything
                hint = f"; settings has {', '.join(settings)}" if isinstance(error, KeyError) else ""
                raise self._refusal(f"raises {type(error).__name__}: {first_line(error)}{hint}") from error
            finally:
                after = torch.get_default_dtype(), torch.get_num_threads()
                torch.set_default_dtype(before[0])
                torch.set_num_threads(before[1])
        if after != before:
            raise self._refusal("changes torch's default dtype or number of threads, which would outlive the run")
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
        if fingerprint(self.function) != self.mark:
            why = "keeps something from call to call (a global value, a default or an attribute that it changes)"
            raise self._refusal(f"{why}, so that one client's samples could move another's model")
        of_tuning = {"local_epochs": ("local_epochs", epochs)} if epochs > 1 else {}
        for key, (setting, value) in {**self.needed, **of_tuning}.items():
            if setting not in settings.read:
                why = f"does not read settings['{setting}'], and training.{key} says {value}"
                raise self._refusal(f"{why}; read it, or leave that as it is by default")

    def _refusal(self, why: str) -> ScenarioError:
        return ScenarioError("learning.backend", f"{self.name} {why}")

"""The backend that is fastest for a model on a device, by measurement (benchmarks/learning.py)."""

from dataclasses import dataclass
from typing import Any

from simfl.learning.backends.base import BACKENDS, Backend, Engine, Task
from simfl.learning.backends.dense import Dense
from simfl.learning.backends.sequential import Sequential

__all__ = ["Auto"]


@BACKENDS("auto")
@dataclass(frozen=True)
class Auto:
    """``dense`` for fully connected models, else ``sequential``."""

    def supports(self, module: Any) -> str | None:
        return None

    def choose(self, module: Any) -> Backend:
        """The backend that stands behind ``auto``."""
        return Dense() if Dense().supports(module) is None else Sequential()

    def build(self, task: Task) -> Engine:
        return self.choose(task.module).build(task)

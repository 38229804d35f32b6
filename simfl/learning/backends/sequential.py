"""One client after the other: any model."""

from dataclasses import dataclass
from typing import Any

from simfl.learning.backends.base import BACKENDS, Engine, Task

__all__ = ["Sequential"]


@BACKENDS("sequential")
@dataclass(frozen=True)
class Sequential:
    """One client after the other, the parameters being views of one flat vector; any model."""

    def supports(self, module: Any) -> str | None:
        return None

    def build(self, task: Task) -> Engine:
        from simfl.learning.backends.sequential_engine import SequentialEngine

        return SequentialEngine(task)

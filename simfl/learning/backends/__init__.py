"""Ways to compute local training: the scenario's choices, and their engines, which import torch."""

from simfl.learning.backends.base import BACKENDS, Backend, Engine, Sgd, Task
from simfl.learning.backends.choices import Auto
from simfl.learning.backends.external import External

__all__ = ["BACKENDS", "Auto", "Backend", "Engine", "External", "Sgd", "Task"]

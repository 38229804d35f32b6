"""Ways to compute local training: one file a backend, its engine (which imports torch) beside it."""

from simfl.learning.backends import dense, sequential
from simfl.learning.backends.auto import Auto
from simfl.learning.backends.base import BACKENDS, Backend, Engine, Sgd, Task

__all__ = ["BACKENDS", "Auto", "Backend", "Engine", "Sgd", "Task", "dense", "sequential"]

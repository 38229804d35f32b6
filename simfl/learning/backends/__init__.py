"""Ways to compute local training: the scenario's choices, and their engines, which import torch."""

from simfl.learning.backends.base import BACKENDS, Backend, Engine, Sgd, TrainingTask
from simfl.learning.backends.choices import Auto

__all__ = ["BACKENDS", "Auto", "Backend", "Engine", "Sgd", "TrainingTask"]

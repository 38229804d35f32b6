"""How updates become the next global model: one file per rule."""

from simfl.training import fedavg, fedbuff, presets
from simfl.training.base import RULES, Rule

__all__ = ["RULES", "Rule", "fedavg", "fedbuff", "presets"]

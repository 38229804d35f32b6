"""How updates become the next global model: one file per rule."""

from simfl.training.base import RULES, Rule

__all__ = ["RULES", "Rule"]

"""Who takes part: one file per policy."""

from simfl.selection.base import POLICIES, Policy

__all__ = ["POLICIES", "Policy"]

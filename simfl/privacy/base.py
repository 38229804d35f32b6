"""The family of privacy metrics."""

from simfl.registry import Registry

__all__ = ["PRIVACY"]

PRIVACY = Registry("privacy", default="multi_round")

"""The family of aggregation protocols."""

from simfl.registry import Registry

__all__ = ["PROTOCOLS"]

PROTOCOLS = Registry("secagg")

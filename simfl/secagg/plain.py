"""No secure aggregation."""

from dataclasses import dataclass

from simfl.secagg.base import PROTOCOLS

__all__ = ["Plain"]


@PROTOCOLS("plain")
@dataclass(frozen=True)
class Plain:
    """The server sees each update and adds them up."""

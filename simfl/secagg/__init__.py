"""How updates are added up without showing them: one file per protocol."""

from simfl.secagg.base import PROTOCOLS, Protocol

__all__ = ["PROTOCOLS", "Protocol"]

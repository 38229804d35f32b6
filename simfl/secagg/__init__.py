"""How updates are added up without showing them: one file per protocol."""

from simfl.secagg import plain
from simfl.secagg.base import PROTOCOLS

__all__ = ["PROTOCOLS", "plain"]

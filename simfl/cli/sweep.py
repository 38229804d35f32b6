"""``simfl sweep``"""

from simfl.sweep.command import command

__all__ = ["command"]

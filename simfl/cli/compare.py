"""``simfl compare``"""

from simfl.compare.command import command

__all__ = ["command"]

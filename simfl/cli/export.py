"""``simfl export``"""

from simfl.export.command import command

__all__ = ["command"]

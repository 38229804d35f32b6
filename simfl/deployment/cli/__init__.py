"""The commands of this package, entry points of the group ``simfl.command``."""

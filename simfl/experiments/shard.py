"""Shares of many runs, for processes that do not know of each other."""

from argparse import ArgumentTypeError
from typing import NamedTuple


class Shard(NamedTuple):
    """The share of a study or sweep that one process runs: every ``of``-th run from the ``number``-th on, from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """``"2/3"``: the second third; a type of argparse.

        Raises:
            argparse.ArgumentTypeError: it is none of 1/n to n/n.
        """
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal()):
            raise ArgumentTypeError(f"'{text}' is not of the form I/N, e.g. 2/3")
        if not 1 <= int(number) <= int(of):
            raise ArgumentTypeError(f"shard {text}: the shards of {of} are 1/{of} to {of}/{of}")
        return cls(int(number), int(of))

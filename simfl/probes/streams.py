"""Random streams that note who draws where, and of which the noise alone can be drawn anew."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from simfl.core.rng import Streams

ELSEWHERE = 1 << 40
"""Seeds of noise drawn anew begin here: far from those of scenarios."""


class Use(NamedTuple):
    """A stream that a stage has asked for.

    Attributes:
        stage: its place among the stages.
        purpose: of the stream, with what tells stages apart.
        address: all of it.
    """

    stage: int
    purpose: str
    address: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Watched(Streams):
    """Streams that note every use.

    Args:
        stage: whose they are.
        redraw: another draw of everything; 0 = that of the seed.
        kept: purposes that are never drawn anew.
        only: the one purpose that is; empty = all.
        uses: what was asked for, in order.
    """

    stage: int = 0
    redraw: int = 0
    kept: frozenset[str] = frozenset()
    only: str = ""
    uses: list[Use] = field(default_factory=list)

    __eq__ = object.__eq__  # whoever keeps what was drawn once would hide that it is drawn again
    __hash__ = object.__hash__

    def __call__(self, purpose: str, *key: int) -> np.random.Generator:
        whole = self.within + purpose
        self.uses.append(Use(self.stage, whole, (str(self.seed), whole, *(str(int(part)) for part in key))))
        anew = self.redraw and whole not in self.kept and self.only in ("", whole)
        return (Streams(ELSEWHERE + self.redraw, self.within) if anew else Streams(self.seed, self.within))(
            purpose, *key
        )

    def of_stages(self, streams: tuple[Streams, ...]) -> tuple[Streams, ...]:
        """The same of each stage, given the streams that each would draw from."""
        return tuple(replace(self, within=each.within, stage=i) for i, each in enumerate(streams))

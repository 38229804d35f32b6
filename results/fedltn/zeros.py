"""LotteryFL with the server's mean of FedLTN: what is its mean over those who keep a weight worth?

docs/personal.md names the sweep that uses this plugin file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simfl.learning.personal.lotteryfl import Drawers, LotteryFl
from simfl.learning.personal.masks import prunable
from simfl.variant import PERSONAL, Begun, ClientVariant, Done, Parameter, Visit

Vector = NDArray[np.float32]


@PERSONAL("lotteryfl_zeros")
@dataclass(frozen=True)
class LotteryFlZeros(LotteryFl):
    """``lotteryfl``, whose server averages every weight over all, with the zeros of those who have pruned it."""

    def fitted(self, parameters: Sequence[Parameter], initial: Vector) -> ClientVariant:
        return WithZeros(self, prunable(parameters), initial)


@dataclass(frozen=True)
class WithZeros(Drawers):
    """LotteryFL's clients; they send whole models."""

    partial = False

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done:
        done = super().end(visit, begun, delta, steps, rate)
        change = np.where(begun.mask, done.upload.update, -visit.download.model)
        return replace(done, upload=replace(done.upload, update=change))

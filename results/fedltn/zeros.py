"""LotteryFL with the server's mean of FedLTN: what is its mean over those who keep a weight worth?

A sweep of `scenarios/fedltn.yaml` over ``training.personal`` uses this plugin file; its results are not stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simfl.papers.lottery_tickets.lotteryfl import Drawers, LotteryFl
from simfl.papers.lottery_tickets.sparse import prunable
from simfl.plugins.clients import (
    PERSONAL,
    ClientAlgorithm,
    LocalContext,
    LocalPass,
    LocalResult,
    Parameter,
)

Vector = NDArray[np.float32]


@PERSONAL("lotteryfl_zeros")
@dataclass(frozen=True)
class LotteryFlZeros(LotteryFl):
    """``lotteryfl``, whose server averages every weight over all, with the zeros of those who have pruned it."""

    def for_model(self, parameters: Sequence[Parameter], initial: Vector) -> ClientAlgorithm:
        return WithZeros(self, prunable(parameters), initial)


@dataclass(frozen=True)
class WithZeros(Drawers):
    """LotteryFL's clients; they send whole models."""

    partial = False

    def end(self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float) -> LocalResult:
        done = super().end(context, local_pass, delta, steps, rate)
        change = np.where(local_pass.mask, done.upload.update, -context.download.model)
        return replace(done, upload=replace(done.upload, update=change))

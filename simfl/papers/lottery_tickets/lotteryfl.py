"""LotteryFL: lottery-ticket networks by pruning before training, with rewinding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.papers.lottery_tickets.sparse import COLUMNS, MASK, Mask, Sparse, mask_state, prunable, prune, sparsity_row
from simfl.plugins import ScenarioView
from simfl.plugins.clients import (
    PERSONAL,
    UPDATE,
    ClientAlgorithm,
    ClientState,
    LocalContext,
    LocalPass,
    LocalResult,
    Parameter,
    Upload,
    Vector,
)

Share = Annotated[float, Field(ge=0, lt=1)]


@PERSONAL("lotteryfl")
@dataclass(frozen=True)
class LotteryFl(ClientAlgorithm):
    """Every client finds a sparse model of its own before it trains.

    Where the weights that its mask leaves of the global model have a validation accuracy above ``threshold`` and less
    than ``target`` is pruned, it prunes the share ``step`` of each layer's remaining weights and goes back to their
    initial values; then it trains. A weight is averaged over those whose masks keep it. Reference: Li et al. 2021
    ("LotteryFL", SEC), algorithm 1.
    """

    target: Annotated[Share, Field(description="share of the weights that shall be pruned")] = 0.5
    step: Annotated[Share, Field(description="share of a layer's remaining weights pruned at a time")] = 0.2
    threshold: Annotated[float, Field(ge=0, le=1, description="validation accuracy above which a client prunes")] = 0.5

    columns = COLUMNS
    sends = (UPDATE, MASK._replace(instead="training.personal: {name: fedltn, compress: false}"))

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if setting.learning.validates:
            return []
        return [("threshold", "needs validation samples; set learning.holdout to {validation: 0.5}")]

    def for_model(self, parameters: Sequence[Parameter], initial: Vector) -> ClientAlgorithm:
        return Drawers(self, prunable(parameters), initial)


@dataclass(frozen=True)
class Drawers(Sparse):
    """LotteryFL's clients, for one model."""

    partial = True

    def begin(self, context: LocalContext) -> LocalPass:
        mask = self._mask(context.state)
        left = np.where(mask, context.download.model, np.float32(0))
        if self.below_target(mask) and context.accuracy(left) > self.rule.threshold:
            mask = prune(left, mask, self.layers, self.rule.step)
            return LocalPass(np.where(mask, self.initial, np.float32(0)), mask=mask, memo="pruned")
        return LocalPass(left, mask=mask)

    def end(self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float) -> LocalResult:
        assert local_pass.mask is not None
        state = mask_state(local_pass.mask, None)
        delta_sent = np.where(local_pass.mask, delta + (local_pass.start - context.download.model), np.float32(0))
        upload = Upload(delta_sent, mask=local_pass.mask, mask_bytes=self.mask_bytes(local_pass.memo is not None))
        return LocalResult(upload, state, row=sparsity_row(state, len(delta), upload.mask_bytes))

    def _mask(self, state: ClientState) -> Mask:
        mask = self.mask(state)
        return np.ones(len(self.initial), dtype=bool) if mask is None else mask

    def personal(self, model: Vector, state: ClientState) -> Vector | None:
        return np.where(self._mask(state), model, np.float32(0)) if state else None

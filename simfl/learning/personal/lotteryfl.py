"""LotteryFL: lottery-ticket networks by pruning before training, with rewinding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.learning.personal.masks import Mask, prunable, pruned
from simfl.learning.personal.sparse import COLUMNS, MASK, Sparse, kept, measured
from simfl.payload import UPDATE, Upload
from simfl.setting import Setting
from simfl.variant import PERSONAL, Begun, ClientVariant, Done, Parameter, Visit

__all__ = ["Drawers", "LotteryFl"]

Vector = NDArray[np.float32]
Own = Mapping[str, NDArray[Any]]
Share = Annotated[float, Field(ge=0, lt=1)]


@PERSONAL("lotteryfl")
@dataclass(frozen=True)
class LotteryFl(ClientVariant):
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
    sends = (UPDATE, MASK._replace(instead="personal: {name: fedltn, compress: false}"))

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        if setting.learning.validates:
            return []
        return [("threshold", "needs validation samples; set learning.holdout to {validation: 0.5}")]

    def fitted(self, parameters: Sequence[Parameter], initial: Vector) -> ClientVariant:
        return Drawers(self, prunable(parameters), initial)


@dataclass(frozen=True)
class Drawers(Sparse):
    """LotteryFL's clients, for one model."""

    partial = True

    def begin(self, visit: Visit) -> Begun:
        mask = self._mask(visit.own)
        left = np.where(mask, visit.download.model, np.float32(0))
        if self.unfinished(mask) and visit.accuracy(left) > self.rule.threshold:
            mask = pruned(left, mask, self.layers, self.rule.step)
            return Begun(np.where(mask, self.initial, np.float32(0)), mask=mask, memo="pruned")
        return Begun(left, mask=mask)

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done:
        assert begun.mask is not None
        own = kept(begun.mask, None)
        change = np.where(begun.mask, delta + (begun.start - visit.download.model), np.float32(0))
        upload = Upload(change, mask=begun.mask, mask_bytes=self.mask_bytes(begun.memo is not None))
        return Done(upload, own, row=measured(own, len(delta), upload.mask_bytes))

    def _mask(self, own: Own) -> Mask:
        mask = self.mask(own)
        return np.ones(len(self.initial), dtype=bool) if mask is None else mask

    def personal(self, model: Vector, own: Own) -> Vector | None:
        return np.where(self._mask(own), model, np.float32(0)) if own else None

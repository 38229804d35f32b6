"""FedLTN: lottery-ticket networks by pruning after training, without rewinding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.learning.personal.masks import Mask, prunable, pruned
from simfl.learning.personal.private_layers import merged, norms
from simfl.learning.personal.sparse import COLUMNS, MASK, Sparse, kept, measured
from simfl.payload import UPDATE, Part, Upload
from simfl.setting import Setting
from simfl.variant import PERSONAL, Begun, ClientVariant, Done, Parameter, Visit

__all__ = ["FedLtn", "Tickets"]

Vector = NDArray[np.float32]
Own = Mapping[str, NDArray[Any]]
Share = Annotated[float, Field(ge=0, lt=1)]


@PERSONAL("fedltn")
@dataclass(frozen=True)
class FedLtn(ClientVariant):
    """Every client finds a sparse model of its own, and keeps its norm layers.

    It trains the weights that its mask leaves of the global model, held near them. Where the trained model's validation
    accuracy is above ``threshold`` and less than ``target`` is pruned, it prunes the share ``step`` of each layer's
    remaining weights and trains once more. Weights of linear and convolutional layers are pruned, never biases or
    norms. The server averages models with their zeros (weighting: equal); its look-ahead is server_optimiser:
    look_ahead. Reference: Mugunthan (MIT thesis, 2022), chapter 4, algorithm 1; the unprinted ``pull`` is that of
    FedACG's code, whose objective it is.
    """

    target: Annotated[Share, Field(description="share of the weights that shall be pruned")] = 0.9
    step: Annotated[Share, Field(description="share of a layer's remaining weights pruned at a time")] = 0.1
    threshold: Annotated[float, Field(ge=0, le=1, description="validation accuracy above which a client prunes")] = 0.6
    pull: Annotated[
        float, Field(ge=0, le=1e6, description="beta of beta/2 |x - start|^2, added to the loss before pruning")
    ] = 0.002
    rewind: Annotated[
        bool, Field(description="remaining weights go back to their initial values after pruning; the control")
    ] = False
    compress: Annotated[
        bool, Field(description="messages hold surviving values and new masks; false = dense messages")
    ] = True

    columns = COLUMNS

    @property
    def sends(self) -> tuple[Part, ...]:  # type: ignore[override]
        """Its update and, where messages are compressed, its mask."""
        return (UPDATE, MASK._replace(instead="compress: false")) if self.compress else (UPDATE,)

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        if not self.target or setting.learning.validates:
            return []
        return [("threshold", "needs validation samples; set learning.holdout to {validation: 0.5}")]

    def fitted(self, parameters: Sequence[Parameter], initial: Vector) -> ClientVariant:
        return Tickets(self, prunable(parameters), initial, norms(parameters, len(initial)))


@dataclass(frozen=True)
class Tickets(Sparse):
    """FedLTN's clients, for one model, whose norm layers are ``private``."""

    private: NDArray[np.bool_]

    def begin(self, visit: Visit) -> Begun:
        mask = self.mask(visit.own)
        return Begun(self._start(visit.download.model, visit.own, mask), mask=mask, proximal=self.rule.pull)

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done | Begun:
        trained = begun.start + delta
        if begun.memo is None and self.unfinished(begun.mask) and visit.accuracy(trained) > self.rule.threshold:
            before = np.ones(len(trained), dtype=bool) if begun.mask is None else begun.mask
            mask = pruned(trained, before, self.layers, self.rule.step)
            left = (
                merged(self.initial, self.private, {"private": trained[self.private]}) if self.rule.rewind else trained
            )
            return Begun(np.where(mask, left, np.float32(0)), mask=mask, memo="pruned")
        return self._done(visit, begun, delta, trained)

    def _done(self, visit: Visit, begun: Begun, delta: Vector, trained: Vector) -> Done:
        own = {"private": trained[self.private]} if self.private.any() else {}
        if begun.mask is not None:
            own |= kept(begun.mask, self.private)
            delta = delta + (begun.start - visit.download.model)
        update = np.where(self.private, np.float32(0), delta)
        upload = Upload(update)
        if self.rule.compress:
            upload = Upload(update, mask=begun.mask, mask_bytes=self.mask_bytes(begun.memo is not None))
        return Done(upload, own, row=measured(own, len(delta) - int(self.private.sum()), upload.mask_bytes))

    def _start(self, model: Vector, own: Own, mask: Mask | None) -> Vector:
        """The global model's weights that the mask leaves, with the client's norm layers."""
        model = merged(model, self.private, own)
        return model if mask is None else np.where(mask, model, np.float32(0))

    def bytes_down(self, dense: int, own: Own) -> int:
        return Sparse.bytes_down(self, dense, own if self.rule.compress else {})

    def personal(self, model: Vector, own: Own) -> Vector | None:
        return self._start(model, own, self.mask(own)) if own else None

"""PrivacyFL's clients: models trained anew, own noise taken off, departure on convergence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.payload import Upload
from simfl.types import Arrays
from simfl.variant import CLIENTS, Begun, ClientVariant, Conclusion, Done, Visit

__all__ = ["PrivacyFL"]

Vector = NDArray[np.float32]


@CLIENTS("privacyfl")
@dataclass(frozen=True)
class PrivacyFL(ClientVariant):
    """A client that knows the noise it has added, and leaves once the federated model hardly differs from its own.

    With ``from_scratch`` it trains from zeros on all it holds (algorithm 3), and a client that holds nothing new has
    the same model again; without, it goes on from the federated model as it sees it (algorithm 2). Reference:
    Mugunthan, "A Practical Approach to Federated Learning", MIT 2022, chapter 5.
    """

    from_scratch: Annotated[bool, Field(description="every job trains from zeros, not from the federated model")] = (
        False
    )
    subtract_own_noise: Annotated[
        bool, Field(description="a client takes its own share of the noise off the federated model that it uses")
    ] = False
    tolerance: Annotated[
        float | None,
        Field(gt=0, description="a client leaves once every weight of its model is nearer than that; null = never"),
    ] = None

    needs_rounds = True
    concludes = True

    @property
    def follows_data(self) -> bool:
        """Only who compares models leaves, and its own model is made of its data."""
        return self.tolerance is not None

    @property
    def repeats(self) -> bool:
        return self.from_scratch

    def begin(self, visit: Visit) -> Begun:
        if self.from_scratch:
            return Begun(np.zeros_like(visit.download.model))
        return Begun(self._seen(visit.download.model, visit.own))

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done:
        model = begun.start + delta
        if self.from_scratch and "samples" in visit.own and visit.own["samples"] == visit.samples:
            model = visit.own["model"]
        kept = {"model": model, "samples": np.int64(visit.samples)}
        return Done(Upload(model - visit.download.model), {**visit.own, **kept})

    def conclude(self, end: Conclusion, own: Mapping[str, NDArray[Any]]) -> tuple[Arrays, bool]:
        kept = {**own, "noise": ((end.sent - end.delta) * np.float32(end.share)).astype(np.float32)}
        if self.tolerance is None:
            return kept, False
        far = np.abs(self._seen(end.model, kept) - kept["model"])
        return kept, bool((far < self.tolerance).all())

    def personal(self, model: Vector, own: Mapping[str, NDArray[Any]]) -> Vector | None:
        return self._seen(model, own) if self.subtract_own_noise and "noise" in own else None

    def _seen(self, model: Vector, own: Mapping[str, NDArray[Any]]) -> Vector:
        """The federated model without the client's own noise, if it subtracts that."""
        return model - own["noise"] if self.subtract_own_noise and "noise" in own else model

"""PrivacyFL's clients: models trained anew, own noise taken off, departure on convergence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.plugins import Arrays
from simfl.plugins.clients import (
    CLIENTS,
    ClientAlgorithm,
    ClientState,
    LocalContext,
    LocalPass,
    LocalResult,
    RoundOutcome,
    Upload,
    Vector,
)


@CLIENTS("privacyfl")
@dataclass(frozen=True)
class PrivacyFL(ClientAlgorithm):
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
    uses_outcomes = True

    @property
    def follows_data(self) -> bool:
        """Only who compares models leaves, and its own model is made of its data."""
        return self.tolerance is not None

    @property
    def descends(self) -> bool:  # type: ignore[override]  # a constant of other clients
        """Not from a model less its own noise, which says by how much its data have moved the sum before."""
        return self.from_scratch or not self.subtract_own_noise

    @property
    def repeats(self) -> bool:
        return self.from_scratch

    def begin(self, context: LocalContext) -> LocalPass:
        if self.from_scratch:
            return LocalPass(np.zeros_like(context.download.model))
        return LocalPass(self._seen(context.download.model, context.state))

    def end(self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float) -> LocalResult:
        model = local_pass.start + delta
        if self.from_scratch and "samples" in context.state and context.state["samples"] == context.samples:
            model = context.state["model"]
        after = {"model": model, "samples": np.int64(context.samples)}
        return LocalResult(Upload(model - context.download.model), {**context.state, **after})

    def after_round(self, outcome: RoundOutcome, state: ClientState) -> tuple[Arrays, bool]:
        after = {**state, "noise": ((outcome.sent - outcome.delta) * np.float32(outcome.share)).astype(np.float32)}
        if self.tolerance is None:
            return after, False
        far = np.abs(self._seen(outcome.model, after) - after["model"])
        return after, bool((far < self.tolerance).all())

    def personal(self, model: Vector, state: Mapping[str, NDArray[np.generic]]) -> Vector | None:
        return self._seen(model, state) if self.subtract_own_noise and "noise" in state else None

    def _seen(self, model: Vector, state: ClientState) -> Vector:
        """The federated model without the client's own noise, if it subtracts that."""
        return model - state["noise"] if self.subtract_own_noise and "noise" in state else model

"""FedLTN: lottery-ticket networks by pruning after training, without rewinding; perhaps after a Jump-Start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.papers.lottery_tickets.sparse import COLUMNS, MASK, Mask, Sparse, mask_state, prunable, prune, sparsity_row
from simfl.plugins import SINCE_LATER, Arrays, ScenarioView
from simfl.plugins.clients import (
    MODEL,
    PERSONAL,
    UPDATE,
    ClientAlgorithm,
    ClientState,
    LocalContext,
    LocalPass,
    LocalResult,
    Parameter,
    PayloadPart,
    Upload,
    Vector,
    merge_private,
    norm_coordinates,
)
from simfl.plugins.training import SERVER_OPTIMISERS, ServerOptimiser, State

Share = Annotated[float, Field(ge=0, lt=1)]


@PERSONAL("fedltn")
@dataclass(frozen=True)
class FedLtn(ClientAlgorithm):
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
        float, Field(ge=0, le=1e6, description="beta of the term that is added to the loss before pruning")
    ] = 0.002
    rewind: Annotated[
        bool, Field(description="remaining weights go back to their initial values after pruning; the control")
    ] = False
    compress: Annotated[
        bool,
        Field(
            description="messages hold surviving values and new masks; false = dense messages, and every job takes as "
            "long as one that prunes (of jump_start: dense messages only)"
        ),
    ] = True
    pull_term: Annotated[
        Literal["squared", "distance"],
        Field(description="squared: beta/2 |x - start|^2; distance: beta |x - start|, as the thesis prints it"),
    ] = field(default="squared", metadata=SINCE_LATER)

    columns = COLUMNS

    @property
    def sends(self) -> tuple[PayloadPart, ...]:  # type: ignore[override]  # a constant of other clients
        """Its update and, where messages are compressed, its mask."""
        return (UPDATE, MASK._replace(instead="compress: false")) if self.compress else (UPDATE,)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if not self.target or setting.learning.validates:
            return []
        return [("threshold", "needs validation samples; set learning.holdout to {validation: 0.5}")]

    def for_model(self, parameters: Sequence[Parameter], initial: Vector) -> ClientAlgorithm:
        kind = Tickets if self.compress else DenseTickets
        return kind(self, prunable(parameters), initial, norm_coordinates(parameters, len(initial)))


@dataclass(frozen=True)
class Tickets(Sparse):
    """FedLTN's clients, for one model, whose norm layers are ``private``."""

    private: NDArray[np.bool_]

    def begin(self, context: LocalContext) -> LocalPass:
        mask = self.mask(context.state)
        start = self._start(context.download.model, context.state, mask)
        if self.rule.pull_term == "distance":
            return LocalPass(start, mask=mask, distance=self.rule.pull)
        return LocalPass(start, mask=mask, proximal=self.rule.pull)

    def end(
        self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float
    ) -> LocalResult | LocalPass:
        trained = local_pass.start + delta
        if (
            local_pass.memo is None
            and self.below_target(local_pass.mask)
            and context.accuracy(trained) > self.rule.threshold
        ):
            before = np.ones(len(trained), dtype=bool) if local_pass.mask is None else local_pass.mask
            mask = prune(trained, before, self.layers, self.rule.step)
            left = (
                merge_private(self.initial, self.private, {"private": trained[self.private]})
                if self.rule.rewind
                else trained
            )
            return LocalPass(np.where(mask, left, np.float32(0)), mask=mask, memo="pruned")
        return self._done(context, local_pass, delta, trained)

    def _done(self, context: LocalContext, local_pass: LocalPass, delta: Vector, trained: Vector) -> LocalResult:
        state = {"private": trained[self.private]} if self.private.any() else {}
        if local_pass.mask is not None:
            state |= mask_state(local_pass.mask, self.private)
            delta = delta + (local_pass.start - context.download.model)
        update = np.where(self.private, np.float32(0), delta)
        upload = Upload(update)
        if self.rule.compress:
            upload = Upload(update, mask=local_pass.mask, mask_bytes=self.mask_bytes(local_pass.memo is not None))
        return LocalResult(
            upload, state, row=sparsity_row(state, len(delta) - int(self.private.sum()), upload.mask_bytes)
        )

    def _start(self, model: Vector, state: ClientState, mask: Mask | None) -> Vector:
        """The global model's weights that the mask leaves, with the client's norm layers."""
        model = merge_private(model, self.private, state)
        return model if mask is None else np.where(mask, model, np.float32(0))

    def bytes_down(self, dense: int, state: ClientState) -> int:
        return Sparse.bytes_down(self, dense, state if self.rule.compress else {})

    def personal(self, model: Vector, state: ClientState) -> Vector | None:
        return self._start(model, state, self.mask(state)) if state else None


@dataclass(frozen=True)
class DenseTickets(Tickets):
    """FedLTN's clients whose messages are dense: neither their sizes nor their times tell who prunes.

    Who does not train a second time waits as long. Otherwise a deadline, a quorum or a buffer would choose clients by
    their validation samples.
    """

    dense = True
    sized_by_training = False

    @property
    def passes(self) -> float:  # type: ignore[override]  # a constant of other clients
        """Two trainings, where a client may ever prune."""
        return 2.0 if self.rule.target else 1.0


@PERSONAL("jump_start")
@dataclass(frozen=True)
class JumpStart(FedLtn):
    """FedLTN after a start in which every client trains and prunes alone.

    The model with the best mean validation accuracy over all clients becomes the global one, its mask everybody's
    first. Before the first round that costs one upload of each model, one download of all of them by everybody, and
    the time to train. Reference: Mugunthan (MIT thesis, 2022), chapter 4, algorithm 2, which counts none of it.
    """

    alone_rounds: Annotated[int, Field(ge=1, le=10**6, description="jobs that each client does alone, T_jump")] = 25
    alone_target: Annotated[Share, Field(description="share of the weights that shall be pruned meanwhile")] = 0.3

    needs_rounds = True
    needs_server = True
    receives = (MODEL, PayloadPart("the models of all clients before the first round", "model"))

    @property
    def sends(self) -> tuple[PayloadPart, ...]:  # type: ignore[override]  # a constant of other clients
        """What FedLTN's clients send, and before the first round a model and its scores of all models."""
        first = PayloadPart("its whole model before the first round", "model", instead="training.personal: fedltn")
        scores = PayloadPart(
            "the accuracies of all models on its samples", "score", instead="training.personal: fedltn"
        )
        return (*super().sends, first, scores)

    def for_model(self, parameters: Sequence[Parameter], initial: NDArray[np.float32]) -> ClientAlgorithm:
        return _Jumping(self, prunable(parameters), initial, norm_coordinates(parameters, len(initial)))


@dataclass(frozen=True)
class _Jumping(Tickets):
    needs_rounds = True

    def pretraining(self) -> tuple[int, ClientAlgorithm]:
        alone = replace(self.rule, target=self.rule.alone_target)
        return self.rule.alone_rounds, Tickets(alone, self.layers, self.initial, self.private)

    def pretrained_state(self, state: Mapping[str, NDArray[np.generic]]) -> Arrays:
        return {name: value for name, value in state.items() if name != "private"}


@SERVER_OPTIMISERS("look_ahead")
@dataclass(frozen=True)
class LookAhead(ServerOptimiser):
    """FedLTN's server: a mixture of the clients' mean and of where its own last step points.

    x <- tau mean + (1 - tau)(x + momentum * last step). With share 1 it is plain averaging. Reference: Mugunthan (MIT
    thesis, 2022), chapter 4, algorithm 1 (the listing; the prose has the other sign); the unprinted momentum is that
    of FedACG's code (Kim et al. 2022).
    """

    share: Annotated[float, Field(gt=0, le=1, description="weight of the clients' mean, tau")] = 0.5
    momentum: Annotated[float, Field(ge=0, lt=1, description="share of the last step looked ahead, lambda")] = 0.85

    def start(self, dimension: int) -> State:
        return {"last": np.zeros(dimension, dtype=np.float32)}

    def step(self, delta: Vector, state: State, rate: float) -> tuple[Vector, State]:
        update = np.float32(rate * self.share) * delta
        if ahead := (1 - self.share) * self.momentum:
            update = update + np.float32(ahead) * state["last"]
        return update, {"last": update}

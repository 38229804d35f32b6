"""Local training settings, shared by every rule: what one client does with the model it downloaded, and variants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.clients.base import CLIENTS, PERSONAL, ClientAlgorithm
from simfl.clients.local_values import LocalContext, LocalPass, LocalResult, Parameter, Vector
from simfl.clients.schedules import SCHEDULES, ConstantRate, checked_factor
from simfl.core.payload import MODEL, UPDATE, PayloadPart, Upload
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays

Rate = Annotated[float, Field(gt=0, le=1e6)]


@CLIENTS("plain")
@dataclass(frozen=True)
class PlainSgd(ClientAlgorithm):
    """Nothing is added."""

    stateless = True
    descends = True


@PERSONAL("none")
@dataclass(frozen=True)
class Shared(ClientAlgorithm):
    """All clients use the global model."""

    stateless = True

    def combine(self, client: ClientAlgorithm) -> ClientAlgorithm:
        return client


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """Mini-batch SGD on the client's own samples, last partial batch kept."""

    local_epochs: Annotated[int, Field(ge=1, le=10_000, description="passes over the client's samples")] = 1
    local_steps: Annotated[
        int | None, Field(ge=1, le=10**7, description="SGD steps instead of whole epochs; null = local_epochs")
    ] = None
    batch_size: Annotated[int | None, Field(ge=1, description="samples in a step; null = all")] = 32
    shuffle: Annotated[
        bool, Field(description="take the client's samples in a new random order every epoch; false = always in one")
    ] = True
    learning_rate: Annotated[Rate, Field(description="the clients' step size")] = 0.1
    decay_at: Annotated[tuple[int, ...], Field(description="rounds at which the learning rate is multiplied")] = ()
    decay: Annotated[Rate, Field(description="factor applied at each round of decay_at")] = 0.1
    half_at: Annotated[
        Rate | None, Field(description="round at which the rate is half: divided by 1 + round / half_at; null = never")
    ] = None
    schedule: Annotated[
        Any, SCHEDULES, Field(description="what the rate is multiplied with besides, from round to round")
    ] = field(default=ConstantRate(), metadata=SINCE_LATER)
    momentum: Annotated[float, Field(ge=0, lt=1, description="of the clients' SGD; starts anew in every job")] = 0.0
    weight_decay: Annotated[float, Field(ge=0, le=1e6, description="L2 penalty, added to the gradient")] = 0.0
    clip_norm: Annotated[
        Rate | None, Field(description="largest Euclidean norm of a step's gradient; null = no clipping")
    ] = None
    client: Annotated[Any, CLIENTS, Field(description="variant of local training")] = PlainSgd()
    personal: Annotated[Any, PERSONAL, Field(description="models of the clients' own beside the global one")] = Shared()

    @property
    def algorithm(self) -> ClientAlgorithm:
        """The client algorithm in use."""
        return self.personal.combine(self.client)

    @property
    def descends(self) -> bool:
        """Whether what clients send is the model of plain SGD, and nothing else of their data: no step is stretched by
        momentum or shortened by a clip, and none was made at the rate of an earlier version.
        """
        changing = self.decay_at or self.half_at or type(self.schedule) is not ConstantRate
        earlier = self.algorithm.repeats and changing
        return self.algorithm.descends and not (self.momentum or self.clip_norm or earlier)

    def check(self, scenario: ScenarioView) -> list[tuple[str, str]]:
        problems = []
        algorithm: Any = self.client if self.algorithm is self.client else self.personal
        key = "client" if algorithm is self.client else "personal"
        if (algorithm.needs_rounds or algorithm.uses_outcomes) and scenario.training.asynchronous:
            instead = "plain or fedprox" if key == "client" else "training: fedavg"
            problems.append((key, f"is {algorithm.name}, which needs synchronous rounds; use {instead}"))
        elif algorithm.needs_server and scenario.training.server != "synchronous":
            why = "whose clients train alone before the first round, and a server chooses a model"
            problems.append((key, f"is {algorithm.name}, {why}; use training: fedavg"))
        if self.algorithm is not self.client and self.client != PlainSgd():
            name, chosen = self.client.name, self.personal.name
            problems.append(("client", f"is {name}, but training.personal: {chosen} trains plainly; use plain"))
        if self.momentum and not self.algorithm.momentum:
            name = self.client.name
            problems.append(("momentum", f"is {self.momentum}, but {name} assumes 0, the nearest valid value"))
        return problems

    def rate(self, version: int) -> float:
        """The learning rate for a model downloaded at ``version``."""
        stepped = self.learning_rate * self.decay ** sum(version >= at for at in self.decay_at)
        halved = stepped / (1 + version / self.half_at) if self.half_at else stepped
        return halved * checked_factor(self.schedule, version)

    def steps(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """SGD steps of a job whose client holds so many samples, shape (n,); none without samples."""
        if self.local_steps is not None:
            return np.where(samples > 0, self.local_steps, 0)
        return self.local_epochs * -(-samples // (self.batch_size or np.maximum(samples, 1)))

    def epochs(self, samples: NDArray[np.int64]) -> NDArray[np.float64]:
        """Passes over its samples that a job makes, shape (n,): what its computation time is proportional to."""
        if self.local_steps is None:
            return np.full(len(samples), float(self.local_epochs))
        batch = np.minimum(self.batch_size or samples, samples)
        return np.divide(self.local_steps * batch, samples, out=np.zeros(len(samples)), where=samples > 0)


@CLIENTS("fedprox")
@dataclass(frozen=True)
class FedProx(ClientAlgorithm):
    """A proximal term keeps the local model near the downloaded one. Reference: Li et al. 2020 (MLSys)."""

    mu: Annotated[float, Field(ge=0, le=1e6, description="weight of the proximal term; 0 = plain")]

    stateless = True
    descends = True
    example = {"mu": 0.1}

    @property
    def proximal(self) -> float:  # type: ignore[override]  # a constant of other clients
        return self.mu

    def begin(self, context: LocalContext) -> LocalPass:
        return LocalPass(context.download.model, proximal=self.mu)


@CLIENTS("scaffold")
@dataclass(frozen=True)
class Scaffold(ClientAlgorithm):
    """Control variates correct the clients' drift; messages are twice as large.

    The server keeps c, every client that has trained its own c_i; all begin at zero. Gradients are shifted by c - c_i;
    a job leaves c_i - c + (x - y_i) / (steps * rate) as the new c_i, and c moves by the mean change over all clients.

    Reference: Karimireddy et al. 2020, algorithm 1 with option II for the variates.
    """

    momentum = False
    needs_rounds = True
    sends = (UPDATE, PayloadPart("the change of its control variate", "array", 1.0, "training.client: plain"))
    receives = (MODEL, PayloadPart("the server's control variate", "array", 1.0))

    def common(self, parameters: Sequence[Parameter], dimension: int) -> Arrays:
        return {"variate": np.zeros(dimension, dtype=np.float32)}

    def begin(self, context: LocalContext) -> LocalPass:
        shift = context.download.arrays["variate"]
        if "variate" in context.state:
            shift = shift - context.state["variate"]
        return LocalPass(context.download.model, shift if shift.any() else None)

    def end(self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float) -> LocalResult:
        new = delta * np.float32(-1 / (steps * rate))
        if local_pass.shift is not None:
            new -= local_pass.shift
        delta_sent = new.astype(np.float64)
        if "variate" in context.state:
            delta_sent -= context.state["variate"]
        return LocalResult(Upload(delta, {"variate": delta_sent}), {"variate": new})

    def update_common(self, common: Mapping[str, NDArray[np.generic]], reported: Arrays, clients: int) -> Arrays:
        return {"variate": (common["variate"] + reported["variate"] / clients).astype(np.float32)}

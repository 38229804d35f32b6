"""Epsilon by Google's accounting library, ``dp-accounting``: where sampling may be claimed, and what it then comes to.

Sampling hides a client only from those who do not see who takes part, and only if it is drawn as the theorem says.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.errors import MissingError
from simfl.privacy.base import History, Loss, Stage
from simfl.privacy.course import due
from simfl.privacy.losses import losses, released
from simfl.privacy.zero_out import Delta, loose
from simfl.rng import Streams
from simfl.setting import Setting
from simfl.types import SERVER

__all__ = ["Accounting"]

Problem = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Accounting:
    """Keys of the library's accountants, and what they compose.

    Without amplification: the Gaussian noise in the rounds that the client of largest loss really took part in, its
    updates against none. With it: every round, in each of which a client is with the probability ``rate``.
    """

    delta: Delta = 1e-5
    amplification: Annotated[
        Literal["none", "poisson", "fixed_size"],
        Field(description="what is claimed of sampling; none = everybody knows who takes part"),
    ] = "none"
    rate: Annotated[
        float | None, Field(gt=0, le=1, description="probability of an available client's selection; null = known")
    ] = None
    every: Annotated[int, Field(ge=0, description="rounds between evaluations; 0 = after the last round only")] = 0

    name = ""

    def resolve(self, setting: Setting) -> Self:
        """With the selection's own rate."""
        rate = _rate(setting) if self.amplification != "none" else None
        return replace(self, rate=rate) if self.rate is None and rate is not None else self

    def check(self, setting: Setting) -> list[Problem]:
        """Why the library cannot say it, or sampling cannot be claimed.

        Raises:
            MissingError: the library is not there.
        """
        if find_spec("dp_accounting") is None:
            raise MissingError(f'the accountant {self.name} needs the extra "dp": pip install "simfl[dp]"')
        noisy = [stage for stage in setting.privacy.stages if stage.observer]
        others = [stage for stage in noisy if not stage.gaussian]
        if others:
            return [("", f"accounts Gaussian noise, but stage {others[0].name} adds another; use zero_out")]
        if self.amplification == "none":
            return []
        problems = [("amplification", why) for why in _unsound(setting, noisy, self.amplification)]
        actual = _rate(setting)
        if self.rate is not None and actual is not None and self.rate < actual * (1 - 1e-12):
            problems.append(("rate", f"is {self.rate:g}, but clients are selected with {actual:g}; use that, or null"))
        return problems

    def cautions(self, setting: Setting) -> list[str]:
        """A delta that says little."""
        return loose(self.delta, setting)

    def evaluated(self, history: History) -> Iterable[float | None]:
        """Epsilon at the rounds that are due."""
        wanted, noise = due(history.shape[0], self.every), list(losses(history))
        if not noise or history.exposing:  # what is not noised tells everything of whoever took part
            nobody = np.cumsum(np.diff(history.participation[SERVER].indptr)) == 0
            return [0.0 if it and none else None for it, none in zip(wanted, nobody, strict=True)]
        worst = _Worst(history, noise)
        found = [self._epsilon(history, noise, worst, t) if it else None for t, it in enumerate(wanted.tolist())]
        return [None if value is None or not np.isfinite(value) else float(value) for value in found]

    def _epsilon(self, history: History, noise: list[Loss], worst: "_Worst", t: int) -> float:
        if self.amplification == "none":
            mus = worst.mus(t)
            return self.of_events(*np.unique(mus, return_counts=True)) if len(mus) else 0.0
        mu = max(float(loss.mu.max()) for loss in noise if loss.mu is not None)
        return self.of_sample(mu, t + 1, history.shape[1])

    @abstractmethod
    def of_events(self, mus: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        """Epsilon of so many Gaussian mechanisms of each mu."""
        ...

    @abstractmethod
    def of_sample(self, mu: float, rounds: int, clients: int) -> float:
        """Epsilon of as many rounds, in each of which the client takes part with probability ``rate``."""
        ...


class _Worst:
    """The client of largest loss after a round, and its losses until then.

    Args:
        history: of a run.
        noise: what its stages leave.
    """

    def __init__(self, history: History, noise: list[Loss]) -> None:
        self.parts = []
        for loss in noise:
            weights = released(history, loss)
            mu = np.zeros(history.shape[0]) if loss.mu is None else loss.mu
            scaled = weights.copy()
            scaled.data = mu[weights.nonzero()[0]] * (weights.data if loss.weighted else 1.0)
            self.parts.append(scaled)

    def mus(self, t: int) -> NDArray[np.float64]:
        """That client's, of the rounds up to t that it is in."""
        squares = sum(part[: t + 1].power(2).sum(axis=0) for part in self.parts)
        worst = int(np.argmax(np.asarray(squares).ravel()))
        found = np.concatenate([part[: t + 1, [worst]].toarray().ravel() for part in self.parts])
        return found[found > 0]


def _rate(setting: Setting) -> float | None:
    policy = setting.selection
    if policy.sampling == "fixed_size" and policy.k is not None:
        return policy.k / setting.clients
    return policy.inclusion


def _unsound(setting: Setting, noisy: list[Stage], claimed: str) -> Iterable[str]:
    """Why sampling of this kind cannot be claimed."""
    policy: Any = setting.selection
    instead = "use amplification: none"
    if setting.training.asynchronous:
        yield f"is {claimed}, but a buffered server's aggregates are no samples of its clients; {instead}"
    if policy.sampling != claimed:
        fits = {"poisson": "bernoulli", "fixed_size": "random"}[claimed]
        yield f"is {claimed}, but selection: {policy.name} does not draw so; {instead}, or selection: {fits}"
    for stage in noisy:
        if stage.observer != "outside":
            why = f"stage {stage.name} protects against the server, which sees who takes part"
            yield f"is {claimed}, but {why}; {instead}"
        elif not stage.amplifies:
            yield f"is {claimed}, but the noise of stage {stage.name} lasts over rounds; {instead}"
    weights = setting.training.weights(np.array([1, 2]), np.zeros(2, dtype=np.int64))
    if weights[0] != weights[1]:
        yield f"is {claimed}, but clients weigh as much as they hold samples; use weighting: equal"
    devices, streams = setting.devices, Streams(setting.seed)
    if not devices.availability.independent:
        yield f"is {claimed}, but clients are not available independently of one another; {instead}"
    if claimed == "fixed_size":
        dropout = devices.availability.build(setting, streams).dropout
        failing = devices.failure.rates(setting, streams)
        if dropout is None or failing is None or np.max(dropout) > 0 or np.max(failing) > 0:
            yield f"is {claimed}, which needs all clients to be available and none to fail; {instead}"

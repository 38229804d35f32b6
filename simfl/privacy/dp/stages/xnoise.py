"""Skellam noise of which exactly as much remains as was asked for, whoever drops out."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.rng import Streams, generator
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, Integers, Job
from simfl.privacy.dp.mechanisms import skellam
from simfl.privacy.dp.stages.discrete_noise import Points, Skellam
from simfl.privacy.stage import STAGES, Members

SEED = 32
"""Bytes of a part's seed."""


@STAGES("xnoise")
@dataclass(frozen=True)
class XNoise(Skellam):
    """Each client adds noise for the case that T others drop out, in T + 1 parts; those not needed are taken off.

    Of n clients each adds variances s²/n and s²/((n-j+1)(n-j)), j = 1 ... T, s = z C; where D <= T are missing, the
    seeds of the parts j > D, which clients share with one another beside those of their masks, are opened after the
    upload, of those who have failed since from shares, and the server draws these parts again and takes them off.
    Exactly s² remains. Where more are missing all parts stay, and epsilon is of what there is. Sensitivity,
    adjacency and observer as of skellam. Reference: Jiang, Wang and Chen, "Efficient federated learning with
    dropout-resilient differential privacy", EuroSys 2024.
    """

    tolerance: Annotated[int, Field(ge=1, description="clients that may drop out, T")] = 1

    maps = Skellam.maps

    @property
    def seeds(self) -> int:  # type: ignore[override]  # a constant of other stages
        """One of each part that may have to be taken off."""
        return self.tolerance

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, n, protocol = super().check(setting), self.sharers or 1, setting.secagg
        if self.tolerance >= n:
            problems.append(
                ("tolerance", f"is {self.tolerance}, but there are {n} sharers; the nearest value is {n - 1}")
            )
        if protocol.field is not None and not protocol.opens_seeds:
            why = f"opens seeds after the upload, which secagg: {protocol.name} does not; use secagg or secagg_plus"
            problems.append(("", why))
        if not setting.selection.fixed_size or setting.selection.k != n:
            problems.append(("sharers", f"is {n}; it must be the number of clients that are selected, and that fixed"))
        return problems

    def parts(self) -> Floats:
        """The variances of a client's parts, in multiples of the first, (T + 1,)."""
        n, j = self.sharers or 1, np.arange(1, self.tolerance + 1)
        return np.append(1.0, n / ((n - j + 1) * (n - j)))

    def opened_seeds(self, members: Members) -> int:
        """How many seeds of each client in the sum were opened; of a log, as many as drops did not happen."""
        if members.opened is not None:
            counted = zip(members.opened, members.weights.tolist(), strict=True) if members.opened else ()
            return max((len(seeds) for seeds, weight in counted if weight), default=0)
        missing = (self.sharers or 1) - members.n_summed
        return self.tolerance - missing if 0 <= missing <= self.tolerance else 0

    def remaining_variance(self, members: Members) -> float:
        """Of the parts whose seeds nobody has opened: what is said to remain is what was not taken off."""
        return float(self.parts()[: self.tolerance + 1 - self.opened_seeds(members)].sum())

    def secrets(self, job: Job, streams: Streams) -> tuple[bytes, ...]:
        return tuple(streams("dp/xnoise", job.id, j).bytes(SEED) for j in range(1, self.tolerance + 1))

    def noise(self, job: Job, to: Points, streams: Streams) -> Integers:
        total = super().noise(job, to, streams)
        for j, seed in enumerate(self.secrets(job, streams), 1):
            total += self._part(seed, j, to)
        return total

    def surplus(self, members: Members, to: Points) -> Integers:
        """Of what the opened seeds stand for; the last one of each is that of the last part."""
        total = np.zeros(to.dimension, dtype=np.int64)
        counted = zip(members.opened, members.weights.tolist(), strict=True) if members.opened else ()
        for seeds in (seeds for seeds, weight in counted if weight):
            for j, seed in enumerate(seeds, 1 + self.tolerance - len(seeds)):
                total += self._part(seed, j, to)
        return total

    def _part(self, seed: bytes, j: int, to: Points) -> Integers:
        """What a seed stands for."""
        variance = self.share * self.parts()[j] * to.scale**2
        return skellam.sample(generator(seed), float(variance), to.dimension)

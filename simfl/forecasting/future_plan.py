"""All that a future is simulated from."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.forecasting.availability import AvailabilityFit, observe, parts_of_day
from simfl.forecasting.future_span import PastSpan, past_span
from simfl.forecasting.model_choice import ModelChoice, choose
from simfl.forecasting.past import Past
from simfl.forecasting.policies import PolicyChoice, SeenPolicy, candidate, recognise
from simfl.forecasting.traffic import PastTraffic


@dataclass(frozen=True)
class FuturePlan:
    """What is simulated, without labels: everything that a worker process needs.

    Attributes:
        policies: the log's policy first, then the candidates.
        units: the unit of each client under the log's policy, (N,).
        fitted: the model of availability of these units.
        failed, worked: units that failed and that were selected.
        span: what the past sums give away.
        participation: sums that each client was in, int64 (N,).
        past_rounds: rounds of the log.
        change_over: coming round from which candidates select.
        weights: of each client in coming sums, (N,).
        sizes, shares: of the past, to be drawn again: clients in each sum, and each client's rate.
        steps_s: seconds between rounds; empty without times.
        matrix: the past, for the guarantees; None where they are not computed.
        guarantees: futures for which semi-strong and weak are computed, too.
        traffic: what the past's rounds moved.
    """

    policies: tuple[PolicyChoice, ...]
    units: NDArray[np.int64]
    fitted: AvailabilityFit
    failed: int
    worked: int
    span: PastSpan
    participation: NDArray[np.int64]
    past_rounds: int
    horizon: int
    change_over: int
    seed: int
    weights: NDArray[np.float64]
    sizes: NDArray[np.int64]
    shares: NDArray[np.float64]
    steps_s: NDArray[np.float64]
    begin_s: float
    matrix: Any = field(default=None, repr=False)
    guarantees: int = 0
    traffic: PastTraffic = field(default_factory=lambda: PastTraffic.of(None, np.zeros(0, dtype=np.int64)))

    @property
    def clients(self) -> int:
        return len(self.units)

    @property
    def timed(self) -> bool:
        return len(self.steps_s) > 0

    def part_of_day(self, now_s: float) -> int:
        """The part of the day, 0 without times."""
        return int(parts_of_day(np.array([now_s]))[0]) if self.timed else 0


def plan(
    past: Past,
    against: tuple[str, ...] = (),
    *,
    horizon: int,
    change_over: int = 0,
    policy: str | None = None,
    model: str | None = None,
    seed: int = 0,
    guarantees: int = 0,
) -> tuple[FuturePlan, SeenPolicy, ModelChoice]:
    """What is simulated, what the log shows of its policy, and the model of availability.

    Args:
        past: the log.
        against: other policies, as ``batch_partition:T=4``.
        horizon: coming rounds.
        change_over: coming round from which the others select.
        policy: the log's policy; None = recognised.
        model: of availability; None = chosen by held-out likelihood.
        guarantees: futures for which the semi-strong and weak guarantees are computed.

    Raises:
        SimflError: there is no such policy.
    """
    streams, n = Streams(seed), past.rows.shape[1]
    seen = recognise(past, policy)
    participation = past.rows.sum(axis=0).astype(np.int64)
    candidates = tuple(candidate(text, seen.choice.k, n, participation).after(past) for text in against)
    chosen = choose(observe(past.rows, seen, past.times_s), past.times_s is not None, streams("forecast/drift"), model)
    sizes = past.rows.sum(axis=1)
    steps = np.zeros(0) if past.times_s is None else np.diff(past.times_s)
    whole = FuturePlan(
        (seen.choice, *candidates), seen.units, chosen.fitted, seen.failed, seen.worked,
        past_span(past, streams("forecast/prime")), participation, len(past.rows), horizon, change_over, seed,
        past.weights, sizes,
        (participation + 0.5) / (len(past.rows) + 1), steps,
        0.0 if past.times_s is None else float(past.times_s[-1]),
        past.matrix if guarantees else None, guarantees, PastTraffic.of(past.round_bytes, sizes),
    )  # fmt: skip
    return whole, seen, chosen

"""One future: rounds after rounds from the end of a log, under one policy."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.core.types import Bools, Floats, Integers, View
from simfl.forecasting.availability import AvailabilityFit, ModelChoice, choose, observe, parts_of_day
from simfl.forecasting.future_span import PastSpan, exposures, past_span, smallest_class
from simfl.forecasting.past import Past, PastTraffic
from simfl.forecasting.policies import PolicyChoice, SeenPolicy, candidate, recognise
from simfl.privacy.multiround.analysis import trace
from simfl.selection.base import Policy

CHECKPOINTS = 4
"""Times within the horizon at which the semi-strong and weak guarantees are computed."""

EFFORT = 20_000_000
"""Budget of these guarantees, for each future; where it ends they are not known."""


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
    units: Integers
    fitted: AvailabilityFit
    failed: int
    worked: int
    span: PastSpan
    participation: Integers
    past_rounds: int
    horizon: int
    change_over: int
    seed: int
    weights: Floats
    sizes: Integers
    shares: Floats
    steps_s: Floats
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


class Outcome(NamedTuple):
    """What became of one future.

    Attributes:
        exposed: coming round from which each client is exposed, (N,): -1 = in the past, H = not within the horizon.
        rank, strong, cardinality: after each coming round, or in it, (H,).
        fairness_gap: after each coming round, over all rounds, (H,).
        bytes: moved until the end of each coming round, (H,); NaN where the log does not say.
        time_s: when each coming round ends, (H,); the number of the round without times.
        semi_strong, weak_lower, weak_upper: at :data:`CHECKPOINTS`, (4,); NaN where not computed (weights that
            vary: not known).
    """

    exposed: NDArray[np.int32]
    rank: NDArray[np.int32]
    strong: NDArray[np.int32]
    cardinality: NDArray[np.int32]
    fairness_gap: Floats
    bytes: Floats
    time_s: Floats
    semi_strong: Floats
    weak_lower: Floats
    weak_upper: Floats


def simulate(plan: FuturePlan, policy: int, future: int) -> Outcome:
    """One future under one of the plan's policies; the same future has the same devices under each of them."""
    streams = Streams(plan.seed)
    world = _World.of(plan, streams, future)
    rows, times_s = _rounds(plan, world, policy, streams, future)
    exposed, rank = exposures(plan.span, rows, streams("forecast/weights", future))
    strong = smallest_class(plan.span, rows, streams("forecast/keys", future))
    counts = plan.participation + np.cumsum(rows, axis=0, dtype=np.int64)
    gap = (counts.max(axis=1) - counts.min(axis=1)) / (plan.past_rounds + 1 + np.arange(len(rows)))
    semi, lower, upper = _guarantees(plan, rows, exposed) if future < plan.guarantees else np.full((3, 4), np.nan)
    cardinality = rows.sum(axis=1, dtype=np.int32)
    moved = plan.traffic.draw(cardinality, streams("forecast/bytes", future))
    return Outcome(exposed, rank, strong, cardinality, gap, moved, times_s, semi, lower, upper)


def one_round(plan: FuturePlan, future: int) -> Bools:
    """Who is in the first coming sum of a future, bool (N,)."""
    streams = Streams(plan.seed)
    return _rounds(plan, _World.of(plan, streams, future), 0, streams, future)[0][0]


@dataclass
class _World:
    """The devices of a future: parameters, and one uniform number for each client, round and purpose."""

    rates: Floats
    memory: float
    before: Floats
    failure: float
    available: Floats
    failing: Floats
    steps_s: Floats

    @classmethod
    def of(cls, plan: FuturePlan, streams: Streams, future: int) -> "_World":
        rng = streams("forecast/parameters", future)
        draw = plan.fitted.draw(rng)
        members = np.bincount(plan.units)[plan.units]
        failure = float(rng.beta(plan.failed + 0.5, plan.worked - plan.failed + 0.5)) if plan.failed else 0.0
        shape = plan.horizon, plan.clients
        steps = np.zeros(plan.horizon)
        if plan.timed:  # the Bayesian bootstrap
            share = rng.dirichlet(np.ones(len(plan.steps_s)))
            steps = rng.choice(plan.steps_s, plan.horizon, p=share)
        return cls(
            draw.rates[plan.units] ** (1 / members[:, None]), draw.memory,
            draw.before[plan.units] ** (1 / members), 1 - (1 - failure) ** (1 / float(members.mean())),
            streams("forecast/availability", future).random((shape[0] + 1, shape[1])),
            streams("forecast/failures", future).random(shape), steps,
        )  # fmt: skip


def _rounds(plan: FuturePlan, world: _World, policy: int, streams: Streams, future: int) -> tuple[Bools, Floats]:
    """Who is in each coming sum, bool (H, N), and when its round ends, (H,)."""
    rows = np.zeros((plan.horizon, plan.clients), dtype=bool)
    times_s = np.zeros(plan.horizon)
    used, now_s = plan.participation.copy(), plan.begin_s
    on = world.available[0] < world.before
    selector = _Selector.of(plan.policies[0])
    for t in range(plan.horizon):
        if t == plan.change_over:
            selector = _Selector.of(plan.policies[policy], rows[:t])
        rate = world.rates[:, plan.part_of_day(now_s) % world.rates.shape[1]]
        on = world.available[t + 1] < rate * (1 - world.memory) + world.memory * on
        rng = streams("forecast/selection", future, t)
        units = selector.units(plan, on, used, plan.past_rounds + t, rng)
        if units.size:
            units = units[(world.failing[t][units] >= world.failure).all(axis=1)]
        members = np.sort(units.ravel())
        if members.size and selector.sums(on, used, plan.past_rounds + t, members):
            rows[t, members] = True
            used[members] += 1
        now_s += float(world.steps_s[t])
        times_s[t] = now_s if plan.timed else t
    return rows, times_s


@dataclass
class _Selector:
    """A policy over some of the clients; None draws sizes and shares of the past again."""

    policy: Policy | None
    choice: PolicyChoice
    before: Bools | None = None
    history: list[NDArray[np.int32]] = field(default_factory=list)

    @classmethod
    def of(cls, choice: PolicyChoice, rows: Bools | None = None) -> "_Selector":
        """That of a choice, after coming sums, bool (J, N), that others have chosen."""
        before = choice.before
        if before is not None and rows is not None and rows.any():
            before = np.vstack([before, choice.places(rows[rows.any(axis=1)])])
        return cls(None if choice.text == "as_before" else choice.policy(), choice, before)

    def units(self, plan: FuturePlan, on: Bools, used: Integers, t: int, rng: np.random.Generator) -> Integers:
        """Units of clients, (units, size)."""
        if self.policy is None:
            size = int(rng.choice(plan.sizes))
            present = np.flatnonzero(on)
            scores = rng.exponential(size=len(present)) / plan.shares[present]
            return present[np.argsort(scores, kind="stable")[:size]][:, None]
        units = self.policy.select(self._view(on, used, t), self.choice.k, rng)
        return self.choice.order[units]

    def sums(self, on: Bools, used: Integers, t: int, members: Integers) -> bool:
        """Whether the policy lets this sum be opened; it remembers those that are."""
        if self.policy is None or not self.policy.reads_history:
            return True
        places = np.searchsorted(self.choice.order, members).astype(np.int32)
        if opened := self.policy.admits(self._view(on, used, t), places):
            self.history.append(places)
        return opened

    def _view(self, on: Bools, used: Integers, t: int) -> View:
        order = self.choice.order
        reads = self.policy is not None and self.policy.reads_history
        return View(t, on[order], used[order], history=tuple(self.history) if reads else None, before=self.before)


def _guarantees(plan: FuturePlan, rows: Bools, exposed: NDArray[np.int32]) -> Floats:
    """The semi-strong guarantee and the bounds of the weak one at the checkpoints, (3, 4)."""
    from scipy.sparse import csr_array, vstack

    ends = checkpoints(plan.horizon)
    values = np.full((3, CHECKPOINTS), np.nan)
    values[:, ends >= exposed.min()] = 1.0
    for place, end in enumerate(ends.tolist()):
        if np.isnan(values[0, place]) and not plan.span.generic:
            P = csr_array(vstack([plan.matrix, csr_array(rows[: end + 1] * plan.weights)]))
            metrics = trace(P, every=0, budget=EFFORT, trust=True)
            values[:, place] = [metrics.semi_strong[-1], metrics.weak_lower[-1], metrics.weak_upper[-1]]
    return values


def checkpoints(horizon: int) -> Integers:
    """The coming rounds after which the guarantees are computed, (4,)."""
    return np.maximum(np.arange(1, CHECKPOINTS + 1) * horizon // CHECKPOINTS - 1, 0)

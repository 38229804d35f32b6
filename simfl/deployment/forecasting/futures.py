"""One future: rounds after rounds from the end of a log, under one policy."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.api.certificates import trace
from simfl.deployment.forecasting.availability import BINS, AvailabilityFit, ModelChoice, choose, observe, parts_of_day
from simfl.deployment.forecasting.future_span import PastSpan, exposures, past_span, smallest_class
from simfl.deployment.forecasting.past import Past, PastTraffic
from simfl.deployment.forecasting.policies import PolicyChoice, SeenPolicy, candidate, recognise
from simfl.plugins import Bools, Floats, Integers, Streams, View
from simfl.plugins.selection import Policy

CHECKPOINTS = 4
"""Times within the horizon at which the semi-strong and weak guarantees are computed."""

EFFORT = 20_000_000
"""Budget of these guarantees, for each future; where it ends they are not known."""


@dataclass(frozen=True)
class FuturePlan:
    """What is simulated, without labels: everything that a worker process needs.

    Attributes:
        policies: the log's policy first, then the candidates.
        laws: the log's policy in each mode that the log allows; draws of ``fitted`` say which.
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
    laws: tuple[PolicyChoice, ...]
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
    chosen = choose(observe(past.rows, seen, past.times_s), streams, model)
    sizes = past.rows.sum(axis=1)
    steps = np.zeros(0) if past.times_s is None else np.diff(past.times_s)
    whole = FuturePlan(
        (seen.choice, *candidates), tuple(law.choice for law in seen.laws), seen.units, chosen.fitted,
        seen.failed, seen.worked, past_span(past, streams("forecast/prime")), participation, len(past.rows),
        horizon, change_over, seed,
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


def available_clients(plan: FuturePlan, futures: Iterable[int]) -> Bools:
    """Who is available in all coming rounds of some futures, bool (futures * H, N)."""
    streams = Streams(plan.seed)
    return np.concatenate([_World.of(plan, streams, future).available for future in futures])


@dataclass
class _World:
    """The devices of a future.

    Attributes:
        law: the log's policy.
        available: who is, in each coming round, bool (H, N).
        failing: who loses its update if it is selected, bool (H, N).
        ends_s: when each coming round ends, (H,); zeros without times.
    """

    law: PolicyChoice
    available: Bools
    failing: Bools
    ends_s: Floats

    @classmethod
    def of(cls, plan: FuturePlan, streams: Streams, future: int) -> "_World":
        rng = streams("forecast/parameters", future)
        draw = plan.fitted.draw(rng)
        failure = float(rng.beta(plan.failed + 0.5, plan.worked - plan.failed + 0.5)) if plan.failed else 0.0
        failure = failure if np.isnan(draw.failing) else draw.failing
        ends_s = _ends_s(plan, rng)
        on, off = draw.chances(parts_of_day(ends_s), streams("forecast/factors", future))
        first = plan.policies[0]
        size = 1 if first.text == "as_before" else first.policy().unit_size
        rate = 1 - (1 - failure) ** (1 / size)
        chance = streams("forecast/availability", future).random((plan.horizon + 1, plan.clients))
        failing = streams("forecast/failures", future).random((plan.horizon, plan.clients)) < rate
        return cls(plan.laws[draw.law], _available(plan.units, draw.last, on, off, chance), failing, ends_s)


def _ends_s(plan: FuturePlan, rng: np.random.Generator) -> Floats:
    """When coming rounds end, (H,): with times between rounds that the log has at that time of the day, where it has
    some, with weights of their own (the Bayesian bootstrap).
    """
    ends_s, now_s = np.zeros(plan.horizon), plan.begin_s
    if not plan.timed:
        return ends_s
    weights = rng.exponential(size=len(plan.steps_s))
    bins = parts_of_day(plan.begin_s - np.cumsum(plan.steps_s[::-1])[::-1])
    totals = {part: np.cumsum(weights * here) for part in range(BINS) if (here := bins == part).any()}
    every = np.cumsum(weights)
    for t, chance in enumerate(rng.random(plan.horizon)):
        sums = totals.get(int(parts_of_day(np.array([now_s]))[0]), every)
        now_s += float(plan.steps_s[np.searchsorted(sums, chance * sums[-1], side="right")])
        ends_s[t] = now_s
    return ends_s


def _available(units: Integers, last: Bools, on: Floats, off: Floats, chance: Floats) -> Bools:
    """Who is available, bool (H, N), so that units are with probabilities ``on`` and ``off`` after a round in which
    they were, or were not, (H, M): clients of a unit are alike, and independent of each other.

    Args:
        last: units that were available in the log's last round, bool (M,).
        chance: uniform numbers, (H + 1, N).
    """
    members = np.bincount(units)
    usual = off / np.maximum(1 - on + off, 1e-12)
    stays, alone = on ** (1 / members), usual ** (1 / members)
    comes = np.where(members == 1, off, np.clip(alone * (1 - stays) / np.maximum(1 - alone, 1e-12), 0, 1))
    away = np.where(members == 1, 0.0, alone[0] * (1 - alone[0] ** (members - 1)) / np.maximum(1 - usual[0], 1e-12))
    stays, comes = stays[:, units], comes[:, units]
    now = last[units] | (chance[0] < away[units])
    rows = np.zeros(stays.shape, dtype=bool)
    for t in range(len(rows)):
        now = rows[t] = chance[t + 1] < np.where(now, stays[t], comes[t])
    return rows


def _rounds(plan: FuturePlan, world: _World, policy: int, streams: Streams, future: int) -> tuple[Bools, Floats]:
    """Who is in each coming sum, bool (H, N), and when its round ends, (H,)."""
    rows = np.zeros((plan.horizon, plan.clients), dtype=bool)
    used = plan.participation.copy()
    selector = _Selector.of(world.law)
    for t in range(plan.horizon):
        if t == plan.change_over and policy:
            selector = _Selector.of(plan.policies[policy], rows[:t])
        on = world.available[t]
        rng = streams("forecast/selection", future, t)
        units = selector.units(plan, on, used, plan.past_rounds + t, rng)
        if units.size:
            units = units[~world.failing[t][units].any(axis=1)]
        members = np.sort(units.ravel())
        if members.size and selector.sums(on, used, plan.past_rounds + t, members):
            rows[t, members] = True
            used[members] += 1
    return rows, world.ends_s if plan.timed else np.arange(plan.horizon, dtype=float)


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
        places = np.flatnonzero(np.isin(self.choice.order, members)).astype(np.int32)
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

"""Which policy a deployment should go on with: a listed grid, simulated on the same futures, under a promise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.api.certificates import GuardedSelection, facts_of_a_log
from simfl.deployment.forecasting.availability import ModelChoice
from simfl.deployment.forecasting.futures import FuturePlan, Outcome, available_clients, plan
from simfl.deployment.forecasting.parts import simulate_all
from simfl.deployment.forecasting.past import Past
from simfl.deployment.forecasting.policies import (
    ENOUGH,
    WRONG,
    PolicyChoice,
    SeenPolicy,
    candidate,
    ends_of,
    find_refusal,
    policy_pairs,
)
from simfl.plugins import Bools, Integers, JsonObject, SimflError

if TYPE_CHECKING:
    from pandas import DataFrame

SIZES = 2, 3, 4, 6, 8
"""Clients in a unit, of the grid; those that leave nobody out, three at most, else 2."""
ORDERS = "as_logged", "availability"
NOW = "as now"
UNITS = "batch_partition:k={k},T={T},mode=fair", "half_partition:k={k},T={T},mode=fair"
GUARDS = ("guarded:T={T},mode=fair,inner={{name: random, k: {k}}}",
          "guarded:T={T},notion=weak,mode=fair,inner={{name: random, k: {k}}}")  # fmt: skip
MOST_WEAK = 4
"""Clients in a unit at most, of guards of the weak notion."""
MOST = 24
"""Policies of a grid."""
SCREEN = 20
"""Futures after which a policy is given up that can no longer be shown to keep the promise."""
SURE = 0.95
"""Confidence of the one-sided bound on the share of futures in which nobody else is exposed."""
LIKE_THESE = 10**6, 60
"""The first future, and how many, from which clients' joint availability is read: others than those of the advice."""


class GridPolicy(NamedTuple):
    """A policy of the grid, and in which order the log's clients make its units."""

    text: str
    order: str


@dataclass(frozen=True)
class PolicyAdvice:
    """What the policies of a grid lead to, on the same futures.

    Attributes:
        grid: the policies; the first is the log's own, as now.
        choices: the same as they were simulated.
        outcomes: of each, arrays with a first axis of futures (of :data:`SCREEN` where it was given up).
        target: share of futures in which nobody else may be exposed.
        believed: the log's own policy is known well enough to be advised: by name, or from enough sums.
        refusals: policies of the grid that cannot be played after this log, and why.
    """

    past: Past
    plan: FuturePlan
    seen: SeenPolicy
    model: ModelChoice
    grid: tuple[GridPolicy, ...]
    choices: tuple[PolicyChoice, ...]
    outcomes: list[Outcome]
    futures: int
    target: float
    believed: bool
    refusals: tuple[str, ...]

    @property
    def exposed_already(self) -> int:
        return int(self.plan.span.exposed.sum())

    def table(self) -> "DataFrame":
        """A row for each policy of the grid: the share of futures in which nobody else is ``safe`` and its lower bound
        (exact, one-sided, 95 %), whether it ``holds`` with a sum in at least one, mean, median and 95 % interval of
        ``lost`` rounds (without a sum), ``clients`` a round and ``bytes`` in the mean, clients ``left_out``.
        """
        from pandas import DataFrame
        from scipy.stats import binomtest

        rows = []
        for policy, choice, outcome in zip(self.grid, self.choices, self.outcomes, strict=True):
            safe, count = ~others_exposed(outcome, self.plan.horizon), len(outcome.rank)
            bound = binomtest(int(safe.sum()), count, alternative="greater").proportion_ci(SURE).low
            empty = _empty_rounds(outcome)
            low, high = ends_of(self.seen.choice, "skipped", empty)
            middle = np.quantile(empty, 0.5, method="inverted_cdf")
            rows.append((policy.text, policy.order, count, float(safe.mean()), float(bound),
                         count == self.futures and bound >= self.target and (policy.order != NOW or self.believed)
                         and bool((empty < self.plan.horizon).any()),
                         float(empty.mean()), middle, low, high, float(outcome.cardinality.mean()),
                         float(outcome.bytes[:, -1].mean()), len(self.plan.units) - len(choice.order)))  # fmt: skip
        columns = ["policy", "order", "futures", "safe", "safe_low", "holds", "lost", "lost_median", "lost_low_95",
                   "lost_high_95", "clients", "bytes", "left_out"]  # fmt: skip
        return DataFrame(rows, columns=columns)

    def ranking(self) -> list[int]:
        """Places in the grid of the policies that hold, fewest lost rounds first, then fewest bytes (where the log has
        none: clients), then as in the grid.
        """
        table = self.table()
        cost = table["bytes"].where(table["bytes"].notna(), table["clients"])
        order = np.lexsort((np.arange(len(table)), cost, table["lost"]))
        return [int(place) for place in order if table["holds"][place]]

    def nodes(self, place: int) -> list[object]:
        """Names of the clients of a policy of the grid, in the order in which they make its units."""
        return [self.past.clients[client] for client in self.choices[place].order]

    def to_json(self) -> JsonObject:
        """As plain data."""
        table = self.table()
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
        best = [{"policy": self.grid[place].text, "nodes": self.nodes(place)} for place in self.ranking()[:3]]
        return {"horizon": self.plan.horizon, "futures": self.futures, "seed": self.plan.seed, "target": self.target,
                **facts_of_a_log(), "exposed_already": self.exposed_already, "advice": best, "grid": rows,
                "refused": list(self.refusals)}  # fmt: skip


def others_exposed(outcome: Outcome, horizon: int) -> np.ndarray:
    """Whether somebody is exposed whom the past has not exposed, bool (futures,)."""
    return np.asarray(((outcome.exposed >= 0) & (outcome.exposed < horizon)).any(axis=1))


def most_exposures(futures: int, target: float) -> int:
    """Futures with an exposure at most, so that the exact bound lies above the target; -1 = too few futures."""
    from scipy.stats import beta

    bad = -1
    while beta.ppf(1 - SURE, futures - bad - 1, bad + 2) >= target:
        bad += 1
    return bad


def listed_grid(seen: SeenPolicy, past: Past) -> list[GridPolicy]:
    """The policies that are looked at where none are named; about as many clients a round as now, and about half
    of all at most.
    """
    n, sizes = past.rows.shape[1], past.rows.sum(axis=1)
    k = seen.choice.k if seen.relation == "some" else max(1, round(float(sizes[sizes > 0].mean())))
    k = min(k, max(1, n // 2))
    fitting = [T for T in SIZES if n % T == 0 and n // T >= 2 and T < 2 * k][:3] or [2]
    grid = []
    for T in fitting:
        size = min(n - n % T, max(T, round(k / T) * T))
        for text in UNITS[: 2 - T % 2]:
            grid += [GridPolicy(text.format(k=size, T=T), order) for order in ORDERS]
        for text in GUARDS[: 1 + (T == fitting[0] <= MOST_WEAK)] if T in fitting[:2] else ():
            grid.append(GridPolicy(text.format(k=size, T=T), ORDERS[1]))
    if n % k == 0 and 1 < k < n and k not in fitting:
        grid += [GridPolicy(f"partition:k={k}", order) for order in ORDERS]
    return grid


def choose_order(policy: GridPolicy, seen: SeenPolicy, past: Past, there: np.ndarray) -> PolicyChoice:
    """A policy of the grid with its clients in their order; who took part least is left out where units do not fit."""
    n, used = past.rows.shape[1], past.rows.sum(axis=0).astype(np.int64)
    choice = candidate(policy.text, seen.choice.k, n, used)
    if policy.order == "as_logged":
        logged: Integers = seen.choice.order[np.isin(seen.choice.order, choice.order)]
        return replace(choice, order=logged)
    policy_of_units = choice.policy()
    if isinstance(policy_of_units, GuardedSelection):
        policy_of_units = policy_of_units.reserved
    size = policy_of_units.unit_size // (1 + policy_pairs(policy_of_units, len(choice.order)))
    return replace(choice, order=choice.order[order_by_availability(there[:, choice.order], size)])


def advise(
    past: Past,
    grid: Sequence[str] = (),
    *,
    horizon: int,
    futures: int = 100,
    target: float = 0.95,
    policy: str | None = None,
    model: str | None = None,
    seed: int = 0,
    folder: Path | None = None,
    processes: int = 1,
    begin: Callable[[int], None] | None = None,
    step: Callable[[int], None] | None = None,
) -> PolicyAdvice:
    """Simulates the futures of a log under its own policy and those of a grid.

    Args:
        past: the log.
        grid: policies as ``batch_partition:k=8,T=4``, each with units of both orders; empty = :func:`listed_grid`.
        horizon: coming rounds.
        futures: how many.
        target: share of futures in which nobody else may be exposed.
        policy, model, seed, folder, processes: as for :func:`simfl.deployment.forecasting.forecast_result.forecast`.
        begin: called with the number of policies.
        step: called with the number of futures that are ready now.

    Raises:
        SimflError: there is no such policy, too few futures for the target, or forecasts of the log's policy are not
            tested.
    """
    bad = most_exposures(futures, target)
    if bad < 0:
        least = int(np.ceil(np.log(1 - SURE) / np.log(target)))
        raise SimflError(f"futures: {futures}, and even if nobody is exposed in all of them that does not show "
                         f"{target:.0%} with confidence {SURE:.0%}; the least is {least}")  # fmt: skip
    if which := find_refusal(past, policy):
        raise SimflError(f"{which}: {WRONG}")
    base, seen, chosen = plan(past, horizon=horizon, policy=policy, model=model, seed=seed)
    policies, choices, refusals = _choose(past, seen, base, grid)
    (begin or _ignore)(len(choices))
    believed = policy is not None or int(past.rows.any(axis=1).sum()) >= ENOUGH
    whole, players = replace(base, policies=choices), (folder, processes, step or _ignore)
    outcomes = _simulate(whole, futures, bad, believed, *players)
    return PolicyAdvice(past, base, seen, chosen, policies, choices, outcomes, futures, target, believed, refusals)


def _choose(
    past: Past, seen: SeenPolicy, base: FuturePlan, grid: Sequence[str]
) -> tuple[tuple[GridPolicy, ...], tuple[PolicyChoice, ...], tuple[str, ...]]:
    """As now and the policies of a grid, the same as choices without repetitions, and why others cannot be played."""
    every = [GridPolicy(text, order) for text in grid for order in ORDERS] or listed_grid(seen, past)
    if len(every) >= MOST:
        raise SimflError(f"grid: {len(every) + 1} policies with as now; at most {MOST}")
    first, count = LIKE_THESE
    there = available_clients(base, range(first, first + count))
    policies, choices, refusals = [GridPolicy(seen.choice.text, NOW)], [seen.choice], list[str]()
    for each in every:
        try:
            choice = choose_order(each, seen, past, there)
            if choice.policy().reads_history and np.ptp(past.matrix.data) > 0:
                raise SimflError(f"policy {choice.text}: the log's sums have weights, and PolicyStrategy guards plain "
                                 "sums only")  # fmt: skip
            choice = choice.after(past)
        except SimflError as error:
            if grid:
                raise
            refusals += [str(error)] * (str(error) not in refusals)
            continue
        if not any(choice.text == other.text and np.array_equal(choice.order, other.order) for other in choices):
            policies, choices = [*policies, GridPolicy(choice.text, each.order)], [*choices, choice]
    return tuple(policies), tuple(choices), tuple(refusals)


def _simulate(
    whole: FuturePlan, futures: int, bad: int, believed: bool, folder: Path | None, processes: int,
    step: Callable[[int], None],
) -> list[Outcome]:  # fmt: skip
    """All futures of as now, and of each policy that may be among the best three that keep the promise; of the others
    the first.
    """
    first = min(SCREEN, futures)
    outcomes = simulate_all(whole, first, folder, processes, step)
    safe = [place for place, each in enumerate(outcomes)
            if (place or believed) and others_exposed(each, whole.horizon).sum() <= bad]  # fmt: skip
    best = sorted(safe, key=lambda place: _empty_rounds(outcomes[place]).mean())
    behind = {place for place in best[3:] if _is_behind(outcomes[place], outcomes[best[2]])}
    for some in ({*safe} - behind | {0}, behind | {0}):
        places = sorted(some)
        part = replace(whole, policies=tuple(whole.policies[place] for place in places))
        for place, outcome in zip(places, simulate_all(part, futures, folder, processes, step), strict=True):
            outcomes[place] = outcome
        still = sum(others_exposed(outcomes[place], whole.horizon).sum() <= bad for place in some & {*safe})
        if not behind or still >= 3:
            break
    return outcomes


def _empty_rounds(outcome: Outcome) -> Integers:
    """Rounds without a sum in each future, (futures,)."""
    return np.asarray((outcome.cardinality == 0).sum(axis=1))


def _is_behind(one: Outcome, other: Outcome) -> bool:
    """Whether a policy loses more rounds than another one, by three standard errors of paired futures."""
    more = _empty_rounds(one) - _empty_rounds(other)
    return bool(more.mean() > 3 * max(more.std(ddof=1), 0.5) / np.sqrt(len(more)))


def _ignore(count: int) -> None:
    """Nobody watches."""


def order_by_availability(there: Bools, size: int) -> Integers:
    """An order of the clients in which runs of ``size`` are often available together, (n,).

    Two orders are compared by the mean number of whole runs: by rate (among clients who are available independently of
    each other none has more: a sum of products is largest where like meets like, by the rearrangement inequality), and
    one that begins each run with the client of the highest rate that is left and adds who is there most often when all
    of the run are.

    Args:
        there: who is available, in rounds that are as likely as those to come, (rounds, n); n a multiple of ``size``.
        size: clients in a run.
    """
    rates = there.mean(axis=0)
    by_rate = np.argsort(-rates, kind="stable")
    joint = np.concatenate([np.zeros(0, dtype=np.int64), *_runs(there, by_rate, size)])
    return max(by_rate, joint, key=lambda order: _whole(there[:, order], size))


def _runs(there: Bools, by_rate: Integers, size: int) -> list[Integers]:
    left, runs = np.ones(len(by_rate), dtype=bool), []
    for first in by_rate:
        if not left[first]:
            continue
        run, all_there = [first], there[:, first]
        left[first] = False
        for _ in range(size - 1):
            count = np.where(left, all_there.astype(np.int64) @ there, -1)
            run.append(int(np.argmax(count)))
            all_there = all_there & there[:, run[-1]]
            left[run[-1]] = False
        runs.append(np.array(run))
    return runs


def _whole(there: NDArray[np.bool_], size: int) -> float:
    """Mean number of whole runs."""
    return float(there.reshape(len(there), -1, size).all(axis=2).sum(axis=1).mean())

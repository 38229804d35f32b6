"""A forecast: who will be exposed, from when on, and what other policies would change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.api.certificates import facts_of_a_log, paired_difference
from simfl.deployment.audit.times import date
from simfl.deployment.forecasting.availability import ModelChoice
from simfl.deployment.forecasting.forecast_text import MEASURED, limits_of
from simfl.deployment.forecasting.futures import CHECKPOINTS, FuturePlan, Outcome, checkpoints, plan
from simfl.deployment.forecasting.parts import simulate_all
from simfl.deployment.forecasting.past import Past
from simfl.deployment.forecasting.policies import WRONG, SeenPolicy, coverage_of, ends_of, find_refusal
from simfl.plugins import JsonObject, SimflError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

QUANTILES = "low_95", "low_80", "median", "high_80", "high_95"
MILESTONES = 20, 100
"""Coming rounds after which the first table says how things stand."""
OVER_TIME = ("rank", "strong", "cardinality", "fairness_gap")
GUARANTEES = ("semi_strong", "weak_lower", "weak_upper")


@dataclass(frozen=True)
class Forecast:
    """The futures of a log under its policy and others.

    Attributes:
        outcomes: of each policy of the plan, arrays with a first axis of futures; future f has the same devices under
            every policy.
    """

    past: Past
    plan: FuturePlan
    seen: SeenPolicy
    model: ModelChoice
    outcomes: list[Outcome]

    @property
    def policies(self) -> list[str]:
        """The policies' texts, the log's first."""
        return [choice.text for choice in self.plan.policies]

    @property
    def knows_bytes(self) -> bool:
        """Whether the log says how many bytes its rounds have moved."""
        return self.past.round_bytes is not None

    @property
    def limits(self) -> list[str]:
        """What the forecast cannot know, in sentences."""
        return limits_of(self.past, self.plan, self.seen, self.model)

    def _quantiles(self, quantity: str, values: NDArray[np.number]) -> dict[str, NDArray[np.number]]:
        """The median of the futures (first axis) and the ends of the intervals, by name."""
        low, high = ends_of(self.seen.choice, MEASURED.get(quantity, quantity), values)
        middle = np.quantile(values, (0.1, 0.5, 0.9), axis=0, method="inverted_cdf")
        return dict(zip(QUANTILES, (low, *middle, high), strict=True))

    def exposed_counts(self, policy: int) -> NDArray[np.int64]:
        """Clients that are exposed after each coming round, those of the past included, (futures, H)."""
        since, horizon = self.outcomes[policy].exposed, self.plan.horizon
        counts = np.stack([np.bincount(np.maximum(row, 0)[row < horizon], minlength=horizon) for row in since])
        return np.cumsum(counts, axis=1)

    def clients(self) -> "DataFrame":
        """A row for each policy and client: ``probability`` of being exposed within the horizon, and the median and the
        ends of the 80 and 95 % intervals of the coming round (from 0) from which on it is: -1 = already, empty = not
        within the horizon; ``date_...`` where the log has dates, ``time_s_...`` where it has other times.
        """
        from pandas import DataFrame

        parts = []
        for text, outcome in zip(self.policies, self.outcomes, strict=True):
            since = outcome.exposed
            columns: dict[str, Any] = {"policy": text, "client": list(self.past.clients)}
            columns["probability"] = (since < self.plan.horizon).mean(axis=0)
            ends = self._quantiles("since", since)
            columns |= {name: [self._round(int(t)) for t in values] for name, values in ends.items()}
            if self.past.times_s is not None:
                when = np.median(outcome.time_s, axis=0)
                prefix = "date" if self.past.dated else "time_s"
                columns |= {f"{prefix}_{name}": [self._time(int(t), when) for t in values]
                            for name, values in ends.items()}  # fmt: skip
            parts.append(DataFrame(columns))
        from pandas import concat

        return concat(parts, ignore_index=True)

    def _round(self, t: int) -> Any:
        return -1 if t < 0 else None if t >= self.plan.horizon else t

    def _time(self, t: int, when: NDArray[np.float64]) -> Any:
        if not 0 <= t < self.plan.horizon:
            return None
        return date(float(when[t])) if self.past.dated else round(float(when[t]), 3)

    def rounds(self) -> "DataFrame":
        """A row for each policy, quantity and coming round, with the median and the ends of the intervals.

        Quantities: ``exposed`` (clients), ``rank``, ``strong``, ``cardinality``, ``mean_cardinality`` and
        ``bytes`` (of all coming rounds until then, the latter where the log has them), ``fairness_gap``, and at four
        rounds ``semi_strong``, ``weak_lower`` and ``weak_upper``, of fewer futures.
        """
        from pandas import DataFrame, concat

        ends, parts = checkpoints(self.plan.horizon), []
        for policy, text in enumerate(self.policies):
            outcome = self.outcomes[policy]
            values = {"exposed": self.exposed_counts(policy), **{name: getattr(outcome, name) for name in OVER_TIME}}
            values["mean_cardinality"] = np.cumsum(outcome.cardinality, axis=1) / np.arange(1, self.plan.horizon + 1)
            if self.knows_bytes:
                values["bytes"] = outcome.bytes
            for name, table in values.items():
                parts.append(self._fan(text, name, np.arange(self.plan.horizon), table))
            for name in GUARANTEES:
                table = getattr(outcome, name)[: self.plan.guarantees]
                known = ~np.isnan(table).any(axis=0) if len(table) else np.zeros(CHECKPOINTS, dtype=bool)
                known &= np.append(True, ends[1:] != ends[:-1])  # a short horizon has fewer
                if known.any():
                    parts.append(self._fan(text, name, ends[known], table[:, known]))
        every: DataFrame = concat(parts, ignore_index=True)
        every["label"] = [self.past.label(t) for t in every["round"]]
        return every

    def _fan(self, policy: str, name: str, rounds: NDArray[np.integer], table: NDArray[np.number]) -> "DataFrame":
        from pandas import DataFrame

        ends = self._quantiles(name, table)
        return DataFrame({"policy": policy, "quantity": name, "round": rounds, "mean": table.mean(axis=0), **ends})

    def milestones(self) -> "DataFrame":
        """A row for each quantity, policy and coming ``round`` of :data:`MILESTONES` within the horizon: the value
        ``now`` (of the past), the ``median`` and the 95 % interval after so many rounds.
        """
        from pandas import DataFrame

        rows, past = [], self.past.rows
        after = np.arange(1, self.plan.horizon + 1)
        ends = sorted({min(end, self.plan.horizon) for end in MILESTONES})
        for policy, text in enumerate(self.policies):
            outcome = self.outcomes[policy]
            values = {
                "exposed": (int((outcome.exposed[0] < 0).sum()), self.exposed_counts(policy)),
                "cardinality": (float(past.sum(axis=1).mean()), np.cumsum(outcome.cardinality, axis=1) / after),
                "skipped": (int((~past.any(axis=1)).sum()), np.cumsum(outcome.cardinality == 0, axis=1)),
                "fairness_gap": (float(np.ptp(past.sum(axis=0)) / len(past)), outcome.fairness_gap),
            }
            for name, (now, table) in values.items():
                for end in ends:
                    at = self._quantiles(name, table[:, end - 1])
                    rows.append((name, text, end, now, at["median"], at["low_95"], at["high_95"]))
        every = DataFrame(rows, columns=["quantity", "policy", "round", "now", "median", "low_95", "high_95"])
        return every.sort_values("quantity", key=lambda names: names.map(list(values).index), kind="stable")

    def differences(self) -> "DataFrame":
        """What each other policy changes: mean and 95 % interval of the mean of paired differences to the log's
        policy, ``futures`` in which it is better, and both means.
        """
        from pandas import DataFrame

        first, rows = self._numbers(0), []
        for policy, text in list(enumerate(self.policies))[1:]:
            for name, values in self._numbers(policy).items():
                if len(values) > 1:
                    change_by = paired_difference(values.tolist(), first[name].tolist())
                    rows.append((text, name, float(first[name].mean()), float(values.mean()), change_by.estimate,
                                 change_by.lower, change_by.upper))  # fmt: skip
        columns = ["policy", "quantity", "as_now", "with_policy", "difference", "low_95", "high_95"]
        return DataFrame(rows, columns=columns)

    def _numbers(self, policy: int) -> dict[str, NDArray[np.float64]]:
        """One number a future."""
        outcome, horizon = self.outcomes[policy], self.plan.horizon
        since = np.where(outcome.exposed < 0, horizon, outcome.exposed)
        moved = {"bytes": outcome.bytes[:, -1]} if self.knows_bytes else {}
        return {
            "exposed": self.exposed_counts(policy)[:, -1].astype(float),
            "first_exposure": since.min(axis=1).astype(float),
            "cardinality": outcome.cardinality.mean(axis=1),
            "skipped": (outcome.cardinality == 0).sum(axis=1).astype(float),
            "fairness_gap": outcome.fairness_gap[:, -1],
            **moved,
        }

    def figure(self) -> "Figure":
        """The fans of :meth:`rounds` as a matplotlib figure."""
        from simfl.api.pages import settings
        from simfl.deployment.forecasting.forecast_page import drawing

        with settings():
            return drawing(self.policies, self.rounds())

    def html(self, title: str = "Forecast") -> str:
        """The forecast as one page that needs nothing else."""
        from simfl.deployment.forecasting.forecast_page import page

        return page(self, title)

    def to_json(self) -> JsonObject:
        """As plain data; null where a client is not exposed within the horizon."""
        tables = {"milestones": self.milestones(), "clients": self.clients(), "rounds": self.rounds(),
                  "differences": self.differences()}  # fmt: skip
        rows = {name: table.astype(object).where(table.notna(), None).to_dict("records")
                for name, table in tables.items()}  # fmt: skip
        about = {"horizon": self.plan.horizon, "futures": len(self.outcomes[0].rank), "seed": self.plan.seed}
        model = {"name": self.model.fitted.model, "drift": self.model.drift, "left": self.model.left}
        seen = {"policy": self.seen.choice.text, "sentence": self.seen.sentence}
        return {**about, **facts_of_a_log(), "policy": seen, "availability": model, "limits": self.limits,
                "tested": [row._asdict() for row in coverage_of(self.seen.choice).values()], **rows}  # fmt: skip


def rounds_ahead(past: Past, horizon: int | None, days: float | None) -> int:
    """How many coming rounds a horizon has; by default as many as the log.

    Raises:
        SimflError: days are meant, but the log has no times.
    """
    if days is None:
        return horizon or len(past.rows)
    if past.times_s is None or not past.dated:
        raise SimflError("--horizon: the log has no dates, so that days mean nothing; give a number of rounds")
    step = float(np.diff(past.times_s).mean())
    return max(1, round(days * 86_400 / step)) if step > 0 else len(past.rows)


def forecast(
    past: Past,
    against: Sequence[str] = (),
    *,
    horizon: int,
    futures: int = 200,
    change_over: int = 0,
    policy: str | None = None,
    model: str | None = None,
    seed: int = 0,
    guarantees: int = 0,
    folder: Path | None = None,
    processes: int = 1,
    step: Callable[[int], None] | None = None,
    begin: Callable[[FuturePlan], None] | None = None,
) -> Forecast:
    """Simulates the futures of a log.

    Args:
        past: the log.
        against: other policies, as ``batch_partition:T=4``.
        horizon: coming rounds.
        futures: how many are simulated under each policy.
        change_over: coming round from which the other policies select.
        policy: the log's policy; None = recognised.
        model: one of :data:`simfl.deployment.forecasting.availability.MODELS`; None = that of all parts.
        seed: decides every draw.
        guarantees: futures for which the semi-strong and weak guarantees are computed, too.
        folder: where finished parts are stored and looked for.
        processes: how many work at once.
        step: called with the number of futures that are ready now.
        begin: called with what is going to be simulated.

    Raises:
        SimflError: there is no such policy, nothing to simulate, or forecasts of the log's policy are not tested.
    """
    if horizon < 1 or futures < 1:
        raise SimflError("a forecast needs at least one coming round and one future")
    what, seen, chosen = plan(past, tuple(against), horizon=horizon, change_over=change_over, policy=policy,
                                model=model, seed=seed, guarantees=guarantees)  # fmt: skip
    if which := find_refusal(past, policy):
        raise SimflError(f"{which}: {WRONG}")
    (begin or _ignore)(what)
    return Forecast(past, what, seen, chosen, simulate_all(what, futures, folder, processes, step))


def _ignore(plan: FuturePlan) -> None:
    """Nobody asks."""

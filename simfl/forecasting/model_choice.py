"""Which model of availability foretells the last part of a log best, and whether availability drifts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import SimflError
from simfl.forecasting.availability import MEMORIES, AvailabilityFit, Observed, fit, pair_rate

PREFERRED = ("per_client", "constant", "markov", "time_of_day")
"""Rates of one a client, drawn towards their mean as the log says, go before equal ones, which they contain, unless
these are better by more than chance: equal rates leave no doubt that clients differ."""
MODELS = ("constant", "per_client", "markov", "time_of_day")
LEARNT = 0.7
"""Share of the rounds that models are fitted to before they are compared on the rest."""
PERMUTATIONS = 500
NEGLIGIBLE = 0.05
"""Difference in log-likelihood of a round that is no reason for a larger model."""


@dataclass(frozen=True)
class ModelChoice:
    """The model that is used.

    Attributes:
        fitted: to all rounds.
        scores: mean log-likelihood of a round of the last part, by model; empty where the log is too short for it.
        drift: p-value of a test that rates of taking part were the same in both halves of the log.
        named: the model was said, not chosen.
    """

    fitted: AvailabilityFit
    scores: dict[str, float]
    drift: float
    named: bool = False

    @property
    def sentence(self) -> str:
        """What was chosen, and by what."""
        if self.named:
            return f"Availability: {self.fitted.model}, as was said."
        if not self.scores:
            return f"Availability: {self.fitted.model}; the log is too short to compare models."
        ranked = ", ".join(f"{name} {score:.2f}" for name, score in sorted(self.scores.items(), key=lambda s: -s[1]))
        return f"Availability: {self.fitted.model}, by the mean log-likelihood of the last rounds ({ranked})."


def choose(seen: Observed, timed: bool, rng: np.random.Generator, model: str | None = None) -> ModelChoice:
    """The model of largest held-out likelihood; of those next to it the first of :data:`PREFERRED`.

    Raises:
        SimflError: the time of day is named, and the log has no times.
    """
    names = [name for name in MODELS if timed or name != "time_of_day"]
    if model is not None and model not in names:
        raise SimflError(f"--model {model}: the log has no times; one of {', '.join(names)}")
    cut = max(2, int(LEARNT * len(seen.took_part)))
    rows = {}
    for name in names if cut < len(seen.took_part) else ():
        first = fit(seen._replace(took_part=seen.took_part[:cut], bins=seen.bins[:cut]), name)
        rows[name] = _held_out(first, seen, cut)
    scores = {name: float(values.mean()) for name, values in rows.items()}
    best = max(scores.values(), default=0.0)
    near = [name for name in PREFERRED if not scores or scores.get(name, -np.inf) >= best - NEGLIGIBLE]
    if near[:1] == ["constant"] and not _surely_better(rows["constant"], rows["per_client"]):
        near = ["per_client"]
    return ModelChoice(fit(seen, model or near[0]), scores, _drift(seen, rng), model is not None)


def _surely_better(values: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Whether log-likelihoods of the same rounds differ by more than two standard errors."""
    difference = values - others
    return float(difference.mean()) > 2 * float(difference.std()) / np.sqrt(len(difference))


def _held_out(fitted: AvailabilityFit, seen: Observed, cut: int) -> NDArray[np.float64]:
    """Log-likelihood of each round from ``cut`` on, units taken one by one."""
    rates = fitted.mean_rates()
    rates = np.clip(rates[:, seen.bins[cut:] % rates.shape[1]].T, 1e-4, 1 - 1e-4)
    if fitted.model == "markov":
        memory = float(MEMORIES @ fitted.memory)
        before = seen.took_part[cut - 1 : -1]
        again = pair_rate(rates, memory, fitted.sums)
        rates = np.clip(np.where(before, again, rates * (1 - again) / (1 - rates)), 1e-4, 1 - 1e-4)
    rows = seen.took_part[cut:]
    values: NDArray[np.float64] = np.where(rows, np.log(rates), np.log1p(-rates)).sum(axis=1)
    return values


def _drift(seen: Observed, rng: np.random.Generator) -> float:
    """Share of divisions of the rounds, in runs of several, whose halves differ by more than the first and last do."""
    rows = seen.took_part
    length = max(1, len(rows) // 20)
    runs = np.array_split(np.arange(len(rows)), max(2, len(rows) // length))
    counts = np.array([rows[run].sum(axis=0) for run in runs])
    half = len(runs) // 2

    def difference(order: NDArray[np.int64]) -> float:
        one, two = counts[order[:half]].sum(axis=0), counts[order[half:]].sum(axis=0)
        return float(((one - two) ** 2 / np.maximum(one + two, 1)).sum())

    first = difference(np.arange(len(runs)))
    others = [difference(rng.permutation(len(runs))) for _ in range(PERMUTATIONS)]
    return (1 + sum(value >= first for value in others)) / (1 + PERMUTATIONS)

"""Who will be available: four models, the one that foretells the log's last part best, and draws of its parameters.

A log shows who took part. Let r be the rate at which a unit (a client, or clients that always take part together) is in
a sum. Where everybody who is available takes part, r is the availability. Where k of the available ones are selected,
r fixes availabilities up to a common factor: with E expected available units, unit i is available at the rate
E w_i / sum(w), w_i = r_i / (k + r_i). How large E is, only rounds with too few available units tell; what they leave
open is drawn anew in each future.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from simfl.core.errors import SimflError
from simfl.core.types import Bools, Floats, Integers
from simfl.forecasting.policies import SeenPolicy

DAY_S = 86_400.0
BINS = 8
"""Parts of a day at which availability may differ."""
STRENGTHS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
"""Of the prior, in rounds: how alike units are; drawn anew in each future."""
OFFSETS = np.linspace(-3, 3, 13)
"""Of the prior's mean, in standard errors; drawn anew in each future."""
MEMORIES = np.linspace(0.0, 0.96, 25)
"""Correlations between two rounds."""
LEVELS = 24
"""Numbers of expected available units that are weighed."""

PREFERRED = ("per_client", "constant", "markov", "time_of_day")
"""Rates of one a client, drawn towards their mean as the log says, go before equal ones, which they contain, unless
these are better by more than chance: equal rates leave no doubt that clients differ."""

MODELS = ("constant", "per_client", "markov", "time_of_day")

LEARNT = 0.7
"""Share of the rounds that models are fitted to before they are compared on the rest."""

PERMUTATIONS = 500

NEGLIGIBLE = 0.05
"""Difference in log-likelihood of a round that is no reason for a larger model."""


class Observed(NamedTuple):
    """Who took part in rounds with a sum.

    Attributes:
        took_part: bool (J, M), a column a unit.
        bins: part of the day of each round, (J,); zeros without times.
        sums: units selected in a round; 0 = all who are available.
        skipped: rounds that summed nobody.
    """

    took_part: Bools
    bins: Integers
    sums: int
    skipped: int


@dataclass(frozen=True)
class AvailabilityFit:
    """A model with what the log says of its parameters.

    Attributes:
        model: ``constant``, ``per_client``, ``markov`` or ``time_of_day``.
        alpha, beta: of the Beta posteriors of the rates of taking part, for S priors, (S, M, B) with one column a part
            of the day.
        strength: probability of each prior, (S,).
        memory: probability of each of :data:`MEMORIES`, (25,).
        sums: as of :class:`Observed`.
        skipped, rounds: rounds that summed nobody, and all.
        last: bool (M,): who took part in the last round.
    """

    model: str
    alpha: Floats
    beta: Floats
    strength: Floats
    memory: Floats
    sums: int
    skipped: int
    rounds: int
    last: Bools

    def draw(self, rng: np.random.Generator) -> "AvailabilityDraw":
        """One set of parameters that the log allows."""
        place = rng.choice(len(self.strength), p=self.strength)
        alpha, beta = self.alpha[place], self.beta[place]
        if self.model == "constant":
            rates = np.broadcast_to(rng.beta(alpha[:1], beta[:1]), alpha.shape)
        else:
            rates = rng.beta(alpha, beta)
        memory = float(rng.choice(MEMORIES, p=self.memory))
        if not self.sums:
            return AvailabilityDraw(rates, memory, self.last.astype(float))
        available = self._level(rates, rng)
        mean = available.mean(axis=1)
        share = np.minimum(1.0, self.sums / max(float(mean.sum()), 1e-9))
        unknown = mean * (1 - share) / np.maximum(1 - mean * share, 1e-9)
        return AvailabilityDraw(available, memory, np.where(self.last, 1.0, np.clip(unknown, 0, 1)))

    def _level(self, rates: Floats, rng: np.random.Generator) -> Floats:
        """Availabilities, (M, B), that go with the rates of taking part."""
        weights = rates / (self.sums + rates)
        share = weights / np.maximum(weights.sum(axis=0), 1e-12)
        most = 1 / float(share.max())
        grid = np.linspace(min(self.sums, most), most, LEVELS)
        short = too_few(np.minimum(1, grid[:, None] * share.mean(axis=1)), self.sums)
        short = np.clip(short, 1e-12, 1 - 1e-12)
        log = self.skipped * np.log(short) + (self.rounds - self.skipped) * np.log1p(-short)
        chance = np.exp(log - log.max())
        level = rng.choice(grid, p=chance / chance.sum())
        return np.minimum(1.0, level * share)

    def mean_rates(self) -> Floats:
        """Expected rates of taking part, (M, B)."""
        return np.tensordot(self.strength, self.alpha / (self.alpha + self.beta), 1)


@dataclass
class AvailabilityDraw:
    """Availabilities (M, B), correlation between rounds, and the probability of being available before the first."""

    rates: Floats
    memory: float
    before: Floats


def too_few(rates: Floats, need: int) -> Floats:
    """Probability that fewer than ``need`` of independent units are available; rates (..., M)."""
    counts = np.zeros((*rates.shape[:-1], max(need, 1)))
    counts[..., 0] = need > 0
    for rate in np.moveaxis(rates, -1, 0)[..., None]:
        shifted = counts * rate
        counts = counts - shifted
        counts[..., 1:] += shifted[..., :-1]
    return counts.sum(axis=-1)


def observe(rows: Bools, seen: SeenPolicy, times_s: Floats | None) -> Observed:
    """What a log shows of its units."""
    units = int(seen.units.max()) + 1
    first = np.array([int(np.argmax(seen.units == unit)) for unit in range(units)])
    full = rows.any(axis=1)
    keep = full | (seen.relation == "all")
    bins = np.zeros(len(rows), np.int64) if times_s is None else parts_of_day(times_s)
    skipped = 0 if seen.relation == "all" else int((~full).sum())
    return Observed(rows[keep][:, first], bins[keep], 0 if seen.relation == "all" else seen.sums, skipped)


def parts_of_day(times_s: Floats) -> Integers:
    """The part of the day of some times, from 0."""
    return (times_s % DAY_S // (DAY_S / BINS)).astype(np.int64)


def fit(seen: Observed, model: str) -> AvailabilityFit:
    """What the log says of a model's parameters."""
    rows, rounds = seen.took_part, len(seen.took_part)
    total = rows.sum(axis=0)[:, None].astype(float)
    mean = (float(total.sum()) + 0.5) / (rounds * rows.shape[1] + 1)
    each = np.full(total.shape, mean)
    if model == "constant":
        everything = total.sum() + 0.5, rounds * rows.shape[1] - total.sum() + 0.5
        alpha, beta = (np.full((1, *total.shape), value) for value in everything)
        strength = np.ones(1)
    else:
        alpha, beta, strength = _posteriors(total, np.array([rounds]), each)
    if model == "time_of_day":
        usual = np.tensordot(strength, alpha / (alpha + beta), 1)
        counts = np.stack([rows[seen.bins == b].sum(axis=0) for b in range(BINS)], 1)
        of = np.array([(seen.bins == b).sum() for b in range(BINS)])
        alpha, beta, strength = _posteriors(counts, of, np.broadcast_to(usual, counts.shape))
    none = np.eye(len(MEMORIES))[0]
    every = rounds + seen.skipped
    fitted = AvailabilityFit(model, alpha, beta, strength, none, seen.sums, seen.skipped, every, rows[-1])
    if model != "markov":
        return fitted
    memory = _memory(fitted, rows)
    worth = (1 - float(MEMORIES @ memory)) / (1 + float(MEMORIES @ memory))  # rounds that tell something new
    alpha, beta, strength = _posteriors(worth * total, np.array([worth * rounds]), each)
    return replace(fitted, alpha=alpha, beta=beta, strength=strength, memory=memory)


def _posteriors(counts: Floats, of: Floats, mean: Floats) -> tuple[Floats, Floats, Floats]:
    """Of rates about a mean, each (S, M, B), and the probability of each prior Beta(s m, s (1 - m)), by the likelihood
    of the counts: of each strength s, and of means m about the one that is given (in logits, to three standard errors
    of a mean of M rates).
    """
    from scipy.special import betaln, expit, logit

    middle = logit(np.clip(mean, 1e-6, 1 - 1e-6))
    rounds, rate = float(np.mean(of)), float(mean.mean())
    error = np.sqrt((1 / max(rounds, 1) + 1 / STRENGTHS) / (len(mean) * max(rate * (1 - rate), 1e-6)))
    means = expit(middle + (error[:, None] * OFFSETS).reshape(-1, 1, 1))
    strength = np.repeat(STRENGTHS, len(OFFSETS))[:, None, None]
    a, b = strength * means, strength * (1 - means)
    log = (betaln(a + counts, b + of - counts) - betaln(a, b)).sum(axis=(1, 2)) + np.repeat(np.log(error), len(OFFSETS))
    chance = np.exp(log - log.max())
    return a + counts, b + of - counts, chance / chance.sum()


def pair_rate(rates: Floats, memory: float | Floats, sums: int) -> Floats:
    """Probability of taking part again in the next round, for rates of taking part at all."""
    if not sums:
        return rates + (1 - rates) * memory
    available = np.minimum(1.0, rates * 2)  # half of the available ones, where nothing is known
    return np.clip(rates * (1 + (1 - available) / np.maximum(available, 1e-9) * memory), 0, 1)


def _memory(fitted: AvailabilityFit, rows: Bools) -> Floats:
    """Posterior of the correlation between rounds, from pairs of rounds."""
    rates = fitted.mean_rates()[:, 0]
    both, one = (rows[1:] & rows[:-1]).sum(axis=0), rows[:-1].sum(axis=0)
    new, none = (rows[1:] & ~rows[:-1]).sum(axis=0), (~rows[:-1]).sum(axis=0)
    log = np.zeros(len(MEMORIES))
    for i, memory in enumerate(MEMORIES.tolist()):
        again = np.clip(pair_rate(rates, memory, fitted.sums), 1e-9, 1 - 1e-9)
        fresh = np.clip(rates * (1 - again) / np.maximum(1 - rates, 1e-9), 1e-9, 1 - 1e-9)
        log[i] = (both * np.log(again) + (one - both) * np.log1p(-again)
                  + new * np.log(fresh) + (none - new) * np.log1p(-fresh)).sum()  # fmt: skip
    chance = np.exp(log - log.max())
    return chance / chance.sum()


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


def _surely_better(values: Floats, others: Floats) -> bool:
    """Whether log-likelihoods of the same rounds differ by more than two standard errors."""
    difference = values - others
    return float(difference.mean()) > 2 * float(difference.std()) / np.sqrt(len(difference))


def _held_out(fitted: AvailabilityFit, seen: Observed, cut: int) -> Floats:
    """Log-likelihood of each round from ``cut`` on, units taken one by one."""
    rates = fitted.mean_rates()
    rates = np.clip(rates[:, seen.bins[cut:] % rates.shape[1]].T, 1e-4, 1 - 1e-4)
    if fitted.model == "markov":
        memory = float(MEMORIES @ fitted.memory)
        before = seen.took_part[cut - 1 : -1]
        again = pair_rate(rates, memory, fitted.sums)
        rates = np.clip(np.where(before, again, rates * (1 - again) / (1 - rates)), 1e-4, 1 - 1e-4)
    rows = seen.took_part[cut:]
    return np.where(rows, np.log(rates), np.log1p(-rates)).sum(axis=1)


def _drift(seen: Observed, rng: np.random.Generator) -> float:
    """Share of divisions of the rounds, in runs of several, whose halves differ by more than the first and last do."""
    rows = seen.took_part
    length = max(1, len(rows) // 20)
    runs = np.array_split(np.arange(len(rows)), max(2, len(rows) // length))
    counts = np.array([rows[run].sum(axis=0) for run in runs])
    half = len(runs) // 2

    def difference(order: Integers) -> float:
        one, two = counts[order[:half]].sum(axis=0), counts[order[half:]].sum(axis=0)
        return float(((one - two) ** 2 / np.maximum(one + two, 1)).sum())

    first = difference(np.arange(len(runs)))
    others = [difference(rng.permutation(len(runs))) for _ in range(PERMUTATIONS)]
    return (1 + sum(value >= first for value in others)) / (1 + PERMUTATIONS)

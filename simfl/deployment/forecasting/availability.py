"""Who will be available: one model of many parts, and draws of its parameters from what a log leaves possible.

A unit i (a client, or clients that always take part together) is available in round t with probability Phi(eta): eta
is its own level, plus that of the part of the day, plus memory (was it available before?), plus its loadings times
factors of the round that all units share, which make some be missing together. Means and spreads of all of these over
the units are unknown, too. A log shows who was selected, not who was available: availabilities that it does not show
are drawn with the parameters, from what the policy makes of them (``selection_chance``). Gibbs
sampling after Albert and Chib, JASA 88 (1993).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from simfl.deployment.forecasting.changes import halves_differ, missing_at_end
from simfl.deployment.forecasting.policies import SeenPolicy
from simfl.deployment.forecasting.selection_chance import Selections
from simfl.plugins import Bools, Floats, Integers, SimflError, Streams

DAY_S = 86_400.0
BINS = 8
"""Parts of a day at which availability may differ."""
FACTORS = 3
"""Shared by the units of a round, at most."""
DRAWS, BURN, THIN = 120, 120, 2
"""Sets of parameters that are kept, sweeps before the first, and sweeps for each."""
SLOWER = 3
"""Times as many sweeps for pairs of half-batches: such sums say least of who else was there, and a chain takes hundreds
of sweeps from one level to another one."""
CELLS = 60_000
"""Rounds times units of a log's last part, from which availability is inferred."""
LEAST, MOST = 0.02**2, 2.0**2
"""Variances of units' weights; in between, all magnitudes are equally likely before the log is seen."""
STEPS = 0.01, 0.05, 0.2, 0.6
"""By which the level of all is moved."""

PARTS = {"constant": "", "per_client": "c", "markov": "cm", "time_of_day": "ch", "groups": "cg", "mixed": "cmhg"}
"""Parts of each model: levels of clients, memory, hours, groups that are missing together."""
MODELS = tuple(PARTS)


class Observed(NamedTuple):
    """What a log shows of its units.

    Attributes:
        selections: of its rounds, in the likeliest mode.
        chances: of each mode.
        bins: part of the day of each round, (J,); empty without times.
    """

    selections: Selections
    chances: dict[str, float]
    bins: Integers


@dataclass(frozen=True)
class AvailabilityFit:
    """Sets of parameters that a log allows.

    Attributes:
        model: one of :data:`MODELS`.
        levels, memory: (S, M); hours: (S, M, BINS) or (S, M, 0); loads: (S, M, K).
        last: who was available in the last round, bool (S, M).
        failing: probability that a pair that makes a sum alone is lost, (S,); NaN where the sums show it.
        law: which of the modes of the log's policy goes with it, (S,).
    """

    model: str
    levels: Floats
    memory: Floats
    hours: Floats
    loads: Floats
    last: Bools
    failing: Floats
    law: Integers

    def draw(self, rng: np.random.Generator) -> "AvailabilityDraw":
        """One set of them."""
        s = int(rng.integers(len(self.levels)))
        return AvailabilityDraw(self.levels[s], self.memory[s], self.hours[s], self.loads[s], self.last[s],
                                float(self.failing[s]), int(self.law[s]))  # fmt: skip


class AvailabilityDraw(NamedTuple):
    """One set of parameters, as of :class:`AvailabilityFit`."""

    levels: Floats
    memory: Floats
    hours: Floats
    loads: Floats
    last: Bools
    failing: float
    law: int

    def chances(self, bins: Integers, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Probability of being available in coming rounds, (H, M) each, after a round in which a unit was, or was not.

        Args:
            bins: part of the day of each round, (H,).
        """
        eta = self.levels + rng.standard_normal((len(bins), self.loads.shape[1])) @ self.loads.T
        if self.hours.shape[1]:
            eta = eta + self.hours[:, bins].T
        return ndtr(eta + self.memory / 2), ndtr(eta - self.memory / 2)


def observe(rows: Bools, seen: SeenPolicy, times_s: Floats | None) -> Observed:
    """What a log shows of its units."""
    units = int(seen.units.max()) + 1
    first = np.array([int(np.argmax(seen.units == unit)) for unit in range(units)])
    rows = rows[:, first]
    used = np.cumsum(rows, axis=0, dtype=np.int64) - rows
    keep = slice(-max(2, CELLS // units), None)
    need = rows.sum(axis=1) if seen.choice.text == "as_before" else np.full(len(rows), seen.sums // (1 + seen.circle))
    failing = seen.failed / max(seen.worked, 1)
    chances = {law.mode: law.chance for law in seen.laws}
    mode = "all" if seen.relation == "all" else seen.laws[0].mode
    bins = np.zeros(0, np.int64) if times_s is None else parts_of_day(times_s)[keep]
    return Observed(Selections(rows, used, need, mode, seen.circle, failing).at(keep), chances, bins)


def parts_of_day(times_s: Floats) -> Integers:
    """The part of the day of some times, from 0."""
    return (times_s % DAY_S // (DAY_S / BINS)).astype(np.int64)


def fit(seen: Observed, model: str, rng: np.random.Generator) -> AvailabilityFit:
    """What the log says of a model's parameters."""
    parameters, slower = [], SLOWER if seen.selections.circle else 1
    burn, thin = BURN * slower, THIN * slower
    for law, (mode, chance) in enumerate(seen.chances.items()):
        chain = _Chain.of(seen._replace(selections=replace(seen.selections, mode=mode)), PARTS[model], rng)
        for sweep in range(burn + round(DRAWS * chance) * thin):
            chain.sweep(rng)
            if sweep >= burn and (sweep - burn) % thin == 0:
                parameters.append((*chain.parameters(), law))
    return AvailabilityFit(model, *(np.array(values) for values in zip(*parameters, strict=True)))


@dataclass
class _Chain:
    """The state of the sampler.

    Attributes:
        there: who is available, bool (J, M), those that the log shows included.
        common: columns that all units share, (J, C): ones, hours, factors; a unit's last column is its memory.
        weights: of each unit's columns, (M, C + 1), about ``means`` with ``spreads`` (variances), (C + 1,).
        kinds: which columns have one spread, (C + 1,); prior: mean and variance of the means, (2, C + 1).
    """

    seen: Selections
    there: Bools
    common: Floats
    weights: Floats
    means: Floats
    spreads: Floats
    kinds: Integers
    prior: Floats
    hours: int
    factors: int
    parts: str

    @classmethod
    def of(cls, seen: Observed, parts: str, rng: np.random.Generator) -> "_Chain":
        rows = seen.selections.rows
        hours = BINS if "h" in parts and len(np.unique(seen.bins)) > 1 else 0
        factors = min(FACTORS, rows.shape[1] - 1) if "g" in parts else 0
        common = np.hstack([np.ones((len(rows), 1)), np.eye(BINS)[seen.bins] if hours else np.zeros((len(rows), 0)),
                            rng.standard_normal((len(rows), factors))])  # fmt: skip
        kinds = np.repeat(np.arange(3 + factors), [1, hours, *[1] * factors, 1])
        free = np.array([1.5**2, 0.5**2, *[0.3**2] * factors, 1.0])
        prior = np.stack([np.where(kinds == 0, 0.3, 0.0), free[kinds]])
        spreads = np.array([0.4, 0.1, *[0.1] * factors, 0.1])[kinds] ** 2
        if "m" not in parts:
            prior[1, -1] = spreads[-1] = 1e-9
        if "c" not in parts:
            spreads[0] = 1e-9
        weights, means = np.zeros((rows.shape[1], len(kinds))), prior[0].copy()
        there = rows.copy() if seen.selections.mode == "all" else seen.selections.start(rng)
        weights[:, 1 + hours : -1] = 0.1 * rng.standard_normal((len(weights), factors))
        return cls(seen.selections, there, common, weights, means, spreads, kinds, prior, hours,
                   factors, parts)  # fmt: skip

    def parameters(self) -> tuple[Floats, Floats, Floats, Floats, Bools, float]:
        """Those of :class:`AvailabilityFit`."""
        w, h = self.weights, self.hours
        return (w[:, 0].copy(), w[:, -1].copy(), w[:, 1 : 1 + h].copy(), w[:, 1 + h : -1].copy(), self.there[-1].copy(),
                self.seen.failing if self.seen.single else np.nan)  # fmt: skip

    def sweep(self, rng: np.random.Generator) -> None:
        """Draws everything once, given the rest."""
        if self.seen.single:
            failures = np.count_nonzero(self.seen.log_chance(self.there)[~self.seen.rows.any(axis=1)])
            summed = np.count_nonzero(self.seen.rows.any(axis=1))
            self.seen = replace(self.seen, failing=float(rng.beta(0.5 + failures, 0.5 + summed)))
        if self.seen.mode != "all":
            for parity in (0, 1):
                self._draw_unseen(slice(parity, None, 2), rng)
        before = self._before()
        eta = self.common @ self.weights[:, :-1].T + before * self.weights[:, -1]
        sign = np.where(self.there, 1.0, -1.0)
        z = eta - sign * ndtri(np.clip(rng.random(eta.shape), 1e-12, None) * ndtr(np.clip(sign * eta, -7, None)))
        self._draw_weights(z, before, rng)
        self._draw_factors(z, before, rng)
        self._draw_spreads(z, before, rng)
        if self.seen.mode != "all":
            noise = z - self.common @ self.weights[:, :-1].T - before * self.weights[:, -1]
            self._move_level(noise, rng)

    def _before(self) -> Floats:
        """1/2 where a unit was available in the round before, -1/2 where not, 0 where that is not known, (J, M)."""
        before = np.zeros(self.there.shape)
        before[1:] = self.there[:-1] - 0.5
        return before

    def _draw_unseen(self, places: slice, rng: np.random.Generator) -> None:
        """Who else was available in every other round: some units anew, taken if the policy's selection allows it."""
        base, memory = self.common @ self.weights[:, :-1].T, self.weights[:, -1]
        p = ndtr((base + self._before() * memory)[places])
        if "m" in self.parts:
            after = np.zeros(base.shape)
            sign = np.where(self.there[1:], 1.0, -1.0)
            after[:-1] = log_ndtr(sign * (base[1:] + memory / 2)) - log_ndtr(sign * (base[1:] - memory / 2))
            odds = p / np.maximum(1 - p, 1e-12) * np.exp(after[places])
            p = odds / (1 + odds)
        seen, there = self.seen.at(places), self.there[places]
        now = seen.log_chance(there)
        free = ~(seen.rows | self.seen.barred[places])
        for share in (1 / there.shape[1], 0.1, 0.3, 0.9):
            anew = rng.random(there.shape) < share
            other = np.where(anew & free, rng.random(there.shape) < p, there)
            chance = seen.log_chance(other)
            take = np.log(rng.random(len(now))) < chance - now
            there, now = np.where(take[:, None], other, there), np.where(take, chance, now)
        self.there[places] = there

    def _draw_weights(self, z: Floats, before: Floats, rng: np.random.Generator) -> None:
        """The weights of each unit given their means, then all units' weights and their means together by one step."""
        common, c = self.common, self.common.shape[1]
        shown = np.zeros((z.shape[1], c + 1, c + 1))
        shown[:, :c, :c] = common.T @ common
        shown[:, :c, c] = shown[:, c, :c] = before.T @ common
        shown[:, c, c] = (before**2).sum(axis=0)
        right = np.hstack([z.T @ common, (z * before).sum(axis=0)[:, None]])
        self.weights = _normal(shown + np.diag(1 / self.spreads), right + self.means / self.spreads, rng)
        rest = (right - np.einsum("mij,mj->mi", shown, self.weights)).sum(axis=0)
        centre, width = self.prior
        by = _normal(shown.sum(axis=0) + np.diag(1 / width), rest - (self.means - centre) / width, rng)
        self.weights, self.means = self.weights + by, self.means + by

    def _draw_factors(self, z: Floats, before: Floats, rng: np.random.Generator) -> None:
        if not self.factors:
            return
        first = 1 + self.hours
        loads = self.weights[:, first:-1]
        rest = z - self.common[:, :first] @ self.weights[:, :first].T - before * self.weights[:, -1]
        precision = np.broadcast_to(np.eye(self.factors) + loads.T @ loads, (len(z), self.factors, self.factors))
        self.common[:, first:] = _normal(precision, rest @ loads, rng)

    def _draw_spreads(self, z: Floats, before: Floats, rng: np.random.Generator) -> None:
        """Means and spreads of the units' weights: once given the weights, once with all deviations from the mean."""
        count, (centre, width) = len(self.weights), self.prior
        precision = count / self.spreads + 1 / width
        mean = (self.weights.sum(axis=0) / self.spreads + centre / width) / precision
        self.means = mean + rng.standard_normal(len(mean)) / np.sqrt(precision)
        rest = z - self.common @ self.weights[:, :-1].T - before * self.weights[:, -1]
        for place in np.unique(self.kinds, return_index=True)[1]:
            columns, spread = self.kinds == self.kinds[place], float(self.spreads[place])
            if spread < LEAST:
                continue
            off = np.where(columns, self.weights - self.means, 0.0)
            proposal = float((off**2).sum() / 2 / rng.gamma(count * columns.sum() / 2))
            spread = proposal if LEAST <= proposal <= MOST else spread
            factor = float(np.exp(0.7 * rng.standard_normal()))
            by = (self.common @ off[:, :-1].T + before * off[:, -1]) * (factor - 1)
            if LEAST <= factor**2 * spread <= MOST and np.log(rng.random()) < (rest * by - by**2 / 2).sum():
                self.weights = self.weights + (factor - 1) * off
                rest, spread = rest - by, factor**2 * spread
            self.spreads[columns] = spread

    def _move_level(self, noise: Floats, rng: np.random.Generator) -> None:
        """Moves the level of all, and with the same noise all availabilities that the log does not show."""
        by = float(rng.choice(STEPS) * rng.standard_normal())
        base, memory = self.common @ self.weights[:, :-1].T, self.weights[:, -1]
        rows, barred, moved = self.seen.rows, self.seen.barred, np.zeros_like(self.there)
        eta = base + self._before() * memory
        new = base + by
        if "m" in self.parts:
            before = np.zeros(rows.shape[1])
            for t in range(len(rows)):
                new[t] += before * memory
                moved[t] = rows[t] | ((new[t] + noise[t] > 0) & ~barred[t])
                before = moved[t] - 0.5
        else:
            moved = rows | ((new + noise > 0) & ~barred)
        centre, width = self.prior[:, 0]
        ratio = self.seen.log_chance(moved) - self.seen.log_chance(self.there)
        gain = float(ratio.sum() + (log_ndtr(new[rows]) - log_ndtr(eta[rows])).sum())
        gain += float((log_ndtr(-new[barred]) - log_ndtr(-eta[barred])).sum())
        gain -= ((self.means[0] + by - centre) ** 2 - (self.means[0] - centre) ** 2) / (2 * width)
        if np.log(rng.random()) < gain:
            self.there, self.means[0] = moved, self.means[0] + by
            self.weights[:, 0] += by


def _normal(precision: Floats, right: Floats, rng: np.random.Generator) -> Floats:
    """Draws of normal vectors, (..., n), with these precisions and means precision^-1 right."""
    root = np.linalg.cholesky(precision)
    half = np.linalg.solve(root, right[..., None]) + rng.standard_normal((*right.shape, 1))
    return np.asarray(np.linalg.solve(np.swapaxes(root, -1, -2), half)[..., 0], dtype=np.float64)


@dataclass(frozen=True)
class ModelChoice:
    """The model that is used.

    Attributes:
        fitted: to the log.
        drift: p-value of a test that rates of taking part were the same in both halves of the log.
        left: p-value of a test that nobody is missing at its end.
        named: the model was said.
    """

    fitted: AvailabilityFit
    drift: float
    left: float
    named: bool = False

    @property
    def sentence(self) -> str:
        """What was inferred."""
        if self.named:
            return f"Availability: {self.fitted.model}, as was said."
        return "Availability: rates of each client, hours, memory and what clients share, as far as the log shows them."


def choose(seen: Observed, streams: Streams, model: str | None = None) -> ModelChoice:
    """The model of all parts, or the one that is named.

    Raises:
        SimflError: the time of day is named, and the log has no times.
    """
    if model == "time_of_day" and not len(seen.bins):
        raise SimflError("--model time_of_day: the log has no times; one of "
                         f"{', '.join(name for name in MODELS if name != model)}")  # fmt: skip
    rng, rows = streams("forecast/availability of the past"), seen.selections.rows
    fitted, drift = fit(seen, model or "mixed", rng), halves_differ(rows, rng)
    return ModelChoice(fitted, drift, missing_at_end(rows, streams("forecast/missing clients")), model is not None)

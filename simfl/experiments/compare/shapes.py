"""Intervals of means that take no shape of the values for granted, and runs that have collapsed.

Student's interval of a mean covers too little where values are skewed, and next to nothing where one run in ten
collapses and none of those seen has. So it is widened to an interval that only takes for granted that no value lies
further out than the furthest one seen in the comparison: the n values and that one are weighed at random
(Dirichlet(1, ..., 1)), and the ends are quantiles of such means. Weights are drawn once for each n, so that equal
values have equal intervals.

References:
    N. Gaffke, Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable,
    Math. Methods Stat. 14 (2005).
    E. Learned-Miller and P. S. Thomas, A new confidence interval for the mean of a bounded random variable (2020).
    G. K. Smyth, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3 (2004), for spreads that
    are drawn towards their common mean.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Floats
from simfl.experiments.compare.intervals import CONFIDENCE, ROUNDING, Interval, steps, student_ends

FEWEST_RUNS = 10
"""Runs of a configuration below which a measure that has collapsed somewhere in the comparison has no interval."""

FAR = 3.0
"""Ranges of the other values that a collapsed one lies away from them."""

OTHERS = 3
"""Values of which the range says something: two may be alike by chance."""

KNOWN_RANGE = 7
"""Values whose own range is taken as it is; the range of fewer is at least that of the comparison's deviations."""

PRIOR = 4
"""Values that the comparison's mean spread is worth beside a configuration's own."""

DRAWS, FINE_DRAWS = 2_000, 10_000
"""Random weights: of the ends of intervals, and of p values."""


def find_collapses(samples: Mapping[str, Mapping[int, float]]) -> dict[str, list[int]]:
    """The seeds whose values lie far from all others of their configuration; configurations without one are left out.

    These are fewer than half of the values, all on one side of the others, and the gap between is wider than
    :data:`FAR` times each of: the range of the others; where these are fewer than :data:`KNOWN_RANGE`, twice the third
    quartile of the distances of all values of the comparison from their configuration's median; where
    they are fewer than :data:`OTHERS`, the range of all other values of the comparison; and the step of the values'
    common grid. What lies so far above is named like what lies below.

    Args:
        samples: a measure's values, by configuration and seed.
    """
    ordered = {label: sorted(values.items(), key=lambda pair: (pair[1], pair[0])) for label, values in samples.items()}
    sorted_values = {label: [value for _, value in pairs] for label, pairs in ordered.items()}
    everything = sorted(value for values in sorted_values.values() for value in values)
    if not (gaps := [label for label, values in sorted_values.items() if _far(values, everything, 0.0)]):
        return {}
    distances = np.sort(np.concatenate([_distances(values) for values in sorted_values.values() if values]))
    usual = 2 * float(distances[int(0.75 * (len(distances) - 1))])
    step = float(steps(np.array(everything)))
    far: dict[str, list[int]] = {}
    for label in gaps:
        few = usual if len(sorted_values[label]) < KNOWN_RANGE + 1 else 0.0
        below, above = _far(sorted_values[label], everything, step, few) or (0, 0)
        pairs = ordered[label]
        if seeds := [seed for seed, _ in pairs[:below] + pairs[len(pairs) - above :]]:
            far[label] = sorted(seeds)
    return far


def _distances(values: Sequence[float]) -> Floats:
    """From the median, without the median's own where it is one of them."""
    return np.sort(np.abs(np.asarray(values) - np.median(values)))[len(values) % 2 :]


def _far(values: Sequence[float], everything: Sequence[float], step: float, few: float = 0.0) -> tuple[int, int] | None:
    """How many of the ascending values lie far below the others, and how many far above; None if none does."""
    n, below, above = len(values), 0, 0
    for some in range(1, (n + 1) // 2):
        for low in (True, False):
            others = values[some:] if low else values[: n - some]
            pool = everything[some:] if low else everything[: len(everything) - some]
            if len(pool) < OTHERS:
                continue
            gap = others[0] - values[some - 1] if low else values[n - some] - others[-1]
            width = others[-1] - others[0]
            if len(others) < KNOWN_RANGE:
                width = max(width, few, pool[-1] - pool[0] if len(others) < OTHERS else 0.0)
            if gap > FAR * max(width, step):
                below, above = (some, above) if low else (below, some)
    return (below, above) if below or above else None


def mean_intervals(samples: Sequence[Floats], collapses: bool) -> list[Interval]:
    """Means and intervals of the configurations of a comparison, of values (n,) each, of which n may differ.

    They have no ends where there is no interval; see :func:`mean_ends`.
    """
    lower, upper = mean_ends(as_rows(samples), collapses) if samples else (np.empty(0), np.empty(0))
    result = []
    for values, low, high in zip(samples, lower.tolist(), upper.tolist(), strict=True):
        ends = (None, None) if np.isnan(low) else (low, high)
        result.append(Interval(float(values.mean()), ends[0], ends[1], len(values)))
    return result


def mean_ends(values: Floats, collapses: bool | NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The ends of the intervals of the means of a measure in comparisons.

    Args:
        values: (..., configurations, n), NaN where a configuration has fewer.
        collapses: (...), whether a value has collapsed in a comparison. Then the worst and best value seen are taken as
            they are, and of fewer than :data:`FEWEST_RUNS` values there is no interval. Else those of a configuration
            with another spread are scaled to the configuration's own, drawn towards the mean.

    Returns:
        (..., configurations) each; NaN where there is no interval. Of values that are all equal it has no width.
    """
    count = (~np.isnan(values)).sum(axis=-1)
    far = np.broadcast_to(np.asarray(collapses)[..., None], count.shape)
    spread = _spreads(values)
    furthest = _furthest(values, far, spread)
    ends = np.full((2, *count.shape), np.nan)
    tail = (1 - CONFIDENCE) / 2
    for n in sorted({*count[count > 1].tolist()}):
        rows = (count == n) & ~(far & (n < FEWEST_RUNS))
        if not rows.any():
            continue
        some = np.sort(values[rows], axis=-1)[:, :n]
        low, high = student_ends(some)
        lower, upper = _random_means(some, furthest[:, rows], DRAWS)
        wide = far[rows] | (spread[rows] > 0)
        ends[0, rows] = np.where(wide, np.minimum(low, np.quantile(lower, tail, axis=-1)), low)
        ends[1, rows] = np.where(wide, np.maximum(high, np.quantile(upper, 1 - tail, axis=-1)), high)
    return ends[0], ends[1]


def mean_p_values(values: Floats) -> Floats:
    """How probable, at most, means so far from 0 are in comparisons in which a value has collapsed; two-sided.

    Args:
        values: differences, (..., configurations, n), NaN where one has fewer.

    Returns:
        (..., configurations). 1 for fewer than :data:`FEWEST_RUNS` values.
    """
    count = (~np.isnan(values)).sum(axis=-1)
    furthest = _furthest(values, np.ones(count.shape, dtype=bool), _spreads(values))
    p = np.ones(count.shape)
    for n in sorted({*count[count >= FEWEST_RUNS].tolist()}):
        rows = count == n
        lower, upper = _random_means(np.sort(values[rows], axis=-1)[:, :n], furthest[:, rows], FINE_DRAWS)
        beyond = np.minimum((lower <= 0).sum(axis=-1), (upper >= 0).sum(axis=-1))
        p[rows] = np.minimum(1.0, 2 * (1 + beyond) / (FINE_DRAWS + 1))
    return p


def as_rows(samples: Sequence[Floats]) -> Floats:
    """Samples of different sizes as rows, with NaN behind."""
    values = np.full((len(samples), max(map(len, samples))), np.nan)
    for row, sample in zip(values, samples, strict=True):
        row[: len(sample)] = sample
    return values


def unseen_collapses(runs: int) -> str:
    """What nobody can know though none of so many runs has collapsed (exact binomial, one-sided)."""
    share = 1 - (1 - CONFIDENCE) ** (1 / runs)
    most = ceil(100 * share)
    sure = f"{100 * CONFIDENCE:g} % confidence"
    return f"Of a configuration none of whose {runs} runs has collapsed, up to {most} % of all runs may ({sure})"


def premises(runs: int) -> str:
    """What the intervals of so many runs of each configuration take for granted, in words."""
    return (
        "Intervals of means assume that no run lies further out than the furthest one seen in the "
        f"comparison, those of differences that they are about normal. {unseen_collapses(runs)}."
    )


def far_sentence(measure: str, far: Mapping[str, Sequence[object]], few: bool) -> str:
    """Which runs have collapsed, and what follows for the intervals of all configurations.

    Args:
        measure: its name.
        far: seeds, or what is to be said of them, by configuration.
        few: whether a configuration has fewer than :data:`FEWEST_RUNS` runs.
    """
    named = "; ".join(f"{label} ({', '.join(map(str, seeds))})" for label, seeds in far.items())
    text = f"{measure} far from all other seeds of its configuration: {named}"
    if not few:
        return f"{text}. Its intervals and tests assume no shape"
    return (
        f"{text}. As others may collapse like this, it has no interval and no star in any configuration with fewer "
        f"than {FEWEST_RUNS} seeds; more seeds help, or training.aggregations where rounds were skipped"
    )


def collapse_sentence(measure: str, written: Mapping[str, Mapping[int, str]], far: Mapping[str, Sequence[int]]) -> str:
    """Which seeds have collapsed and, where configurations have few, all values of the measure.

    Args:
        measure: its name.
        written: the values as text, by configuration and seed, ascending by value.
        far: what :func:`find_collapses` says.
    """
    few = [label for label, values in written.items() if len(values) < FEWEST_RUNS]
    named = {label: [f"seed {seed}: {written[label][seed]}" for seed in seeds] for label, seeds in far.items()}
    values = "; ".join(f"{label} {' '.join(written[label].values())}" for label in few)
    return far_sentence(measure, named, bool(few)) + (f". All values: {values}" if few else "")


def _furthest(values: Floats, as_they_are: NDArray[np.bool_], spread: Floats) -> Floats:
    """The lowest and the highest value that any configuration's lies away from its median, (2, ..., configurations)."""
    n = (~np.isnan(values)).sum(axis=-1)
    known = spread > 0
    logs = np.log(np.where(known, spread, 1.0))
    common = logs.sum(axis=-1, keepdims=True) / np.maximum(known.sum(axis=-1, keepdims=True), 1)
    share = np.where(known, (n - 1) / (n - 1 + PRIOR), 0.0)
    scale = np.where(as_they_are, 1.0, np.exp(share * logs + (1 - share) * common))
    middle = np.nanmedian(values, axis=-1)
    lowest = ((np.nanmin(values, axis=-1) - middle) / scale).min(axis=-1, keepdims=True)
    highest = ((np.nanmax(values, axis=-1) - middle) / scale).max(axis=-1, keepdims=True)
    return np.stack([middle + scale * lowest, middle + scale * highest])


def _spreads(values: Floats) -> Floats:
    """Standard deviations, (..., n) to (...); 0 where one is a rounding error, or there is one value only."""
    count = (~np.isnan(values)).sum(axis=-1)
    squares = np.nansum((values - np.nanmean(values, axis=-1, keepdims=True)) ** 2, axis=-1)
    spread = np.sqrt(squares / np.maximum(count - 1, 1))
    return np.where(spread > ROUNDING[0] * np.nanmax(np.abs(values), axis=-1), spread, 0.0)


def _random_means(values: Floats, furthest: Floats, draws: int) -> tuple[Floats, Floats]:
    """Means of rows of ascending values under random weights, with the lowest and with the highest value as one more,
    (rows, draws) each.
    """
    weights = _weights(values.shape[-1], draws)
    means = values @ weights[:, 1:].T
    return means + furthest[0][:, None] * weights[:, 0], means + furthest[1][:, None] * weights[:, 0]


@cache
def _weights(n: int, draws: int) -> Floats:
    return np.random.Generator(np.random.Philox(key=[n, draws])).dirichlet(np.ones(n + 1), draws)

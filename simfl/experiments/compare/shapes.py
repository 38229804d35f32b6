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

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import floor

import numpy as np

from simfl.core.types import Floats
from simfl.experiments.compare.intervals import CONFIDENCE, ROUNDING, Interval, steps, student

FEWEST_RUNS = 10
"""Runs of a configuration below which a measure that has collapsed somewhere in the comparison has no interval."""

FAR = 3.0
"""Ranges of the other values that a collapsed one lies away from them."""

KNOWN_RANGE = 7
"""Values whose own range is taken as it is; the range of fewer is at least that of the comparison's deviations."""

PRIOR = 4
"""Values that the comparison's mean spread is worth beside a configuration's own."""

DRAWS, FINE_DRAWS = 2_000, 10_000
"""Random weights: of the ends of intervals, and of p values."""


def collapsed(samples: Mapping[str, Mapping[int, float]]) -> dict[str, list[int]]:
    """The seeds whose values lie far from all others of their configuration; configurations without one are left out.

    These are fewer than half of the values, all on one side of the others, and the gap between is wider than
    :data:`FAR` times each of: the range of the others; where these are fewer than :data:`KNOWN_RANGE`, twice the third
    quartile of the distances of all values of the comparison from their configuration's median; and the step of the
    values' common grid. What lies so far above is named like what lies below.

    Args:
        samples: a measure's values, by configuration and seed.
    """
    ordered = {label: sorted(values.items(), key=lambda pair: (pair[1], pair[0])) for label, values in samples.items()}
    sorted_values = {label: [value for _, value in pairs] for label, pairs in ordered.items()}
    if not (gaps := [label for label, values in sorted_values.items() if _far(values, 0.0)]):
        return {}
    distances = np.sort(np.concatenate([_distances(values) for values in sorted_values.values()]))
    usual = 2 * float(distances[int(0.75 * (len(distances) - 1))])
    step = float(steps(np.concatenate([*sorted_values.values()])))
    found = {}
    for label in gaps:
        few = usual if len(sorted_values[label]) < KNOWN_RANGE + 1 else 0.0
        below, above = _far(sorted_values[label], step, few) or (0, 0)
        pairs = ordered[label]
        if far := [seed for seed, _ in pairs[:below] + pairs[len(pairs) - above :]]:
            found[label] = sorted(far)
    return found


def _distances(values: Sequence[float]) -> Floats:
    """From the median, without the median's own where it is one of them."""
    return np.sort(np.abs(np.asarray(values) - np.median(values)))[len(values) % 2 :]


def _far(values: Sequence[float], step: float, few: float = 0.0) -> tuple[int, int] | None:
    """How many of the ascending values lie far below the others, and how many far above; None if none does."""
    n, below, above = len(values), 0, 0
    for some in range(1, (n + 1) // 2):
        for low in (True, False):
            others = values[some:] if low else values[: n - some]
            gap = others[0] - values[some - 1] if low else values[n - some] - others[-1]
            width = others[-1] - others[0]
            if len(others) < KNOWN_RANGE:
                width = max(width, few)
            if gap > FAR * max(width, step):
                below, above = (some, above) if low else (below, some)
    return (below, above) if below or above else None


def mean_intervals(samples: Sequence[Floats], collapses: bool) -> list[Interval]:
    """Means and intervals of the configurations of a comparison.

    Args:
        samples: a measure's values, (n,) each; n may differ.
        collapses: whether a value of the measure has collapsed somewhere in the comparison. Then the worst and best
            value seen are taken as they are, and of fewer than :data:`FEWEST_RUNS` values there is no interval. Else
            those of a configuration with another spread are scaled to the configuration's own, drawn towards the mean.

    Returns:
        An interval each, without ends where there is none; of values that are all equal it has no width.
    """
    result = student(samples)
    tail = (1 - CONFIDENCE) / 2
    for places, lower, upper in _weighed(samples, collapses, DRAWS):
        low, high = np.quantile(lower, tail, axis=0), np.quantile(upper, 1 - tail, axis=0)
        for place, least, most in zip(places, low.tolist(), high.tolist(), strict=True):
            found, values = result[place], samples[place]
            if collapses and len(values) < FEWEST_RUNS:
                result[place] = Interval(found.estimate, count=found.count)
            elif found.lower is not None and found.upper is not None and (collapses or _spread(values)):
                result[place] = Interval(found.estimate, min(found.lower, least), max(found.upper, most), found.count)
    return result


def mean_p_values(samples: Sequence[Floats]) -> Floats:
    """How probable, at most, means so far from 0 are in a comparison in which a value has collapsed; two-sided, (k,).

    Args:
        samples: differences, (n,) each. 1 for fewer than :data:`FEWEST_RUNS`.
    """
    p = np.ones(len(samples))
    for places, lower, upper in _weighed(samples, True, FINE_DRAWS):
        if len(samples[places[0]]) >= FEWEST_RUNS:
            beyond = np.minimum((lower <= 0).sum(axis=0), (upper >= 0).sum(axis=0))
            p[places] = np.minimum(1.0, 2 * (1 + beyond) / (FINE_DRAWS + 1))
    return p


def unseen_collapses(runs: int) -> str:
    """What nobody can know though none of so many runs has collapsed (exact binomial, one-sided)."""
    share = 1 - (1 - CONFIDENCE) ** (1 / runs)
    return f"Even if none of {runs} runs has collapsed, one in {floor(1 / share)} still may ({100 * CONFIDENCE:g} %)"


def premises(runs: int) -> str:
    """What the intervals of so many runs of each configuration take for granted, in words."""
    return (
        "Intervals of means take for granted that no run lies further out than the furthest one seen in the "
        f"comparison, those of differences that they are about normal. {unseen_collapses(runs)}."
    )


def collapse_sentence(measure: str, written: Mapping[str, Mapping[int, str]], far: Mapping[str, Sequence[int]]) -> str:
    """Which seeds have collapsed and, where configurations have few, all values of the measure.

    Args:
        measure: its name.
        written: the values as text, by configuration and seed, ascending by value.
        far: what :func:`collapsed` says.
    """
    named = "; ".join(
        f"{label} {', '.join(f'{written[label][seed]} (seed {seed})' for seed in seeds)}"
        for label, seeds in far.items()
    )
    text = f"{measure}: far from all others of its configuration: {named}"
    few = [label for label, values in written.items() if len(values) < FEWEST_RUNS]
    if not few:
        return f"{text}; its intervals and tests take no shape for granted"
    values = "; ".join(f"{label} {' '.join(written[label].values())}" for label in few)
    return f"{text}; with fewer than {FEWEST_RUNS} seeds no interval and no star. All values: {values}"


def _furthest(samples: Sequence[Floats], as_they_are: bool) -> list[tuple[float, float]]:
    """For each configuration the lowest and the highest value that any one lies away from its median."""
    middles = [float(np.median(values)) for values in samples]
    spreads = [1.0 if as_they_are else _spread(values) for values in samples]
    known = [np.log(spread) for spread in spreads if spread]
    common = float(np.mean(known)) if known else 0.0
    scales = []
    for values, spread in zip(samples, spreads, strict=True):
        share = (len(values) - 1) / (len(values) - 1 + PRIOR) if spread else 0.0
        scales.append(float(np.exp(share * np.log(spread or 1.0) + (1 - share) * common)))
    each = [(values - middle) / scale for values, middle, scale in zip(samples, middles, scales, strict=True)]
    lowest, highest = min(float(some.min()) for some in each), max(float(some.max()) for some in each)
    return [(middle + scale * lowest, middle + scale * highest) for middle, scale in zip(middles, scales, strict=True)]


def _spread(values: Floats) -> float:
    """Their standard deviation; 0 where that is a rounding error, or there is one value only."""
    if len(values) < 2:
        return 0.0
    spread = float(values.std(ddof=1))
    return spread if spread > ROUNDING[0] * float(np.abs(values).max()) else 0.0


def _weighed(samples: Sequence[Floats], as_they_are: bool, draws: int) -> Iterator[tuple[list[int], Floats, Floats]]:
    """Means under random weights, with the lowest and with the highest value as one more, of all with as many values:
    their places, and (draws, places) twice.
    """
    ends = np.array(_furthest(samples, as_they_are))
    for n in sorted({len(values) for values in samples}):
        places = [place for place, values in enumerate(samples) if len(values) == n]
        weights = _weights(n, draws)
        means = weights[:, 1:] @ np.sort(np.stack([samples[place] for place in places]), axis=-1).T
        yield places, *(means + weights[:, :1] * ends[places, side] for side in (0, 1))


@cache
def _weights(n: int, draws: int) -> Floats:
    return np.random.Generator(np.random.Philox(key=[n, draws])).dirichlet(np.ones(n + 1), draws)

"""Whether an accuracy is shown to lie below every other by less than a margin, and how many seeds would show it.

Not to differ significantly is no evidence of being as accurate. So a configuration stays in the running only if the
hypothesis is rejected that some other one is more accurate by the margin or more: the largest of its one-sided p
values against the others must not exceed its level (an intersection-union test, which needs no correction over the
others). But several configurations have the chance to pass though they should not, so that these levels add up to 5 %.

References:
    R. L. Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24 (1982).
    B. L. Wiens, A fixed sequence Bonferroni procedure for testing multiple endpoints, Pharm. Stat. 2 (2003).
"""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from simfl.core.types import Floats
from simfl.experiments.compare.intervals import FEWEST_PAIRS, margin_p_values

ERROR = 0.05
"""Probability, at most, with which any configuration passes that is worse than the margin."""

FIRST = 0.6
"""Share of what is left of the error that the next best rank gets: its members are recommended first."""

POWER = 0.8
MOST_SEEDS = 1000

Values = Mapping[int, float]
"""By seed."""


def levels(ranks: Sequence[int]) -> list[float]:
    """The level for a member of each rank, given how many members each has, the best rank first.

    The most accurate configuration cannot pass wrongly. So the levels of all but the least may add up to the error.
    """
    shares, left = [], 1.0
    for place, members in enumerate(ranks):
        part = left if place == len(ranks) - 1 else FIRST * left
        left -= part
        shares.append(part / members)
    wrong = 1.0 - min(shares) if sum(ranks) > 1 else 1.0
    return [ERROR * share / wrong for share in shares]


def p_loss(ours: Values, others: Sequence[Values], margin: float) -> float:
    """How probable such values are, at most, if some other's mean is larger by ``margin`` or more; 1 if untested."""
    alike = [other for other in others if other.keys() == ours.keys()]
    pairs = [_pairs(ours, other) for other in others if other.keys() != ours.keys()]
    if alike:
        pairs.append((np.array([*ours.values()]), np.array([[other[seed] for seed in ours] for other in alike])))
    return max((float(margin_p_values(values, baseline, margin).max()) for values, baseline in pairs), default=0.0)


def most_loss(ours: Values, other: Values, level: float) -> float:
    """The least tenth of a point below which our loss is shown to stay; infinite for too few seeds."""
    values, baseline = _pairs(ours, other)
    margins = np.arange(-1000, 1001) / 1000
    shown = margin_p_values(values, baseline, margins) <= level
    return float(margins[shown.argmax()]) if shown.any() else inf


def seeds_needed(ours: Values, other: Values, margin: float, level: float) -> int | None:
    """Seeds with which we pass in four of five studies, if the mean and spread so far are right; None = not known."""
    from scipy.stats import nct, t

    values, baseline = _pairs(ours, other)
    losses = baseline - values
    if len(losses) < 2 or losses.mean() >= margin or not (spread := losses.std(ddof=1)):
        return None
    n = np.arange(FEWEST_PAIRS, MOST_SEEDS + 1)
    enough = nct.sf(t.isf(level, n - 1), n - 1, (margin - losses.mean()) * np.sqrt(n) / spread) >= POWER
    return int(n[enough][0]) if enough.any() else None


def _pairs(ours: Values, other: Values) -> tuple[Floats, Floats]:
    seeds = sorted(ours.keys() & other.keys())
    return np.array([ours[seed] for seed in seeds]), np.array([other[seed] for seed in seeds])

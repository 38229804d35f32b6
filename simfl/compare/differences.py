"""Means of what was measured, and differences pair by pair, as rows of tables."""

from collections.abc import Iterable, Mapping
from statistics import stdev
from typing import Any

from simfl.columns import TARGET_COLUMNS
from simfl.compare.intervals import mean, paired, unpaired
from simfl.compare.significance import p_value

__all__ = ["DIFFERENCES", "MEANS", "Measured", "differences", "means", "metrics"]

MEANS = ("choice", "metric", "runs", "mean", "standard_deviation", "lower", "upper")
"""Columns of comparison.csv."""

DIFFERENCES = (
    "choice", "baseline", "metric", "pairs", "difference", "lower", "upper",
    "unpaired_lower", "unpaired_upper", "width_ratio", "p_value",
)  # fmt: skip
"""Columns of paired.csv; ``width_ratio`` is the unpaired interval's width over the paired one's, ``p_value`` that of
:mod:`simfl.compare.significance`."""

Measured = Mapping[int, Mapping[str, float]]
"""A choice's numbers by seed and by name."""


def means(label: str, results: Measured) -> list[dict[str, Any]]:
    """A choice's rows of :data:`MEANS`."""
    rows = []
    for metric in metrics([results]):
        values = _of(results, metric)
        interval = mean(list(values.values()))
        rows.append({"choice": label, "metric": metric, "runs": len(values), "mean": interval.estimate,
                     "standard_deviation": stdev(values.values()) if len(values) > 1 else None,
                     "lower": interval.lower, "upper": interval.upper})  # fmt: skip
    return rows


def differences(label: str, results: Measured, baseline: str, base: Measured) -> list[dict[str, Any]]:
    """A choice's rows of :data:`DIFFERENCES`, for every number that both have for some seed."""
    rows = []
    for metric in metrics([results]):
        ours, theirs = _of(results, metric), _of(base, metric)
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            continue
        samples = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
        pair, apart = paired(*samples), unpaired(*samples)
        ratio = apart.half_width / pair.half_width if pair.half_width and apart.half_width is not None else None
        rows.append({"choice": label, "baseline": baseline, "metric": metric, "pairs": len(seeds),
                     "difference": pair.estimate, "lower": pair.lower, "upper": pair.upper,
                     "unpaired_lower": apart.lower, "unpaired_upper": apart.upper, "width_ratio": ratio,
                     "p_value": p_value(*samples)})  # fmt: skip
    return rows


def metrics(choices: Iterable[Measured]) -> list[str]:
    """Every metric that some run has, in their order, those to the target last."""
    found = dict.fromkeys(name for results in choices for _, result in sorted(results.items()) for name in result)
    last = [column.name for column in TARGET_COLUMNS]
    return [name for name in found if name not in last] + [name for name in last if name in found]


def _of(results: Measured, metric: str) -> dict[int, float]:
    return {seed: result[metric] for seed, result in sorted(results.items()) if metric in result}

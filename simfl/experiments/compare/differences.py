"""Means of what was measured, and differences pair by pair, as rows of tables."""

from collections.abc import Iterable, Mapping
from statistics import stdev

from simfl.core.columns import TARGET_COLUMNS
from simfl.core.json_data import JsonObject
from simfl.experiments.compare.intervals import mean, p_value, paired_difference, unpaired_difference

MEANS = ("choice", "metric", "runs", "mean", "standard_deviation", "lower", "upper")
"""Columns of comparison.csv."""

DIFFERENCES = (
    "choice", "baseline", "metric", "pairs", "difference", "lower", "upper",
    "unpaired_lower", "unpaired_upper", "width_ratio", "p_value",
)  # fmt: skip
"""Columns of paired.csv; ``width_ratio`` is the unpaired interval's width over the paired one's, ``p_value`` that of
:mod:`simfl.experiments.compare.intervals`."""

Measured = Mapping[int, Mapping[str, float]]
"""A configuration's numbers by seed and by name."""


def means(label: str, results: Measured) -> list[JsonObject]:
    """A configuration's rows of :data:`MEANS`."""
    rows = []
    for metric in metrics([results]):
        values = of_metric(results, metric)
        interval = mean(list(values.values()))
        rows.append({"choice": label, "metric": metric, "runs": len(values), "mean": interval.estimate,
                     "standard_deviation": stdev(values.values()) if len(values) > 1 else None,
                     "lower": interval.lower, "upper": interval.upper})  # fmt: skip
    return rows


def differences(label: str, results: Measured, baseline: str, base: Measured) -> list[JsonObject]:
    """A configuration's rows of :data:`DIFFERENCES`, for every number that both have for some seed."""
    rows = []
    for metric in metrics([results]):
        ours, theirs = of_metric(results, metric), of_metric(base, metric)
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            continue
        samples = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
        paired, welch = paired_difference(*samples), unpaired_difference(*samples)
        ratio = welch.half_width / paired.half_width if paired.half_width > 0 else None
        rows.append({"choice": label, "baseline": baseline, "metric": metric, "pairs": len(seeds),
                     "difference": paired.estimate, "lower": paired.lower, "upper": paired.upper,
                     "unpaired_lower": welch.lower, "unpaired_upper": welch.upper, "width_ratio": ratio,
                     "p_value": p_value(*samples)})  # fmt: skip
    return rows


def metrics(measured: Iterable[Measured]) -> list[str]:
    """Every metric that some run has, in their order, those to the target last."""
    metric_names = dict.fromkeys(
        name for results in measured for _, result in sorted(results.items()) for name in result
    )
    last = [column.name for column in TARGET_COLUMNS]
    return [name for name in metric_names if name not in last] + [name for name in last if name in metric_names]


def of_metric(results: Measured, metric: str) -> dict[int, float]:
    """One of the numbers, by seed."""
    return {seed: result[metric] for seed, result in sorted(results.items()) if metric in result}


BESIDE = (
    "choice", "plain", "metric", "pairs", "difference", "lower", "upper", "ratio", "ratio_lower", "ratio_upper",
)  # fmt: skip
"""Columns of beside_plain.csv; ``ratio`` is the mean of the seeds' own ratios, where none of them divides by 0."""

HIDES = "secagg_bytes"
"""The number that runs have whose updates are summed under masks."""

TOLD = ("bytes", "time_s", "mean_cardinality", "privacy_semi_strong", "test_accuracy")
"""What is put beside plain, in this order."""

Configurations = Mapping[str, tuple[Mapping[str, str], Measured]]
"""By label: the values of what varies, by dotted key, and the numbers of each seed's run."""


def overhead_rows(configurations: Configurations) -> list[JsonObject]:
    """Rows of :data:`BESIDE`: of configurations with secure aggregation that have exactly one twin without it."""
    plain: dict[frozenset[tuple[str, str]], list[str]] = {}
    for label, (values, results) in configurations.items():
        if not _hides(results):
            plain.setdefault(_others(values), []).append(label)
    rows = []
    for label, (values, results) in configurations.items():
        same = plain.get(_others(values), [])
        if _hides(results) and len(same) == 1:
            rows += _rows(label, results, same[0], configurations[same[0]][1])
    return rows


def _hides(results: Measured) -> bool:
    return any(HIDES in numbers for numbers in results.values())


def _others(values: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in values.items() if key.partition(".")[0] != "secagg")


def _rows(label: str, results: Measured, base: str, baseline: Measured) -> list[JsonObject]:
    rows = []
    for metric in TOLD:
        seeds = [seed for seed in sorted(results.keys() & baseline.keys())
                 if metric in results[seed] and metric in baseline[seed]]  # fmt: skip
        if not seeds:
            continue
        ours, theirs = [results[seed][metric] for seed in seeds], [baseline[seed][metric] for seed in seeds]
        difference = paired_difference(ours, theirs)
        ratio = mean([a / b for a, b in zip(ours, theirs, strict=True)]) if all(theirs) else None
        rows.append({"choice": label, "plain": base, "metric": metric, "pairs": len(seeds),
                     "difference": difference.estimate, "lower": difference.lower, "upper": difference.upper,
                     "ratio": ratio and ratio.estimate, "ratio_lower": ratio and ratio.lower,
                     "ratio_upper": ratio and ratio.upper})  # fmt: skip
    return rows

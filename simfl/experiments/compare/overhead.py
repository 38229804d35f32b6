"""What secure aggregation costs beside the same configuration without it, pair by pair of seeds."""

from collections.abc import Mapping

from simfl.core.json_data import JsonObject
from simfl.experiments.compare.differences import Measured
from simfl.experiments.compare.intervals import mean, paired_difference

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
    """Rows of :data:`BESIDE`: for each configuration with secure aggregation whose values but for ``secagg`` are
    those of exactly one configuration without.
    """
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

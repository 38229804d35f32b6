"""Means of what was measured, and differences pair by pair, as rows of tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from simfl.core.columns import TARGET_COLUMNS
from simfl.core.json_data import JsonObject
from simfl.core.types import Floats
from simfl.experiments.compare.intervals import mean, p_values, student, unpaired_ends
from simfl.experiments.compare.shapes import as_rows, find_collapses, mean_intervals, mean_p_values

MEANS = ("choice", "metric", "runs", "mean", "standard_deviation", "lower", "upper", "collapsed_seeds")
"""Columns of comparison.csv."""

DIFFERENCES = (
    "choice", "baseline", "metric", "pairs", "difference", "lower", "upper",
    "unpaired_lower", "unpaired_upper", "width_ratio", "p_value",
)  # fmt: skip
"""Columns of paired.csv; ``width_ratio`` is the unpaired interval's width over the paired one's, ``p_value`` that of
:mod:`simfl.experiments.compare.intervals`."""

Measured = Mapping[int, Mapping[str, float]]
"""A configuration's numbers by seed and by name."""

Values = Mapping[int, float]
"""A configuration's values of one measure by seed."""


Far = Mapping[str, Mapping[str, list[int]]]
"""By metric and label, the seeds whose runs have collapsed; of metrics and labels where some have."""


def collapses(results_of: Mapping[str, Measured]) -> Far:
    """What :func:`simfl.experiments.compare.shapes.find_collapses` says of every metric."""
    by_metric = {metric: find_collapses(_samples(results_of, metric)) for metric in metrics(results_of.values())}
    return {metric: far for metric, far in by_metric.items() if far}


def means(results_of: Mapping[str, Measured], far: Far) -> list[JsonObject]:
    """Rows of :data:`MEANS` of a comparison's configurations, by label."""
    rows: dict[str, list[JsonObject]] = {label: [] for label in results_of}
    for metric in metrics(results_of.values()):
        samples = _samples(results_of, metric)
        arrays = [np.array([*values.values()]) for values in samples.values()]
        for label, array, interval in zip(samples, arrays, mean_intervals(arrays, metric in far), strict=True):
            rows[label].append({"choice": label, "metric": metric, "runs": len(array), "mean": interval.estimate,
                                "standard_deviation": float(array.std(ddof=1)) if len(array) > 1 else None,
                                "lower": interval.lower, "upper": interval.upper,
                                "collapsed_seeds": " ".join(map(str, far.get(metric, {}).get(label, ())))})  # fmt: skip
    return [row for label in results_of for row in rows[label]]


def far_values(results_of: Mapping[str, Measured], far: Far) -> list[JsonObject]:
    """Every value of each metric in which a run has collapsed: metric, choice, its collapsed seeds, values by seed."""
    return [
        {"metric": metric, "choice": label, "collapsed_seeds": seeds.get(label, []),
         "values": {str(seed): value for seed, value in values.items()}}
        for metric, seeds in far.items() for label, values in _samples(results_of, metric).items()
    ]  # fmt: skip


def differences(
    results_of: Mapping[str, Measured],
    others: Sequence[tuple[str, str]],
    wanted: Callable[[str, str, str], bool],
    far: Far,
) -> list[JsonObject]:
    """Rows of :data:`DIFFERENCES`, for every number that both have for some seed.

    Args:
        results_of: by label.
        others: labels, and those that they are compared with.
        wanted: whether two labels are compared in a metric.
        far: the collapses in any of the results.
    """
    rows: dict[str, list[JsonObject]] = {label: [] for label, _ in others}
    for metric in metrics(results_of.values()):
        samples = _samples(results_of, metric)
        beside = {label: base for label, base in others
                  if label in samples and base in samples and wanted(label, base, metric)}  # fmt: skip
        for base in dict.fromkeys(beside.values()):
            ours = {label: samples[label] for label, its in beside.items() if its == base}
            for label, row in difference_rows(ours, samples[base], metric in far):
                rows[label].append({"choice": label, "baseline": base, "metric": metric, **row})
    return [row for label, _ in others for row in rows[label]]


def difference_rows(ours: Mapping[str, Values], theirs: Values, collapses: bool) -> Iterator[tuple[str, JsonObject]]:
    """By label, what follows the metric in a row of :data:`DIFFERENCES`; nothing of labels that share no seed.

    Args:
        ours: values of what is compared with the same baseline.
        theirs: the baseline's.
        collapses: whether a value has collapsed anywhere in the comparison: below ten pairs there are no intervals then
            and no p value below 1; of more pairs both are those of the wider of Student's interval and the one of
            :func:`~simfl.experiments.compare.shapes.mean_intervals`.
    """
    pairs: dict[str, tuple[Floats, Floats]] = {}
    for label, values in ours.items():
        if seeds := sorted(values.keys() & theirs.keys()):
            pairs[label] = np.array([values[s] for s in seeds]), np.array([theirs[s] for s in seeds])
    by_pair = [values - baseline for values, baseline in pairs.values()]
    paired = mean_intervals(by_pair, True) if collapses else student(by_pair)
    p, (lower, upper) = _tests([*pairs.values()])
    p = np.maximum(p, mean_p_values(as_rows(by_pair))) if collapses and by_pair else p
    for place, (label, interval) in enumerate(zip(pairs, paired, strict=True)):
        known = interval.lower is not None
        half = (upper[place] - lower[place]) / 2
        yield label, {
            "pairs": interval.count, "difference": interval.estimate, "lower": interval.lower, "upper": interval.upper,
            "unpaired_lower": float(lower[place]) if known else None,
            "unpaired_upper": float(upper[place]) if known else None,
            "width_ratio": half / interval.half_width if known and interval.half_width > 0 else None,
            "p_value": float(p[place]),
        }  # fmt: skip


def _tests(pairs: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, tuple[Floats, Floats]]:
    """P values, and the ends of the unpaired intervals, of pairs of samples, those of like numbers at once."""
    p, lower, upper = np.ones(len(pairs)), np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    for n in {len(values) for values, _ in pairs} - {1}:
        places = [place for place, (values, _) in enumerate(pairs) if len(values) == n]
        values, baseline = (np.stack([pairs[place][side] for place in places]) for side in (0, 1))
        p[places] = p_values(values, baseline)
        lower[places], upper[places] = unpaired_ends(values, baseline)
    return p, (lower, upper)


def _samples(results_of: Mapping[str, Measured], metric: str) -> dict[str, dict[int, float]]:
    """The values of those configurations that have any."""
    samples = {label: of_metric(results, metric) for label, results in results_of.items()}
    return {label: values for label, values in samples.items() if values}


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
    rows, far = [], collapses({label: results for label, (_, results) in configurations.items()})
    for label, (values, results) in configurations.items():
        same = plain.get(_others(values), [])
        if _hides(results) and len(same) == 1:
            rows += _rows(label, results, same[0], configurations[same[0]][1], far)
    return rows


def _hides(results: Measured) -> bool:
    return any(HIDES in numbers for numbers in results.values())


def _others(values: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in values.items() if key.partition(".")[0] != "secagg")


def _rows(label: str, results: Measured, base: str, baseline: Measured, far: Far) -> list[JsonObject]:
    rows = []
    for metric in TOLD:
        seeds = [seed for seed in sorted(results.keys() & baseline.keys())
                 if metric in results[seed] and metric in baseline[seed]]  # fmt: skip
        if not seeds:
            continue
        ours = np.array([results[seed][metric] for seed in seeds])
        theirs = np.array([baseline[seed][metric] for seed in seeds])
        samples = [ours - theirs, *([ours / theirs] if theirs.all() else [])]
        difference, *ratios = (mean_intervals([each], True)[0] if metric in far else mean(each) for each in samples)
        ratio = ratios[0] if ratios else None
        rows.append({"choice": label, "plain": base, "metric": metric, "pairs": len(seeds),
                     "difference": difference.estimate, "lower": difference.lower, "upper": difference.upper,
                     "ratio": ratio and ratio.estimate, "ratio_lower": ratio and ratio.lower,
                     "ratio_upper": ratio and ratio.upper})  # fmt: skip
    return rows

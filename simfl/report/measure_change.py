"""What another configuration does to a measure: the paired difference, whether it is significant, and both in words."""

import math
from dataclasses import dataclass, replace

from simfl.core.columns import GUARANTEES
from simfl.experiments.compare.intervals import Interval
from simfl.experiments.compare.significance import p_value
from simfl.report.measures import StudyMeasure, UnitScale
from simfl.report.seed_intervals import interval, paired_difference
from simfl.report.study import Group

PROMISED = {column.name for column in GUARANTEES}
"""What theory knows of a policy."""


@dataclass(frozen=True)
class MeasureChange:
    """What another configuration does to a measure.

    In a few words: ``3.1 ± 0.9 points less accuracy``, its name where nothing can be said; and as a verdict: +1 better,
    -1 worse, 0 not significant.
    """

    measure: StudyMeasure
    words: str
    verdict: int


def compare_with_baseline(measure: StudyMeasure, group: Group, baseline: Group, level: float) -> MeasureChange | None:
    """What a group does to a measure compared with the baseline, None where either has no value; p-values up to
    ``level`` count.
    """
    ours, theirs = measure.by_seed(group), measure.by_seed(baseline)
    if not ours or not theirs:
        return None
    seeds = common_seeds(measure, group, baseline)
    after, before = (interval(values[seed] for seed in seeds or values).estimate for values in (ours, theirs))
    if measure.name in PROMISED:  # known, not measured
        difference, significant = Interval(after - before, count=len(seeds)), after != before
    else:
        difference, significant = paired_difference(ours, theirs), paired_p_value(measure, group, baseline) <= level
    verdict = int(math.copysign(1, difference.estimate * measure.better)) if significant and measure.better else 0
    return MeasureChange(
        measure, _words(measure, difference, before, after, significant) + _seeds_with_value(measure, group), verdict
    )


def common_seeds(measure: StudyMeasure, first: Group, second: Group) -> list[int]:
    """The seeds for which both have a value."""
    return sorted(measure.by_seed(first).keys() & measure.by_seed(second).keys())


def paired_p_value(measure: StudyMeasure, first: Group, second: Group) -> float:
    """How probable a mean difference at least so large is between equals, over the seeds that both have."""
    ours, theirs = measure.by_seed(first), measure.by_seed(second)
    seeds = common_seeds(measure, first, second)
    return p_value([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])


def _words(measure: StudyMeasure, difference: Interval, before: float, after: float, significant: bool) -> str:
    name = measure.noun
    if measure.column.unit == "share":
        points = UnitScale(0.01, "", 1)
        size = points.interval(replace(difference, estimate=abs(difference.estimate)))
        if not significant:
            sign = "+" if difference.estimate > 0 else ""
            return f"{name} ({sign}{points.interval(difference)} points)" if difference.count > 1 else name
        return f"{size} points {'more' if difference.estimate > 0 else 'less'} {name}"
    scale = measure.scale((before, after))
    if not significant:
        return name
    if measure.column.unit in ("seconds", "bytes") and before > 0:
        ratio = after / before
        if ratio >= 2:
            return f"{ratio:.1f} times the {name}"
        return f"{100 * abs(ratio - 1):.0f}\u202f% {'more' if ratio > 1 else 'less'} {name}"
    return f"a {name} of {scale.text(after)} instead of {scale.text(before)}"


def _seeds_with_value(measure: StudyMeasure, group: Group) -> str:
    """How many seeds have a value, where not all do."""
    some = len(measure.by_seed(group))
    return f" (in {some} of {len(group.runs)} seeds)" if some < len(group.runs) else ""

"""What a comparison says: which choice to make, what it gains and what it costs, in words computed from the numbers."""

import math
from dataclasses import dataclass

from simfl.report.measures import Measure, Scale, with_values
from simfl.report.statistics import Interval, paired
from simfl.report.study import Group, Study

__all__ = ["Advice", "Change", "advise", "change"]

TOLERANCE = 0.01
"""Accuracy that is given up for a stronger guarantee or a shorter time, as a share of the test samples."""


@dataclass(frozen=True)
class Change:
    """What another choice does to a measure.

    Attributes:
        measure: the measure.
        words: in a few words: ``3.1 ± 0.9 points less accuracy``; its name where nothing can be told.
        verdict: +1 better, -1 worse, 0 not told apart from chance.
    """

    measure: Measure
    words: str
    verdict: int


@dataclass(frozen=True)
class Advice:
    """The group to choose and why.

    Attributes:
        pick: the group.
        best: the group of highest mean accuracy, None where nothing was learned.
        changes: what it changes against the baseline; empty if it is the baseline.
        eligible: how many groups were good enough in accuracy.
        rule: how the choice was made.
    """

    pick: Group
    best: Group | None
    changes: tuple[Change, ...]
    eligible: int
    rule: str


def advise(study: Study) -> Advice | None:
    """The group to choose: of those within one point of the best accuracy the one with the strongest semi-strong
    guarantee (then weak, then strong), then the quickest to the common target.

    None where there is nothing to choose: a single group, or groups that differ in their world (its devices, its
    network, its data), which nobody can choose.
    """
    if not study.choosable:
        return None
    known = {measure.name: measure for measure in with_values(study)}
    means = {g.label: {name: m.over(g).mean for name, m in known.items()} for g in study.groups}
    eligible, best, rule = list(study.groups), None, []
    if "test_accuracy" in known:
        best = max(study.groups, key=lambda g: _up(means[g.label]["test_accuracy"]))
        floor = means[best.label]["test_accuracy"] - TOLERANCE
        eligible = [g for g in study.groups if means[g.label]["test_accuracy"] >= floor]
        rule.append("among those within one percentage point of the best mean accuracy")
    criteria = [(n, +1) for n in ("privacy_semi_strong", "privacy_weak_lower", "privacy_strong") if n in known]
    if criteria:
        rule.append("the strongest guarantee (semi-strong, then weak, then strong)")
    quick = next((name for name in ("time_to_target_s", "time_s") if name in known), None)
    if quick:
        criteria.append((quick, -1))
        rule.append(f"{'then ' if len(criteria) > 1 else ''}the shortest {known[quick].noun}")
    if not criteria:
        return None

    def merit(group: Group) -> list[float]:
        return [_up(sign * round(means[group.label][name], 6)) for name, sign in criteria]

    pick = max(eligible, key=merit)
    baseline = study.group(study.baseline)
    shown = ("privacy_semi_strong", "test_accuracy", quick, "mean_cardinality", "bytes")
    changes = [change(known[name], pick, baseline) for name in shown if name in known] if pick is not baseline else []
    return Advice(pick, best, tuple(c for c in changes if c), len(eligible), ", ".join(rule))


def change(measure: Measure, group: Group, baseline: Group) -> Change | None:
    """What a group does to a measure compared with the baseline, None where either has no value."""
    before, after = measure.over(baseline).mean, measure.over(group).mean
    if math.isnan(before) or math.isnan(after):
        return None
    found = paired(measure.by_seed(group), measure.by_seed(baseline))
    if found.count == 0:
        found = Interval(after - before, math.nan, 0)
    told_apart = found.mean != 0 if math.isnan(found.half) or found.half == 0 else abs(found.mean) > found.half
    verdict = int(math.copysign(1, found.mean * measure.better)) if told_apart and measure.better else 0
    return Change(measure, _words(measure, found, before, after, told_apart), verdict)


def _words(measure: Measure, found: Interval, before: float, after: float, told_apart: bool) -> str:
    name = measure.noun
    if measure.kind == "share":
        points = Scale(0.01, "", 1)
        size = points.interval(Interval(abs(found.mean), found.half, found.count))
        if not told_apart:
            return f"{name} ({_signed(points, found)} points)"
        return f"{size} points {'more' if found.mean > 0 else 'less'} {name}"
    scale = measure.scale((before, after))
    if not told_apart:
        return name
    if measure.kind in ("seconds", "bytes") and before > 0:
        ratio = after / before
        if ratio >= 2:
            return f"{ratio:.1f} times the {name}"
        return f"{100 * abs(ratio - 1):.0f}\u202f% {'more' if ratio > 1 else 'less'} {name}"
    return f"a {name} of {scale.text(after)} instead of {scale.text(before)}"


def _signed(scale: Scale, found: Interval) -> str:
    return ("+" if found.mean > 0 else "") + scale.interval(found)


def _up(value: float) -> float:
    """The value as one to be maximised; NaN is the worst."""
    return -math.inf if math.isnan(value) else value

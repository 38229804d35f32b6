"""What a comparison says: which choice to make, what it gains and what it costs, in words computed from the numbers.

Nothing is claimed that the numbers do not carry: differences need shared seeds and a family-wise 95 % interval that
excludes zero; guarantees are those that hold for any number of rounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simfl.columns import GUARANTEES
from simfl.compare.intervals import CONFIDENCE, p_value
from simfl.compare.measures import diverged
from simfl.report.measures import Measure, Scale, with_values
from simfl.report.statistics import Interval, interval, paired
from simfl.report.study import Group, Run, Study, eligible

__all__ = ["Advice", "Change", "advise", "change", "cautions", "family_level"]

NOTIONS = ("semi_strong", "weak", "strong")
"""Guarantees, the one that decides first."""

CLAIMED = ("guarantee_semi_strong", "test_accuracy", "time_to_target_s", "time_s", "mean_cardinality", "bytes")
"""What the choice is said to change."""

FEW = 0.1
"""Share of skipped rounds from which on words say so."""


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
        pick: the group; None if the numbers do not decide.
        reason: why there is no pick.
        ties: other groups that are not told apart from the pick.
        changes: what it changes against the baseline; empty if it is the baseline.
        rule: how the choice was made.
    """

    pick: Group | None
    reason: str
    ties: tuple[Group, ...]
    changes: tuple[Change, ...]
    rule: str


def family_level(study: Study) -> float:
    """The probability below which one of the advice's p-values counts: Bonferroni over all pairs of groups and all
    measures of :data:`CLAIMED`.
    """
    count = len(study.groups)
    return (1 - CONFIDENCE) / max(1, count * (count - 1) // 2 * len(CLAIMED))


def advise(study: Study) -> Advice | None:
    """The group to choose: of those not told apart from the most accurate one, and if there are any of those that hide
    updates in sums, the one whose guarantee for any number of rounds is strongest (semi-strong, then weak, then
    strong), then the quickest to the common target.

    None where there is nothing to choose: a single group, or groups that differ in their world (its devices, its
    network, its data), which nobody can choose.
    """
    if not study.choosable:
        return None
    known = {measure.name: measure for measure in with_values(study)}
    left = [group for group in study.groups if eligible(group)]
    rule: list[str] = []
    if not left:
        return _nobody("every group has diverged, or skipped all of its rounds", rule)
    level = family_level(study)
    if "test_accuracy" in known:
        rule.append("among those not told apart from the most accurate one")
        measure = known["test_accuracy"]
        best = max(left, key=lambda group: _up(measure.over(group).mean))
        told = [group for group in left if len(_shared(measure, group, best)) > 1]
        if len(told) < 2 and len(left) > 1:
            return _nobody("accuracies are told apart by two shared seeds or more", rule)
        left = _best(measure, told or left, level)
    if any(group.hides for group in left) and not all(group.hides for group in left):
        rule.append("updates that are hidden in sums")
        left = [group for group in left if group.hides]
    if "privacy_semi_strong" in known:
        rule.append("the strongest guarantee for any number of rounds (semi-strong, then weak, then strong)")
        open_ends = [group for group in left if not _settled(group)]
        if open_ends and len(left) > 1:
            names = ", ".join(group.label for group in open_ends)
            return _nobody(f"the guarantee of {names} still falls, and theory does not know where it ends", rule)
        strongest = max(map(_guarantee, left))
        left = [group for group in left if _guarantee(group) == strongest]
    quick = next((known[name] for name in ("time_to_target_s", "time_s") if name in known), None)
    if quick is not None and all(len(quick.by_seed(group)) == len(group.runs) for group in left):
        rule.append(f"{'then ' if rule else ''}the shortest {quick.noun}")
        left = _best(quick, left, level)
    baseline = study.group(study.baseline)
    if len(left) > 1 and baseline in left:
        others = ", ".join(group.label for group in left if group is not baseline)
        return _nobody(f"nothing tells {others} apart from {baseline.label}", rule)
    first = known.get("test_accuracy") or quick
    pick = max(left, key=lambda g: _up(first.better * first.over(g).mean)) if first else left[0]
    shown = [known[name] for name in CLAIMED if name in known]
    shown = [m for m in shown if m.name != "time_s" or m is quick]
    found = [change(m, pick, baseline, level) for m in shown] if pick is not baseline else []
    ties = tuple(group for group in left if group is not pick)
    return Advice(pick, "", ties, tuple(c for c in found if c), ", ".join(rule))


def change(measure: Measure, group: Group, baseline: Group, level: float) -> Change | None:
    """What a group does to a measure compared with the baseline, None where either has no value.

    Args:
        level: p-values up to it count.
    """
    ours, theirs = measure.by_seed(group), measure.by_seed(baseline)
    if not ours or not theirs:
        return None
    seeds = _shared(measure, group, baseline)
    after, before = (interval(values[seed] for seed in seeds or values).mean for values in (ours, theirs))
    if measure.column in GUARANTEES:  # known, not measured
        found, told_apart = Interval(after - before, math.nan, len(seeds)), after != before
    else:
        found, told_apart = paired(ours, theirs), _p_value(measure, group, baseline) <= level
    verdict = int(math.copysign(1, found.mean * measure.better)) if told_apart and measure.better else 0
    return Change(measure, _words(measure, found, before, after, told_apart) + _censored(measure, group), verdict)


def cautions(study: Study) -> list[str]:
    """What a reader of a study must know before its numbers: runs that diverged, rounds that were skipped, in words."""
    found = []
    for group in study.groups:
        if lost := sorted(run.diverged for run in group.runs if run.diverged is not None):
            name = "The run" if study.single and len(group.runs) == 1 else group.label
            found.append(f"{name} {diverged(lost, len(group.runs))}.")
        skipped, rounds = (sum(run.finals.get(name, 0) for run in group.runs) for name in ("skipped", "rounds"))
        if skipped and skipped >= FEW * rounds:
            rest = "; its model is untrained" if skipped == rounds else ""
            found.append(
                f"{group.label} skipped {skipped:g} of {rounds:g} rounds: nothing was aggregated in them{rest}."
            )
    return found


def _nobody(reason: str, rule: Sequence[str]) -> Advice:
    return Advice(None, reason, (), (), ", ".join(rule))


def _best(measure: Measure, groups: Sequence[Group], level: float) -> list[Group]:
    """Without those that are told apart from the best mean."""
    best = max(groups, key=lambda group: _up(measure.better * measure.over(group).mean))
    return [group for group in groups if _p_value(measure, group, best) > level]


def _shared(measure: Measure, first: Group, second: Group) -> list[int]:
    """The seeds for which both have a value."""
    return sorted(measure.by_seed(first).keys() & measure.by_seed(second).keys())


def _p_value(measure: Measure, first: Group, second: Group) -> float:
    ours, theirs = measure.by_seed(first), measure.by_seed(second)
    seeds = _shared(measure, first, second)
    return p_value([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])


def _guarantee(group: Group) -> tuple[float, ...]:
    """For any number of rounds: what theory knows, else the worst value of the group's runs."""

    def of(run: Run, notion: str) -> float:
        simulated = f"privacy_{notion}" + "_lower" * (notion == "weak")
        return run.finals.get(f"guarantee_{notion}", run.finals.get(simulated, -math.inf))

    return tuple(min(of(run, notion) for run in group.runs) for notion in NOTIONS)


def _settled(group: Group) -> bool:
    """Whether theory knows the group's guarantee, or no run's has fallen in the later half of its rounds."""
    return all("guarantee_semi_strong" in run.finals or _level(run) for run in group.runs)


def _level(run: Run) -> bool:
    for notion in NOTIONS:
        values = run.rounds[f"privacy_{notion}" + "_lower" * (notion == "weak")].dropna()
        if len(values) and values.iloc[-1] > 1 and values.iloc[len(values) // 2 :].nunique() > 1:
            return False
    return True


# -- words -------------------------------------------------------------------------------------------


def _words(measure: Measure, found: Interval, before: float, after: float, told_apart: bool) -> str:
    name = measure.noun
    if measure.column.unit == "share":
        points = Scale(0.01, "", 1)
        size = points.interval(Interval(abs(found.mean), found.half, found.count))
        if not told_apart:
            return f"{name} ({_signed(points, found)} points)" if found.count > 1 else name
        return f"{size} points {'more' if found.mean > 0 else 'less'} {name}"
    scale = measure.scale((before, after))
    if not told_apart:
        return name
    if measure.column.unit in ("seconds", "bytes") and before > 0:
        ratio = after / before
        if ratio >= 2:
            return f"{ratio:.1f} times the {name}"
        return f"{100 * abs(ratio - 1):.0f}\u202f% {'more' if ratio > 1 else 'less'} {name}"
    return f"a {name} of {scale.text(after)} instead of {scale.text(before)}"


def _censored(measure: Measure, group: Group) -> str:
    """How many seeds have a value, where not all do."""
    count = len(measure.by_seed(group))
    return f" (in {count} of {len(group.runs)} seeds)" if count < len(group.runs) else ""


def _signed(scale: Scale, found: Interval) -> str:
    return ("+" if found.mean > 0 else "") + scale.interval(found)


def _up(value: float) -> float:
    """The value as one to be maximised; NaN is the worst."""
    return -math.inf if math.isnan(value) else value

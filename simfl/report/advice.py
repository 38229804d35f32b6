"""What a comparison says: which choice to make, what it gains and what it costs, in words computed from the numbers.

Nothing is claimed that the numbers do not carry: differences need shared seeds and a p value that counts family-wise;
guarantees are those that hold for any number of rounds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from simfl.columns import GUARANTEES
from simfl.compare.intervals import CONFIDENCE
from simfl.compare.measures import diverged
from simfl.compare.significance import FEWEST_PAIRS, least, p_value
from simfl.report.measures import Measure, Scale, with_values
from simfl.report.statistics import Interval, interval, paired
from simfl.report.study import Group, Run, Study, eligible

__all__ = ["Advice", "Change", "advise", "change", "cautions", "family_level", "fewest_pairs"]

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
    groups = len(study.groups)
    return (1 - CONFIDENCE) / max(1, groups * (groups - 1) // 2 * len(CLAIMED))


def advise(study: Study) -> Advice | None:
    """The group to choose, by the rule that ``docs/how-to-report.md`` prints.

    Of those not told apart from the most accurate one: if some hide updates in sums, these; then those whose guarantee
    for any number of rounds is strongest (semi-strong, then weak, then strong), where a guarantee that theory knows
    comes before any that was only observed; then those not told apart from the quickest; then the highest mean
    accuracy.

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
        measure, needed = known["test_accuracy"], fewest_pairs(level)
        best = max(left, key=lambda group: _up(measure.over(group).mean))
        shared = [group for group in left if group is best or len(_shared(measure, group, best)) >= needed]
        if len(shared) < 2 and len(left) > 1:
            accuracies = f"the accuracies of {len(study.groups)} groups"
            return _nobody(f"with fewer than {needed} shared seeds {accuracies} cannot be told apart", rule)
        left = _best(measure, shared, level)
    if any(group.hides for group in left) and not all(group.hides for group in left):
        rule.append("updates that are hidden in sums")
        left = [group for group in left if group.hides]
    if any(name in known for name in ("guarantee_semi_strong", "privacy_semi_strong")):
        rule.append("the strongest guarantee for any number of rounds (semi-strong, then weak, then strong)")
        promised = [group for group in left if _promised(group) is not None]
        if promised and len(promised) < len(left):
            rule.append("one that theory knows before any that was only observed")
        if not promised and len(left) > 1 and (open_ends := [group for group in left if not _settled(group)]):
            names = ", ".join(group.label for group in open_ends)
            return _nobody(f"the guarantee of {names} still falls, and theory does not know where it ends", rule)
        left = _strongest(promised, _promised) if promised else _strongest(left, _observed)
    quick = next((known[name] for name in ("time_to_target_s", "time_s") if name in known), None)
    if quick is not None and all(len(quick.by_seed(group)) == len(group.runs) for group in left):
        rule.append(f"{'then ' if rule else ''}the shortest {quick.noun}")
        left = _best(quick, left, level)
    return _last(study, known, quick, left, rule, level)


def _last(
    study: Study,
    known: Mapping[str, Measure],
    quick: Measure | None,
    left: list[Group],
    rule: list[str],
    level: float,
) -> Advice:
    """The choice among groups that nothing tells apart: never against the baseline, else the highest mean accuracy."""
    baseline, first = study.group(study.baseline), known.get("test_accuracy") or quick
    if len(left) > 1:
        others = ", ".join(group.label for group in left if group is not baseline)
        if baseline in left:
            return _nobody(f"nothing tells {others} apart from {baseline.label}", rule)
        if first is None or min(len(group.runs) for group in left) < FEWEST_PAIRS:
            return _nobody(f"nothing tells {others} apart", rule)
        rule.append(f"and, of those still not told apart, the {_extreme(first)} mean {first.noun}")
    pick = max(left, key=lambda g: _up(first.better * first.over(g).mean)) if first else left[0]
    shown = [known[name] for name in CLAIMED if name in known]
    shown = [m for m in shown if m.name != "time_s" or m is quick]
    found = [change(m, pick, baseline, level) for m in shown] if pick is not baseline else []
    ties = tuple(group for group in left if group is not pick)
    return Advice(pick, "", ties, tuple(c for c in found if c), ", ".join(rule))


def _extreme(measure: Measure) -> str:
    return "highest" if measure.better > 0 else "lowest"


def fewest_pairs(level: float) -> int:
    """The fewest pairs that can give a p value up to a level."""
    return next(pairs for pairs in count(FEWEST_PAIRS) if least(pairs) <= level)


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


def _promised(group: Group) -> tuple[float, ...] | None:
    """What theory knows of the group's guarantee for any number of rounds, the least of its runs; None = nothing."""
    if any("guarantee_semi_strong" not in run.finals for run in group.runs):
        return None
    return tuple(min(run.finals.get(f"guarantee_{notion}", -math.inf) for run in group.runs) for notion in NOTIONS)


def _observed(group: Group) -> tuple[float, ...]:
    """The guarantee that the group's runs had come to when they ended, the least of them."""
    names = (f"privacy_{notion}" + "_lower" * (notion == "weak") for notion in NOTIONS)
    return tuple(min(run.finals.get(name, -math.inf) for run in group.runs) for name in names)


def _strongest(groups: Sequence[Group], of: Callable[[Group], Any]) -> list[Group]:
    strongest = max(map(of, groups))
    return [group for group in groups if of(group) == strongest]


def _settled(group: Group) -> bool:
    """Whether no run's guarantee has fallen in the later half of its rounds."""
    return all(map(_level, group.runs))


def _level(run: Run) -> bool:
    for notion in NOTIONS:
        name = f"privacy_{notion}" + "_lower" * (notion == "weak")
        values = run.rounds[name].dropna() if name in run.rounds else ()
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
    some = len(measure.by_seed(group))
    return f" (in {some} of {len(group.runs)} seeds)" if some < len(group.runs) else ""


def _signed(scale: Scale, found: Interval) -> str:
    return ("+" if found.mean > 0 else "") + scale.interval(found)


def _up(value: float) -> float:
    """The value as one to be maximised; NaN is the worst."""
    return -math.inf if math.isnan(value) else value

"""What a comparison says, in words computed from the numbers: which configuration to choose, what it gains and costs.

Nothing is claimed that the numbers do not carry: differences need shared seeds and a p value that counts family-wise;
guarantees are those that hold for any number of rounds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from simfl.core.certificate_words import NOT_COMPARED, unlike_sentences
from simfl.experiments.compare.intervals import CONFIDENCE, FEWEST_PAIRS, least
from simfl.experiments.compare.run_numbers import divergence_text
from simfl.privacy.multiround.guarantee_trace import LOWER_BOUNDS, are_bounds
from simfl.report.guarantee_bounds import settling_doubts, strongest
from simfl.report.measures import (
    MeasureChange,
    StudyMeasure,
    common_seeds,
    compare_with_baseline,
    paired_difference,
    paired_p_value,
    with_values,
)
from simfl.report.study import Group, Study, eligible

PROMISED = ("guarantee_semi_strong", "guarantee_weak", "guarantee_strong")
"""Guarantees that theory knows; the one that decides first."""

CLAIMED = ("guarantee_semi_strong", "test_accuracy", "time_to_target_s", "time_s", "mean_cardinality", "bytes")
"""What the chosen configuration is said to change."""

FEW = 0.1
"""Share of skipped rounds from which on words say so."""


@dataclass(frozen=True)
class Advice:
    """The group to choose and why.

    Attributes:
        pick: the group; None if the numbers do not decide.
        reason: why there is no pick.
        ties: other groups that do not differ significantly from the pick.
        changes: what it changes against the baseline; empty if it is the baseline.
    """

    pick: Group | None
    reason: str
    ties: tuple[Group, ...]
    changes: tuple[MeasureChange, ...]
    rule: str


def family_level(study: Study) -> float:
    """The probability below which one of the advice's p-values counts: Bonferroni over all pairs of groups and all
    measures of :data:`CLAIMED`.
    """
    groups = len(study.groups)
    return (1 - CONFIDENCE) / max(1, groups * (groups - 1) // 2 * len(CLAIMED))


def advise(study: Study) -> Advice | None:
    """The group to choose, by the rule that ``docs/how-to/report.md`` prints.

    Of those not significantly different from the most accurate one, in the order of their means down to the first that
    is: if some hide updates in sums, these; then those whose guarantee for any number of rounds is strongest
    (semi-strong, then weak, then strong), where a guarantee that theory knows comes before any that was only observed,
    and one of which only bounds are known is stronger or weaker than another only if these do not overlap; then those
    not significantly different from the quickest, again in order; then the highest mean accuracy. Who is left is picked
    only if it is the most accurate one, or if the interval of its paired difference to that one allows no loss.

    So no other group with as many seeds is at least as good by every one of these and better by one: who is dropped for
    a mean takes all those with him whose mean is no better, and nobody is picked while bounds leave it open whose
    guarantee is strongest. The order of the groups plays no part.

    None where there is nothing to choose: a single group, or groups that differ in their world (its devices, its
    network, its data), which nobody can choose.
    """
    if not study.choosable:
        return None
    known = {measure.name: measure for measure in with_values(study)}
    left = [group for group in study.groups if eligible(group)]
    rule: list[str] = []
    if not left:
        return _no_choice("every configuration has diverged, or skipped all of its rounds", rule)
    level = family_level(study)
    enough = _with_enough_seeds(study, known.get("test_accuracy"), left, level, rule)
    if isinstance(enough, Advice):
        return enough
    left = enough
    granted = {run.summary.get("privacy_assumes") for group in left for run in group.runs}
    if len(granted) > 1:
        rule.append(NOT_COMPARED)
        known = {name: measure for name, measure in known.items() if "guarantee" not in name and "privacy" not in name}
    elif any(group.hides for group in left) and not all(group.hides for group in left):
        rule.append("updates that are hidden in sums")
        left = [group for group in left if group.hides]
    if any(name in known for name in ("guarantee_semi_strong", "privacy_semi_strong")):
        strongest = _with_strongest_guarantee(left, rule)
        if isinstance(strongest, Advice):
            return strongest
        left = strongest
    quick = next((known[name] for name in ("time_to_target_s", "time_s") if name in known), None)
    if quick is not None and all(len(quick.by_seed(group)) == len(group.runs) for group in left):
        rule.append(f"{'then ' if rule else ''}the shortest {quick.noun}")
        left = _best(quick, left, level)
    return _last(study, known, quick, left, rule, level)


def _with_enough_seeds(
    study: Study, accuracy: StudyMeasure | None, groups: list[Group], level: float, rule: list[str]
) -> list[Group] | Advice:
    """The groups with seeds enough that are not significantly less accurate than the best, or that there is no choice;
    the criteria are added to ``rule``.
    """
    if accuracy is None:
        needed, enough = FEWEST_PAIRS, [group for group in groups if len(group.runs) >= FEWEST_PAIRS]
        what = f"{len(study.groups)} configurations"
    else:
        needed = fewest_pairs(level)
        first = _first(accuracy, groups)
        enough = [
            group
            for group in groups
            if all(group is best or len(common_seeds(accuracy, group, best)) >= needed for best in first)
        ]
        what = f"the accuracies of {len(study.groups)} configurations"
    if len(enough) < min(2, len(groups)):
        return _no_choice(f"with fewer than {needed} shared seeds {what} cannot be distinguished", rule)
    if len(enough) < len(groups):
        rule.append(f"among those with at least {needed} shared seeds")
    if accuracy is None:
        return enough
    rule.append(f"{'' if rule else 'among '}those not significantly different from the most accurate one")
    return _best(accuracy, enough, level)


def _with_strongest_guarantee(left: list[Group], rule: list[str]) -> list[Group] | Advice:
    """The groups of the strongest guarantee, or that there is no choice; the criteria are added to ``rule``."""
    rule.append("the strongest guarantee for any number of rounds (semi-strong, then weak, then strong)")
    promised = [group for group in left if _known_guarantee(group) is not None]
    if promised and len(promised) < len(left):
        rule.append("one that theory knows before any that was only observed")
    if promised:
        guarantees = {group.label: _known_guarantee(group) or () for group in promised}
        return [group for group in promised if guarantees[group.label] == max(guarantees.values())]
    candidates, undecided = strongest(left)
    if undecided:
        return _no_choice(undecided, rule)
    unclear = settling_doubts(left) if len(left) > 1 else ""
    return _no_choice(unclear, rule) if unclear else candidates


def _last(
    study: Study,
    known: Mapping[str, StudyMeasure],
    quick: StudyMeasure | None,
    left: list[Group],
    rule: list[str],
    level: float,
) -> Advice:
    """The pick among groups that cannot be distinguished: none if the baseline is one of them, else the best mean."""
    baseline, first = study.group(study.baseline), known.get("test_accuracy") or quick
    if len(left) > 1:
        others = ", ".join(group.label for group in left if group is not baseline)
        if baseline in left:
            return _no_choice(f"nothing distinguishes {others} from {baseline.label}", rule)
        if first is None or min(len(group.runs) for group in left) < FEWEST_PAIRS:
            return _no_choice(f"{others} cannot be distinguished", rule)
        extreme = "highest" if first.better > 0 else "lowest"
        rule.append(f"and, of those that still cannot be distinguished, the {extreme} mean {first.noun}")
    leading = _first(first, left) if first else left
    if len(leading) > 1:
        return _no_choice(f"{', '.join(group.label for group in leading)} have the same means", rule)
    pick = leading[0]
    if loss := _possible_loss(known.get("test_accuracy"), pick, [group for group in study.groups if eligible(group)]):
        return _no_choice(loss, rule)
    shown = [known[name] for name in CLAIMED if name in known]
    shown = [m for m in shown if m.name != "time_s" or m is quick]
    changes = [compare_with_baseline(m, pick, baseline, level) for m in shown] if pick is not baseline else []
    ties = tuple(group for group in left if group is not pick)
    return Advice(pick, "", ties, tuple(c for c in changes if c), ", ".join(rule))


def _possible_loss(accuracy: StudyMeasure | None, pick: Group, groups: Sequence[Group]) -> str:
    """How much less accurate than the most accurate group the pick may be; empty where no loss is possible, or the pick
    is that group.
    """
    best = _first(accuracy, groups) if accuracy else [pick]
    if accuracy is None or pick in best:
        return ""
    ours = accuracy.by_seed(pick)
    ends = [(paired_difference(ours, accuracy.by_seed(other)).lower, other.label) for other in best]
    lower, label = min((-1.0 if lower is None else lower, label) for lower, label in ends)
    points = math.ceil(round(-1000 * lower, 6)) / 10  # rounded up
    where = f"{100 * CONFIDENCE:g} % interval of {pick.label} against {label}, the most accurate"
    return f"the loss may be up to {points:.1f} points ({where})" if lower < 0 else ""


TIMELESS = "No simulated time passes but in skipped rounds: give network.latency_s or devices.computation."
"""Of scenarios in which nothing takes time."""


def fewest_pairs(level: float) -> int:
    """The fewest pairs that can give a p value up to a level."""
    return next(pairs for pairs in count(FEWEST_PAIRS) if least(pairs) <= level)


def cautions(study: Study) -> list[str]:
    """What to know before a study's numbers: no time, diverged runs, skipped rounds, certificates that differ."""
    finals = [run.finals for run in study.runs]
    timeless = bool(finals) and all(each.get("time_s") == each.get("skipped", 0) for each in finals)  # 1 s each
    sentences = [TIMELESS] if timeless else []
    for group in study.groups:
        if rounds_diverged := sorted(run.diverged_round for run in group.runs if run.diverged_round is not None):
            name = "The run" if study.single and len(group.runs) == 1 else group.label
            sentences.append(f"{name} {divergence_text(rounds_diverged, len(group.runs))}.")
        if any(are_bounds(run.finals) for run in group.runs):
            sentences.append(f"{group.label}: {LOWER_BOUNDS}.")
        skipped, rounds = (sum(run.finals.get(name, 0) for run in group.runs) for name in ("skipped", "rounds"))
        if skipped and skipped >= FEW * rounds:
            rest = "; its model is untrained" if skipped == rounds else ""
            sentences.append(
                f"{group.label} skipped {skipped:g} of {rounds:g} rounds: nothing was aggregated in them{rest}."
            )
    names = {name for group in study.groups for name in group.promises()}
    unlike = unlike_sentences({group.label: group.promises(names) for group in study.groups}, study.columns)
    return [*sentences, *(f"{text}." for text in unlike)]


def _no_choice(reason: str, rule: Sequence[str]) -> Advice:
    return Advice(None, reason, (), (), ", ".join(rule))


def _first(measure: StudyMeasure, groups: Sequence[Group]) -> list[Group]:
    """The groups of the best mean."""
    means = [_or_minus_infinity(measure.better * measure.over(group).estimate) for group in groups]
    return [group for group, mean in zip(groups, means, strict=True) if mean == max(means)]


def _best(measure: StudyMeasure, groups: Sequence[Group], level: float) -> list[Group]:
    """The groups that do not differ significantly from the best mean, in the order of their means down to the first
    that does: one that is only uncertain stays before none that is surely better.
    """
    first = _first(measure, groups)
    means = {group.label: _or_minus_infinity(measure.better * measure.over(group).estimate) for group in groups}
    worse = [
        means[group.label] for group in groups if any(paired_p_value(measure, group, best) <= level for best in first)
    ]
    return [group for group in groups if not worse or means[group.label] > max(worse)]


def _known_guarantee(group: Group) -> tuple[float, ...] | None:
    """What theory knows of the group's guarantee for any number of rounds, the least of its runs; None = nothing.

    A notion of which it knows nothing, beside one of which it does, counts as 1: that much holds of any sums.
    """
    if any(run.finals.keys().isdisjoint(PROMISED) for run in group.runs):
        return None
    return tuple(min(run.finals.get(name, 1.0) for run in group.runs) for name in PROMISED)


def _or_minus_infinity(value: float) -> float:
    """The value as one to be maximised; NaN is the worst."""
    return -math.inf if math.isnan(value) else value

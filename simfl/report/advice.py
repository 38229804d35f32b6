"""What a comparison says, in words computed from the numbers: which configuration to choose, what it gains and costs.

Nothing is claimed that the numbers do not carry: differences need shared seeds and a p value that counts family-wise;
guarantees are those that hold for any number of rounds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean

import numpy as np

from simfl.core.certificate_words import NOT_COMPARED, unlike_sentences
from simfl.core.errors import amount
from simfl.core.types import Floats
from simfl.experiments.compare.intervals import CONFIDENCE, FEWEST_PAIRS, margin_p_values
from simfl.experiments.compare.run_numbers import divergence_text, skipped_text, unequal_sums
from simfl.experiments.compare.shapes import unseen_collapses
from simfl.privacy.multiround.guarantee_trace import LOWER_BOUNDS, are_bounds
from simfl.report.guarantee_bounds import settling_doubts, strongest
from simfl.report.measures import MeasureChange, StudyMeasure, compare_with_baseline, with_values
from simfl.report.study import Group, Study, eligible

MARGIN = 0.01
"""Loss of accuracy that does not matter, unless somebody says another: one point."""

PROMISED = ("guarantee_semi_strong", "guarantee_weak", "guarantee_strong")
"""Guarantees that theory knows; the one that decides first."""

CLAIMED = ("guarantee_semi_strong", "test_accuracy", "time_to_target_s", "time_s", "clients_in_sum", "bytes")
"""What the chosen configuration is said to change."""


@dataclass(frozen=True)
class Advice:
    """The group to choose and why.

    Attributes:
        pick: the group; None if the numbers do not decide.
        reason: why there is no pick.
        ties: other groups that do not differ significantly from the pick.
        tie_words: for each, its name and how much it may differ, where that is known.
        changes: what it changes against the baseline; empty if it is the baseline.
        rule: the criteria, in words.
        running: groups whose accuracy is shown to lie below every other's by less than the margin.
        unseen: what so many runs cannot show, in words.
    """

    pick: Group | None
    reason: str
    ties: tuple[Group, ...] = ()
    tie_words: tuple[str, ...] = ()
    changes: tuple[MeasureChange, ...] = ()
    rule: str = ""
    running: tuple[Group, ...] = ()
    unseen: str = ""


def family_level(study: Study) -> float:
    """The probability below which one of the advice's p-values counts: Bonferroni over all pairs of groups and all
    measures of :data:`CLAIMED`.
    """
    groups = len(study.groups)
    return (1 - CONFIDENCE) / max(1, groups * (groups - 1) // 2 * len(CLAIMED))


def advise(study: Study, margin: float = MARGIN) -> Advice | None:
    """The group to choose, by the rule that ``docs/how-to/recommendation.md`` prints.

    Of those whose accuracy is shown to lie below every other's by less than the margin: if some hide updates in sums,
    these; then those whose guarantee for any number of rounds is strongest (semi-strong, then weak, then strong), where
    a guarantee that theory knows comes before any that was only observed, and one of which only bounds are known is
    stronger or weaker than another only if these do not overlap; then those from which least is recovered, then those
    that are quickest, as far as the differences are significant; then the highest mean accuracy.

    Args:
        study: finished runs. The order of their groups plays no part.
        margin: the loss of accuracy that does not matter, as a share of the test samples.

    Returns:
        None where there is nothing to choose: a single group, or groups that differ in their world (its devices, its
        network, its data), which nobody can choose.
    """
    if not study.choosable:
        return None
    known = {measure.name: measure for measure in with_values(study, hidden=True)}
    left = [group for group in study.groups if eligible(group)]
    if not left:
        return Advice(None, "every configuration has diverged, or skipped all of its rounds")
    accuracy = known.get("test_accuracy")
    if accuracy is None and "test_loss" in known:
        return Advice(None, "a margin of accuracy says nothing of runs that measure a loss only")
    enough = [group for group in left if len(accuracy.by_seed(group) if accuracy else group.runs) >= FEWEST_PAIRS]
    if len(enough) < min(2, len(left)):
        return Advice(None, f"with fewer than {FEWEST_PAIRS} seeds configurations cannot be distinguished")
    rule = [f"among those with at least {FEWEST_PAIRS} seeds"] * (len(enough) < len(left))
    running = enough
    if accuracy is not None and len(enough) > 1:
        rule.append(f"those whose accuracy is shown to be less than {points(margin)} below every other one")
        ranks = _ranks(enough, known)
        running = _in_the_running(accuracy, ranks, margin)
        if not running:
            return Advice(None, _possible_loss(accuracy, ranks, margin), rule=", ".join(rule))
    return replace(_choose(study, known, running, rule), rule=", ".join(rule), running=tuple(running))


def points(share: float) -> str:
    """A difference of accuracies in words."""
    return amount(round(100 * share, 6), "point")


def _in_the_running(accuracy: StudyMeasure, ranks: Sequence[Sequence[Group]], margin: float) -> list[Group]:
    """The groups that are shown to lose less than the margin against every other."""
    scores = {group.label: accuracy.by_seed(group) for rank in ranks for group in rank}
    running = []
    for rank, level in zip(ranks, levels(list(map(len, ranks))), strict=True):
        for group in rank:
            others = [score for label, score in scores.items() if label != group.label]
            if p_loss(scores[group.label], others, margin) <= level:
                running.append(group)
    return running


def _possible_loss(accuracy: StudyMeasure, ranks: Sequence[Sequence[Group]], margin: float) -> str:
    """How much a group may lose, against whom, and how many seeds would decide: of the best protected group of which
    more seeds may show that it loses little; of the best protected one where that is none.
    """
    groups = [group for rank in ranks for group in rank]
    texts = []
    for rank, level in zip(ranks, levels(list(map(len, ranks))), strict=True):
        of_rank = []
        for group in rank:
            ours, others = accuracy.by_seed(group), [other for other in groups if other is not group]
            losses = [(most_loss(ours, accuracy.by_seed(other), level), other.label) for other in others]
            needed = [seeds_needed(ours, accuracy.by_seed(other), margin, level) for other in others]
            more = max(each or 0 for each in needed) - len(ours) if None not in needed else 0
            of_rank.append((more <= 0, *max(losses), group.label, more))
        texts.append(min(of_rank))
    _, loss, label, name, more = min(texts, key=lambda each: each[0])
    ours, theirs = (accuracy.by_seed(group) for wanted in (name, label) for group in groups if group.label == wanted)
    if math.isinf(loss):
        shared = len(ours.keys() & theirs.keys())
        return (
            f"{amount(shared, 'seed')} shared by {name} and {label} exclude no loss among {len(groups)} configurations"
        )
    text = f"the loss of {name} may be up to {100 * loss:.1f} points (against {label}); the margin is {points(margin)}"
    seeds = amount(more, "more seed")
    return f"{text}, and about {seeds} would decide if means and spreads stay as they are" if more > 0 else text


def _ranks(groups: Sequence[Group], known: Mapping[str, StudyMeasure]) -> list[list[Group]]:
    """The groups by their protection, the best first; those of which nobody knows which is better are one rank."""
    ranks, left = [], list(groups)
    while left:
        best = _best_protection(left, known, [])
        best = left if isinstance(best, Advice) else best
        ranks.append(best)
        left = [group for group in left if group not in best]
    return ranks


def _best_protection(left: list[Group], known: Mapping[str, StudyMeasure], rule: list[str]) -> list[Group] | Advice:
    """The groups of the best protection, or that there is no choice; the criteria are added to ``rule``."""
    if len({run.summary.get("privacy_assumes") for group in left for run in group.runs}) > 1:
        rule.append(NOT_COMPARED)
        return left
    if any(group.hides for group in left) and not all(group.hides for group in left):
        rule.append("updates that are hidden in sums")
        left = [group for group in left if group.hides]
    if any(name in known for name in ("guarantee_semi_strong", "privacy_semi_strong")):
        return _with_strongest_guarantee(left, rule)
    return left


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
        return Advice(None, undecided)
    unclear = settling_doubts(left) if len(left) > 1 else ""
    return Advice(None, unclear) if unclear else candidates


def _choose(study: Study, known: Mapping[str, StudyMeasure], running: list[Group], rule: list[str]) -> Advice:
    """The pick among groups that are in the running; the criteria are added to ``rule``."""
    left = _best_protection(running, known, rule)
    if isinstance(left, Advice):
        return left
    level = family_level(study)
    quick = next((known[name] for name in ("time_to_target_s", "time_s") if name in known), None)
    for measure, text in ((known.get("measured_error"), "the highest"), (quick, "the shortest")):
        if measure is not None and all(len(measure.by_seed(group)) == len(group.runs) for group in left):
            rule.append(f"then {text} {measure.noun}")
            left = _best(measure, left, level)
    return _last(study, known, quick, left, rule)


def _last(
    study: Study, known: Mapping[str, StudyMeasure], quick: StudyMeasure | None, left: list[Group], rule: list[str]
) -> Advice:
    """The pick among groups that cannot be distinguished: none if the baseline is one of them, else the best mean."""
    baseline, first = study.group(study.baseline), known.get("test_accuracy") or quick
    if len(left) > 1:
        others = ", ".join(group.label for group in left if group is not baseline)
        if baseline in left:
            said = ", ".join(_beside(first, group, baseline) for group in left if group is not baseline)
            return Advice(None, f"nothing distinguishes {said} from {baseline.label}")
        if first is None:
            return Advice(None, f"{others} cannot be distinguished")
        extreme = "highest" if first.better > 0 else "lowest"
        rule.append(f"and, of those that still cannot be distinguished, the {extreme} mean {first.noun}")
    leading = _first(first, left) if first else left
    if len(leading) > 1:
        return Advice(None, f"{', '.join(group.label for group in leading)} have the same means")
    pick, level = leading[0], family_level(study)
    shown = [known[name] for name in CLAIMED if name in known and (name != "time_s" or known[name] is quick)]
    changes = [compare_with_baseline(m, pick, baseline, level) for m in shown] if pick is not baseline else []
    ties = tuple(group for group in left if group is not pick)
    unseen = unseen_collapses(len(pick.runs)) if "test_accuracy" in known else ""
    words = tuple(_beside(first, group, pick) for group in ties)
    return Advice(pick, "", ties, words, tuple(c for c in changes if c), unseen=unseen)


def _beside(measure: StudyMeasure | None, group: Group, other: Group) -> str:
    """The group, and how much of the measure it may have more or less than the other: (accuracy +0.1 ± 0.9 points)."""
    effect = None if measure is None else compare_with_baseline(measure, group, other, 0.0)
    return group.label + (f" ({effect.words})" if effect else "")


TIMELESS = "No simulated time passes but in skipped rounds: give network.latency_s or devices.computation."
"""Of scenarios in which nothing takes time."""


def cautions(study: Study) -> list[str]:
    """What to know before a study's numbers: no time, diverged runs, skipped rounds, certificates that differ."""
    finals = [run.finals for run in study.runs]
    timeless = bool(finals) and all(each.get("time_s") == each.get("waiting_s", 0) for each in finals)
    sentences = [TIMELESS] if timeless else []
    for group in study.groups:
        if rounds_diverged := sorted(run.diverged_round for run in group.runs if run.diverged_round is not None):
            name = "The run" if study.single and len(group.runs) == 1 else group.label
            sentences.append(f"{name} {divergence_text(rounds_diverged, len(group.runs))}.")
        if any(are_bounds(run.finals) for run in group.runs):
            sentences.append(f"{group.label}: {LOWER_BOUNDS}.")
        totals = ("skipped", "rounds", "waiting_s", "time_s")
        if text := skipped_text({name: sum(run.finals.get(name, 0) for run in group.runs) for name in totals}):
            sentences.append(f"{group.label} {text}.")
    sums = {group.label: [run.finals["aggregations"] for run in group.runs if "aggregations" in run.finals]
            for group in study.groups}  # fmt: skip
    if text := unequal_sums({label: fmean(counts) for label, counts in sums.items() if counts}):
        sentences.append(f"{text[0].upper()}{text[1:]}.")
    names = {name for group in study.groups for name in group.promises()}
    unlike = unlike_sentences({group.label: group.promises(names) for group in study.groups}, study.columns)
    return [*sentences, *(f"{text}." for text in unlike)]


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
    worse = [means[group.label] for group in groups if any(measure.against(group, best)[1] <= level for best in first)]
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


# -- Whether an accuracy is shown to lie below every other by less than a margin, and how many seeds would show it
# Not to differ significantly is no evidence of being as accurate. So a configuration stays in the running only if the
# hypothesis is rejected that some other one is more accurate by the margin or more: the largest of its one-sided p
# values against the others must not exceed its level (an intersection-union test, which needs no correction over the
# others). But several configurations may pass though they should not, so that these levels add up to 5 %.
#
# References:
#     R. L. Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24 (1982).
#     B. L. Wiens, A fixed sequence Bonferroni procedure for testing multiple endpoints, Pharm. Stat. 2 (2003).

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
    for n in np.split(np.arange(FEWEST_PAIRS, MOST_SEEDS + 1), [5, 20]):  # few are often enough: most is not asked
        enough = nct.sf(t.isf(level, n - 1), n - 1, (margin - losses.mean()) * np.sqrt(n) / spread) >= POWER
        if enough.any():
            return int(n[enough][0])
    return None


def _pairs(ours: Values, other: Values) -> tuple[Floats, Floats]:
    seeds = sorted(ours.keys() & other.keys())
    return np.array([ours[seed] for seed in seeds]), np.array([other[seed] for seed in seeds])

"""What happened, in sentences computed from the numbers, where there is nothing to choose."""

from collections.abc import Sequence

from simfl.core.certificate_words import IF_ONLY_SUMS, RECONSTRUCTABLE, WORST, basis
from simfl.core.errors import amount
from simfl.report.finished_run import Run
from simfl.report.guarantee_bounds import AS_FAR, GuaranteeBounds, weak_bounds
from simfl.report.measures import StudyMeasure, with_values
from simfl.report.secagg_overhead import describe_masking
from simfl.report.study import Group, Study


def describe(study: Study) -> list[str]:
    """Two or three sentences about a run, its replications or a sweep."""
    known = {measure.name: measure for measure in with_values(study)}
    return _one(study, known) if study.single else _many(study, known)


def _one(study: Study, known: dict[str, StudyMeasure]) -> list[str]:
    group = study.groups[0]

    def value(name: str) -> str:
        interval = known[name].over(group)
        return known[name].scale([interval.estimate]).quantity(interval.estimate)

    sentences = [f"The run took {value('time_s')} of simulated time."]
    if "test_accuracy" in known:
        right = f"the model is right on {value('test_accuracy')} of the test samples"
        sentences = [f"After {value('time_s')} of simulated time {right}."]
    hidden = describe_masking(study)
    if not hidden and (bounds := [each for each in map(weak_bounds, group.runs) if each is not None]):
        sentences.append(_guarantee(group.first, *bounds) if len(group.runs) == 1 else _mean_guarantee(group, bounds))
    return [*sentences, *hidden]


def _guarantee(run: Run, weak: GuaranteeBounds) -> str:
    """What the server can do is said of upper bounds, what it cannot do of lower ones."""
    if weak.upper <= 1:
        since = int(run.rounds.loc[run.rounds["privacy_weak_upper"] <= 1, "round"].iloc[0])
        if seen := run.summary.get("beside_sums"):
            return f"The server sees or learns {', '.join(seen)}: no sum hides anybody from it."
        return f"After {amount(since + 1, 'round')}, combined aggregates make one client's update {RECONSTRUCTABLE}."
    condition = f"{WORST} {IF_ONLY_SUMS}" if run.takes_sums_for_granted else WORST
    if weak.exact:
        fewest = f"no sum of fewer than {weak.lower:g} clients' updates"
        return f"Whatever aggregates the server combines, it gets {fewest}, even {condition}."
    smallest = "The smallest sum that the server gets by combining the aggregates contains the updates of"
    return f"{smallest} {weak.clients}, {AS_FAR}, {condition}."


def _mean_guarantee(group: Group, bounds: Sequence[GuaranteeBounds]) -> str:
    """Of several runs: the mean of what was computed."""
    condition = f"{WORST} {IF_ONLY_SUMS}" if any(run.takes_sums_for_granted for run in group.runs) else WORST
    mean = GuaranteeBounds(*(sum(values) / len(bounds) for values in zip(*bounds, strict=True)))
    far = "" if mean.exact else f", {AS_FAR}"
    return f"Its weak multi-round guarantee against the server ends at {mean.clients} on average{far}, {condition}."


def _many(study: Study, known: dict[str, StudyMeasure]) -> list[str]:
    sentences = []
    if not study.comparable:
        sentences.append("Groups that learn from different data are not ranked against one another.")
    for name in ("test_accuracy", "privacy_semi_strong", "time_s"):
        if name in known:
            noun = known[name].noun
            beside = f"; {basis(known[name].column)}" if known[name].column.observer else ""
            sentences.append(f"{noun[0].upper()}{noun[1:]} {_range(study, known[name])}{beside}.")
    if study.comparable and study.seeds < 2:
        sentences.append("There is one seed only, so chance is not excluded.")
    return sentences


def _range(study: Study, measure: StudyMeasure) -> str:
    means = {group.label: measure.over(group).estimate for group in study.groups}
    means = {label: mean for label, mean in means.items() if mean == mean}
    low, high = min(means, key=lambda label: means[label]), max(means, key=lambda label: means[label])
    scale = measure.scale(means.values())
    if scale.text(means[low]) == scale.text(means[high]):
        return f"is {scale.quantity(means[low])} everywhere"
    text = f"ranges from {scale.quantity(means[low])} to {scale.quantity(means[high])}"
    return f"{text} (best mean: {high if measure.better > 0 else low})" if study.comparable else text

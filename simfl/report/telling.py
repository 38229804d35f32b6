"""What happened, in sentences computed from the numbers, where there is nothing to choose."""

from simfl.report.beside import masked
from simfl.report.measures import Measure, with_values
from simfl.report.study import Group, Study

__all__ = ["told"]


def told(study: Study) -> list[str]:
    """Two or three sentences about a run, its replications or a sweep."""
    known = {measure.name: measure for measure in with_values(study)}
    return _one(study, known) if study.single else _many(study, known)


def _one(study: Study, known: dict[str, Measure]) -> list[str]:
    group = study.groups[0]

    def value(name: str) -> str:
        found = known[name].over(group)
        return known[name].scale([found.mean]).quantity(found.mean)

    sentences = [f"The run took {value('time_s')} of simulated time."]
    if "test_accuracy" in known:
        right = f"the model is right on {value('test_accuracy')} of the test samples"
        sentences = [f"After {value('time_s')} of simulated time {right}."]
    hidden = masked(study)
    if "privacy_weak_lower" in known and not hidden:
        sentences.append(_guarantee(group) if len(group.runs) == 1 else
                         f"Its weak multi-round guarantee ends at {value('privacy_weak_lower')} clients.")  # fmt: skip
    return [*sentences, *hidden]


def _guarantee(group: Group) -> str:
    rounds = group.first.rounds[["round", "privacy_weak_lower"]].dropna()
    last = rounds["privacy_weak_lower"].iloc[-1]
    since = int(rounds.loc[rounds["privacy_weak_lower"] == last, "round"].iloc[0])
    if last <= 1:
        return f"After {since + 1} rounds, the server can single out one client by combining the aggregates."
    return f"Combining all aggregates, the server can narrow nothing down to fewer than {last:g} clients."


def _many(study: Study, known: dict[str, Measure]) -> list[str]:
    sentences = [] if study.ranked else ["Groups that learn from different data are not ranked against one another."]
    for name in ("test_accuracy", "privacy_semi_strong", "time_s"):
        if name in known:
            noun = known[name].noun
            sentences.append(f"{noun[0].upper()}{noun[1:]} {_range(study, known[name])}.")
    if study.ranked and study.seeds < 2:
        sentences.append("There is one seed only, so chance is not excluded.")
    return sentences


def _range(study: Study, measure: Measure) -> str:
    found = {group.label: measure.over(group).mean for group in study.groups}
    found = {label: mean for label, mean in found.items() if mean == mean}
    low, high = min(found, key=lambda label: found[label]), max(found, key=lambda label: found[label])
    scale = measure.scale(found.values())
    if scale.text(found[low]) == scale.text(found[high]):
        return f"is {scale.quantity(found[low])} everywhere"
    told = f"ranges from {scale.quantity(found[low])} to {scale.quantity(found[high])}"
    return f"{told} (mean of {high if measure.better > 0 else low})" if study.ranked else told

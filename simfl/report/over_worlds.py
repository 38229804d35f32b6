"""How far what a study says rests on the world: what is recommended in each, and in how many a ranking holds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from simfl.core.errors import amount
from simfl.experiments.compare.intervals import CONFIDENCE
from simfl.report.advice import MARGIN, advise, family_level
from simfl.report.measures import StudyMeasure, compare_with_baseline, with_values
from simfl.report.study import Study

RANKED = ("test_accuracy", "time_to_target_s", "time_s", "fairness_excess")
"""Measures by which each choice is ranked against the baseline: of the two times, the first that there is."""

VERDICTS = {1: "better", -1: "worse"}


def advise_worlds(study: Study, margin: float = MARGIN) -> list[str]:
    """What is recommended in each world of a study, and in how many of them each choice is; none where it has one."""
    worlds = study.worlds()
    picks: Counter[str] = Counter()
    sentences = []
    for name, part in worlds.items():
        advice = advise(part, margin)
        if advice is not None and advice.pick is not None:
            picks[advice.pick.label] += 1
            sentences.append(f"In {name}: choose {advice.pick.label}.")
        elif advice is not None:
            sentences.append(f"In {name}: no recommendation, {advice.reason}.")
    of = amount(len(worlds), "world")
    counts = [f"{choice} is recommended in {count} of {of}." for choice, count in picks.items()]
    summary = counts or ["No choice is recommended in any world."]
    return [*summary, *rankings(worlds), *sentences] if sentences else []


def rankings(worlds: dict[str, Study]) -> list[str]:
    """In how many worlds each choice is better or worse than the baseline, measure by measure.

    Each difference is paired by seed, and counts where it is significant among all of its world (Bonferroni).
    """
    parts = [*worlds.values()]
    known = [{measure.name: measure for measure in with_values(part, hidden=True)} for part in parts]
    nouns = {name: measures[name].noun for name in RANKED for measures in known if name in measures}
    if "time_to_target_s" in nouns:
        nouns.pop("time_s", None)
    choices = dict.fromkeys(group.label for part in parts for group in part.groups if group.label != part.baseline)
    lines, unclear = [], []
    for choice in choices:
        said = []
        for name, noun in nouns.items():
            verdicts = _by_world(worlds, choice, [measures.get(name) for measures in known])
            said += [f"{noun} {text}"] if (text := _verdicts(dict(verdicts), len(worlds))) else []
        if said:
            lines.append(f"{choice} against {parts[0].baseline}: {', '.join(said)}.")
        else:
            unclear.append(choice)
    if unclear and nouns:
        of = ", ".join(nouns.values())
        lines.append(f"Undecided against {parts[0].baseline} in every world ({of}): {', '.join(unclear)}.")
    level = f"{100 * (1 - CONFIDENCE):g} %"
    note = f"A world counts where the difference, paired by seed, is significant among all of that world ({level})."
    return [*lines, note] if lines else []


def _verdicts(of: Mapping[str, int], worlds: int) -> str:
    """``worse in 2 of 4 (sticky, groups), better in 1 of 4 (trace)``; nothing where nothing is decided."""
    parts = []
    for verdict, word in VERDICTS.items():
        names = [name for name, it in of.items() if it == verdict]
        if names:
            where = "" if len(names) == worlds else f" ({', '.join(names)})"
            parts.append(f"{word} in {len(names)} of {worlds}{where}")
    return ", ".join(parts)


def _by_world(
    worlds: dict[str, Study], choice: str, measures: Sequence[StudyMeasure | None]
) -> Iterator[tuple[str, int]]:
    """The verdict on a choice in each world that has it, by the world's own measure."""
    for (name, part), measure in zip(worlds.items(), measures, strict=True):
        group = next((each for each in part.groups if each.label == choice), None)
        if group is None or measure is None:
            continue
        if effect := compare_with_baseline(measure, group, part.group(part.baseline), family_level(part)):
            yield name, effect.verdict

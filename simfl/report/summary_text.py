"""What happened, in sentences computed from the numbers, where there is nothing to choose."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from simfl.core.certificate_words import IF_ONLY_SUMS, RECONSTRUCTABLE, WORST, basis
from simfl.core.errors import amount
from simfl.core.payload import SAMPLES, UPDATE
from simfl.experiments.compare.differences import HIDES
from simfl.report.advice import family_level
from simfl.report.guarantee_bounds import AS_FAR, GuaranteeBounds, least, weak_bounds
from simfl.report.measures import StudyMeasure, compare_with_baseline, measures, with_values
from simfl.report.study import Group, Run, Study


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
            noun = known[name].noun + " of the rounds played" * (name == "privacy_semi_strong")
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
    ranked = study.comparable and len(study.by_world) == 1
    return f"{text} (best mean: {high if measure.better > 0 else low})" if ranked else text


COSTS = ("test_accuracy", "time_to_target_s", "time_s", "bytes")
MOST = 16
"""Groups that are told of one by one."""
CLOSE_DB, CLEAR_DB = 1.0, 6.0
"""Decibels above the mean sample below which nothing is recovered, and from which on a sample is."""

Known = Mapping[str, StudyMeasure]


class AttackSummary(NamedTuple):
    """What attacks found: a sentence; by group, the most open first, its label, what was recovered, and the costs."""

    lead: str
    items: tuple[tuple[str, str, str], ...] = ()


def attack_summary(study: Study) -> AttackSummary | None:
    """Words computed from the numbers; None where no run was attacked."""
    known = {measure.name: measure for measure in with_values(study)}
    recovered = {group.label: words for group in study.groups if (words := _recovers(group, known))}
    if not recovered:
        return None
    if study.single:
        return AttackSummary(f"An honest-but-curious server recovers {next(iter(recovered.values()))}.")
    groups = [group for group in study.groups if group.label in recovered]
    open_ = None
    if (error := known.get("recovery_error")) is not None:
        groups.sort(key=lambda group: error.over(group).estimate)
        open_ = groups[0]
    lead = "What an honest-but-curious server recovers under each configuration"
    lead += f", and what protecting costs against {open_.label}:" if open_ and len(groups) > 1 else ":"
    items = [(g.label, f"{recovered[g.label]}.", _costs(study, known, open_, g)) for g in groups[:MOST]]
    if len(groups) > MOST:
        items.append(("Others", "in the table.", ""))
    return AttackSummary(lead, tuple(items))


def _recovers(group: Group, known: Known) -> str:
    """What is recovered under one group."""

    def value(name: str) -> float | None:
        mean = known[name].over(group).estimate if name in known else float("nan")
        return None if mean != mean else mean

    parts = []
    if (error := value("recovery_error")) is not None:
        parts.append(_updates(error, value("recovered_clients") or 0.0))
    if (psnr := value("inversion_psnr")) is not None:
        guesses = [guess for run in group.runs if (guess := run.finals.get("inversion_guess_psnr")) is not None]
        parts.append(_samples(psnr, sum(guesses) / len(guesses)) if guesses else f"samples at {psnr:.0f} dB")
    if (auc := value("membership_auc")) is not None:
        parts.append(f"who was trained on with an area under the curve of {auc:.2f} (guessing: 0.5)")
    return "; ".join(parts)


def _updates(error: float, share: float) -> str:
    if share == 1:
        return "every client's update" + ("" if error < 1e-6 else f", with a squared error of {error:.2g}")
    some = f" ({100 * share:.0f}\u202f% of the clients below 0.1)" if share else ""
    if error >= 1:
        return f"updates no better than by guessing nothing, squared error {error:.2g}{some}"
    return f"updates with a squared error of {error:.2g}{some}"


def _samples(psnr: float, guess: float) -> str:
    above = psnr - guess
    if above < CLOSE_DB:
        return "no sample better than the mean sample"
    what = "samples" if above >= CLEAR_DB else "traces of samples"
    return f"{what}, {above:.0f} dB above the mean sample"


def _costs(study: Study, known: Known, open_: Group | None, group: Group) -> str:
    """What a group costs against the most open one."""
    if open_ is None or open_ is group:
        return ""
    level = family_level(study)
    changes = [c for name in COSTS if name in known and (c := compare_with_baseline(known[name], group, open_, level))]
    worse, better, unsettled = ([c.words for c in changes if c.verdict == sign] for sign in (-1, 1, 0))
    said = f"Costs {enumerate_words(worse)}" if worse else "Costs nothing significant"
    said += f", and brings {enumerate_words(better)}." if better else "."
    return said + (f" Not significant: {enumerate_words(unsettled)}." if unsettled else "")


def enumerate_words(words: Iterable[str]) -> str:
    """``a, b and c``"""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


SUMMED = (UPDATE.name, SAMPLES.name)
"""Parts that sums hide, where there is secure aggregation."""


def describe_masking(study: Study) -> list[str]:
    """What secure aggregation has given and cost the first group, in sentences; none where its runs had none."""
    group = study.groups[0]
    known = {m.name: m for m in measures(study) if all(m.of(run) is not None for run in group.runs)}
    if HIDES not in known or "clear_bytes" not in known:
        return []

    def mean(name: str) -> float:
        return known[name].over(group).estimate if name in known else 0.0

    def words(name: str, value: float) -> str:
        return known[name].scale([value]).quantity(value)

    total, clear = mean("bytes"), mean("clear_bytes")
    each = "" if len(group.runs) == 1 else " on average"
    overlap = "; phases of several units overlap" if group.first.jobs is not None else ""
    moved, phases_took = words("bytes", total), words("secagg_s", mean("secagg_s"))
    clearly = f"the {words('bytes', clear)} that the same models and updates take in clear"
    beyond = f", {total / clear:.3g} times {clearly}" if clear else ""
    sentences = [
        _summed_guarantee(group),
        f"It moved {moved}{each}{beyond}. Its own phases took {phases_took} in all{overlap}; how much earlier "
        "plain would have ended, a comparison with secagg=plain tells.",
    ]
    losses = [f"{words(name, mean(name))} {what}" for name, what in (
        ("secagg_failed", "sums, or preparations of units, failed"), ("clipped", "coordinates were clipped"),
        ("wrapped", "coordinates of sums wrapped around")) if mean(name)]  # fmt: skip
    return [*sentences, f"{'; '.join(losses)}."] if losses else sentences


def in_clear(study: Study) -> list[str]:
    """What the server sees beside sums: every update, where others have secure aggregation; and what else is sent."""
    sentences = []
    for group in study.groups:
        sent = {name for run in group.runs for name in run.summary.get("in_clear") or () if name not in SUMMED}
        if sent:
            what = f"In {group.label} each client also sends {' and '.join(sorted(sent))}"
            sentences.append(f"{what}: nobody hides among others there, whatever is summed.")
    open_ = [group.label for group in study.groups if not group.hides]
    if open_ and any(HIDES in run.finals for run in study.runs):
        assumed = [g.label for g in study.groups if not g.hides and any(run.takes_sums_for_granted for run in g.runs)]
        if seen := [label for label in open_ if label not in assumed]:
            sentences.append(f"Without secure aggregation ({', '.join(seen)}) the server sees every update.")
        if assumed:
            sentences.append(f"Of {', '.join(assumed)} guarantees are given {IF_ONLY_SUMS}, which no protocol sees to.")
    return sentences


def _summed_guarantee(group: Group) -> str:
    """Whether the guarantee that theory gives holds of what the server saw.

    What the server can do is said of upper bounds, what it cannot of lower ones. Theory's T is a lower bound itself.
    """
    choice = group.first.scenario.get("secagg", {})
    name = choice.get("name", "") if isinstance(choice, dict) else str(choice)
    if more := sorted({what for run in group.runs for what in run.summary.get("beside_sums") or ()}):
        return f"The server saw more than sums ({name}), so that no multi-round guarantee holds: {'; '.join(more)}."
    saw = f"The server saw sums only ({name})"
    promised = [run.finals.get("guarantee_weak") for run in group.runs]
    T = min((value for value in promised if value is not None), default=0.0) if None not in promised else 0.0
    seen = [bounds for bounds in map(weak_bounds, group.runs) if bounds is not None]
    if len(seen) < len(group.runs):
        theory = f"; theory promises the multi-round guarantee T = {T:g}, and what they give away" if T > 1 else ""
        return f"{saw}{theory or '; what they give away in several rounds'} was not computed."
    smallest = least(seen)
    if T <= 1:
        none = "but the policy promises no" if T else "and theory knows no"
        return f"{saw}, {none} multi-round guarantee: {_reach(smallest)}."
    guarantee = f"the multi-round guarantee T = {T:g}"
    if smallest.upper < T:
        return f"{saw}, but {guarantee} does not hold: {DOWN.format('something')} fewer than {T:g} clients."
    if smallest.lower < T:
        return f"{saw}, theory promises {guarantee}, and nothing that was computed contradicts it: {_reach(smallest)}."
    ever = "now or later" if smallest.lower == T else f"and never to fewer than {T:g}"
    return f"{saw}, and {guarantee} holds: {DOWN.format('nothing')} fewer than {smallest.lower:g} clients, {ever}."


DOWN = f"{WORST}, combining all sums, it can narrow {{}} down to"


def _reach(smallest: GuaranteeBounds) -> str:
    """Down to how few clients the server can narrow something."""
    if smallest.upper <= 1:
        return f"{DOWN.format('something')} 1 client"
    if smallest.exact:
        return f"{DOWN.format('nothing')} fewer than {smallest.lower:g} clients"
    return f"the smallest sum that it gets by combining all, {WORST}, contains {smallest.clients}, {AS_FAR}"

"""What an honest-but-curious server would recover, and what protecting against it costs, in words."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from simfl.report.advice import family_level
from simfl.report.measure_change import compare_with_baseline
from simfl.report.measures import StudyMeasure, with_values
from simfl.report.study import Group, Study

COSTS = ("test_accuracy", "time_to_target_s", "time_s", "bytes")
MOST = 16
"""Groups that are told of one by one."""
CLOSE_DB, CLEAR_DB = 1.0, 6.0
"""Decibels above the mean sample below which nothing is recovered, and from which on a sample is."""

Known = Mapping[str, StudyMeasure]


class AttackSummary(NamedTuple):
    """What attacks found: a sentence, and of each group its label, what is recovered, and what hiding it costs; the
    most open group first.
    """

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
    worse, better = ([c.words for c in changes if c.verdict == sign] for sign in (-1, 1))
    said = f"Costs {enumerate_words(worse)}" if worse else "Costs nothing significant"
    return said + (f", and brings {enumerate_words(better)}." if better else ".")


def enumerate_words(words: Iterable[str]) -> str:
    """``a, b and c``"""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last

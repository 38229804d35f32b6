"""A comparison: the same seeds, hence the same draws, for every choice; differences pair by pair."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from simfl.columns import Column, document, telling, unknown
from simfl.compare.beside_plain import BESIDE, beside_plain
from simfl.compare.budgets import BUDGETS, Course, affordable
from simfl.compare.differences import DIFFERENCES, MEANS, Measured, differences, means, metrics
from simfl.compare.intervals import CONFIDENCE
from simfl.compare.measures import common_target, measures, to_target
from simfl.disk import locked
from simfl.errors import SimflError, suggestion
from simfl.stored import Stored, write_contents
from simfl.sweep import folders
from simfl.sweep.grid import Axis, combinations
from simfl.sweep.index import Index
from simfl.sweep.plan import DIGEST_DIGITS, Plan
from simfl.sweep.playing import SHARED, How, Watch, play

__all__ = ["Choice", "Comparison", "choices", "compare"]

PREFIX = "compare-"


@dataclass
class Choice:
    """One of the things compared.

    Attributes:
        label: its values, ``random`` or ``random / fedavg``.
        values: by key.
        runs: digest of each seed's run.
        results: numbers of each seed's run that is complete.
        known: what describes them.
        courses: each of these runs round by round.
    """

    label: str
    values: dict[str, str]
    runs: dict[int, str] = field(default_factory=dict)
    results: dict[int, dict[str, float]] = field(default_factory=dict)
    known: dict[str, Column] = field(default_factory=dict)
    courses: dict[int, Course] = field(default_factory=dict)

    def diverged(self, seed: int) -> int | None:
        """The round at which a seed's run diverged, if it did."""
        found = self.results.get(seed, {}).get("diverged_round")
        return None if found is None else int(found)


@dataclass(frozen=True)
class Comparison:
    """A finished comparison.

    Attributes:
        path: its folder.
        document: the content of ``comparison.json``.
        index: the state of its runs.
    """

    path: Path
    document: dict[str, Any]
    index: Index


def choices(axes: Sequence[Axis]) -> list[Choice]:
    """What is compared: the product of the keys with several values, in the order given; seeds are no choice.

    Raises:
        SimflError: there is nothing to compare.
    """
    compared = [axis for axis in axes if axis.key != "seed" and len(axis.values) > 1]
    if not compared:
        raise SimflError("nothing to compare: give a key several values, e.g. selection=random,weighted")
    keys = [axis.key for axis in compared]
    return [Choice(" / ".join(values), dict(zip(keys, values, strict=True))) for values in combinations(compared)]


def compare(
    plan: Plan,
    out: Path,
    how: How,
    baseline: str | None = None,
    target_accuracy: float | None = None,
    watch: Watch | None = None,
) -> Comparison:
    """Plays what is missing and writes ``comparison.csv``, ``paired.csv``, ``equal.csv``, ``equal_paired.csv``,
    ``comparison.json`` and, with secure aggregation beside plain, ``beside_plain.csv``.

    Args:
        plan: the choices and their replications.
        out: root of all results; the comparison lies in ``out/<name>/compare-<digest>/``.
        how: how the runs are played.
        baseline: label of the choice that the others are subtracted from; default: the first.
        target_accuracy: for time, rounds and bytes to it; default: see :func:`simfl.compare.measures.common_target`.
        watch: called whenever a run has begun or ended.

    Raises:
        SimflError: there is nothing to compare, or no choice of the baseline's label.
    """
    compared = choices(plan.axes)
    baseline = baseline or compared[0].label
    folder = folder_of(plan, out, baseline, target_accuracy)
    index = play(plan, out, folder, how, watch)
    used = _collect(compared, plan, index, target_accuracy)
    document = _document(plan, compared, index, baseline, used)
    document["digest"] = folder.name.removeprefix(PREFIX)
    files = {"comparison.csv": _csv(MEANS, document["means"]), "paired.csv": _csv(DIFFERENCES, document["paired"])}
    for name, columns, part in (("equal.csv", MEANS, "means"), ("equal_paired.csv", DIFFERENCES, "paired")):
        rows = [{"budget": at["budget"], "value": at["value"], **row} for at in document["equal"] for row in at[part]]
        files[name] = _csv(("budget", "value", *columns), rows)
    if document["beside_plain"]:
        files["beside_plain.csv"] = _csv(BESIDE, document["beside_plain"])
    files["comparison.json"] = (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
    with locked(folder / SHARED):
        write_contents(folder, files)
    return Comparison(folder, document, index)


def folder_of(plan: Plan, out: Path, baseline: str | None, target_accuracy: float | None) -> Path:
    """The folder of a comparison; arguments as for :func:`compare`.

    Raises:
        SimflError: there is nothing to compare, or no choice of the baseline's label.
    """
    labels = [choice.label for choice in choices(plan.axes)]
    if baseline is not None and baseline not in labels:
        hint = suggestion(baseline, labels) or f"; there are {', '.join(labels)}"
        raise SimflError(f"baseline: {baseline!r} is not compared{hint}")
    options = json.dumps([plan.digest, baseline or labels[0], target_accuracy])
    return out / plan.name / f"{PREFIX}{sha256(options.encode()).hexdigest()[:DIGEST_DIGITS]}"


def _collect(compared: list[Choice], plan: Plan, index: Index, target: float | None) -> float | None:
    """Fills in runs and results; the target accuracy used."""
    done = [member.digest for member in plan.members if index.status(member.digest) == folders.DONE]
    stored = {digest: Stored.open(index.runs / digest) for digest in done}
    used = common_target(run.summary for run in stored.values()) if target is None else target
    keys = [axis.key for axis in plan.axes]
    for member in plan.members:
        values = dict(zip(keys, member.values, strict=True)).items()
        choice = next(choice for choice in compared if choice.values.items() <= values)
        choice.runs[member.seed] = member.digest
        if member.digest in stored:
            found = measures(stored[member.digest].summary)
            known = stored[member.digest].columns()
            choice.known |= known
            choice.courses[member.seed] = Course.read(stored[member.digest].file("rounds.csv"), known.values())
            if used is not None:
                found |= to_target(stored[member.digest].file("rounds.csv"), used)
            choice.results[member.seed] = found
    return used


def _document(plan: Plan, compared: list[Choice], index: Index, baseline: str, target: float | None) -> dict[str, Any]:
    return {
        "name": plan.name,
        "file": plan.file,
        "keys": {axis.key: list(axis.values) for axis in plan.axes},
        "seeds": sorted({member.seed for member in plan.members}),
        "baseline": baseline,
        "target_accuracy": target,
        "confidence": CONFIDENCE,
        "columns": document(_columns(compared)),
        "choices": [
            {
                "choice": choice.label,
                "values": choice.values,
                "runs": [
                    {
                        "seed": seed,
                        "digest": digest,
                        "status": index.status(digest),
                        "diverged_round": choice.diverged(seed),
                    }
                    for seed, digest in sorted(choice.runs.items())
                ],
            }
            for choice in compared
        ],
        **_tables({choice.label: choice.results for choice in compared}, baseline),
        "equal": list(_equal(compared, baseline)),
        "beside_plain": beside_plain({choice.label: (choice.values, choice.results) for choice in compared}),
    }


def _tables(found: dict[str, Measured], baseline: str) -> dict[str, Any]:
    """Means and paired differences of what was measured, by choice."""
    others = [(label, results) for label, results in found.items() if label != baseline]
    return {
        "means": [row for label, results in found.items() for row in means(label, results)],
        "paired": [row for label, own in others for row in differences(label, own, baseline, found[baseline])],
    }


def _equal(compared: list[Choice], baseline: str) -> Iterator[dict[str, Any]]:
    """The same when all runs had spent the same, budget by budget."""
    budgets = affordable(course for choice in compared for course in choice.courses.values())
    at = {choice.label: {seed: course.at(budgets) for seed, course in choice.courses.items()} for choice in compared}
    for budget, value in budgets.items():
        found: dict[str, Measured] = {
            label: {seed: numbers[budget] for seed, numbers in seeds.items()} for label, seeds in at.items()
        }
        yield {"budget": budget, "column": BUDGETS[budget], "value": value, **_tables(found, baseline)}


def _columns(compared: Sequence[Choice]) -> list[Column]:
    """Every metric that some run has, the most telling first."""
    known = {name: column for choice in compared for name, column in choice.known.items()}
    found = dict.fromkeys(metrics(choice.results for choice in compared))
    if any(choice.courses for choice in compared):
        found |= dict.fromkeys(BUDGETS.values())
    return telling(known.get(name) or unknown(name) for name in found)


def _csv(columns: Sequence[str], rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()

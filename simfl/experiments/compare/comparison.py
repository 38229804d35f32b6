"""A comparison: the same seeds, hence the same draws, for every configuration; differences pair by pair."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

from simfl.core.certificate_words import assumptions, comparable, promises, unite_columns
from simfl.core.column_files import document
from simfl.core.columns import Column, order_columns, unknown
from simfl.core.errors import SimflError, suggestion
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import file_lock
from simfl.experiments.compare.differences import (
    BESIDE,
    DIFFERENCES,
    MEANS,
    Measured,
    collapses,
    differences,
    far_values,
    means,
    metrics,
    overhead_rows,
)
from simfl.experiments.compare.intervals import CONFIDENCE
from simfl.experiments.compare.run_numbers import (
    BUDGETS,
    Course,
    affordable,
    baseline_target,
    measures_of,
    target_text,
    to_target,
    without_infinite,
)
from simfl.experiments.compare.worlds import POOLED, chosen_keys, pooled_rows, world_keys, world_name
from simfl.experiments.sweep.execution import SHARED, How, Index, Watch, execute
from simfl.experiments.sweep.grid import Axis, combinations
from simfl.experiments.sweep.plan import DIGEST_DIGITS, Plan
from simfl.experiments.sweep.task import DONE
from simfl.results.folder import ResultsFolder, write_contents
from simfl.results.tables import table_bytes

PREFIX = "compare-"


@dataclass
class Configuration:
    """One of the things compared.

    Attributes:
        label: its values, ``random`` or ``random / fedavg``.
        values: by key.
        world: the values of its world; empty where all have the same.
        choice: the other values; its name inside its world.
        runs: digest of each seed's run.
        results: numbers of each seed's run that is complete.
        known: what describes them.
        courses: each of these runs round by round.
    """

    label: str
    values: dict[str, str]
    world: str = ""
    choice: str = ""
    runs: dict[int, str] = field(default_factory=dict)
    results: dict[int, dict[str, float]] = field(default_factory=dict)
    known: dict[str, Column] = field(default_factory=dict)
    courses: dict[int, Course] = field(default_factory=dict)

    def divergence_round(self, seed: int) -> int | None:
        """The round at which a seed's run diverged, if it did."""
        round_number = self.results.get(seed, {}).get("diverged_round")
        return None if round_number is None else int(round_number)


@dataclass(frozen=True)
class Comparison:
    """A finished comparison.

    Attributes:
        path: its folder.
        document: the content of ``comparison.json``.
        index: the state of its runs.
    """

    path: Path
    document: JsonObject
    index: Index


def _varying(axes: Sequence[Axis]) -> list[Axis]:
    return [axis for axis in axes if axis.key != "seed" and len(axis.values) > 1]


def configurations(
    axes: Sequence[Axis], world: Collection[str] = (), choice: Collection[str] = ()
) -> list[Configuration]:
    """What is compared: the product of the keys with several values, in the order given; seeds make no configuration.

    Args:
        axes: what varies.
        world, choice: keys that are one or the other, whatever they are called (:func:`world_keys`).

    Raises:
        SimflError: there is nothing to compare, or one of these keys does not vary.
    """
    compared = _varying(axes)
    if not compared:
        raise SimflError("nothing to compare: give a key several values, e.g. selection=random,weighted")
    keys, worlds = [axis.key for axis in compared], world_keys(compared, world, choice)
    result = []
    for values in combinations(compared):
        of = dict(zip(keys, values, strict=True))
        met = world_name({key: of[key] for key in worlds})
        chosen = " / ".join(value for key, value in of.items() if key not in worlds)
        result.append(Configuration(" / ".join(values), of, met, chosen))
    return result


def compare(
    plan: Plan,
    out: Path,
    how: How,
    baseline: str | None = None,
    target_accuracy: float | None = None,
    watch: Watch | None = None,
    world: Collection[str] = (),
    choice: Collection[str] = (),
    at: Mapping[str, float] | None = None,
) -> Comparison:
    """Runs what is missing and writes ``comparison.csv``, ``paired.csv``, ``runs.csv``, ``equal.csv``,
    ``equal_paired.csv``, ``comparison.json``, with several worlds ``pooled.csv`` and, with secure aggregation beside
    plain, ``beside_plain.csv``.

    Args:
        plan: the configurations and their replications.
        out: root of all results; the comparison lies in ``out/<name>/compare-<digest>/``.
        how: how the runs are executed.
        baseline: the choice that the others of the same world are subtracted from; default: the first.
        target_accuracy: for time, rounds and bytes to it; default: see
            :func:`simfl.experiments.compare.run_numbers.baseline_target`.
        watch: called whenever a run has begun or ended.
        world, choice: keys that are one or the other, whatever they are called.
        at: how much had been spent, by budget, where the numbers are compared; default: the most that all runs spent.

    Raises:
        SimflError: there is nothing to compare, or no configuration of the baseline's label.
    """
    compared = configurations(plan.axes, world, choice)
    baseline = _baseline(compared, baseline)
    folder = folder_of(plan, out, baseline, target_accuracy, world, choice, at)
    index = execute(plan, out, folder, how, watch)
    used = _collect(compared, plan, index, target_accuracy, baseline)
    document = _document(plan, compared, index, baseline, used, at or {})
    document["target_rule"] = target_text(baseline) if target_accuracy is None else ""
    document["digest"] = folder.name.removeprefix(PREFIX)
    document["chosen"] = chosen_keys(_varying(plan.axes), world, choice)
    files = {
        "comparison.csv": table_bytes(MEANS, document["means"]),
        "paired.csv": table_bytes(DIFFERENCES, document["paired"]),
    }
    rows = [{"choice": each.label, "seed": seed, "digest": each.runs[seed], **numbers}
            for each in compared for seed, numbers in sorted(each.results.items())]  # fmt: skip
    files["runs.csv"] = table_bytes(list(dict.fromkeys(("choice", "seed", "digest", *chain(*rows)))), rows)
    for name, columns, part in (("equal.csv", MEANS, "means"), ("equal_paired.csv", DIFFERENCES, "paired")):
        rows = [{"budget": at["budget"], "value": at["value"], **row} for at in document["equal"] for row in at[part]]
        files[name] = table_bytes(("budget", "value", *columns), rows)
    if document["pooled"]:
        files["pooled.csv"] = table_bytes(POOLED, document["pooled"])
    if document["beside_plain"]:
        files["beside_plain.csv"] = table_bytes(BESIDE, document["beside_plain"])
    files["comparison.json"] = (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
    with file_lock(folder / SHARED):
        write_contents(folder, files)
    return Comparison(folder, document, index)


def folder_of(
    plan: Plan,
    out: Path,
    baseline: str | None,
    target_accuracy: float | None,
    world: Collection[str] = (),
    choice: Collection[str] = (),
    at: Mapping[str, float] | None = None,
) -> Path:
    """The folder of a comparison; arguments as for :func:`compare`.

    Raises:
        SimflError: there is nothing to compare, or no configuration of the baseline's label.
    """
    options: list[Any] = [plan.digest, _baseline(configurations(plan.axes, world, choice), baseline), target_accuracy]
    budgets = {}
    for budget, value in (at or {}).items():
        if budget not in BUDGETS or not isinstance(value, (int, float)) or not 0 < value < inf:
            raise SimflError(f"at: {budget!r}: {value!r}; give a number above 0 of one of {', '.join(BUDGETS)}")
        budgets[budget] = float(value)
    options += [[*world], [*choice], budgets] * bool(world or choice or at)
    return out / plan.name / f"{PREFIX}{sha256(json.dumps(options).encode()).hexdigest()[:DIGEST_DIGITS]}"


def _baseline(compared: Sequence[Configuration], baseline: str | None) -> str:
    """The choice that others are compared with, of its own name or of a configuration's."""
    names = {configuration.choice: configuration.choice for configuration in compared}
    names |= {configuration.label: configuration.choice for configuration in compared}
    if baseline is not None and baseline not in names:
        hint = suggestion(baseline, list(names)) or f"; there are {', '.join(dict.fromkeys(names.values()))}"
        raise SimflError(f"baseline: {baseline!r} is not compared{hint}")
    return compared[0].choice if baseline is None else names[baseline]


def _collect(
    compared: list[Configuration], plan: Plan, index: Index, target: float | None, baseline: str
) -> float | None:
    """Fills in runs and results; the target accuracy used."""
    done = [member.digest for member in plan.members if index.status(member.digest) == DONE]
    readers = {digest: ResultsFolder.open(index.runs / digest) for digest in done}
    keys = [axis.key for axis in plan.axes]
    for member in plan.members:
        values = dict(zip(keys, member.values, strict=True)).items()
        configuration = next(configuration for configuration in compared if configuration.values.items() <= values)
        configuration.runs[member.seed] = member.digest
    used = target
    if target is None:
        bases = [each.runs.values() for each in compared if each.choice == baseline]
        used = baseline_target([[readers[run].summary for run in runs if run in readers] for runs in bases])
    for configuration in compared:
        for seed, digest in configuration.runs.items():
            if digest not in readers:
                continue
            numbers = measures_of(readers[digest])
            known = readers[digest].columns()
            configuration.known = unite_columns([*configuration.known.values(), *known.values()])
            configuration.courses[seed] = Course.read(readers[digest].file("rounds.csv"), known.values())
            if used is not None:
                numbers |= to_target(readers[digest].file("rounds.csv"), used)
            configuration.results[seed] = numbers
    for configuration in compared:
        configuration.results |= without_infinite(configuration.results, configuration.known)
    return used


def _document(
    plan: Plan,
    compared: list[Configuration],
    index: Index,
    baseline: str,
    target: float | None,
    at: Mapping[str, float],
) -> JsonObject:
    said = _said(compared)
    return {
        "name": plan.name,
        "file": plan.file,
        "keys": {axis.key: list(axis.values) for axis in plan.axes},
        "seeds": sorted({member.seed for member in plan.members}),
        "baseline": baseline,
        "target_accuracy": target,
        "confidence": CONFIDENCE,
        "columns": document(_columns(compared)),
        "choices": [_choice(configuration, index, said) for configuration in compared],
        **_tables(compared, {each.label: each.results for each in compared}, baseline, said),
        "pooled": _effects_over_worlds(compared, baseline, said),
        "equal": list(_equal_budgets(compared, baseline, at)),
        "beside_plain": overhead_rows(
            {configuration.label: (configuration.values, configuration.results) for configuration in compared}
        ),
    }


def _choice(configuration: Configuration, index: Index, said: Mapping[str, Mapping[str, list[str]]]) -> JsonObject:
    """A configuration and its runs."""
    return {
        "choice": configuration.label,
        "world": configuration.world,
        "name": configuration.choice,
        "values": configuration.values,
        "assumes": sorted({each for column in configuration.known.values() for each in assumptions(column)}),
        "against": said[configuration.label],
        "runs": [
            {
                "seed": seed,
                "digest": digest,
                "status": index.status(digest),
                "diverged_round": configuration.divergence_round(seed),
            }
            for seed, digest in sorted(configuration.runs.items())
        ],
    }


def _said(compared: list[Configuration]) -> dict[str, dict[str, list[str]]]:
    """What stands beside each number of each configuration that is a certificate of any."""
    names = {name for each in compared for name in promises(each.known.values())}
    return {each.label: promises(each.known.values(), names) for each in compared}


def _tables(
    compared: Sequence[Configuration],
    results_of: Mapping[str, Measured],
    baseline: str,
    said: Mapping[str, Mapping[str, list[str]]],
) -> JsonObject:
    """Means, and paired differences within each world, by configuration; none of certificates that are unlike."""
    base = {each.world: each.label for each in compared if each.choice == baseline}
    others = [(each.label, base[each.world]) for each in compared if base.get(each.world, each.label) != each.label]
    far = collapses(results_of)
    return {
        "means": means(results_of, far),
        "paired": differences(
            results_of,
            others,
            lambda label, beside, metric: comparable(*(said[each].get(metric, ()) for each in (label, beside))),
            far,
        ),
        "far_values": far_values(results_of, far),
    }


def _effects_over_worlds(
    compared: Sequence[Configuration], baseline: str, said: Mapping[str, Mapping[str, list[str]]]
) -> list[JsonObject]:
    """What each choice changes over all worlds, of metrics that are comparable in each; nothing where there is one."""
    worlds = dict.fromkeys(each.world for each in compared)
    by_place = {(each.world, each.choice): each for each in compared}
    names = dict.fromkeys(each.choice for each in compared if each.choice != baseline)
    if len(worlds) < 2 or len(by_place) < len(worlds) * (len(names) + 1):
        return []
    metric_names = metrics(each.results for each in compared)
    pairs = [
        (name, metric)
        for name in names
        for metric in metric_names
        if all(
            comparable(*(said[by_place[world, each].label].get(metric, ()) for each in (name, baseline)))
            for world in worlds
        )
    ]
    far = collapses({each.label: each.results for each in compared})
    return pooled_rows({place: each.results for place, each in by_place.items()}, baseline, pairs, far)


def _equal_budgets(
    compared: list[Configuration], baseline: str, budget_values: Mapping[str, float]
) -> Iterator[JsonObject]:
    """The same when all runs had spent the same, budget by budget."""
    budgets = affordable(curve for configuration in compared for curve in configuration.courses.values())
    for budget, value in budget_values.items():
        if value > budgets.get(budget, 0.0):
            most = f"at most {budgets[budget]:.10g}" if budget in budgets else "nothing"
            raise SimflError(f"--at {budget}={value:.10g}: all runs have spent {most} of it")
    budgets |= budget_values
    at = [(each, {seed: curve.at(budgets) for seed, curve in each.courses.items()}) for each in compared]
    for budget, value in budgets.items():
        results_of: dict[str, Measured] = {
            each.label: without_infinite({seed: numbers[budget] for seed, numbers in seeds.items()}, each.known)
            for each, seeds in at
        }
        tables = _tables(compared, results_of, baseline, _said(compared))
        yield {
            "budget": budget,
            "column": BUDGETS[budget],
            "value": value,
            "most": budget not in budget_values,
            **tables,
        }


def _columns(compared: Sequence[Configuration]) -> list[Column]:
    """Every metric that some run has, the most telling first."""
    known = unite_columns(column for configuration in compared for column in configuration.known.values())
    metric_names = dict.fromkeys(metrics(configuration.results for configuration in compared))
    if any(configuration.courses for configuration in compared):
        metric_names |= dict.fromkeys(BUDGETS.values())
    return order_columns(known.get(name) or unknown(name) for name in metric_names)

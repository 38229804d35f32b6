"""A search before its first run: everything that can be known to be wrong is said now."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from simfl.core.certificate_words import AND, OR, promises
from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS
from simfl.core.errors import ScenarioError, SimflError
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.experiments.search.objectives import Goal, goal
from simfl.experiments.search.space import SearchParameter, Space, space_of
from simfl.experiments.sweep.plan import DIGEST_DIGITS, Given, Load, source
from simfl.experiments.sweep.stop_rule import By
from simfl.scenario import Scenario
from simfl.scenario.column_owners import plugin_columns, with_bases
from simfl.scenario.yaml.writer import dump

BATCH = 4
"""Runs that are proposed together."""

PROBES = 16
"""Drawn combinations of the other parameters with which each end and each category is tried."""

MOST = 100_000


@dataclass(frozen=True)
class Search:
    """What is searched, for what, and how.

    Attributes:
        file: how the user named the scenario.
        load: the scenario with overrides.
        first: a valid scenario of the space.
        space: what is chosen from.
        goal: what for.
        runs: at most.
        batch: runs that are proposed together; it decides which ones are proposed.
        prune: by what runs are stopped early; None = never.
        own_seeds: whether each run has a seed of its own, so that none shares draws with another.
    """

    file: str
    load: Load
    first: Scenario
    space: Space
    goal: Goal
    runs: int
    batch: int = BATCH
    prune: By | None = None
    own_seeds: bool = False

    @cached_property
    def digest(self) -> str:
        """12 hex digits of all that decides the proposals but the number of runs."""
        text = json.dumps([self.first.digest, self.document()])
        return sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]

    def document(self) -> JsonObject:
        """The search as data, without the number of runs."""
        return {
            "search": {parameter.key: parameter.text for parameter in self.space.parameters},
            "fixed": list(self.space.fixed),
            "maximise": [o.name for o in self.goal.objectives if o.sign > 0],
            "minimise": [o.name for o in self.goal.objectives if o.sign < 0],
            "require": list(map(str, self.goal.requirements)),
            "batch": self.batch,
            "prune": self.prune,
            **({"own_seeds": True} if self.own_seeds else {}),
        }

    def scenario(self, number: int, values: Sequence[str]) -> Scenario:
        """The scenario of a combination of values, as the run of this number.

        Raises:
            ScenarioError: it is invalid.
        """
        space = self.space
        if self.own_seeds:
            space = replace(space, fixed=(*space.fixed, f"seed={self.first.seed + number}"))
        return space_scenario(space, self.load, values)

    def to_yaml(self) -> str:
        """The content of the search's ``sweep.yaml``."""
        return dump({"name": self.first.name, "file": self.file, **self.document(), "runs": self.runs})


def prepare(
    scenario: Given,
    space: Iterable[str] | Mapping[str, object],
    maximise: Sequence[str],
    minimise: Sequence[str],
    require: Sequence[str],
    runs: int,
    batch: int = BATCH,
    prune: By | None = None,
    plugins: Sequence[Path] = (),
    own_seeds: bool = False,
) -> Search:
    """A search whose space, goal and numbers fit its scenario.

    Raises:
        SimflError: something does not, in a line.
    """
    for name, number in (("runs", runs), ("batch", batch)):
        if not 1 <= number <= MOST:
            raise SimflError(f"{name}: from 1 to {MOST} (got {number})")
    file, load = source(scenario, plugins)
    resolved, valid = _resolve(space_of(space), load)
    first = valid[0]
    wanted = goal(maximise, minimise, require, first)
    _check_pruning(wanted, prune, first)
    _check_certificates(wanted, valid)
    return Search(file, load, first, resolved, wanted, runs, batch, prune, own_seeds)


def _check_certificates(wanted: Goal, scenarios: Sequence[Scenario]) -> None:
    """Every certificate of the goal says the same in the whole space; a larger delta makes any epsilon smaller."""
    said = []
    for each in scenarios:
        bases = promises(with_bases(each, (*ROUND_COLUMNS, *plugin_columns(each), *SUMMARY_COLUMNS)))
        noisy = each.secagg.certificate or any(stage.observer for stage in each.privacy.stages)
        said.append({name: clauses for name, clauses in bases.items() if noisy or "epsilon" not in name})
    for name in wanted.names:
        several = sorted({AND.join(each[name]) for each in said if name in each})
        if len(several) > 1:
            raise SimflError(f"{name}: in the space it is {OR.join(several)}; these cannot be compared")


def _check_pruning(wanted: Goal, prune: By | None, scenario: Scenario) -> None:
    if prune is None:
        return
    if prune not in ("rounds", "time"):
        raise SimflError(f"prune: rounds or time (got {prune})")
    if len(wanted.objectives) > 1:
        raise SimflError("prune: runs are stopped early by one objective, not by several")
    metric = wanted.objectives[0].name
    rows = {column.name for column in (*ROUND_COLUMNS, *plugin_columns(scenario)) if column.name != "time_s"}
    if metric not in rows:
        raise SimflError(f"prune: {metric} is not known during a run; runs are stopped by a column of rounds.csv")


def _resolve(space: Space, load: Load) -> tuple[Space, list[Scenario]]:
    """The space, ranges of whole numbers for keys that take no others; and a valid scenario for each end and category.

    Raises:
        SimflError: an end or a category is valid with no combination of the others.
    """
    scenarios = []
    for place, parameter in enumerate(space.parameters):
        for value in (parameter.values()[0], parameter.values()[-1]) if not parameter.choices else parameter.choices:
            valid = _valid(space, load, place, value)
            if isinstance(valid, ScenarioError):
                raise SimflError(_message(parameter, valid))
            scenarios.append(valid)
    whole = [_whole(space, load, place) for place in range(len(space.parameters))]
    return replace(space, parameters=tuple(whole)), scenarios


def _whole(space: Space, load: Load, place: int) -> SearchParameter:
    parameter = space.parameters[place]
    if parameter.choices or parameter.step or not (parameter.low.is_integer() and parameter.high.is_integer()):
        return parameter
    fraction = _valid(space, load, place, str(parameter.low + 0.5))
    return replace(parameter, step=1.0) if isinstance(fraction, ScenarioError) else parameter


def _valid(space: Space, load: Load, place: int, value: str) -> Scenario | ScenarioError:
    """A valid scenario with one value of one parameter, or what is wrong with the first that was tried."""
    problem: ScenarioError | None = None
    for probe in range(PROBES):
        rng = Streams(0)("search_probe", place, probe)
        combination = [values[int(rng.integers(len(values)))] for values in (p.values() for p in space.parameters)]
        combination[place] = value
        try:
            return space_scenario(space, load, combination)
        except ScenarioError as error:
            problem = problem or error
    assert problem is not None
    return problem


def space_scenario(space: Space, load: Load, values: Sequence[str]) -> Scenario:
    """The scenario of a combination of values.

    Raises:
        ScenarioError: it is invalid.
    """
    scenario = load(space.overrides(values))
    try:
        return scenario if scenario.digest else scenario
    except ScenarioError as error:  # a data file
        raise scenario.locate(error) from None


def _message(parameter: SearchParameter, error: ScenarioError) -> str:
    line = str(error).split("\n")[0]
    if parameter.choices or "unknown key" in line:
        return line
    return f"{parameter.key}={parameter.text}: the range does not fit: {line.partition(': ')[2]}"

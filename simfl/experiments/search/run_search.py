"""Runs a search: batches of proposals, each executed as a sweep.

The memory of a search are its runs' folders. A search that was interrupted proposes the same runs again from the start,
finds those that are complete, and goes on with the first that is not. ``optuna.log`` is a copy for Optuna's own tools.
"""

import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simfl.core.errors import ScenarioError, SimflError, amount
from simfl.core.storage.disk import file_lock, make_folder, refuse_link
from simfl.experiments.compare.run_numbers import measures_of
from simfl.experiments.search.all_runs import OF_TEST, Together, together
from simfl.experiments.search.objectives import EMPTY, Trial, best, nearest, trials_csv
from simfl.experiments.search.preparation import Search
from simfl.experiments.search.proposals import Proposer
from simfl.experiments.sweep.execution import SHARED, Counts, How, Index, Watch, execute
from simfl.experiments.sweep.grid import Axis
from simfl.experiments.sweep.plan import Member, Plan, order
from simfl.experiments.sweep.plugin_pickling import pack
from simfl.experiments.sweep.stop_rule import StopRule, median_rule, rounds_so_far
from simfl.experiments.sweep.task import DONE, FAILED, PRUNED
from simfl.results.file_names import FAILURE
from simfl.results.folder import ResultsFolder, write_contents
from simfl.scenario import Scenario
from simfl.scenario.digest import foreign_plugins

if TYPE_CHECKING:
    from optuna.trial import Trial as Proposal


PREFIX = "search-"
STUDY = "optuna.log"


ENOUGH_EMPTY = 4
"""Runs without a value of the objective, none with one, after which it is given up; a single one may have diverged."""


class SearchPlan(Plan):
    """The runs of a search so far, as a sweep executes them."""

    def to_yaml(self) -> str:
        return str(self.base["definition"])


@dataclass(frozen=True)
class FinishedSearch:
    """A search that is over.

    Attributes:
        path: its folder.
        trials: every run, by number.
        exhausted: whether every combination of the space was run.
        together: what all of them give away; None where no run says an epsilon.
    """

    path: Path
    trials: tuple[Trial, ...]
    exhausted: bool
    together: Together | None = None


def folder_of(search: Search, out: Path) -> Path:
    """The folder of a search; more runs of the same search go on in the same folder."""
    return out / search.first.name / f"{PREFIX}{search.digest}"


def search(definition: Search, out: Path, how: How, watch: Watch | None = None) -> FinishedSearch:
    """Runs a search, or goes on with it.

    Args:
        definition: what is searched.
        out: root of all results; the search's own files lie in ``out/<name>/search-<digest>/``.
        how: how the runs are executed.
        watch: called whenever a run has begun or ended.

    Raises:
        MissingError: optuna is not installed.
        BusyError: another process is running the same search.
        SimflError: no run has a value of an objective, or proposals are impossible one after another.
    """
    if how.shard != (1, 1):
        raise SimflError("shard: a search learns from all of its runs; it has no shards")
    folder = folder_of(definition, out)
    running = _Running(definition, out, folder, how, watch)
    make_folder(folder, out)
    with file_lock(folder / ".lock-search", f"{folder}: another process is running this search"):
        try:
            while len(running.trials) < definition.runs and not running.proposer.exhausted:
                running.batch()
        finally:
            for slot in running.how.slots or ():
                slot.close()
        _write_study(running.proposer, folder)
        if every_run := running.together():
            with file_lock(folder / SHARED):
                write_contents(folder, {"together.json": json.dumps(every_run.facts, indent=2).encode()})
    return FinishedSearch(folder, tuple(running.trials), running.proposer.exhausted, every_run)


class _Running:
    """A search at work."""

    def __init__(self, definition: Search, out: Path, folder: Path, how: How, watch: Watch | None) -> None:
        self.definition, self.out, self.folder, self.watch = definition, out, folder, watch
        self.how = replace(how, slots=[], retry_failed=False)
        self.retry_failed = how.retry_failed
        self.proposer = Proposer(definition.space, definition.goal, definition.first.seed)
        self.trials: list[Trial] = []
        self.members: list[Member] = []
        self.rules: dict[str, StopRule] = {}
        self.foreign: set[type] = set()

    def batch(self) -> None:
        """Proposes some runs, executes them and tells what came of them."""
        size = min(self.definition.batch, self.definition.runs - len(self.trials))
        rule = self.rule()
        proposed: list[tuple[Proposal, Member]] = []
        while len(proposed) < size and (one := self.propose()) is not None:
            proposed.append(one)
            self.members.append(one[1])
            if rule is not None:
                self.rules[one[1].digest] = rule
            if self.retry_failed:  # once: later batches leave it as it is
                (self.out / self.definition.first.name / one[1].digest / FAILURE).unlink(missing_ok=True)
        how = replace(self.how, stop=self.rules)
        index = execute(self.plan(), self.out, self.folder, how, None if self.watch is None else self.tell_progress)
        for proposal, member in proposed:
            self.trials.append(trial := self.trial(index, member))
            self.tell(proposal, trial)
        self.refuse_without_values()
        with file_lock(self.folder / SHARED):
            write_contents(
                self.folder, {"search.csv": trials_csv(self.definition.space, self.definition.goal, self.trials)}
            )

    def propose(self) -> "tuple[Proposal, Member] | None":
        """A run that was not proposed before; None where there is none left."""
        problem = ""
        try:
            for proposal, values in self.proposer.proposals():
                try:
                    scenario: Scenario = self.definition.scenario(len(self.members), values)
                except ScenarioError as error:
                    problem = str(error).split("\n")[0]
                    self.proposer.refuse(proposal)
                    continue
                if scenario.digest in {member.digest for member in self.members}:
                    self.proposer.refuse(proposal)
                    continue
                self.foreign.update(foreign_plugins(scenario))
                return proposal, Member(values, scenario.seed, scenario.digest, scenario.to_yaml())
        except SimflError as error:
            raise SimflError(f"{error}; the last problem: {problem}" if problem else str(error)) from None
        return None

    def plan(self) -> SearchPlan:
        """All runs so far."""
        keys = [parameter.key for parameter in self.definition.space.parameters]
        values = zip(*(member.values for member in self.members), strict=True)
        axes = tuple(Axis(key, tuple(dict.fromkeys(column))) for key, column in zip(keys, values, strict=True))
        members = tuple(sorted(self.members, key=lambda member: (*map(order, member.values), member.seed)))
        first = self.definition.first
        base = {"definition": self.definition.to_yaml()}
        folder = first.source.folder.resolve()
        return SearchPlan(first.name, self.definition.file, folder, axes, 1, members, pack(self.foreign), base)

    def rule(self) -> StopRule | None:
        """When runs of the next batch are stopped early."""
        if self.definition.prune is None:
            return None
        objective, runs = self.definition.goal.objectives[0], self.out / self.definition.first.name
        histories = [rounds_so_far(runs / trial.digest, objective.name) for trial in self.trials if trial.state == DONE]
        return median_rule(objective.name, objective.sign, self.definition.prune, histories)

    def trial(self, index: Index, member: Member) -> Trial:
        """What became of a run."""
        number, folder, goal = len(self.trials), index.runs / member.digest, self.definition.goal
        rule = self.rules.get(member.digest)
        if rule is not None and (end := rule.find_stop(folder)) is not None:
            note = f"stopped after {end.rounds} rounds, {end.time_s:g} s, at {end.value:g}"
            return Trial(number, member.values, member.digest, PRUNED, note=note)
        if index.status(member.digest) != DONE:
            return Trial(number, member.values, member.digest, FAILED, note=index.error(member.digest) or "")
        results = ResultsFolder.open(folder)
        numbers, diverged = measures_of(results), results.summary.get("diverged_round")
        numbers = {name: numbers[name] for name in goal.names if name in numbers}
        empty = any(objective.value(numbers) is None for objective in goal.objectives)
        violations = tuple(requirement.violation(numbers) for requirement in goal.requirements)
        note = "" if diverged is None else f"diverged at round {diverged}"  # its values are of chance
        state = EMPTY if empty or note else DONE
        return Trial(number, member.values, member.digest, state, numbers, violations, note)

    def tell(self, proposal: "Proposal", trial: Trial) -> None:
        """Tells Optuna; of a run that was stopped early, that it was worse than others."""
        if trial.state == DONE:
            values = [trial.numbers[objective.name] for objective in self.definition.goal.objectives]
            self.proposer.tell(proposal, values, trial.violations)
        elif trial.state == PRUNED:
            rule = self.rules[trial.digest]
            end = rule.find_stop(self.out / self.definition.first.name / trial.digest)
            assert end is not None and end.value is not None, "it was stopped by its value"
            self.proposer.prune(proposal, end.rounds, end.value, [0.0] * len(self.definition.goal.requirements))
        else:
            self.proposer.refuse(proposal)

    def refuse_without_values(self) -> None:
        states = {trial.state for trial in self.trials}
        enough = min(ENOUGH_EMPTY, self.definition.runs, self.definition.space.size or ENOUGH_EMPTY)
        if states == {EMPTY} and len(self.trials) >= enough:
            objectives = self.definition.goal.objectives
            missing = [o.name for o in objectives if all(o.value(trial.numbers) is None for trial in self.trials)]
            why = "its scenario does not measure it, or every run has diverged, or has an infinite one"
            if missing:
                raise SimflError(f"{missing[0]}: no run has a finite value of it; {why}")

    def together(self) -> Together | None:
        """What all runs give away."""
        ended = [trial for trial in self.trials if trial.state in (DONE, EMPTY)]
        runs = self.out / self.definition.first.name
        scenarios = ((self.definition.scenario(trial.number, trial.values), runs / trial.digest) for trial in ended)
        return together(scenarios, len(self.trials) - len(ended), self.definition.goal.names)

    def tell_progress(self, now: Counts) -> None:
        if self.watch is not None:
            self.watch(replace(now, total=self.definition.runs))


def _write_study(proposer: Proposer, folder: Path) -> None:
    """A copy of the study for Optuna's own tools, e.g. its dashboard."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    refuse_link(folder / STUDY)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".study-") as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = os.path.join(scratch, STUDY)
        storage = JournalStorage(JournalFileBackend(path, lock_obj=JournalFileOpenLock(path)))
        optuna.copy_study(
            from_study_name="simfl", from_storage=proposer.storage, to_storage=storage, to_study_name="simfl"
        )
        os.replace(path, folder / STUDY)


def summary_line(definition: Search, trials: Sequence[Trial]) -> str:
    """In a line, what was found; or which run is nearest to meeting the requirements."""
    keys = [parameter.key for parameter in definition.space.parameters]
    chosen = best(definition.goal, trials)
    near = nearest(trials)
    if chosen or near is None:
        one = chosen[0] if chosen else None
        if one is None:
            return "no run is complete"
        more = f", and {len(chosen) - 1} more on the Pareto front" if len(chosen) > 1 else ""
        return f"best: {_in_words(definition, keys, one)}{more}"
    required = ", ".join(map(str, definition.goal.requirements))
    return f"no run meets {required}; the nearest: {_in_words(definition, keys, near)}"


def choice_line(definition: Search, trials: Sequence[Trial]) -> str:
    """In a line, that a best value is the best of so many, on the samples that it is reported on."""
    ended = sum(trial.state == DONE for trial in trials)
    names = " and ".join(objective.name for objective in definition.goal.objectives)
    on_test_part = any(objective.name in OF_TEST for objective in definition.goal.objectives)
    on = " on the test samples that it is reported on" if on_test_part else ""
    return f"optimistic: the best of {amount(ended, 'run')} was chosen by {names}{on}; repeat it with other seeds"


def _in_words(definition: Search, keys: Sequence[str], trial: Trial) -> str:
    values = " ".join(f"{key}={value}" for key, value in zip(keys, trial.values, strict=True))
    numbers = ", ".join(f"{name} {trial.numbers[name]:g}" for name in definition.goal.names if name in trial.numbers)
    return f"number {trial.number}, {values} ({numbers})"

"""Runs a search: batches of proposals, each executed as a sweep.

The memory of a search are its runs' folders. A search that was interrupted proposes the same runs again from the start,
finds those that are complete, and goes on with the first that is not. ``optuna.log`` is a copy for Optuna's own tools.
"""

import json
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS
from simfl.core.errors import ScenarioError, SimflError, amount
from simfl.core.json_data import JsonObject
from simfl.core.registration.protocol import is_foreign
from simfl.core.storage.disk import file_lock, make_folder, refuse_link
from simfl.experiments.compare.run_numbers import measures
from simfl.experiments.search.objectives import EMPTY, Trial, best, csv_bytes, nearest
from simfl.experiments.search.preparation import Search
from simfl.experiments.search.proposals import Proposer
from simfl.experiments.sweep.execution import SHARED, Counts, How, Index, Watch, execute
from simfl.experiments.sweep.grid import Axis
from simfl.experiments.sweep.plan import Member, Plan, order
from simfl.experiments.sweep.plugin_pickling import pack
from simfl.experiments.sweep.stop_rule import StopRule, median_rule, rounds_so_far
from simfl.experiments.sweep.task import DONE, FAILED, PRUNED
from simfl.privacy.dp.accountants.zero_out import ZeroOut
from simfl.privacy.dp.losses import RunLoss, run_losses
from simfl.results.file_names import FAILURE
from simfl.results.folder import ResultsFolder, write_contents
from simfl.runs.accounting import history
from simfl.runs.run import build
from simfl.scenario import Scenario
from simfl.scenario.column_owners import accountants, plugin_columns
from simfl.scenario.digest import foreign_plugins

if TYPE_CHECKING:
    from optuna.trial import Trial as Proposal


PREFIX = "search-"
STUDY = "optuna.log"


ENOUGH_EMPTY = 4
"""Runs without a value of the objective, none with one, after which it is given up; a single one may have diverged."""


SHARED_NOISE = "runs of one seed share their noise, which their differences cancel; repeat it with --own-seeds"
UNFINISHED = "what runs that did not end gave away is not accounted; repeat it without --prune, and mend what fails"
CHOSEN = (
    "it is chosen by {}, which is not known to follow from the models alone, as the samples of clients may decide it"
)
OTHERS = "only the epsilons of zero_out are composed over runs; add it to privacy.accountants"


OF_TEST = {"test_accuracy", "test_loss", "best_test_accuracy", *(column.name for column in TARGET_COLUMNS)}
OF_UPDATES = {"train_loss", "measured_recovered", "measured_error", "diverged_round"}
"""Numbers that are computed from clients' samples or updates before any noise."""


class Together(NamedTuple):
    """The epsilons of all runs of a search together, by zero-out adjacency over all of them.

    Who picks the best has seen all of them.

    Attributes:
        runs: how many were begun.
        delta: of the epsilons, the smallest of any run; None where no run has an accountant zero_out.
        epsilon_max, epsilon_median: over the clients.
        why: why they are infinite without any arithmetic; empty = they are composed.
    """

    runs: int
    delta: float | None
    epsilon_max: float = np.inf
    epsilon_median: float = np.inf
    why: str = ""

    @property
    def facts(self) -> JsonObject:
        """The same as plain data, None where a number is infinite."""
        return {name: None if value == np.inf else value for name, value in self._asdict().items()}

    def __str__(self) -> str:
        beside = f": {self.why}" if self.why else f" at δ = {self.delta:g}, composed"
        most, median = (f"{value:.6g}" if np.isfinite(value) else "infinite" for value in self[2:4])
        return f"all {amount(self.runs, 'run')} together: epsilon_max {most}, epsilon_median {median}{beside}"


def together(runs: Iterable[tuple[Scenario, Path]], unfinished: int, chosen_by: Sequence[str] = ()) -> Together | None:
    """What some runs give away together; None where none says an epsilon.

    Args:
        runs: the finished ones, each with its folder.
        unfinished: how many others were begun.
        chosen_by: the numbers by which one of them is the best.
    """
    finished = list(runs)
    if not any("epsilon" in column.name for scenario, _ in finished for column in plugin_columns(scenario)):
        return None
    deltas = [each.delta for scenario, _ in finished for each in accountants(scenario) if isinstance(each, ZeroOut)]
    delta = min(deltas, default=None)
    unsafe = [name for name in chosen_by if not all(_of_models(name, scenario) for scenario, _ in finished)]
    chosen = CHOSEN.format(unsafe[0]) if unsafe else ""
    if why := UNFINISHED if unfinished else chosen if delta else OTHERS:
        return Together(len(finished) + unfinished, delta, why=why)
    if max(Counter(scenario.seed for scenario, _ in finished).values()) > 1:
        return Together(len(finished), delta, why=SHARED_NOISE)
    assert delta is not None, "or there was a reason"
    each = [_loss_of(scenario, folder, delta) for scenario, folder in finished]
    if any(scenario.learning.by_seed for scenario, _ in finished):  # no client is the same in two runs
        each = [loss.of_most() for loss in each]
    epsilons = reduce(RunLoss.plus, each).epsilons(delta)
    return Together(len(finished), delta, float(epsilons.max()), float(np.median(epsilons)))


def _of_models(name: str, scenario: Scenario) -> bool:
    """Whether a number follows from who took part, and from what the models do on samples that are no client's."""
    if name in OF_TEST:
        return not is_foreign(scenario.learning) and not scenario.plain()["learning"].get("holdout")
    return name in {column.name for column in (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *ZeroOut.columns)} - OF_UPDATES


def _loss_of(scenario: Scenario, folder: Path, delta: float) -> RunLoss:
    """The best bound of what one run tells."""
    rounds = int(ResultsFolder.open(folder).summary["rounds"])
    samples = build(scenario).learner.samples if scenario.training.by_samples else None
    seen = history(scenario, folder, rounds, samples)
    return min(run_losses(seen), key=lambda loss: float(loss.epsilons(delta).max()))


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
                self.folder, {"search.csv": csv_bytes(self.definition.space, self.definition.goal, self.trials)}
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
        summary = ResultsFolder.open(folder).summary
        numbers, diverged = measures(summary), summary.get("diverged_round")
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
